//! The history of documents.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{PartPath, RoomCaller};
use crate::extract::{AppJson, AppQuery, ProjectPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{
    PatchedView, ProblemView, RoomDocumentView, VersionBody, VersionDiffQuery, VersionDiffView,
    VersionListQuery, VersionListView, VersionView,
};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_versions, keep_version))
        .routes(routes!(read_version))
        .routes(routes!(diff_version))
        .routes(routes!(restore_version))
}

/// List the versions of a document, newest first.
///
/// One is made with every snapshot, and whenever somebody asks for it.
#[utoipa::path(
    get, path = "/rooms/{project}/versions", tag = "rooms", operation_id = "list_versions",
    params(("project" = String, Path, example = "storyboard-7"), VersionListQuery),
    responses(
        (status = 200, description = "A page of versions", body = VersionListView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn list_versions(
    State(state): State<Shared>,
    caller: RoomCaller,
    ProjectPath(project): ProjectPath,
    AppQuery(query): AppQuery<VersionListQuery>,
) -> Result<Json<VersionListView>, Problem> {
    caller.reader(&state, &project).await?;
    let page = query.check()?;
    let versions = state.rooms.versions(&project, page).await?;
    Ok(Json(VersionListView::new(&versions, page.rows_max)))
}

/// Keep the document as it is now as a version.
#[utoipa::path(
    post, path = "/rooms/{project}/versions", tag = "rooms", operation_id = "keep_version",
    params(("project" = String, Path, example = "storyboard-7")),
    request_body = VersionBody,
    responses(
        (status = 200, description = "The version", body = VersionView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn keep_version(
    State(state): State<Shared>,
    caller: RoomCaller,
    ProjectPath(project): ProjectPath,
    AppJson(body): AppJson<VersionBody>,
) -> Result<Json<VersionView>, Problem> {
    caller.writer(&state, &project).await?;
    let version = state.rooms.keep_version(&project, body.name).await?;
    Ok(Json((&version).into()))
}

/// Read the document as it was.
#[utoipa::path(
    get, path = "/rooms/{project}/versions/{seq}", tag = "rooms", operation_id = "read_version",
    params(("project" = String, Path, example = "storyboard-7"), ("seq" = i64, Path, example = 1200)),
    responses(
        (status = 200, description = "What the document said", body = RoomDocumentView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn read_version(
    State(state): State<Shared>,
    caller: RoomCaller,
    path: PartPath,
) -> Result<Json<RoomDocumentView>, Problem> {
    caller.reader(&state, &path.project).await?;
    let doc = state.rooms.read_version(&path.project, path.number).await?;
    let project_id = path.project.to_string();
    Ok(Json(RoomDocumentView { project_id, version: Some(path.number), seq: None, doc }))
}

/// Compare a version with another, or with the document as it is now.
#[utoipa::path(
    get, path = "/rooms/{project}/versions/{seq}/diff", tag = "rooms", operation_id = "diff_version",
    params(("project" = String, Path, example = "storyboard-7"), ("seq" = i64, Path, example = 1200), VersionDiffQuery),
    responses(
        (status = 200, description = "What lies between them", body = VersionDiffView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn diff_version(
    State(state): State<Shared>,
    caller: RoomCaller,
    path: PartPath,
    AppQuery(query): AppQuery<VersionDiffQuery>,
) -> Result<Json<VersionDiffView>, Problem> {
    caller.reader(&state, &path.project).await?;
    let diff = state.rooms.diff_versions(&path.project, path.number, query.to).await?;
    Ok(Json(VersionDiffView::new(path.number, query.to, diff)))
}

/// Let the document say what it said then.
///
/// History goes on: this is a change like any other.
#[utoipa::path(
    post, path = "/rooms/{project}/versions/{seq}/restore", tag = "rooms", operation_id = "restore_version",
    params(("project" = String, Path, example = "storyboard-7"), ("seq" = i64, Path, example = 1200)),
    responses(
        (status = 200, description = "The document says so now", body = PatchedView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn restore_version(
    State(state): State<Shared>,
    caller: RoomCaller,
    path: PartPath,
) -> Result<Json<PatchedView>, Problem> {
    caller.writer(&state, &path.project).await?;
    Ok(Json(state.rooms.restore_version(&path.project, path.number).await?.into()))
}
