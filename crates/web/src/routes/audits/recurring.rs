//! Audits that recur.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use axum::response::{IntoResponse, Response};
use roundsman_core::audits::RecurringId;
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJson, AppQuery, Caller, IdPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{
    AuditHistoryView, ProblemView, RecurringAuditBody, RecurringAuditChangeBody,
    RecurringAuditListView, RecurringAuditQuery, RecurringAuditView,
};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_recurring_audits, create_recurring_audit))
        .routes(routes!(get_recurring_audit, change_recurring_audit, delete_recurring_audit))
        .routes(routes!(get_audit_history))
        .routes(routes!(get_audit_history_plot))
}

/// Have a website audited again and again.
///
/// The first audit is started at once. A time that comes while the audit before is not over is left out.
#[utoipa::path(
    post, path = "/recurring-audits", tag = "audits", operation_id = "create_recurring_audit",
    request_body = RecurringAuditBody,
    responses(
        (status = 201, description = "It is made", body = RecurringAuditView,
            headers(("Location" = String, description = "Where it is"))),
        (status = 429, description = "`too_many_audits`: the user has too many", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"])))]
async fn create_recurring_audit(
    State(state): State<Shared>,
    caller: Caller,
    AppJson(body): AppJson<RecurringAuditBody>,
) -> Result<Response, Problem> {
    let user = caller.require_user(TokenScope::Jobs)?;
    let made = state.audits.create_recurring(user, body.into_request()).await?;
    let place = format!("/recurring-audits/{}", made.id);
    Ok((StatusCode::CREATED, [(LOCATION, place)], Json(RecurringAuditView::new(made)))
        .into_response())
}

/// List recurring audits, newest first.
#[utoipa::path(
    get, path = "/recurring-audits", tag = "audits", operation_id = "list_recurring_audits",
    params(RecurringAuditQuery),
    responses((status = 200, description = "A page of them", body = RecurringAuditListView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn list_recurring_audits(
    State(state): State<Shared>,
    caller: Caller,
    AppQuery(query): AppQuery<RecurringAuditQuery>,
) -> Result<Json<RecurringAuditListView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let (before, rows_max) = query.check()?;
    let listed = state.audits.recurrings(scope, before, rows_max).await?;
    Ok(Json(RecurringAuditListView::new(listed, rows_max)))
}

/// One recurring audit.
#[utoipa::path(
    get, path = "/recurring-audits/{id}", tag = "audits", operation_id = "get_recurring_audit",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "The recurring audit", body = RecurringAuditView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_recurring_audit(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<RecurringAuditView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let found = state.audits.recurring(scope, RecurringId::new(id)).await?;
    Ok(Json(RecurringAuditView::new(found)))
}

/// Pause a recurring audit, let it go on, or give it another schedule.
///
/// What is left out stays as it is.
#[utoipa::path(
    patch, path = "/recurring-audits/{id}", tag = "audits", operation_id = "change_recurring_audit",
    params(("id" = i64, Path, description = "Its number")),
    request_body = RecurringAuditChangeBody,
    responses(
        (status = 200, description = "As it is now", body = RecurringAuditView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn change_recurring_audit(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
    AppJson(body): AppJson<RecurringAuditChangeBody>,
) -> Result<Json<RecurringAuditView>, Problem> {
    let scope = caller.reach(TokenScope::Jobs)?;
    let id = RecurringId::new(id);
    let changed = state.audits.change_recurring(scope, id, body.into_wish()).await?;
    Ok(Json(RecurringAuditView::new(changed)))
}

/// End a recurring audit.
///
/// The audits that it has started stay.
#[utoipa::path(
    delete, path = "/recurring-audits/{id}", tag = "audits", operation_id = "delete_recurring_audit",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn delete_recurring_audit(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<StatusCode, Problem> {
    let scope = caller.reach(TokenScope::Jobs)?;
    state.audits.delete_recurring(scope, RecurringId::new(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The scores of a recurring audit over time, oldest first.
#[utoipa::path(
    get, path = "/recurring-audits/{id}/history.json", tag = "audits", operation_id = "get_audit_history",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "Its latest completed audits", body = AuditHistoryView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_audit_history(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<AuditHistoryView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let audits = state.audits.history(scope, RecurringId::new(id)).await?;
    Ok(Json(AuditHistoryView::new(audits)))
}

/// The scores of a recurring audit over time, as a picture.
#[utoipa::path(
    get, path = "/recurring-audits/{id}/history.svg", tag = "audits", operation_id = "get_audit_history_plot",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "The picture", body = String, content_type = "image/svg+xml"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_audit_history_plot(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Response, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let svg = state.audits.history_svg(scope, RecurringId::new(id)).await?;
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    let about = [(CONTENT_TYPE, "image/svg+xml"), (CONTENT_SECURITY_POLICY, policy)];
    Ok((about, svg).into_response())
}
