//! Who is and was in a meeting.

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use roundsman_core::bots::MeetingId;
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppQuery, Caller, IdPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{
    PresenceExportView, PresenceTimelineView, ProblemView, SessionListQuery, SessionListView,
};

/// Says `false` if there is more than a file may hold.
const WHOLE_HEADER: &str = "x-whole";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_presence_sessions))
        .routes(routes!(presence_timeline))
        .routes(routes!(export_presence_csv))
        .routes(routes!(export_presence_json))
}

/// List the sessions of a meeting, in the order in which they began.
///
/// Whoever joins, also once more or with another device, begins a session.
#[utoipa::path(
    get, path = "/presence/meetings/{id}/sessions", tag = "presence", operation_id = "list_presence_sessions",
    params(("id" = i64, Path, description = "The meeting's number"), SessionListQuery),
    responses(
        (status = 200, description = "A page of sessions", body = SessionListView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn list_presence_sessions(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
    AppQuery(query): AppQuery<SessionListQuery>,
) -> Result<Json<SessionListView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let filter = query.check()?;
    let rows_max = filter.rows_max;
    let sessions = state.presence.sessions(scope, MeetingId::new(id), filter).await?;
    Ok(Json(SessionListView::new(&sessions, rows_max, state.clock.now())))
}

/// Who came and went, in the order in which it happened.
#[utoipa::path(
    get, path = "/presence/meetings/{id}/timeline", tag = "presence", operation_id = "presence_timeline",
    params(("id" = i64, Path, description = "The meeting's number")),
    responses(
        (status = 200, description = "The timeline", body = PresenceTimelineView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn presence_timeline(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<PresenceTimelineView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let timeline = state.presence.timeline(scope, MeetingId::new(id)).await?;
    Ok(Json(timeline.into()))
}

/// Everybody who was in a meeting, as a table.
#[utoipa::path(
    get, path = "/presence/meetings/{id}/export.csv", tag = "presence", operation_id = "export_presence_csv",
    params(("id" = i64, Path, description = "The meeting's number")),
    responses(
        (status = 200, description = "The file", body = String, content_type = "text/csv",
            headers(("X-Whole" = bool, description = "`false` if there is more than a file may hold"))),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn export_presence_csv(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Response, Problem> {
    let view = export(&state, &caller, id).await?;
    let about = about(&view, "csv", "text/csv; charset=utf-8; header=present");
    Ok((about, view.csv()).into_response())
}

/// Everybody who was in a meeting.
#[utoipa::path(
    get, path = "/presence/meetings/{id}/export.json", tag = "presence", operation_id = "export_presence_json",
    params(("id" = i64, Path, description = "The meeting's number")),
    responses(
        (status = 200, description = "The file", body = PresenceExportView,
            headers(("X-Whole" = bool, description = "`false` if there is more than a file may hold"))),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn export_presence_json(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Response, Problem> {
    let view = export(&state, &caller, id).await?;
    let about = about(&view, "json", "application/json");
    Ok((about, Json(view)).into_response())
}

async fn export(state: &Shared, caller: &Caller, id: i64) -> Result<PresenceExportView, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    Ok((&state.presence.export(scope, MeetingId::new(id)).await?).into())
}

/// Always to be saved and never to be opened: what people call themselves is not for a browser to
/// interpret.
fn about(
    view: &PresenceExportView,
    ending: &str,
    content_type: &str,
) -> [(&'static str, String); 3] {
    let saved = format!("attachment; filename=\"{}.{ending}\"", view.file_name());
    [
        (CONTENT_TYPE.as_str(), content_type.to_owned()),
        (CONTENT_DISPOSITION.as_str(), saved),
        (WHOLE_HEADER, view.is_whole().to_string()),
    ]
}
