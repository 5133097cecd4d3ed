//! What Daily tells: who comes and goes in its rooms, and which recordings can be had.
//!
//! Invariants: whatever is signed is answered 200, whether or not it can be understood, because after
//! a few other answers in a row Daily tells nothing more at all; what it tells of people is heard in
//! memory alone, and nobody waits for the database. The one exception: a recording is stored before
//! the 200, and while the database is away Daily is asked to come back.

use axum::Json;
use axum::extract::{DefaultBodyLimit, State};
use roundsman_core::daily::{Event, read_delivery};
use roundsman_core::recordings::Announcement;
use roundsman_engine::Error;
use roundsman_engine::presence::{Heard, Matter};
use roundsman_engine::recordings::AnnounceReply;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{DAILY_BODY_BYTES_MAX, DailyBody};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{DailyEventShape, DoneView, ProblemView};

pub(crate) const DAILY_WEBHOOK: &str = "/webhooks/daily";
/// Where those who come from elsewhere have Daily send its events to.
pub(crate) const DAILY_WEBHOOK_AS_KNOWN: &str = "/v1/daily/webhook";

/// Why an event about a recording is not taken.
const UNKNOWN_ROOM: &str = "unknown_room";
const NOT_STORED: &str = "the database does not take it; the log says why";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(daily_webhook))
        .routes(routes!(daily_webhook_as_known))
        .layer(DefaultBodyLimit::max(DAILY_BODY_BYTES_MAX))
}

/// Daily's events.
///
/// Signed events are answered 200, also those that cannot be understood: see `/presence/inbox`. Only
/// a recording that cannot be stored now is answered 503, so that Daily sends it again.
#[utoipa::path(
    post, path = "/webhooks/daily", tag = "providers", operation_id = "daily_webhook",
    request_body = DailyEventShape,
    responses(
        (status = 200, description = "It was heard", body = DoneView),
        (status = 401, description = "`unauthorized`: the signature is missing, too old or does not fit", body = ProblemView, content_type = "application/problem+json"),
        (status = 503, description = "`not_configured`: there is no secret; `storage_unavailable`: a recording could not be stored", body = ProblemView, content_type = "application/problem+json")),
    security(("daily_signature" = [])))]
async fn daily_webhook(
    State(state): State<Shared>,
    body: DailyBody,
) -> Result<Json<DoneView>, Problem> {
    hear(&state, body).await
}

/// Daily's events, where other servers have them sent to.
#[utoipa::path(
    post, path = "/v1/daily/webhook", tag = "providers", operation_id = "daily_webhook_as_known",
    request_body = DailyEventShape,
    responses(
        (status = 200, description = "It was heard", body = DoneView),
        (status = 401, description = "`unauthorized`: the signature is missing, too old or does not fit", body = ProblemView, content_type = "application/problem+json"),
        (status = 503, description = "`not_configured`: there is no secret; `storage_unavailable`: a recording could not be stored", body = ProblemView, content_type = "application/problem+json")),
    security(("daily_signature" = [])))]
async fn daily_webhook_as_known(
    State(state): State<Shared>,
    body: DailyBody,
) -> Result<Json<DoneView>, Problem> {
    hear(&state, body).await
}

async fn hear(state: &Shared, DailyBody(body): DailyBody) -> Result<Json<DoneView>, Problem> {
    let delivery = read_delivery(&body, state.clock.now());
    let recording = match &delivery.event {
        Event::RecordingReady(announcement) => Some(announcement.clone()),
        _ => None,
    };
    let mut heard = Heard::of(delivery, &body);
    if let Some(announcement) = recording {
        heard.matter = announce(state, announcement).await?;
    }
    state.daily.intake.hear(heard);
    Ok(Json(DoneView::OK))
}

/// Stores that a recording can be had. Only while that may yet be possible is Daily asked to come
/// back; otherwise the recording is found in Daily's list, or never.
async fn announce(state: &Shared, announcement: Announcement) -> Result<Matter, Problem> {
    match state.recordings.announce(announcement).await {
        Ok(AnnounceReply::New(_) | AnnounceReply::Repeated(_)) => Ok(Matter::Taken),
        Ok(AnnounceReply::UnknownRoom) => Ok(Matter::Ignored { reason: UNKNOWN_ROOM }),
        Err(Error::Store(error)) if !error.is_transient() => {
            tracing::error!(%error, "a recording that Daily announces cannot be stored");
            Ok(Matter::Odd { reason: NOT_STORED.to_owned() })
        }
        Err(error) => Err(error.into()),
    }
}
