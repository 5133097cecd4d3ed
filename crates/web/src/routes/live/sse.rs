//! The frames of one meeting as server-sent events, for clients that have no WebSocket.
//!
//! Invariant: an event's id is its place, so that a client that reconnects (and sends its last one
//! back, as browsers do by themselves) gets what it missed.

use std::borrow::Cow;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use roundsman_core::ports::{BotTarget, MeetingRow};
use roundsman_core::users::TokenScope;
use roundsman_engine::transcripts::{Delivery, Listener};
use roundsman_engine::users::Denied;
use roundsman_engine::wake;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::authorise::listener_of;
use super::frames::{self, Heard};
use super::too_many;
use crate::extract::{AppQuery, IdPath, LiveKey, MeetingPath, MeetingsCaller};
use crate::live::{KeyName, Place};
use crate::problem::{Place as Where, Problem};
use crate::routes::transcripts::no_such_meeting;
use crate::state::Shared;
use crate::views::{EventsQuery, ProblemView};

/// When a client whose connection broke should be back.
const COME_BACK_AFTER: Duration = Duration::from_secs(2);
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(meeting_events)).routes(routes!(meeting_events_by_id))
}

/// Listen to a meeting as server-sent events.
///
/// The first event is `subscribed`. `id` is the frame's `seq` and `event` its `type`; a client that
/// comes back with `Last-Event-ID` gets what it missed.
#[utoipa::path(
    get, path = "/transcripts/{platform}/{native_meeting_id}/events", tag = "transcripts", operation_id = "meeting_events",
    params(
        ("platform" = String, Path, description = "google_meet, zoom, teams or daily", example = "google_meet"),
        ("native_meeting_id" = String, Path, description = "The meeting's id on the platform, or the name of the room", example = "abc-defg-hij"),
        EventsQuery),
    responses(
        (status = 200, description = "Events, without end", body = String, content_type = "text/event-stream"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 429, description = "`too_many_connections`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn meeting_events(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    path: MeetingPath,
    AppQuery(query): AppQuery<EventsQuery>,
    key: LiveKey,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let row = state.bots.meeting(user, path.target()).await?;
    let row = row.filter(|row| path.means(row)).ok_or_else(|| path.not_found())?;
    listen(state, row, key, since(&headers, &query)?).await
}

/// Listen to a meeting as server-sent events, by its number.
#[utoipa::path(
    get, path = "/transcripts/by-id/{id}/events", tag = "transcripts", operation_id = "meeting_events_by_id",
    params(("id" = i64, Path, description = "The meeting's number"), EventsQuery),
    responses(
        (status = 200, description = "Events, without end", body = String, content_type = "text/event-stream"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 429, description = "`too_many_connections`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn meeting_events_by_id(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    IdPath(id): IdPath,
    AppQuery(query): AppQuery<EventsQuery>,
    key: LiveKey,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let target = BotTarget::Meeting(roundsman_core::bots::MeetingId::new(id));
    let row = state.bots.meeting(user, target).await?.ok_or_else(no_such_meeting)?;
    listen(state, row, key, since(&headers, &query)?).await
}

/// The place after which to go on. What the client heard last counts more than what it once asked.
fn since(headers: &HeaderMap, query: &EventsQuery) -> Result<Option<i64>, Problem> {
    let Some(last) = headers.get(LAST_EVENT_ID) else { return query.since() };
    let seq = last.to_str().ok().and_then(|text| text.trim().parse::<i64>().ok());
    let seq = seq.filter(|seq| *seq >= 0);
    let wrong = || Problem::field("Last-Event-ID", "must be a whole number").at(Where::Query);
    seq.map(Some).ok_or_else(wrong)
}

async fn listen(
    state: Shared,
    row: MeetingRow,
    key: LiveKey,
    since: Option<i64>,
) -> Result<Response, Problem> {
    let key = key.into_text().unwrap_or_default();
    let (user, token) = listener_of(&state, &key).await?;
    let mut place = state.live.enter().map_err(|_| too_many(&state, "live_connections"))?;
    let of_key = place.belong_to(KeyName(user, token));
    of_key.map_err(|_| too_many(&state, "live_connections_per_key"))?;
    let mut listener = state.transcripts.listen().of(user);
    let seq = listener.add(row.meeting.id, since).await?;
    let hello = Delivery {
        meeting: row.meeting.id,
        seq,
        text: Bytes::from(frames::subscribed(&[Heard::new(&row, seq)])),
    };
    let keep_alive = KeepAlive::new().interval(state.live.limits.ping_every).text("");
    let told = Told { state, row, key, listener, _place: place };
    let events = Sse::new(events(told, hello)).keep_alive(keep_alive);
    Ok(([("x-accel-buffering", "no")], events).into_response())
}

/// Everything that one stream of events needs.
struct Told {
    state: Shared,
    row: MeetingRow,
    /// Asked about again and again; never shown.
    key: String,
    listener: Listener,
    _place: Place,
}

fn events(told: Told, hello: Delivery) -> impl Stream<Item = Result<Event, Infallible>> {
    let recheck_every = told.state.live.limits.recheck_every;
    let stopping = told.state.readiness.stopping().clone();
    let watched = (told.state.clone(), told.row.clone(), told.key.clone());
    let first = stream::once(async move { event(&hello).retry(COME_BACK_AFTER) });
    let rest = stream::unfold(told, |mut told| async move {
        let deliveries = told.listener.next().await.ok()?;
        Some((stream::iter(deliveries.iter().map(event).collect::<Vec<_>>()), told))
    });
    // A stream that ends is opened again by its client, with its last place.
    let over = async move {
        let (state, row, key) = watched;
        over(&state, &row, &key, recheck_every, &stopping).await;
    };
    first.chain(rest.flatten()).take_until(Box::pin(over)).map(Ok)
}

/// Waits until the client may not listen any more, or the process ends.
async fn over(
    state: &Shared,
    row: &MeetingRow,
    key: &str,
    recheck_every: Duration,
    stopping: &CancellationToken,
) {
    while wake::rest(recheck_every, stopping).await {
        let user = match listener_of(state, key).await {
            Ok((user, _)) => user,
            Err(Denied::Unavailable(_)) => continue,
            Err(_) => return,
        };
        let meeting = state.bots.meeting(user, BotTarget::Meeting(row.meeting.id)).await;
        if matches!(meeting, Ok(None)) {
            return;
        }
    }
}

fn event(delivery: &Delivery) -> Event {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type", borrow, default)]
        name: Cow<'a, str>,
    }
    let text = String::from_utf8_lossy(&delivery.text);
    let typed = serde_json::from_str::<Typed<'_>>(&text);
    let name = typed.map_or(Cow::Borrowed("message"), |typed| typed.name);
    Event::default().id(delivery.seq.to_string()).event(name).data(text.as_ref())
}
