//! Limits of kinds, and pausing them.

use axum::Json;
use axum::extract::State;
use roundsman_core::jobs::{GateChange, GateLimits};
use roundsman_core::users::TokenScope;
use roundsman_engine::jobs::GateTarget;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJson, AppQuery, Caller, TextPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{GateListView, GateQuery, GateView, LimitsBody};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_kinds))
        .routes(routes!(get_kind))
        .routes(routes!(set_limits, remove_limits))
        .routes(routes!(pause_kind))
        .routes(routes!(resume_kind))
}

/// List the kinds that have limits or are paused.
#[utoipa::path(
    get, path = "/kinds", tag = "jobs", operation_id = "list_kinds",
    params(GateQuery),
    responses((status = 200, description = "A page of kinds", body = GateListView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn list_kinds(
    State(state): State<Shared>,
    caller: Caller,
    AppQuery(query): AppQuery<GateQuery>,
) -> Result<Json<GateListView>, Problem> {
    let caller = caller.require(TokenScope::Read)?;
    let rows_max = query.rows_max()?;
    let gates = state.jobs.gates(caller, query.after, rows_max).await?;
    Ok(Json(GateListView::new(&gates, rows_max)))
}

/// What a kind asks for.
#[utoipa::path(
    get, path = "/kinds/{kind}", tag = "jobs", operation_id = "get_kind",
    params(("kind" = String, Path, description = "The kind"), GateQuery),
    responses((status = 200, description = "The kind", body = GateView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_kind(
    State(state): State<Shared>,
    caller: Caller,
    TextPath(kind): TextPath,
    AppQuery(query): AppQuery<GateQuery>,
) -> Result<Json<GateView>, Problem> {
    let caller = caller.require(TokenScope::Read)?;
    let gate = state.jobs.gate(caller, GateTarget { kind, user_id: query.user_id }).await?;
    Ok(Json((&gate).into()))
}

/// Set the limits of a kind.
///
/// A user's limits are about their own jobs. The operator's are about the jobs of all users together,
/// each of whom counts as a tenant; with `user_id` about one user's. All nodes keep them from the next
/// claim on. What runs already is not stopped.
#[utoipa::path(
    put, path = "/kinds/{kind}/limits", tag = "jobs", operation_id = "set_kind_limits",
    params(("kind" = String, Path, description = "The kind"), GateQuery),
    request_body(content = LimitsBody),
    responses((status = 200, description = "The kind as it is now", body = GateView)),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn set_limits(
    State(state): State<Shared>,
    caller: Caller,
    TextPath(kind): TextPath,
    AppQuery(query): AppQuery<GateQuery>,
    AppJson(body): AppJson<LimitsBody>,
) -> Result<Json<GateView>, Problem> {
    let limits = Some(body.into());
    change(&state, &caller, kind, &query, GateChange { limits, paused: None }).await
}

/// Take the limits of a kind away.
#[utoipa::path(
    delete, path = "/kinds/{kind}/limits", tag = "jobs", operation_id = "remove_kind_limits",
    params(("kind" = String, Path, description = "The kind"), GateQuery),
    responses((status = 200, description = "The kind as it is now", body = GateView)),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn remove_limits(
    State(state): State<Shared>,
    caller: Caller,
    TextPath(kind): TextPath,
    AppQuery(query): AppQuery<GateQuery>,
) -> Result<Json<GateView>, Problem> {
    let limits = Some(GateLimits::default());
    change(&state, &caller, kind, &query, GateChange { limits, paused: None }).await
}

/// Pause a kind.
///
/// Its jobs are enqueued as before and none is handed out, by any node, until it is resumed. What runs
/// already goes on.
#[utoipa::path(
    post, path = "/kinds/{kind}/pause", tag = "jobs", operation_id = "pause_kind",
    params(("kind" = String, Path, description = "The kind"), GateQuery),
    responses((status = 200, description = "The kind as it is now", body = GateView)),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn pause_kind(
    State(state): State<Shared>,
    caller: Caller,
    TextPath(kind): TextPath,
    AppQuery(query): AppQuery<GateQuery>,
) -> Result<Json<GateView>, Problem> {
    change(&state, &caller, kind, &query, GateChange { paused: Some(true), limits: None }).await
}

/// Resume a kind that was paused.
#[utoipa::path(
    post, path = "/kinds/{kind}/resume", tag = "jobs", operation_id = "resume_kind",
    params(("kind" = String, Path, description = "The kind"), GateQuery),
    responses((status = 200, description = "The kind as it is now", body = GateView)),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn resume_kind(
    State(state): State<Shared>,
    caller: Caller,
    TextPath(kind): TextPath,
    AppQuery(query): AppQuery<GateQuery>,
) -> Result<Json<GateView>, Problem> {
    change(&state, &caller, kind, &query, GateChange { paused: Some(false), limits: None }).await
}

async fn change(
    state: &Shared,
    caller: &Caller,
    kind: String,
    query: &GateQuery,
    change: GateChange,
) -> Result<Json<GateView>, Problem> {
    let caller = caller.require(TokenScope::Jobs)?;
    let target = GateTarget { kind, user_id: query.user_id };
    let gate = state.jobs.change_gate(caller, target, change).await?;
    Ok(Json((&gate).into()))
}
