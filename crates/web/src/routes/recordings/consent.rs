//! What people say about being recorded.

use axum::Json;
use axum::extract::State;
use roundsman_core::bots::MeetingId;
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJson, Caller, IdPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{ConsentBody, ConsentListView, ConsentView, ProblemView};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(set_consent)).routes(routes!(list_consents))
}

/// Keep what somebody says about being recorded in a meeting.
///
/// The latest word of each person counts. If anybody does not agree, the media of the meeting's
/// recordings are deleted; the recordings say when that was done.
#[utoipa::path(
    post, path = "/presence/meetings/{id}/consent", tag = "recordings", operation_id = "set_consent",
    params(("id" = i64, Path, description = "The meeting's number")),
    request_body = ConsentBody,
    responses(
        (status = 200, description = "What is kept", body = ConsentView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"]), ("admin_key" = ["bot"])))]
async fn set_consent(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
    AppJson(body): AppJson<ConsentBody>,
) -> Result<Json<ConsentView>, Problem> {
    let scope = caller.reach(TokenScope::Bot)?;
    let consent = state.recordings.consent(scope, MeetingId::new(id), body.into()).await?;
    Ok(Json(consent.into()))
}

/// What people have said about being recorded in a meeting.
#[utoipa::path(
    get, path = "/presence/meetings/{id}/consents", tag = "recordings", operation_id = "list_consents",
    params(("id" = i64, Path, description = "The meeting's number")),
    responses(
        (status = 200, description = "The latest word of each person", body = ConsentListView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn list_consents(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<ConsentListView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let consents = state.recordings.consents(scope, MeetingId::new(id)).await?;
    Ok(Json(consents.into()))
}
