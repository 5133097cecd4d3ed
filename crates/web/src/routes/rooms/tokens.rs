//! Room tokens.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use roundsman_core::rooms::RoomTokenId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{PartPath, RoomCaller};
use crate::extract::{AppJson, ProjectPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{
    DocumentTokenBody, DocumentTokenListView, DocumentTokenView, NewDocumentTokenView, ProblemView,
    TokenTimeBody,
};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_room_tokens, create_room_token))
        .routes(routes!(refresh_room_token))
        .routes(routes!(revoke_room_token))
}

/// Make a token with which others can read, or write, the document of a room.
#[utoipa::path(
    post, path = "/rooms/{project}/tokens", tag = "rooms", operation_id = "create_document_token",
    params(("project" = String, Path, example = "storyboard-7")),
    request_body = DocumentTokenBody,
    responses(
        (status = 201, description = "The token, which is shown only now", body = NewDocumentTokenView),
        (status = 404, description = "`not_found`: the project is somebody else's", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn create_room_token(
    State(state): State<Shared>,
    caller: RoomCaller,
    ProjectPath(project): ProjectPath,
    AppJson(body): AppJson<DocumentTokenBody>,
) -> Result<(StatusCode, Json<NewDocumentTokenView>), Problem> {
    caller.owner(&state, &project).await?;
    let (permission, name, holds_for) = body.check()?;
    let issued = state.rooms.issue_token(&project, permission, name, holds_for).await?;
    Ok((StatusCode::CREATED, Json((&issued).into())))
}

/// List the tokens of a room that hold, newest first.
#[utoipa::path(
    get, path = "/rooms/{project}/tokens", tag = "rooms", operation_id = "list_document_tokens",
    params(("project" = String, Path, example = "storyboard-7")),
    responses(
        (status = 200, description = "The tokens, without their secrets", body = DocumentTokenListView),
        (status = 404, description = "`not_found`: the project is somebody else's", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn list_room_tokens(
    State(state): State<Shared>,
    caller: RoomCaller,
    ProjectPath(project): ProjectPath,
) -> Result<Json<DocumentTokenListView>, Problem> {
    caller.owner(&state, &project).await?;
    Ok(Json(DocumentTokenListView::new(&state.rooms.tokens(&project).await?)))
}

/// Let a token hold longer. Whoever is connected with it stays connected.
#[utoipa::path(
    post, path = "/rooms/{project}/tokens/{id}/refresh", tag = "rooms", operation_id = "refresh_document_token",
    params(("project" = String, Path, example = "storyboard-7"), ("id" = i64, Path, example = 7)),
    request_body = TokenTimeBody,
    responses(
        (status = 200, description = "The token", body = DocumentTokenView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn refresh_room_token(
    State(state): State<Shared>,
    caller: RoomCaller,
    path: PartPath,
    AppJson(body): AppJson<TokenTimeBody>,
) -> Result<Json<DocumentTokenView>, Problem> {
    caller.owner(&state, &path.project).await?;
    let id = RoomTokenId::new(path.number);
    let token = state.rooms.refresh_token(&path.project, id, body.holds_for()).await?;
    Ok(Json((&token).into()))
}

/// End a token. Whoever is connected with it is out of the room at once.
#[utoipa::path(
    delete, path = "/rooms/{project}/tokens/{id}", tag = "rooms", operation_id = "revoke_document_token",
    params(("project" = String, Path, example = "storyboard-7"), ("id" = i64, Path, example = 7)),
    responses(
        (status = 204, description = "It opens nothing any more"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn revoke_room_token(
    State(state): State<Shared>,
    caller: RoomCaller,
    path: PartPath,
) -> Result<StatusCode, Problem> {
    caller.owner(&state, &path.project).await?;
    state.rooms.revoke_token(&path.project, RoomTokenId::new(path.number)).await?;
    Ok(StatusCode::NO_CONTENT)
}
