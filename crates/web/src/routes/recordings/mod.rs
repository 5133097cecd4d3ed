//! Recordings of meetings in video rooms, and what people say about being recorded.
//!
//! Invariant: what was said in a recording is read where all transcripts are; here is how far each
//! recording is.

mod consent;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use roundsman_core::users::TokenScope;
use roundsman_engine::recordings::RetryReply;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppQuery, Caller, TextPath};
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::{ProblemView, RecordingListQuery, RecordingListView, RecordingView};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_recordings))
        .routes(routes!(get_recording))
        .routes(routes!(retry_recording))
        .merge(consent::routes())
}

/// List recordings, newest first.
///
/// A user has those of their meetings; those that belong to no meeting are the operator's.
#[utoipa::path(
    get, path = "/recordings", tag = "recordings", operation_id = "list_recordings",
    params(RecordingListQuery),
    responses((status = 200, description = "A page of recordings", body = RecordingListView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn list_recordings(
    State(state): State<Shared>,
    caller: Caller,
    AppQuery(query): AppQuery<RecordingListQuery>,
) -> Result<Json<RecordingListView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let (filter, before, rows_max) = query.check()?;
    let recordings = state.recordings.list(scope, filter, before, rows_max).await?;
    Ok(Json(RecordingListView::new(recordings, rows_max)))
}

/// One recording.
#[utoipa::path(
    get, path = "/recordings/{recording_id}", tag = "recordings", operation_id = "get_recording",
    params(("recording_id" = String, Path, description = "The provider's name for it")),
    responses(
        (status = 200, description = "The recording", body = RecordingView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_recording(
    State(state): State<Shared>,
    caller: Caller,
    TextPath(id): TextPath,
) -> Result<Json<RecordingView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let found = state.recordings.get(scope, &id).await?;
    let found = found.ok_or_else(|| Problem::new(Code::NotFound, "Recording not found"))?;
    Ok(Json(found.into()))
}

/// Try a recording again that could not be processed.
///
/// Failed ones are tried again every night, too.
#[utoipa::path(
    post, path = "/recordings/{recording_id}/retry", tag = "recordings", operation_id = "retry_recording",
    params(("recording_id" = String, Path, description = "The provider's name for it")),
    responses(
        (status = 202, description = "It waits to be processed", body = RecordingView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`: it has not failed", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["tx"]), ("bearer" = ["tx"]), ("admin_key" = ["tx"])))]
async fn retry_recording(
    State(state): State<Shared>,
    caller: Caller,
    TextPath(id): TextPath,
) -> Result<(StatusCode, Json<RecordingView>), Problem> {
    let scope = caller.reach(TokenScope::Tx)?;
    match state.recordings.retry(scope, &id).await? {
        RetryReply::Waits(recording) => {
            Ok((StatusCode::ACCEPTED, Json(RecordingView::from(*recording))))
        }
        RetryReply::NotFailed(recording) => {
            let current = recording.status.as_str();
            let detail = format!("The recording has not failed: it is {current}.");
            Err(Problem::new(Code::WrongState, detail).with("state", current))
        }
    }
}
