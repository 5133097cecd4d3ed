//! Tasks that outside generators do for projects.
//!
//! Invariant: what a generator sends only says which task to look at; what became of it is asked.

mod results;
mod room;
mod webhook;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJson, AppQuery, Caller, ProjectPath, TextPath};
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::{ProblemView, TaskBody, TaskListQuery, TaskListView, TaskView};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(create_task))
        .routes(routes!(get_task))
        .routes(routes!(list_tasks))
        .routes(routes!(cancel_task))
        .routes(routes!(retry_task))
        .merge(room::routes())
        .merge(webhook::routes())
        .merge(results::routes())
}

/// Make a task.
///
/// It is stored before its generator hears of it. The answer waits a while for the generator and shows
/// the task as it is then: a generator that answers at once has completed it, others are asked after
/// until it is over.
#[utoipa::path(
    post, path = "/tasks", tag = "tasks", operation_id = "create_task",
    request_body = TaskBody,
    responses(
        (status = 201, description = "The task, as it is now", body = TaskView),
        (status = 403, description = "`forbidden`: the project belongs to somebody else", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"])))]
async fn create_task(
    State(state): State<Shared>,
    caller: Caller,
    AppJson(body): AppJson<TaskBody>,
) -> Result<(StatusCode, Json<TaskView>), Problem> {
    let user = caller.require_user(TokenScope::Jobs)?;
    let task = state.tasks.create(user, body.into_wish()).await?;
    Ok((StatusCode::CREATED, Json(task.into())))
}

/// One task.
#[utoipa::path(
    get, path = "/tasks/{task_id}", tag = "tasks", operation_id = "get_task",
    params(("task_id" = String, Path, example = "task_17")),
    responses(
        (status = 200, description = "The task", body = TaskView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_task(
    State(state): State<Shared>,
    caller: Caller,
    TextPath(id): TextPath,
) -> Result<Json<TaskView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let found = state.tasks.get(scope, &id).await?;
    let found = found.ok_or_else(|| Problem::new(Code::NotFound, "Task not found"))?;
    Ok(Json(found.into()))
}

/// List the tasks of a project, newest first.
#[utoipa::path(
    get, path = "/projects/{project}/tasks", tag = "tasks", operation_id = "list_tasks",
    params(("project" = String, Path, example = "storyboard-7"), TaskListQuery),
    responses((status = 200, description = "A page of tasks", body = TaskListView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn list_tasks(
    State(state): State<Shared>,
    caller: Caller,
    ProjectPath(project): ProjectPath,
    AppQuery(query): AppQuery<TaskListQuery>,
) -> Result<Json<TaskListView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let (filter, before, rows_max) = query.check(project)?;
    let tasks = state.tasks.list(scope, filter, before, rows_max).await?;
    Ok(Json(TaskListView::new(tasks, rows_max)))
}

/// Cancel a task.
///
/// One that is over stays as it is. A generator that can is told to stop; what it brings all the same
/// is ignored.
#[utoipa::path(
    post, path = "/tasks/{task_id}/cancel", tag = "tasks", operation_id = "cancel_task",
    params(("task_id" = String, Path, example = "task_17")),
    responses(
        (status = 200, description = "The task, as it is now", body = TaskView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn cancel_task(
    State(state): State<Shared>,
    caller: Caller,
    TextPath(id): TextPath,
) -> Result<Json<TaskView>, Problem> {
    let scope = caller.reach(TokenScope::Jobs)?;
    Ok(Json(state.tasks.cancel(scope, &id).await?.into()))
}

/// Try a task once more that is over.
///
/// Makes another task with the same wish, which names this one in `retry_of`: it is sent, and paid for,
/// as any other.
#[utoipa::path(
    post, path = "/tasks/{task_id}/retry", tag = "tasks", operation_id = "retry_task",
    params(("task_id" = String, Path, example = "task_17")),
    responses(
        (status = 201, description = "The new task, as it is now", body = TaskView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn retry_task(
    State(state): State<Shared>,
    caller: Caller,
    TextPath(id): TextPath,
) -> Result<(StatusCode, Json<TaskView>), Problem> {
    let scope = caller.reach(TokenScope::Jobs)?;
    let task = state.tasks.retry(scope, &id).await?;
    Ok((StatusCode::CREATED, Json(task.into())))
}
