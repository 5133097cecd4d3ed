//! Bots as Vexa's clients ask for them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use roundsman_core::bots::meeting_body;
use roundsman_core::ports::{ConfigAnswer, MeetingFilter, StopAnswer};
use roundsman_core::users::TokenScope;
use roundsman_engine::bots::{StartError, StartWish};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AddressPath, AppJson, AppQuery, BotsCaller};
use crate::problem::{Code, Problem};
use crate::routes::bots::{CONFIG_TAKEN, STOP_TAKEN};
use crate::state::Shared;
use crate::views::{
    BotStatusesView, ConfigBody, ConfigView, MeetingShape, PageQuery, ProblemView, StartBody,
    StopView, state_word, vexa_status,
};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(request_bot))
        .routes(routes!(bots_status))
        .routes(routes!(remove_bot))
        .routes(routes!(reconfigure_bot))
}

/// Send a bot into a meeting, as in Vexa.
#[utoipa::path(
    post, path = "/bots", tag = "vexa", operation_id = "request_bot",
    request_body = StartBody,
    responses(
        (status = 201, description = "The meeting, with its bot requested", body = MeetingShape),
        (status = 403, description = "`forbidden`; `bot_limit_reached`: nothing was reserved", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`already_live`: the user has a live bot in this meeting", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"])))]
async fn request_bot(
    State(state): State<Shared>,
    caller: BotsCaller,
    AppJson(body): AppJson<StartBody>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let user = caller.require(TokenScope::Bot)?;
    let wish: StartWish = body.try_into()?;
    let (platform, native_id) = (wish.platform.clone(), wish.native_meeting_id.clone());
    match state.bots.start(user, wish).await {
        Ok(record) => {
            Ok((StatusCode::CREATED, Json(meeting_body(&record.meeting, Some(&record.bot)))))
        }
        Err(StartError::NoSuchUser) => Err(BotsCaller::refusal()),
        Err(error @ StartError::LimitReached { .. }) => {
            Err(Problem::from(error).told_as(StatusCode::FORBIDDEN))
        }
        Err(error @ StartError::AlreadyLive { .. }) => {
            let detail = format!(
                "An active or requested meeting already exists for this platform and meeting ID. \
                 Platform: {platform}, Native Meeting ID: {native_id}"
            );
            let mut problem = Problem::from(error);
            problem.detail = detail;
            Err(problem)
        }
        Err(error) => Err(error.into()),
    }
}

/// The live bots, from the table alone.
#[utoipa::path(
    get, path = "/bots/status", tag = "vexa", operation_id = "bots_status",
    params(PageQuery),
    responses((status = 200, description = "A page of live bots, newest first", body = BotStatusesView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn bots_status(
    State(state): State<Shared>,
    caller: BotsCaller,
    AppQuery(query): AppQuery<PageQuery>,
) -> Result<Json<BotStatusesView>, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let page = query.check()?;
    let filter = MeetingFilter { live: true, ..MeetingFilter::default() };
    let rows = state.bots.meetings(user, filter, page).await?;
    Ok(Json(BotStatusesView::new(&rows, page.rows_max)))
}

/// Ask every live bot in a meeting to leave.
#[utoipa::path(
    delete, path = "/bots/{platform}/{native_meeting_id}", tag = "vexa", operation_id = "remove_bot",
    params(
        ("platform" = String, Path, description = "google_meet, zoom or teams", example = "google_meet"),
        ("native_meeting_id" = String, Path, description = "The meeting's id on the platform", example = "abc-defg-hij")),
    responses(
        (status = 202, description = "The wish was taken, or the bot is over already", body = StopView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"])))]
async fn remove_bot(
    State(state): State<Shared>,
    caller: BotsCaller,
    address: AddressPath,
) -> Result<(StatusCode, Json<StopView>), Problem> {
    let user = caller.require(TokenScope::Bot)?;
    let view = match state.bots.stop(user, address.bot_target()?).await? {
        StopAnswer::Wished(records) => StopView::wished(STOP_TAKEN, &records),
        StopAnswer::Over(row) => StopView::over(&row),
        StopAnswer::NotFound => {
            return Err(Problem::new(Code::NotFound, "No meeting found to stop."));
        }
    };
    Ok((StatusCode::ACCEPTED, Json(view)))
}

/// Change what the bot in a meeting transcribes.
#[utoipa::path(
    put, path = "/bots/{platform}/{native_meeting_id}/config", tag = "vexa", operation_id = "reconfigure_bot",
    params(
        ("platform" = String, Path, description = "google_meet, zoom or teams", example = "google_meet"),
        ("native_meeting_id" = String, Path, description = "The meeting's id on the platform", example = "abc-defg-hij")),
    request_body = ConfigBody,
    responses(
        (status = 202, description = "The wish was taken", body = ConfigView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`: the bot is not in the meeting", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"])))]
async fn reconfigure_bot(
    State(state): State<Shared>,
    caller: BotsCaller,
    address: AddressPath,
    AppJson(body): AppJson<ConfigBody>,
) -> Result<(StatusCode, Json<ConfigView>), Problem> {
    let user = caller.require(TokenScope::Bot)?;
    match state.bots.configure(user, address.bot_target()?, body.into()).await? {
        ConfigAnswer::Wished(record) => {
            Ok((StatusCode::ACCEPTED, Json(ConfigView::new(CONFIG_TAKEN, &record))))
        }
        ConfigAnswer::WrongState(row) => {
            let status = vexa_status(&row);
            let detail = format!(
                "Meeting found but is not active (status: '{status}'). Cannot reconfigure."
            );
            Err(Problem::new(Code::WrongState, detail).with("state", state_word(&row)))
        }
        ConfigAnswer::NotFound => {
            let AddressPath { platform, native_id } = address;
            let detail = format!(
                "No active meeting found for platform {platform} and meeting ID {native_id}."
            );
            Err(Problem::new(Code::NotFound, detail))
        }
    }
}
