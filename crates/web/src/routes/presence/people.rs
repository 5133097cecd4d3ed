//! What those who come and go say themselves, and the tokens with which they may come.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use roundsman_core::bots::MeetingId;
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJson, Caller, IdPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{
    ConnectionBody, DoneView, JoiningView, ProblemView, RoomTokenBody, RoomTokenView,
};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(presence_joining))
        .routes(routes!(presence_joined))
        .routes(routes!(presence_leave))
        .routes(routes!(create_room_token))
}

/// Somebody is on their way into a meeting.
///
/// For a moment the provider shows neither who leaves nor who comes back: while somebody is expected,
/// the meeting does not end for want of people.
#[utoipa::path(
    post, path = "/presence/meetings/{id}/joining", tag = "presence", operation_id = "presence_joining",
    params(("id" = i64, Path, description = "The meeting's number")),
    request_body = ConnectionBody,
    responses(
        (status = 200, description = "Until when they are expected", body = JoiningView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`: the meeting is over", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"]), ("admin_key" = ["bot"])))]
async fn presence_joining(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
    AppJson(body): AppJson<ConnectionBody>,
) -> Result<Json<JoiningView>, Problem> {
    let scope = caller.reach(TokenScope::Bot)?;
    let id = MeetingId::new(id);
    let joining_until = state.presence.joining(scope, id, &body.connection_id).await?;
    Ok(Json(JoiningView { meeting_id: id.get(), joining_until }))
}

/// Somebody says to be in a meeting: the room is looked at.
#[utoipa::path(
    post, path = "/presence/meetings/{id}/joined", tag = "presence", operation_id = "presence_joined",
    params(("id" = i64, Path, description = "The meeting's number")),
    request_body = ConnectionBody,
    responses(
        (status = 202, description = "Somebody will look", body = DoneView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`: the meeting is over", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"]), ("admin_key" = ["bot"])))]
async fn presence_joined(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
    AppJson(body): AppJson<ConnectionBody>,
) -> Result<(StatusCode, Json<DoneView>), Problem> {
    let scope = caller.reach(TokenScope::Bot)?;
    state.presence.joined(scope, MeetingId::new(id), &body.connection_id).await?;
    Ok((StatusCode::ACCEPTED, Json(DoneView::OK)))
}

/// Somebody says to have left a meeting: the room is looked at.
#[utoipa::path(
    post, path = "/presence/meetings/{id}/leave", tag = "presence", operation_id = "presence_leave",
    params(("id" = i64, Path, description = "The meeting's number")),
    request_body = ConnectionBody,
    responses(
        (status = 202, description = "Somebody will look", body = DoneView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`: the meeting is over", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"]), ("admin_key" = ["bot"])))]
async fn presence_leave(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
    AppJson(body): AppJson<ConnectionBody>,
) -> Result<(StatusCode, Json<DoneView>), Problem> {
    let scope = caller.reach(TokenScope::Bot)?;
    state.presence.left(scope, MeetingId::new(id), &body.connection_id).await?;
    Ok((StatusCode::ACCEPTED, Json(DoneView::OK)))
}

/// Make a token with which one person may join a meeting.
#[utoipa::path(
    post, path = "/presence/meetings/{id}/tokens", tag = "presence", operation_id = "create_room_token",
    params(("id" = i64, Path, description = "The meeting's number")),
    request_body = RoomTokenBody,
    responses(
        (status = 201, description = "The provider's token", body = RoomTokenView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`: the meeting is over", body = ProblemView, content_type = "application/problem+json"),
        (status = 502, description = "`provider_refused`: it makes no such token", body = ProblemView, content_type = "application/problem+json"),
        (status = 503, description = "`provider_unavailable`; `not_configured`: there is nobody to make tokens; and those of every route", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"]), ("admin_key" = ["bot"])))]
async fn create_room_token(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
    AppJson(body): AppJson<RoomTokenBody>,
) -> Result<(StatusCode, Json<RoomTokenView>), Problem> {
    let scope = caller.reach(TokenScope::Bot)?;
    let token = state.presence.token(scope, MeetingId::new(id), body.into()).await?;
    Ok((StatusCode::CREATED, Json(RoomTokenView { meeting_id: id, token })))
}
