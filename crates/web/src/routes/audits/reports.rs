//! What audits found, as people and programs read it.
//!
//! Invariant: what a foreign page says is in these reports. They are served so that no browser runs
//! anything of it, whatever the report's own care.

use axum::Json;
use axum::extract::State;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use roundsman_core::audits::AuditId;
use roundsman_core::users::TokenScope;
use roundsman_engine::audits::ReportFormat;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{Caller, IdPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{AuditReportView, ProblemView};

/// No scripts, nothing from elsewhere; the report brings its styles and pictures along.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; sandbox allow-popups";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(get_audit_html))
        .routes(routes!(get_audit_pdf))
        .routes(routes!(get_audit_json))
        .routes(routes!(get_audit_screenshot))
}

/// The report of a completed audit as a page.
#[utoipa::path(
    get, path = "/audits/{id}/report.html", tag = "audits", operation_id = "get_audit_html",
    params(("id" = i64, Path, description = "The audit's number")),
    responses(
        (status = 200, description = "The report", body = String, content_type = "text/html"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`: it is not completed", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_audit_html(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Response, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let html = state.audits.rendered(scope, AuditId::new(id), ReportFormat::Html).await?;
    let about =
        [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, REPORT_POLICY)];
    Ok((about, served(), html).into_response())
}

/// The report of a completed audit as a PDF file.
#[utoipa::path(
    get, path = "/audits/{id}/report.pdf", tag = "audits", operation_id = "get_audit_pdf",
    params(("id" = i64, Path, description = "The audit's number")),
    responses(
        (status = 200, description = "The report", body = Vec<u8>, content_type = "application/pdf"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`: it is not completed", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_audit_pdf(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Response, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let pdf = state.audits.rendered(scope, AuditId::new(id), ReportFormat::Pdf).await?;
    let saved = format!("attachment; filename=\"audit-{id}.pdf\"");
    let about = [(CONTENT_TYPE, "application/pdf".to_owned()), (CONTENT_DISPOSITION, saved)];
    Ok((about, served(), pdf).into_response())
}

/// All that a completed audit found.
#[utoipa::path(
    get, path = "/audits/{id}/report.json", tag = "audits", operation_id = "get_audit_json",
    params(("id" = i64, Path, description = "The audit's number")),
    responses(
        (status = 200, description = "The audit with its checks, findings and facts", body = AuditReportView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`: it is not completed", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_audit_json(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<AuditReportView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    Ok(Json(AuditReportView::new(state.audits.report(scope, AuditId::new(id)).await?)))
}

/// How the page looked in the browser.
#[utoipa::path(
    get, path = "/audits/{id}/screenshot.png", tag = "audits", operation_id = "get_audit_screenshot",
    params(("id" = i64, Path, description = "The audit's number")),
    responses(
        (status = 200, description = "The picture", body = Vec<u8>, content_type = "image/png"),
        (status = 404, description = "`not_found`: there is no such audit, or it has none", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_audit_screenshot(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Response, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let png = state.audits.screenshot(scope, AuditId::new(id)).await?;
    Ok(([(CONTENT_TYPE, "image/png")], served(), png).into_response())
}

/// Nobody in between keeps a user's report, and nobody takes it for something else.
fn served() -> [(axum::http::HeaderName, &'static str); 2] {
    [(CACHE_CONTROL, "private, no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")]
}
