//! Schedules: jobs that are enqueued again and again.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJson, AppQuery, Caller, IdPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{ProblemView, ScheduleBody, ScheduleListQuery, ScheduleListView, ScheduleView};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_schedules, create_schedule)).routes(routes!(
        get_schedule,
        change_schedule,
        delete_schedule
    ))
}

/// Make a schedule.
///
/// It begins with the first time after now. One node acts on each time, and a time that passed while none
/// could is dealt with as `missed` says.
#[utoipa::path(
    post, path = "/schedules", tag = "jobs", operation_id = "create_schedule",
    request_body(content = ScheduleBody, examples(
        ("by the clock" = (value = json!({"name": "nightly report", "cron": "30 2 * * *", "time_zone": "Europe/Berlin", "job": {"kind": "reports.render", "key": "nightly"}}))),
        ("an interval" = (value = json!({"every_secs": 300, "job": {"kind": "feeds.poll"}}))))),
    responses((status = 201, description = "The schedule", body = ScheduleView,
        headers(("Location" = String, description = "Where it is")))),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn create_schedule(
    State(state): State<Shared>,
    caller: Caller,
    AppJson(body): AppJson<ScheduleBody>,
) -> Result<Response, Problem> {
    let caller = caller.require(TokenScope::Jobs)?;
    let schedule = state.jobs.create_schedule(caller, body.into()).await?;
    let place = format!("/schedules/{}", schedule.id.get());
    let view = Json(ScheduleView::new(&schedule));
    Ok((StatusCode::CREATED, [(LOCATION, place)], view).into_response())
}

/// List schedules, newest first.
#[utoipa::path(
    get, path = "/schedules", tag = "jobs", operation_id = "list_schedules",
    params(ScheduleListQuery),
    responses((status = 200, description = "A page of schedules", body = ScheduleListView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn list_schedules(
    State(state): State<Shared>,
    caller: Caller,
    AppQuery(query): AppQuery<ScheduleListQuery>,
) -> Result<Json<ScheduleListView>, Problem> {
    let caller = caller.require(TokenScope::Read)?;
    let rows_max = query.rows_max()?;
    let schedules = state.jobs.schedules(caller, query.before, rows_max).await?;
    Ok(Json(ScheduleListView::new(&schedules, rows_max)))
}

/// One schedule, with its next times.
#[utoipa::path(
    get, path = "/schedules/{id}", tag = "jobs", operation_id = "get_schedule",
    params(("id" = i64, Path, description = "The schedule's number")),
    responses(
        (status = 200, description = "The schedule", body = ScheduleView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_schedule(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<ScheduleView>, Problem> {
    let caller = caller.require(TokenScope::Read)?;
    Ok(Json(ScheduleView::new(&state.jobs.schedule(caller, id).await?)))
}

/// Change, pause or resume a schedule.
///
/// What is absent stays. A schedule that is resumed or gets another rhythm goes on with the next time
/// after now.
#[utoipa::path(
    patch, path = "/schedules/{id}", tag = "jobs", operation_id = "change_schedule",
    params(("id" = i64, Path, description = "The schedule's number")),
    request_body(content = ScheduleBody, example = json!({"paused": true})),
    responses(
        (status = 200, description = "The schedule as it is now", body = ScheduleView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn change_schedule(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
    AppJson(body): AppJson<ScheduleBody>,
) -> Result<Json<ScheduleView>, Problem> {
    let caller = caller.require(TokenScope::Jobs)?;
    Ok(Json(ScheduleView::new(&state.jobs.change_schedule(caller, id, body.into()).await?)))
}

/// Delete a schedule. Jobs that it has enqueued stay.
#[utoipa::path(
    delete, path = "/schedules/{id}", tag = "jobs", operation_id = "delete_schedule",
    params(("id" = i64, Path, description = "The schedule's number")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn delete_schedule(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<StatusCode, Problem> {
    let caller = caller.require(TokenScope::Jobs)?;
    state.jobs.delete_schedule(caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
