//! A user's webhook endpoint and what was sent there.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::users::User;
use roundsman_core::webhooks::{Delivery, Endpoint, SigningSecret, StoredEvent};
use roundsman_engine::webhooks::EndpointWish;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::next_before;
use super::problem::FIELD_REQUIRED;
use super::user::UserView;
use crate::problem::Problem;

/// Where a user wants to be told. Setting it also enables an endpoint that was switched off.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = WebhookRequest)]
pub(crate) struct WebhookBody {
    /// An http or https address; `null` takes the endpoint away.
    #[schema(value_type = Option<String>, required = true, example = "https://example.org/hook")]
    #[serde(rename = "webhook_url", default)]
    url: UrlWish,
    /// `whsec_` and base64, or 24 to 64 characters. Without it the old one stays, or one is made.
    #[schema(max_length = 128)]
    #[serde(rename = "webhook_secret")]
    secret: Option<String>,
    /// Types of events to switch on or off; what is not named is on.
    #[schema(example = json!({"meeting.status_change": false}))]
    #[serde(rename = "webhook_events")]
    events: Option<BTreeMap<String, bool>>,
}

/// An address, which may be `null` but must be there.
#[derive(Debug, Default)]
enum UrlWish {
    #[default]
    Absent,
    Given(Option<String>),
}

impl<'de> Deserialize<'de> for UrlWish {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        Option::deserialize(input).map(UrlWish::Given)
    }
}

/// The user, and the secret if one was made just now.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WebhookUser)]
pub(crate) struct WebhookUserView {
    #[serde(flatten)]
    user: UserView,
    /// What deliveries are signed with. Only when this request made it, and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    webhook_secret: Option<String>,
}

/// Where a user wants to be told.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Webhook)]
pub(crate) struct WebhookView {
    /// `null`: nowhere.
    webhook_url: Option<String>,
    /// Types that are switched off or on; what is not named is on.
    webhook_events: BTreeMap<String, bool>,
    /// Whether deliveries are signed.
    has_secret: bool,
    /// When the endpoint answered that it wants nothing any more (410).
    #[schema(example = "2026-01-31T12:00:00.000000")]
    disabled_at: Option<String>,
}

/// A page of events, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeliveryList)]
pub(crate) struct DeliveriesView {
    deliveries: Vec<EventView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

/// An event and every try to deliver it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WebhookEvent)]
struct EventView {
    #[schema(example = 31)]
    id: i64,
    /// The same for every try and replay: receivers drop what they know.
    #[schema(example = "evt_2c26b46b68ffc68ff99b453c1d304134")]
    event_id: String,
    #[schema(example = "meeting.completed")]
    event_type: String,
    /// pending, delivered, failed or skipped.
    #[schema(example = "delivered")]
    state: &'static str,
    attempts: u32,
    #[schema(example = "2026-01-31T12:00:00.000000")]
    created_at: String,
    tries: Vec<TryView>,
}

/// One try.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeliveryTry)]
struct TryView {
    #[schema(example = "2026-01-31T12:00:00.000000")]
    at: String,
    url: String,
    /// `null` when no answer came.
    #[schema(example = 200)]
    status: Option<u16>,
    error: Option<String>,
    #[schema(example = 120)]
    duration_ms: u64,
}

/// An event that will be sent again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Replay)]
pub(crate) struct ReplayView {
    pub(crate) message: &'static str,
    pub(crate) event_id: String,
}

impl TryFrom<WebhookBody> for EndpointWish {
    type Error = Problem;

    fn try_from(body: WebhookBody) -> Result<Self, Problem> {
        let WebhookBody { url, secret, events } = body;
        match url {
            UrlWish::Given(url) => Ok(EndpointWish { url, secret, events }),
            UrlWish::Absent => Err(Problem::field("webhook_url", FIELD_REQUIRED)),
        }
    }
}

impl WebhookBody {
    /// Whether a secret would be made if there is none.
    pub(crate) fn leaves_the_secret_to_us(&self) -> bool {
        self.secret.is_none() && matches!(self.url, UrlWish::Given(Some(_)))
    }
}

impl WebhookUserView {
    pub(crate) fn new(user: &User, made: Option<&Endpoint>) -> Self {
        let secret = made.and_then(|endpoint| endpoint.secret.as_ref());
        WebhookUserView { user: user.into(), webhook_secret: secret.map(SigningSecret::reveal) }
    }
}

impl From<Option<Endpoint>> for WebhookView {
    fn from(endpoint: Option<Endpoint>) -> Self {
        let Some(endpoint) = endpoint else {
            return WebhookView {
                webhook_url: None,
                webhook_events: BTreeMap::new(),
                has_secret: false,
                disabled_at: None,
            };
        };
        WebhookView {
            has_secret: endpoint.secret.is_some(),
            webhook_url: Some(endpoint.url),
            webhook_events: endpoint.events,
            disabled_at: endpoint.disabled_at.map(Timestamp::naive),
        }
    }
}

impl DeliveriesView {
    pub(crate) fn new(events: &[(StoredEvent, Vec<Delivery>)], rows_max: u32) -> Self {
        let ids = events.iter().map(|(event, _)| event.id);
        DeliveriesView {
            next_before: next_before(ids, rows_max),
            deliveries: events.iter().map(|(event, tries)| EventView::new(event, tries)).collect(),
        }
    }
}

impl EventView {
    fn new(stored: &StoredEvent, tries: &[Delivery]) -> Self {
        EventView {
            id: stored.id,
            event_id: stored.event.event_id.clone(),
            event_type: stored.event.event_type.clone(),
            state: stored.state.as_str(),
            attempts: stored.attempts,
            created_at: stored.created_at.naive(),
            tries: tries.iter().map(Into::into).collect(),
        }
    }
}

impl From<&Delivery> for TryView {
    fn from(delivery: &Delivery) -> Self {
        TryView {
            at: delivery.at.naive(),
            url: delivery.url.clone(),
            status: delivery.status,
            error: delivery.error.clone(),
            duration_ms: u64::try_from(delivery.duration.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
