//! Rooms and their documents over HTTP.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use roundsman_core::users::TokenScope;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::RoomCaller;
use crate::extract::{AppJson, AppQuery, Caller, ProjectPath};
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::{
    PatchedView, ProblemView, RoomDocumentView, RoomListQuery, RoomListView, RoomView,
};

/// The largest document that can be brought in at once.
const IMPORT_BYTES_MAX: usize = 8 * 1024 * 1024;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    let import = OpenApiRouter::new().routes(routes!(import_document));
    OpenApiRouter::new()
        .routes(routes!(list_rooms))
        .routes(routes!(get_room))
        .routes(routes!(read_document, patch_document))
        .routes(routes!(export_document))
        .merge(import.layer(DefaultBodyLimit::max(IMPORT_BYTES_MAX)))
}

/// List the rooms of the user's projects.
#[utoipa::path(
    get, path = "/rooms", tag = "rooms", operation_id = "list_rooms",
    params(RoomListQuery),
    responses((status = 200, description = "A page of rooms", body = RoomListView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn list_rooms(
    State(state): State<Shared>,
    caller: Caller,
    AppQuery(query): AppQuery<RoomListQuery>,
) -> Result<Json<RoomListView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let (after, rows_max) = query.check()?;
    let rooms = state.rooms.rooms(scope, after, rows_max).await?;
    Ok(Json(RoomListView::new(&rooms, rows_max)))
}

/// One room.
#[utoipa::path(
    get, path = "/rooms/{project}", tag = "rooms", operation_id = "get_room",
    params(("project" = String, Path, example = "storyboard-7")),
    responses(
        (status = 200, description = "The room", body = RoomView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_room(
    State(state): State<Shared>,
    caller: RoomCaller,
    ProjectPath(project): ProjectPath,
) -> Result<Json<RoomView>, Problem> {
    caller.reader(&state, &project).await?;
    let room = state.rooms.room(&project).await?;
    let room = room.ok_or_else(|| Problem::new(Code::NotFound, "There is no such room."))?;
    Ok(Json((&room).into()))
}

/// Read the document of a room as JSON.
#[utoipa::path(
    get, path = "/rooms/{project}/doc", tag = "rooms", operation_id = "read_document",
    params(("project" = String, Path, example = "storyboard-7")),
    responses(
        (status = 200, description = "What the document says", body = RoomDocumentView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn read_document(
    State(state): State<Shared>,
    caller: RoomCaller,
    ProjectPath(project): ProjectPath,
) -> Result<Json<RoomDocumentView>, Problem> {
    caller.reader(&state, &project).await?;
    let (room, doc) = state.rooms.read(&project).await?;
    let (project_id, seq) = (room.project.to_string(), Some(room.head_seq));
    Ok(Json(RoomDocumentView { project_id, version: None, seq, doc }))
}

/// Change the document of a room by a JSON merge patch (RFC 7396).
///
/// The patch has members among `nodes`, `edges` and `tasks`. What others change at the same time stays,
/// unless it is the same member. Clients that are connected see the change at once.
#[utoipa::path(
    patch, path = "/rooms/{project}/doc", tag = "rooms", operation_id = "patch_document",
    params(("project" = String, Path, example = "storyboard-7")),
    request_body(content = Object, content_type = "application/merge-patch+json"),
    responses(
        (status = 200, description = "The patch is stored", body = PatchedView),
        (status = 404, description = "`not_found`: the project is somebody else's", body = ProblemView, content_type = "application/problem+json"),
        (status = 413, description = "`too_large`: the body, or the document with it", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn patch_document(
    State(state): State<Shared>,
    caller: RoomCaller,
    ProjectPath(project): ProjectPath,
    AppJson(patch): AppJson<Value>,
) -> Result<Json<PatchedView>, Problem> {
    caller.writer(&state, &project).await?;
    Ok(Json(state.rooms.patch(&project, patch).await?.into()))
}

/// Read the whole document with its history, as Loro writes it.
#[utoipa::path(
    get, path = "/rooms/{project}/doc/export", tag = "rooms", operation_id = "export_document",
    params(("project" = String, Path, example = "storyboard-7")),
    responses(
        (status = 200, description = "A snapshot", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn export_document(
    State(state): State<Shared>,
    caller: RoomCaller,
    ProjectPath(project): ProjectPath,
) -> Result<impl IntoResponse, Problem> {
    caller.reader(&state, &project).await?;
    let bytes = state.rooms.export(&project).await?;
    Ok(([(CONTENT_TYPE, "application/octet-stream")], bytes))
}

/// Bring a snapshot or an update of Loro into a document.
///
/// It is merged with what is there; the same twice is the same once.
#[utoipa::path(
    post, path = "/rooms/{project}/doc/import", tag = "rooms", operation_id = "import_document",
    params(("project" = String, Path, example = "storyboard-7")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "It is stored", body = PatchedView),
        (status = 404, description = "`not_found`: the project is somebody else's", body = ProblemView, content_type = "application/problem+json"),
        (status = 413, description = "`too_large`: the body, or the document with it", body = ProblemView, content_type = "application/problem+json"),
        (status = 422, description = "`invalid_request`: it is no snapshot or update", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn import_document(
    State(state): State<Shared>,
    caller: RoomCaller,
    ProjectPath(project): ProjectPath,
    Raw(update): Raw,
) -> Result<Json<PatchedView>, Problem> {
    caller.writer(&state, &project).await?;
    Ok(Json(Some(state.rooms.import(&project, update).await?).into()))
}

/// A body as it came.
struct Raw(Bytes);

impl FromRequest<Shared> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Problem> {
        let too_large =
            format!("The body is larger than {IMPORT_BYTES_MAX} bytes, or ended early.");
        let bytes = Bytes::from_request(request, state).await;
        bytes.map(Raw).map_err(|_| Problem::new(Code::TooLarge, too_large))
    }
}
