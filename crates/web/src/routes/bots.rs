//! Bots: starting and stopping them, changing what they transcribe, and seeing those that are live.
//!
//! Invariant: nothing here changes what a bot is. A start reserves, a stop and a configuration are
//! wishes; the bot itself, or proof that it is gone, changes its state.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use roundsman_core::bots::meeting_body;
use roundsman_core::ports::{ConfigAnswer, MeetingFilter, StopAnswer};
use roundsman_core::users::TokenScope;
use roundsman_engine::bots::StartError;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJson, AppQuery, Caller};
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::{
    ActiveBotsView, ConfigView, MeetingShape, PageQuery, ProblemView, StartBody, StopBody,
    StopView, TargetConfigBody, state_word,
};

/// What has always been said to a stop that was taken.
pub(super) const STOP_TAKEN: &str = "Stop request accepted and is being processed.";
/// And to a new configuration.
pub(super) const CONFIG_TAKEN: &str = "Reconfiguration request accepted and sent to the bot.";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(start_bot))
        .routes(routes!(stop_bot))
        .routes(routes!(configure_bot))
        .routes(routes!(list_active_bots))
}

/// Send a bot into a meeting.
///
/// Reserves one of the user's slots; the bot is launched at once and reports how far it is.
#[utoipa::path(
    post, path = "/bots/start", tag = "bots", operation_id = "start_bot",
    request_body = StartBody,
    responses(
        (status = 201, description = "The meeting, with its bot reserved", body = MeetingShape),
        (status = 409, description = "`already_live`: the user has a live bot in this meeting", body = ProblemView, content_type = "application/problem+json"),
        (status = 429, description = "`bot_limit_reached`: nothing was reserved", body = ProblemView, content_type = "application/problem+json",
            headers(("Retry-After" = u32, description = "Seconds")))),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"])))]
async fn start_bot(
    State(state): State<Shared>,
    caller: Caller,
    AppJson(body): AppJson<StartBody>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let user = caller.require_user(TokenScope::Bot)?;
    let record = state.bots.start(user, body.try_into()?).await?;
    Ok((StatusCode::CREATED, Json(meeting_body(&record.meeting, Some(&record.bot)))))
}

/// Ask a bot to leave.
///
/// The wish is kept and repeated until the bot has left; a bot that does not hear it is ended.
#[utoipa::path(
    post, path = "/bots/stop", tag = "bots", operation_id = "stop_bot",
    request_body = StopBody,
    responses(
        (status = 202, description = "The wish was taken, or the bot is over already", body = StopView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"])))]
async fn stop_bot(
    State(state): State<Shared>,
    caller: Caller,
    AppJson(body): AppJson<StopBody>,
) -> Result<(StatusCode, Json<StopView>), Problem> {
    let user = caller.require_user(TokenScope::Bot)?;
    let view = match state.bots.stop(user, body.try_into()?).await? {
        StopAnswer::Wished(records) => StopView::wished(STOP_TAKEN, &records),
        StopAnswer::Over(row) => StopView::over(&row),
        StopAnswer::NotFound => return Err(no_such_meeting()),
    };
    Ok((StatusCode::ACCEPTED, Json(view)))
}

/// Change what a bot transcribes.
///
/// The wish has a version; of several the bot applies the highest.
#[utoipa::path(
    put, path = "/bots/config", tag = "bots", operation_id = "configure_bot",
    request_body = TargetConfigBody,
    responses(
        (status = 202, description = "The wish was taken", body = ConfigView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`: the bot is over", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"])))]
async fn configure_bot(
    State(state): State<Shared>,
    caller: Caller,
    AppJson(body): AppJson<TargetConfigBody>,
) -> Result<(StatusCode, Json<ConfigView>), Problem> {
    let user = caller.require_user(TokenScope::Bot)?;
    let (target, change) = body.check()?;
    match state.bots.configure(user, target, change).await? {
        ConfigAnswer::Wished(record) => {
            Ok((StatusCode::ACCEPTED, Json(ConfigView::new(CONFIG_TAKEN, &record))))
        }
        ConfigAnswer::WrongState(row) => {
            let current = state_word(&row);
            let detail = format!("The bot is {current}.");
            Err(Problem::new(Code::WrongState, detail).with("state", current))
        }
        ConfigAnswer::NotFound => Err(no_such_meeting()),
    }
}

/// List live bots, newest first.
#[utoipa::path(
    get, path = "/bots/active", tag = "bots", operation_id = "list_active_bots",
    params(PageQuery),
    responses((status = 200, description = "A page of live bots", body = ActiveBotsView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn list_active_bots(
    State(state): State<Shared>,
    caller: Caller,
    AppQuery(query): AppQuery<PageQuery>,
) -> Result<Json<ActiveBotsView>, Problem> {
    let user = caller.require_user(TokenScope::Read)?;
    let page = query.check()?;
    let filter = MeetingFilter { live: true, ..MeetingFilter::default() };
    let rows = state.bots.meetings(user, filter, page).await?;
    Ok(Json(ActiveBotsView::new(&rows, page.rows_max)))
}

fn no_such_meeting() -> Problem {
    Problem::new(Code::NotFound, "Meeting not found")
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Invalid(errors) => Problem::invalid(errors),
            // A token whose user is gone is no token.
            StartError::NoSuchUser => Problem::unauthorized(),
            StartError::LimitReached { live, max } => {
                let detail = format!("User has reached the maximum concurrent bot limit ({max}).");
                Problem::new(Code::BotLimitReached, detail).with("live", live).with("max", max)
            }
            StartError::AlreadyLive { meeting } => {
                let detail = format!("Meeting {meeting} is the same one and has a live bot.");
                Problem::new(Code::AlreadyLive, detail).with("meeting_id", meeting.get())
            }
            StartError::Store(error) => error.into(),
        }
    }
}
