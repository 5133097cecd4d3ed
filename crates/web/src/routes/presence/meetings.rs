//! Making, finding and ending meetings.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::Scope;
use roundsman_core::users::TokenScope;
use roundsman_engine::presence::PresenceError;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJson, AppQuery, Caller, IdPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{
    PresenceListQuery, PresenceListView, PresenceMeetingBody, PresenceMeetingView, ProblemView,
};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_presence_meetings, create_presence_meeting))
        .routes(routes!(get_presence_meeting))
        .routes(routes!(deactivate_presence_meeting, patch_presence_meeting_inactive))
}

/// Make a meeting in a video room.
///
/// The room is one that the provider has, or with `create_room` one that it makes first. One meeting
/// at a time is open in a room.
#[utoipa::path(
    post, path = "/presence/meetings", tag = "presence", operation_id = "create_presence_meeting",
    request_body = PresenceMeetingBody,
    responses(
        (status = 201, description = "The meeting", body = PresenceMeetingView),
        (status = 409, description = "`room_taken`, with `meeting_id` if that meeting is the user's", body = ProblemView, content_type = "application/problem+json"),
        (status = 502, description = "`provider_refused`: it makes no such room", body = ProblemView, content_type = "application/problem+json"),
        (status = 503, description = "`provider_unavailable`; `not_configured`: there is nobody to make rooms; and those of every route", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"])))]
async fn create_presence_meeting(
    State(state): State<Shared>,
    caller: Caller,
    AppJson(body): AppJson<PresenceMeetingBody>,
) -> Result<(StatusCode, Json<PresenceMeetingView>), Problem> {
    let user = caller.require_user(TokenScope::Bot)?;
    match state.presence.create(user, body.into()).await {
        Ok(made) => Ok((StatusCode::CREATED, Json((&made).into()))),
        Err(error @ PresenceError::RoomTaken { meeting }) => {
            let problem = Problem::from(error);
            match state.presence.meeting(Scope::User(user), meeting).await {
                Ok(_) => Err(problem.with("meeting_id", meeting.get())),
                Err(_) => Err(problem),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// List meetings in video rooms, newest first.
#[utoipa::path(
    get, path = "/presence/meetings", tag = "presence", operation_id = "list_presence_meetings",
    params(PresenceListQuery),
    responses((status = 200, description = "A page of meetings", body = PresenceListView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn list_presence_meetings(
    State(state): State<Shared>,
    caller: Caller,
    AppQuery(query): AppQuery<PresenceListQuery>,
) -> Result<Json<PresenceListView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let (filter, page) = query.check()?;
    let meetings = state.presence.meetings(scope, filter, page).await?;
    Ok(Json(PresenceListView::new(&meetings, page.rows_max)))
}

/// One meeting in a video room.
#[utoipa::path(
    get, path = "/presence/meetings/{id}", tag = "presence", operation_id = "get_presence_meeting",
    params(("id" = i64, Path, description = "The meeting's number")),
    responses(
        (status = 200, description = "The meeting", body = PresenceMeetingView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"]), ("admin_key" = ["read"])))]
async fn get_presence_meeting(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<PresenceMeetingView>, Problem> {
    let scope = caller.reach(TokenScope::Read)?;
    let meeting = state.presence.meeting(scope, MeetingId::new(id)).await?;
    Ok(Json((&meeting).into()))
}

/// End a meeting for good.
///
/// Everybody who is in it has left then, as far as the record goes, and nobody who is seen later opens
/// it again. One that is over already may be ended, too.
#[utoipa::path(
    post, path = "/presence/meetings/{id}/deactivate", tag = "presence", operation_id = "deactivate_presence_meeting",
    params(("id" = i64, Path, description = "The meeting's number")),
    responses(
        (status = 200, description = "The meeting as it is now", body = PresenceMeetingView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"]), ("admin_key" = ["bot"])))]
async fn deactivate_presence_meeting(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<PresenceMeetingView>, Problem> {
    deactivate(&state, &caller, id).await
}

/// End a meeting for good, as other servers want to be asked for it.
#[utoipa::path(
    patch, path = "/presence/meetings/{id}/deactivate", tag = "presence", operation_id = "patch_presence_meeting_inactive",
    params(("id" = i64, Path, description = "The meeting's number")),
    responses(
        (status = 200, description = "The meeting as it is now", body = PresenceMeetingView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"]), ("admin_key" = ["bot"])))]
async fn patch_presence_meeting_inactive(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<PresenceMeetingView>, Problem> {
    deactivate(&state, &caller, id).await
}

async fn deactivate(
    state: &Shared,
    caller: &Caller,
    id: i64,
) -> Result<Json<PresenceMeetingView>, Problem> {
    let scope = caller.reach(TokenScope::Bot)?;
    let meeting = state.presence.deactivate(scope, MeetingId::new(id)).await?;
    Ok(Json((&meeting).into()))
}
