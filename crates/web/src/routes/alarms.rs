//! Alarms of rooms.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use roundsman_core::rooms::ProjectId;
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJson, Caller, ProjectPath};
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::{AlarmBody, AlarmListView, ProblemView};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_alarms))
        .routes(routes!(set_alarm))
        .routes(routes!(cancel_alarm))
}

/// The alarms of a room: its own, and those that its users have set.
#[utoipa::path(
    get, path = "/rooms/{project}/alarms", tag = "alarms", operation_id = "list_alarms",
    params(("project" = String, Path, example = "storyboard-7")),
    responses(
        (status = 200, description = "Its alarms, by their times", body = AlarmListView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn list_alarms(
    State(state): State<Shared>,
    caller: Caller,
    ProjectPath(project): ProjectPath,
) -> Result<Json<AlarmListView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    Ok(Json(state.alarms.list(scope, &project).await?.into()))
}

/// Set an alarm.
///
/// It fires at least once and never before its time, with the event `alarm.fired` to the user's
/// webhook. One that is set already is brought forward, or replaced.
#[utoipa::path(
    post, path = "/rooms/{project}/alarms", tag = "alarms", operation_id = "set_alarm",
    params(("project" = String, Path, example = "storyboard-7")),
    request_body = AlarmBody,
    responses(
        (status = 200, description = "The alarms of the room", body = AlarmListView),
        (status = 404, description = "`not_found`: the room is somebody else's", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn set_alarm(
    State(state): State<Shared>,
    caller: Caller,
    ProjectPath(project): ProjectPath,
    AppJson(body): AppJson<AlarmBody>,
) -> Result<Json<AlarmListView>, Problem> {
    let scope = caller.reach(TokenScope::Jobs)?;
    Ok(Json(state.alarms.set(scope, &project, body.check()?).await?.into()))
}

/// Take an alarm back.
#[utoipa::path(
    delete, path = "/rooms/{project}/alarms/{name}", tag = "alarms", operation_id = "cancel_alarm",
    params(("project" = String, Path, example = "storyboard-7"), ("name" = String, Path, example = "remind")),
    responses(
        (status = 204, description = "It is not set any more"),
        (status = 404, description = "`not_found`: it is not set, or it fires just now", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn cancel_alarm(
    State(state): State<Shared>,
    caller: Caller,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
) -> Result<StatusCode, Problem> {
    let scope = caller.reach(TokenScope::Jobs)?;
    let missing = || Problem::new(Code::NotFound, "There is no such alarm.");
    let Path((project, name)) = path.map_err(|_| missing())?;
    let project = ProjectId::new(&project).map_err(|_| missing())?;
    state.alarms.cancel(scope, &project, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
