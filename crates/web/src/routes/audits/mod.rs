//! Audits of websites: asking for them, looking at them, reading what they found.
//!
//! Invariant: whoever asks sees their own audits; to everybody else they do not exist.

mod recurring;
mod reports;

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use roundsman_core::audits::AuditId;
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJsonWithBytes, AppQuery, Caller, IdPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{AuditBody, AuditListQuery, AuditListView, AuditView, ProblemView};

const IDEMPOTENCY_HEADER: &str = "idempotency-key";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_audits, create_audit))
        .routes(routes!(get_audit, cancel_audit))
        .merge(reports::routes())
        .merge(recurring::routes())
}

/// Ask for an audit of a website.
///
/// The answer is the audit as it waits; look at it until its `status` is `completed` or `failed`, or have
/// yourself told by a webhook (`audit.completed`, `audit.failed`). With an `Idempotency-Key` the same
/// request may be sent again safely.
#[utoipa::path(
    post, path = "/audits", tag = "audits", operation_id = "create_audit",
    params(("Idempotency-Key" = Option<String>, Header, max_length = 255,
        description = "Names this request: sent again with the same body, it is answered and not done again")),
    request_body = AuditBody,
    responses(
        (status = 202, description = "The audit waits", body = AuditView,
            headers(("Location" = String, description = "Where it is"))),
        (status = 200, description = "The request was a repetition: the audit as it is now", body = AuditView),
        (status = 429, description = "`too_many_audits`: too many of the user's are not finished", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"])))]
async fn create_audit(
    State(state): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    AppJsonWithBytes(body, bytes): AppJsonWithBytes<AuditBody>,
) -> Result<Response, Problem> {
    let user = caller.require_user(TokenScope::Jobs)?;
    let key = match headers.get(IDEMPOTENCY_HEADER) {
        Some(value) => {
            let text = value.to_str().map_err(|_| {
                Problem::field("Idempotency-Key", "must be visible ASCII characters")
            })?;
            Some((text.to_owned(), bytes))
        }
        None => None,
    };
    let reply = state.audits.create(user, body.into_request(key)).await?;
    let status = if reply.replayed { StatusCode::OK } else { StatusCode::ACCEPTED };
    let place = format!("/audits/{}", reply.audit.id);
    Ok((status, [(LOCATION, place)], Json(AuditView::new(reply.audit))).into_response())
}

/// List audits, newest first.
#[utoipa::path(
    get, path = "/audits", tag = "audits", operation_id = "list_audits",
    params(AuditListQuery),
    responses((status = 200, description = "A page of audits", body = AuditListView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn list_audits(
    State(state): State<Shared>,
    caller: Caller,
    AppQuery(query): AppQuery<AuditListQuery>,
) -> Result<Json<AuditListView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let (filter, before, rows_max) = query.check()?;
    let audits = state.audits.list(scope, filter, before, rows_max).await?;
    Ok(Json(AuditListView::new(audits, rows_max)))
}

/// One audit.
#[utoipa::path(
    get, path = "/audits/{id}", tag = "audits", operation_id = "get_audit",
    params(("id" = i64, Path, description = "The audit's number")),
    responses(
        (status = 200, description = "The audit", body = AuditView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_audit(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<AuditView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    Ok(Json(AuditView::new(state.audits.get(scope, AuditId::new(id)).await?)))
}

/// Cancel an audit.
///
/// One that waits is `failed` with the error `cancelled` at once; one that is being made as soon as its
/// worker has heard of it.
#[utoipa::path(
    delete, path = "/audits/{id}", tag = "audits", operation_id = "cancel_audit",
    params(("id" = i64, Path, description = "The audit's number")),
    responses(
        (status = 200, description = "The audit as it is now", body = AuditView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`: it is over", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn cancel_audit(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<AuditView>, Problem> {
    let scope = caller.reach(TokenScope::Jobs)?;
    Ok(Json(AuditView::new(state.audits.cancel(scope, AuditId::new(id)).await?)))
}
