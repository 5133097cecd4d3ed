//! What a user may change of a transcript.

use axum::Json;
use axum::extract::State;
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AddressPath, AppJson, MeetingPath, MeetingsCaller};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{ProblemView, RenameBody, RewrittenView};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(rename_speaker)).routes(routes!(delete_transcript))
}

/// Call a speaker by another name, in all that was said and will be said in a meeting.
#[utoipa::path(
    patch, path = "/transcripts/{platform}/{native_meeting_id}/speakers", tag = "transcripts", operation_id = "rename_speaker",
    params(
        ("platform" = String, Path, description = "google_meet, zoom, teams or daily", example = "google_meet"),
        ("native_meeting_id" = String, Path, description = "The meeting's id on the platform, or the name of the room", example = "abc-defg-hij"),
        ("meeting_id" = Option<i64>, Query, description = "Not the latest there, but the one with this number")),
    request_body = RenameBody,
    responses(
        (status = 200, description = "It is done; listeners are told", body = RewrittenView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["tx"]), ("bearer" = ["tx"])))]
async fn rename_speaker(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    path: MeetingPath,
    AppJson(body): AppJson<RenameBody>,
) -> Result<Json<RewrittenView>, Problem> {
    let user = caller.require(TokenScope::Tx)?;
    let rename = body.check()?;
    let message = format!("{} is now {}", rename.from, rename.to);
    let target = path.checked(&state, user).await?;
    let rewritten = state.transcripts.rename_speaker(user, target, rename).await?;
    let rewritten = rewritten.ok_or_else(|| path.not_found())?;
    Ok(Json(RewrittenView::new(message, &rewritten)))
}

/// Delete all that was said in a meeting, and every link to it. The meeting stays.
#[utoipa::path(
    delete, path = "/transcripts/{platform}/{native_meeting_id}", tag = "transcripts", operation_id = "delete_transcript",
    params(
        ("platform" = String, Path, description = "google_meet, zoom, teams or daily", example = "google_meet"),
        ("native_meeting_id" = String, Path, description = "The meeting's id on the platform, or the name of the room", example = "abc-defg-hij"),
        ("meeting_id" = Option<i64>, Query, description = "Not the latest there, but the one with this number")),
    responses(
        (status = 200, description = "It is done; listeners are told", body = RewrittenView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["tx"]), ("bearer" = ["tx"])))]
async fn delete_transcript(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    path: MeetingPath,
) -> Result<Json<RewrittenView>, Problem> {
    let user = caller.require(TokenScope::Tx)?;
    let target = path.checked(&state, user).await?;
    let deleted = state.transcripts.delete(user, target).await?;
    let deleted = deleted.ok_or_else(|| path.not_found())?;
    let AddressPath { platform, native_id } = path.address();
    let message = format!("Transcript of {platform}/{native_id} deleted");
    Ok(Json(RewrittenView::new(message, &deleted)))
}
