//! Transcripts as files.

use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{BotTarget, Transcript};
use roundsman_core::transcripts::ExportFormat;
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::no_such_meeting;
use crate::extract::{AppQuery, IdPath, MeetingPath, MeetingsCaller};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{ExportQuery, ExportView, ProblemView};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(export_transcript)).routes(routes!(export_transcript_by_id))
}

/// The transcript of the latest meeting at an address as a file.
#[utoipa::path(
    get, path = "/transcripts/{platform}/{native_meeting_id}/export", tag = "transcripts", operation_id = "export_transcript",
    params(
        ("platform" = String, Path, description = "google_meet, zoom, teams or daily", example = "google_meet"),
        ("native_meeting_id" = String, Path, description = "The meeting's id on the platform, or the name of the room", example = "abc-defg-hij"),
        ("meeting_id" = Option<i64>, Query, description = "Not the latest there, but the one with this number"),
        ExportQuery),
    responses(
        (status = 200, description = "The file", body = String, content_type = "text/plain"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn export_transcript(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    path: MeetingPath,
    AppQuery(query): AppQuery<ExportQuery>,
) -> Result<Response, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let format = query.format()?;
    let transcript = state.transcripts.transcript(user, path.target(), None).await?;
    let transcript = transcript.filter(|found| path.means(&found.row));
    Ok(file(transcript.ok_or_else(|| path.not_found())?, format))
}

/// The transcript of a meeting as a file.
#[utoipa::path(
    get, path = "/transcripts/by-id/{id}/export", tag = "transcripts", operation_id = "export_transcript_by_id",
    params(("id" = i64, Path, description = "The meeting's number"), ExportQuery),
    responses(
        (status = 200, description = "The file", body = String, content_type = "text/plain"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn export_transcript_by_id(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    IdPath(id): IdPath,
    AppQuery(query): AppQuery<ExportQuery>,
) -> Result<Response, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let format = query.format()?;
    let target = BotTarget::Meeting(MeetingId::new(id));
    let transcript = state.transcripts.transcript(user, target, None).await?;
    Ok(file(transcript.ok_or_else(no_such_meeting)?, format))
}

/// Always to be saved and never to be opened: what people say is not for a browser to interpret.
fn file(transcript: Transcript, format: ExportFormat) -> Response {
    let ExportView { text, file_name } = ExportView::new(transcript, format);
    let saved = format!("attachment; filename=\"{file_name}\"");
    let about = [(CONTENT_TYPE, format.content_type().to_owned()), (CONTENT_DISPOSITION, saved)];
    (about, text).into_response()
}
