//! Whether the process is there, and whether it should be sent requests. Open to everybody: what
//! asks has no token, and learns only names of loops.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::Shared;
use crate::views::{HealthView, ReadyView};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

/// The process is there.
#[utoipa::path(
    get, path = "/healthz", tag = "server", operation_id = "healthz",
    responses((status = 200, description = "Always, while the process answers", body = HealthView)),
    security(()))]
async fn healthz() -> Json<HealthView> {
    Json(HealthView { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// Requests should be sent here.
///
/// The database takes writes, every background loop has made progress within three of its
/// intervals (those that read Redis have at least tried), and the process is not shutting down.
#[utoipa::path(
    get, path = "/readyz", tag = "server", operation_id = "readyz",
    responses(
        (status = 200, description = "Ready", body = ReadyView),
        (status = 503, description = "Not ready; the checks say why", body = ReadyView)),
    security(()))]
async fn readyz(State(state): State<Shared>) -> (StatusCode, Json<ReadyView>) {
    let view = ReadyView::from(state.readiness.checks().await);
    let status = if view.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(view))
}
