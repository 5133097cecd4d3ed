//! What was said, final and live, all of it or what is new.

use axum::Json;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, ETAG};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{BotTarget, Transcript};
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::no_such_meeting;
use crate::extract::{AppQuery, IdPath, MeetingPath, MeetingsCaller};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{ProblemView, TranscriptQuery, TranscriptShape, TranscriptView};

/// It may be kept, but not used without asking.
const ASK_FIRST: &str = "private, no-cache";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(get_transcript)).routes(routes!(get_transcript_by_id))
}

/// What was said in the latest meeting at an address, or in the one with a number.
#[utoipa::path(
    get, path = "/transcripts/{platform}/{native_meeting_id}", tag = "transcripts", operation_id = "get_transcript",
    params(
        ("platform" = String, Path, description = "google_meet, zoom, teams or daily", example = "google_meet"),
        ("native_meeting_id" = String, Path, description = "The meeting's id on the platform, or the name of the room", example = "abc-defg-hij"),
        ("meeting_id" = Option<i64>, Query, description = "Not the latest there, but the one with this number"),
        TranscriptQuery),
    responses(
        (status = 200, description = "The transcript", body = TranscriptShape, headers(("ETag" = String, description = "For `If-None-Match`"))),
        (status = 304, description = "Nothing has changed since the answer with this `ETag`"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn get_transcript(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    path: MeetingPath,
    AppQuery(query): AppQuery<TranscriptQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let query = query.check()?;
    let transcript = state.transcripts.transcript(user, path.target(), query.since()).await?;
    let transcript = transcript.filter(|found| path.means(&found.row));
    Ok(shown(transcript.ok_or_else(|| path.not_found())?, query, &headers))
}

/// What was said in a meeting.
#[utoipa::path(
    get, path = "/transcripts/by-id/{id}", tag = "transcripts", operation_id = "get_transcript_by_id",
    params(("id" = i64, Path, description = "The meeting's number"), TranscriptQuery),
    responses(
        (status = 200, description = "The transcript", body = TranscriptShape, headers(("ETag" = String, description = "For `If-None-Match`"))),
        (status = 304, description = "Nothing has changed since the answer with this `ETag`"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn get_transcript_by_id(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    IdPath(id): IdPath,
    AppQuery(query): AppQuery<TranscriptQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let query = query.check()?;
    let target = BotTarget::Meeting(MeetingId::new(id));
    let transcript = state.transcripts.transcript(user, target, query.since()).await?;
    Ok(shown(transcript.ok_or_else(no_such_meeting)?, query, &headers))
}

fn shown(transcript: Transcript, query: TranscriptQuery, headers: &HeaderMap) -> Response {
    let view = TranscriptView::new(transcript, query);
    let about = [(ETAG, view.etag()), (CACHE_CONTROL, ASK_FIRST.to_owned())];
    if view.is_known(headers) {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, Json(view.body)).into_response()
}
