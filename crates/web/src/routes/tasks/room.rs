//! What other services ask of a room, with the operator's token.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJson, Caller, ProjectPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{BroadcastBody, BroadcastView, ProblemView, TriggeredView};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(trigger_task_polling)).routes(routes!(broadcast_task))
}

/// Have a room look at its tasks after the usual pause of ten seconds.
#[utoipa::path(
    post, path = "/rooms/{project}/trigger-task-polling", tag = "tasks", operation_id = "trigger_task_polling",
    params(("project" = String, Path, example = "storyboard-7")),
    responses((status = 200, description = "The alarm is set", body = TriggeredView)),
    security(("admin_key" = []), ("bearer" = [])))]
async fn trigger_task_polling(
    State(state): State<Shared>,
    caller: Caller,
    ProjectPath(project): ProjectPath,
) -> Result<Json<TriggeredView>, Problem> {
    caller.require_operator()?;
    state.tasks.trigger(&project).await?;
    Ok(Json(TriggeredView::SET))
}

/// Say how a task ended.
///
/// It is applied once: to the task, to the document of its project and to whoever is connected.
#[utoipa::path(
    post, path = "/rooms/{project}/broadcast-task", tag = "tasks", operation_id = "broadcast_task",
    params(("project" = String, Path, example = "storyboard-7")),
    request_body = BroadcastBody,
    responses(
        (status = 200, description = "The task, as it is now", body = BroadcastView),
        (status = 404, description = "`not_found`: the project has no such task", body = ProblemView, content_type = "application/problem+json")),
    security(("admin_key" = []), ("bearer" = [])))]
async fn broadcast_task(
    State(state): State<Shared>,
    caller: Caller,
    ProjectPath(project): ProjectPath,
    AppJson(body): AppJson<BroadcastBody>,
) -> Result<Json<BroadcastView>, Problem> {
    caller.require_operator()?;
    let (task, is_applied) = state.tasks.broadcast(&project, body.into_wish()).await?;
    Ok(Json(BroadcastView::new(task, is_applied)))
}
