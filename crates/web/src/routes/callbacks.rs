//! What bots report: our own protocol, in which a bot also sends heartbeats and every answer says
//! what is wanted of it.
//!
//! Invariant: nobody reports without the token of the very bot, meeting and attempt. Whoever has
//! none is answered the same whether or not there is such a bot.

use axum::Json;
use axum::extract::State;
use roundsman_core::bots::{BotEvent, BotStatus};
use roundsman_engine::bots::CallbackError;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJson, BotToken, not_this_bot};
use crate::problem::{Code, Problem, sentence};
use crate::state::Shared;
use crate::views::{
    BeatBody, CallbackView, ExitedBody, JoinedBody, ProblemView, StageBody, StartedBody,
};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(bot_started))
        .routes(routes!(bot_joined))
        .routes(routes!(bot_heartbeat))
        .routes(routes!(bot_status))
        .routes(routes!(bot_exited))
}

/// The bot runs.
#[utoipa::path(
    post, path = "/callback/started", tag = "callbacks", operation_id = "bot_started",
    request_body = StartedBody,
    responses(
        (status = 200, description = "What the bot is now, and what is wanted of it", body = CallbackView),
        (status = 404, description = "`not_found`: there is no such bot any more", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`, with the bot's `state`", body = ProblemView, content_type = "application/problem+json"),
        (status = 410, description = "`superseded`: exit", body = ProblemView, content_type = "application/problem+json")),
    security(("bot_key" = []), ("bearer" = [])))]
async fn bot_started(
    State(state): State<Shared>,
    token: BotToken,
    AppJson(body): AppJson<StartedBody>,
) -> Result<Json<CallbackView>, Problem> {
    token.check_meeting(body.meeting_id)?;
    report(&state, &token, &body.connection_id, BotEvent::Started).await
}

/// The bot is in the meeting.
#[utoipa::path(
    post, path = "/callback/joined", tag = "callbacks", operation_id = "bot_joined",
    request_body = JoinedBody,
    responses(
        (status = 200, description = "What the bot is now, and what is wanted of it", body = CallbackView),
        (status = 404, description = "`not_found`: there is no such bot any more", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`, with the bot's `state`", body = ProblemView, content_type = "application/problem+json"),
        (status = 410, description = "`superseded`: exit", body = ProblemView, content_type = "application/problem+json")),
    security(("bot_key" = []), ("bearer" = [])))]
async fn bot_joined(
    State(state): State<Shared>,
    token: BotToken,
    AppJson(body): AppJson<JoinedBody>,
) -> Result<Json<CallbackView>, Problem> {
    report(&state, &token, &body.connection_id, BotEvent::Joined).await
}

/// The bot is alive. To be sent every 30 seconds.
#[utoipa::path(
    post, path = "/callback/heartbeat", tag = "callbacks", operation_id = "bot_heartbeat",
    request_body = BeatBody,
    responses(
        (status = 200, description = "What the bot is now, and what is wanted of it", body = CallbackView),
        (status = 404, description = "`not_found`: there is no such bot any more", body = ProblemView, content_type = "application/problem+json"),
        (status = 410, description = "`bot_over`, with the bot's `state`, or `superseded`: exit", body = ProblemView, content_type = "application/problem+json")),
    security(("bot_key" = []), ("bearer" = [])))]
async fn bot_heartbeat(
    State(state): State<Shared>,
    token: BotToken,
    AppJson(body): AppJson<BeatBody>,
) -> Result<Json<CallbackView>, Problem> {
    let BeatBody { connection_id, media_progress, config_version } = body;
    let beat = state.bots.heartbeat(token.as_str(), &connection_id, media_progress, config_version);
    Ok(Json(CallbackView::of_beat(&beat.await?)))
}

/// The bot is on its way in or out.
#[utoipa::path(
    patch, path = "/callback/status", tag = "callbacks", operation_id = "bot_status",
    request_body = StageBody,
    responses(
        (status = 200, description = "What the bot is now, and what is wanted of it", body = CallbackView),
        (status = 404, description = "`not_found`: there is no such bot any more", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`, with the bot's `state`", body = ProblemView, content_type = "application/problem+json"),
        (status = 410, description = "`superseded`: exit", body = ProblemView, content_type = "application/problem+json")),
    security(("bot_key" = []), ("bearer" = [])))]
async fn bot_status(
    State(state): State<Shared>,
    token: BotToken,
    AppJson(body): AppJson<StageBody>,
) -> Result<Json<CallbackView>, Problem> {
    let event = body.event()?;
    report(&state, &token, &body.connection_id, event).await
}

/// The bot has ended.
#[utoipa::path(
    post, path = "/callback/exited", tag = "callbacks", operation_id = "bot_exited",
    request_body = ExitedBody,
    responses(
        (status = 200, description = "How the bot ended", body = CallbackView),
        (status = 404, description = "`not_found`: there is no such bot any more", body = ProblemView, content_type = "application/problem+json"),
        (status = 410, description = "`superseded`", body = ProblemView, content_type = "application/problem+json")),
    security(("bot_key" = []), ("bearer" = [])))]
async fn bot_exited(
    State(state): State<Shared>,
    token: BotToken,
    AppJson(body): AppJson<ExitedBody>,
) -> Result<Json<CallbackView>, Problem> {
    report(&state, &token, &body.connection_id, body.event()).await
}

/// A report of a bot that sends heartbeats.
async fn report(
    state: &Shared,
    token: &BotToken,
    connection_id: &str,
    event: BotEvent,
) -> Result<Json<CallbackView>, Problem> {
    let record = state.bots.callback(token.as_str(), connection_id, event, true).await?;
    Ok(Json(CallbackView::of_record(&record)))
}

impl From<CallbackError> for Problem {
    fn from(error: CallbackError) -> Self {
        let detail = sentence(&error.to_string());
        match error {
            CallbackError::Denied => not_this_bot(),
            CallbackError::NoSuchBot => Problem::new(Code::NotFound, "Bot not found"),
            CallbackError::Gone { status } => with_state(Code::BotOver, detail, status),
            CallbackError::Superseded => Problem::new(Code::Superseded, detail),
            CallbackError::Refused { current } => with_state(Code::WrongState, detail, current),
            CallbackError::Invalid(errors) => Problem::invalid(errors),
            CallbackError::Store(error) => error.into(),
        }
    }
}

fn with_state(code: Code, detail: String, status: BotStatus) -> Problem {
    let problem = Problem::new(code, detail).with("state", status.as_str());
    problem.with("meeting_status", status.as_vexa(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_does_not_fit_is_told_the_state() {
        let refused = CallbackError::Refused { current: BotStatus::Starting };
        let problem = Problem::from(refused);
        assert_eq!(
            (problem.code, problem.detail.as_str()),
            (Code::WrongState, "The bot is starting.")
        );
        assert_eq!(problem.members["state"], "starting");
        assert_eq!(problem.members["meeting_status"], "joining");
    }
}
