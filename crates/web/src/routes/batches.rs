//! Batches: jobs that belong together.

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::jobs::idempotency;
use crate::extract::{AppJsonWithBytes, Caller, IdPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{BatchBody, BatchMadeView, BatchView, ProblemView};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(create_batch)).routes(routes!(get_batch))
}

/// Enqueue jobs as a batch.
///
/// When the last of them has ended, however it did, the callback is enqueued: once, and in the transaction
/// that ended that job. With an `Idempotency-Key` the same request may be sent again safely for a day.
#[utoipa::path(
    post, path = "/batches", tag = "jobs", operation_id = "create_batch",
    params(("Idempotency-Key" = Option<String>, Header, max_length = 255,
        description = "Names this request: sent again with the same body, it is answered and not done again")),
    request_body(content = BatchBody, example = json!({"name": "march invoices", "jobs": [{"kind": "invoices.render", "payload": {"id": 1}}, {"kind": "invoices.render", "payload": {"id": 2}}], "callback": {"kind": "invoices.send"}})),
    responses(
        (status = 201, description = "The batch", body = BatchMadeView,
            headers(("Location" = String, description = "Where it is"))),
        (status = 200, description = "The batch that this request made before", body = BatchMadeView,
            headers(("Location" = String, description = "Where it is")))),
    security(("api_key" = ["jobs"]), ("bearer" = ["jobs"]), ("admin_key" = ["jobs"])))]
async fn create_batch(
    State(state): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    AppJsonWithBytes(body, bytes): AppJsonWithBytes<BatchBody>,
) -> Result<Response, Problem> {
    let caller = caller.require(TokenScope::Jobs)?;
    let idempotency = idempotency("POST /batches", &headers, bytes)?;
    let report = state.jobs.create_batch(caller, body.check()?, idempotency).await?;
    let status = if report.replayed { StatusCode::OK } else { StatusCode::CREATED };
    let place = format!("/batches/{}", report.id.get());
    Ok((status, [(LOCATION, place)], Json(BatchMadeView::new(&report))).into_response())
}

/// How far a batch is.
#[utoipa::path(
    get, path = "/batches/{id}", tag = "jobs", operation_id = "get_batch",
    params(("id" = i64, Path, description = "The batch's number")),
    responses(
        (status = 200, description = "The batch", body = BatchView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_batch(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<BatchView>, Problem> {
    let caller = caller.require(TokenScope::Read)?;
    Ok(Json(state.jobs.batch(caller, id).await?.into()))
}
