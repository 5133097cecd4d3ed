//! What an operator watches, in one answer: how the node is and what waits and runs. Bounded, however
//! much waits, so that it can be asked every second.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::Caller;
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{ReadyView, StatusView};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(status))
}

/// How the node is, and what waits and runs.
///
/// Made for a screen that is drawn again and again. Kinds are those of all users and nodes; checks are of
/// the node that answers.
#[utoipa::path(
    get, path = "/status", tag = "server", operation_id = "status",
    responses((status = 200, description = "How it is now", body = StatusView)),
    security(("admin_key" = []), ("bearer" = [])))]
async fn status(State(state): State<Shared>, caller: Caller) -> Result<Json<StatusView>, Problem> {
    caller.require_operator()?;
    let now = state.clock.now();
    let health = ReadyView::from(state.readiness.checks().await);
    let kinds = state.jobs.depths().await?;
    Ok(Json(StatusView::new(now, health, &kinds)))
}
