//! Metrics for Prometheus. They name the kinds of all users, so only the operator reads them.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::Caller;
use crate::problem::Problem;
use crate::state::Shared;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// Metrics in the OpenMetrics text format.
#[utoipa::path(
    get, path = "/metrics", tag = "server", operation_id = "metrics",
    responses((status = 200, description = "The metrics", body = String,
        content_type = "application/openmetrics-text")),
    security(("admin_key" = []), ("bearer" = [])))]
async fn metrics(State(state): State<Shared>, caller: Caller) -> Result<Response, Problem> {
    caller.require_operator()?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], state.metrics.encode()).into_response())
}
