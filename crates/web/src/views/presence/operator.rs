//! What the provider has told, and its subscription, as the operator sees them.

use roundsman_core::Timestamp;
use roundsman_core::ports::{InboxEvent, InboxFilter, InboxOutcome, Subscription};
use roundsman_core::presence::kept_name;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::problem::{Place, Problem};
use crate::views::{next_before, page_rows};

/// An event as Daily sends it; there are others, and all are taken.
#[derive(Deserialize, ToSchema)]
#[schema(as = DailyEvent)]
#[expect(dead_code, reason = "describes what the core reads, for the OpenAPI document")]
pub(crate) struct DailyEventShape {
    #[schema(example = "1.0.0")]
    version: Option<String>,
    /// `participant.joined`, `participant.left`, `meeting.ended`, `recording.ready-to-download`.
    #[schema(example = "participant.joined")]
    r#type: Option<String>,
    /// The same when it is sent again.
    #[schema(example = "ptcpt-join-6497c79b-1708972279961")]
    id: Option<String>,
    #[schema(value_type = Option<Object>)]
    payload: Option<serde_json::Value>,
    /// When it was sent, in seconds since 1970.
    #[schema(example = 1_708_972_279.961)]
    event_ts: Option<f64>,
}

/// Which events, and which part of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct InboxQuery {
    /// Only those of which this became: `taken`, `ignored` or `odd`.
    #[param(example = "odd")]
    outcome: Option<String>,
    /// Only those about this room.
    #[param(example = "weekly-sync")]
    room: Option<String>,
    /// Only events with smaller numbers: `next_before` of the page before.
    before: Option<i64>,
    /// Events on a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

/// A page of events, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InboxEventList)]
pub(crate) struct InboxListView {
    events: Vec<InboxEventView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

/// An event of the provider, and what became of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InboxEvent)]
pub(crate) struct InboxEventView {
    #[schema(example = 5)]
    id: i64,
    #[schema(example = "daily")]
    service: &'static str,
    /// The provider's name for it; made from what it says if it has none.
    #[schema(example = "ptcpt-join-6497c79b-1708972279961")]
    event_id: String,
    /// As the provider calls it; empty if nothing says it.
    #[schema(example = "participant.joined")]
    r#type: String,
    #[schema(example = "weekly-sync")]
    room: Option<String>,
    /// `taken`, `ignored` (it is nothing to us) or `odd` (it cannot be understood).
    #[schema(example = "odd")]
    outcome: &'static str,
    /// Why nothing became of it.
    #[schema(example = "it names no room")]
    reason: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// As it came, cut if it is very long; `null` in lists.
    payload: Option<String>,
}

/// Where the provider sends its events.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ProviderSubscription)]
pub(crate) struct SubscriptionView {
    /// The provider's.
    id: String,
    #[schema(example = "https://meetings.example.org/webhooks/daily")]
    url: String,
    /// As the provider calls it.
    #[schema(example = "ACTIVE")]
    state: String,
    is_active: bool,
    #[schema(example = json!(["participant.joined", "participant.left"]))]
    event_types: Vec<String>,
}

impl InboxQuery {
    pub(crate) fn check(self) -> Result<(InboxFilter, Option<i64>, u32), Problem> {
        let InboxQuery { outcome, room, before, limit } = self;
        let outcome = outcome
            .map(|text| {
                let unknown = || Problem::field("outcome", "must be taken, ignored or odd");
                InboxOutcome::parse(&text).ok_or_else(unknown)
            })
            .transpose()
            .map_err(|problem| problem.at(Place::Query))?;
        // Not every room that is told of is named as ours are.
        let fits = |room: &String| kept_name(Some(room)).as_ref() == Some(room);
        if !room.as_ref().is_none_or(fits) {
            return Err(Problem::field("room", "names no room").at(Place::Query));
        }
        let rows_max = page_rows(limit).map_err(|problem| problem.at(Place::Query))?;
        Ok((InboxFilter { outcome, room }, before, rows_max))
    }
}

impl InboxListView {
    pub(crate) fn new(events: Vec<InboxEvent>, rows_max: u32) -> Self {
        let ids: Vec<i64> = events.iter().map(|event| event.id).collect();
        let view = |event| InboxEventView { payload: None, ..InboxEventView::whole(event) };
        InboxListView {
            next_before: next_before(ids.into_iter(), rows_max),
            events: events.into_iter().map(view).collect(),
        }
    }
}

impl InboxEventView {
    pub(crate) fn whole(kept: InboxEvent) -> Self {
        let InboxEvent { id, event, at } = kept;
        InboxEventView {
            id,
            service: event.service,
            event_id: event.event,
            r#type: event.kind,
            room: event.room,
            outcome: event.outcome.as_str(),
            reason: event.reason,
            at,
            payload: Some(event.payload),
        }
    }
}

impl From<Subscription> for SubscriptionView {
    fn from(subscription: Subscription) -> Self {
        let is_active = subscription.is_active();
        let Subscription { id, url, state, event_types } = subscription;
        SubscriptionView { id, url, state, is_active, event_types }
    }
}
