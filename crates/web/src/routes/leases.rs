//! Who works on what.

use axum::Json;
use axum::extract::State;
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppQuery, Caller};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{LeaseListView, LeasesQuery};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_leases))
}

/// List the leases that are held now, under the names operators know.
#[utoipa::path(
    get, path = "/leases", tag = "jobs", operation_id = "list_leases",
    params(LeasesQuery),
    responses((status = 200, description = "A page of leases", body = LeaseListView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn list_leases(
    State(state): State<Shared>,
    caller: Caller,
    AppQuery(query): AppQuery<LeasesQuery>,
) -> Result<Json<LeaseListView>, Problem> {
    let caller = caller.require(TokenScope::Read)?;
    let (before, rows_max) = query.check()?;
    let leases = state.jobs.leases(caller, before, rows_max).await?;
    Ok(Json(LeaseListView::new(&leases, rows_max)))
}
