//! Meetings as Vexa's clients look at them.

use axum::Json;
use axum::extract::State;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{AnonymiseAnswer, BotTarget};
use roundsman_core::users::TokenScope;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AddressPath, AppJson, AppQuery, IdPath, MeetingsCaller};
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::{
    MeetingChangeBody, MeetingListQuery, MeetingListView, MeetingShape, MessageView, ProblemView,
    meeting_view, state_word, vexa_status,
};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_meetings))
        .routes(routes!(get_meeting))
        .routes(routes!(get_latest_meeting, update_meeting, anonymise_meeting))
}

/// List meetings, newest first.
#[utoipa::path(
    get, path = "/meetings", tag = "vexa", operation_id = "list_meetings",
    params(MeetingListQuery),
    responses((status = 200, description = "A page of meetings", body = MeetingListView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn list_meetings(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    AppQuery(query): AppQuery<MeetingListQuery>,
) -> Result<Json<MeetingListView>, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let (filter, page, wanted) = query.check()?;
    let rows = state.bots.meetings(user, filter, page).await?;
    Ok(Json(MeetingListView::new(&rows, page.rows_max, &wanted)))
}

/// One meeting.
#[utoipa::path(
    get, path = "/meetings/{id}", tag = "vexa", operation_id = "get_meeting",
    params(("id" = i64, Path, description = "The meeting's number")),
    responses(
        (status = 200, description = "The meeting", body = MeetingShape),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn get_meeting(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    IdPath(id): IdPath,
) -> Result<Json<Value>, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let row = state.bots.meeting(user, BotTarget::Meeting(MeetingId::new(id))).await?;
    let row = row.ok_or_else(|| Problem::new(Code::NotFound, "Meeting not found"))?;
    Ok(Json(meeting_view(&row)))
}

/// The latest meeting at an address.
#[utoipa::path(
    get, path = "/meetings/{platform}/{native_meeting_id}", tag = "vexa", operation_id = "get_latest_meeting",
    params(
        ("platform" = String, Path, description = "google_meet, zoom, teams or daily", example = "google_meet"),
        ("native_meeting_id" = String, Path, description = "The meeting's id on the platform, or the name of the room", example = "abc-defg-hij")),
    responses(
        (status = 200, description = "The meeting", body = MeetingShape),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn get_latest_meeting(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    address: AddressPath,
) -> Result<Json<Value>, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let row = state.bots.meeting(user, address.target()).await?;
    let row = row.ok_or_else(|| not_found(&address))?;
    Ok(Json(meeting_view(&row)))
}

/// Keep a name, participants, languages or notes with the latest meeting at an address.
#[utoipa::path(
    patch, path = "/meetings/{platform}/{native_meeting_id}", tag = "vexa", operation_id = "update_meeting",
    params(
        ("platform" = String, Path, description = "google_meet, zoom, teams or daily", example = "google_meet"),
        ("native_meeting_id" = String, Path, description = "The meeting's id on the platform, or the name of the room", example = "abc-defg-hij")),
    request_body = MeetingChangeBody,
    responses(
        (status = 200, description = "The meeting as it is now", body = MeetingShape),
        (status = 400, description = "`no_data`: there is nothing to change; `invalid_json`", body = ProblemView, content_type = "application/problem+json"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"])))]
async fn update_meeting(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    address: AddressPath,
    AppJson(body): AppJson<MeetingChangeBody>,
) -> Result<Json<Value>, Problem> {
    let user = caller.require(TokenScope::Bot)?;
    let row = state.bots.merge_data(user, address.target(), body.check()?).await?;
    let row = row.ok_or_else(|| not_found(&address))?;
    Ok(Json(meeting_view(&row)))
}

/// Delete what was said in the latest meeting at an address, and what could name it.
#[utoipa::path(
    delete, path = "/meetings/{platform}/{native_meeting_id}", tag = "vexa", operation_id = "anonymise_meeting",
    params(
        ("platform" = String, Path, description = "google_meet, zoom, teams or daily", example = "google_meet"),
        ("native_meeting_id" = String, Path, description = "The meeting's id on the platform, or the name of the room", example = "abc-defg-hij")),
    responses(
        (status = 200, description = "It is done, now or before", body = MessageView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`: the meeting is not over", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"])))]
async fn anonymise_meeting(
    State(state): State<Shared>,
    caller: MeetingsCaller,
    address: AddressPath,
) -> Result<Json<MessageView>, Problem> {
    let user = caller.require(TokenScope::Bot)?;
    let AddressPath { platform, native_id } = &address;
    let done = match state.bots.anonymise(user, address.target()).await? {
        AnonymiseAnswer::Done => "transcripts deleted and data anonymized",
        AnonymiseAnswer::Already => "transcripts already deleted and data anonymized",
        AnonymiseAnswer::NotOver(row) => {
            let status = vexa_status(&row);
            let detail = format!(
                "Meeting not finalized; cannot delete transcripts. Current status: {status}"
            );
            return Err(Problem::new(Code::WrongState, detail).with("state", state_word(&row)));
        }
        AnonymiseAnswer::NotFound => return Err(not_found(&address)),
    };
    Ok(Json(MessageView { message: format!("Meeting {platform}/{native_id} {done}") }))
}

fn not_found(address: &AddressPath) -> Problem {
    let AddressPath { platform, native_id } = address;
    let detail = format!("Meeting not found for platform {platform} and ID {native_id}");
    Problem::new(Code::NotFound, detail)
}
