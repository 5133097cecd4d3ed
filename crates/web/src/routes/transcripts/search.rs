//! Looking for words in all that a user's meetings have said.

use axum::Json;
use axum::extract::State;
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppQuery, MeetingsCaller};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{SearchTermsQuery, SearchView};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(search_transcripts))
}

/// Search what was said in all of the user's meetings.
#[utoipa::path(
    get, path = "/transcripts/search", tag = "transcripts", operation_id = "search_transcripts",
    params(SearchTermsQuery),
    responses((status = 200, description = "A page of segments", body = SearchView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn search_transcripts(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    AppQuery(terms): AppQuery<SearchTermsQuery>,
) -> Result<Json<SearchView>, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let (query, page) = terms.check()?;
    let hits = state.transcripts.search(user, query.clone(), page).await?;
    Ok(Json(SearchView::new(&hits, &query, page.rows_max)))
}
