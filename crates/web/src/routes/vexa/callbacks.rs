//! What stock Vexa bots report. They send no heartbeats and cannot be given a header, so the
//! address they are handed has their token in it.
//!
//! Invariant: the answer to a report that was taken, or was known already, has a `status` that
//! stock bots accept; otherwise they would send it three times.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppJson, BotToken, PathBotToken, TextPath};
use crate::problem::Problem;
use crate::state::Shared;
use crate::views::{CallbackView, ProblemView, VexaCallbackBody};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(vexa_callback)).routes(routes!(vexa_callback_by_address))
}

/// A stock bot's report, with the token in a header.
///
/// Events: `started`, `joining`, `awaiting_admission`, `status_change`, `exited`.
#[utoipa::path(
    post, path = "/bots/internal/callback/{event}", tag = "callbacks", operation_id = "vexa_callback",
    params(("event" = String, Path, description = "What happened", example = "status_change")),
    request_body = VexaCallbackBody,
    responses(
        (status = 200, description = "What the bot is now", body = CallbackView),
        (status = 404, description = "`not_found`: there is no such bot or callback", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`, with the bot's `state`", body = ProblemView, content_type = "application/problem+json"),
        (status = 410, description = "`superseded`", body = ProblemView, content_type = "application/problem+json")),
    security(("bot_key" = []), ("bearer" = [])))]
async fn vexa_callback(
    State(state): State<Shared>,
    token: BotToken,
    TextPath(event): TextPath,
    AppJson(body): AppJson<VexaCallbackBody>,
) -> Result<Json<CallbackView>, Problem> {
    report(&state, &token, &event, &body).await
}

/// A stock bot's report, with the token in the address.
#[utoipa::path(
    post, path = "/bots/internal/callback/{token}/{event}", tag = "callbacks", operation_id = "vexa_callback_by_address",
    params(
        ("token" = String, Path, description = "The bot's token"),
        ("event" = String, Path, description = "What happened", example = "status_change")),
    request_body = VexaCallbackBody,
    responses(
        (status = 200, description = "What the bot is now", body = CallbackView),
        (status = 404, description = "`not_found`: there is no such bot or callback", body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`wrong_state`, with the bot's `state`", body = ProblemView, content_type = "application/problem+json"),
        (status = 410, description = "`superseded`", body = ProblemView, content_type = "application/problem+json")),
    security(("bot_key" = [])))]
async fn vexa_callback_by_address(
    State(state): State<Shared>,
    PathBotToken(token, event): PathBotToken,
    AppJson(body): AppJson<VexaCallbackBody>,
) -> Result<Json<CallbackView>, Problem> {
    report(&state, &token, &event, &body).await
}

/// A report of a bot that sends no heartbeats.
async fn report(
    state: &Shared,
    token: &BotToken,
    event: &str,
    body: &VexaCallbackBody,
) -> Result<Json<CallbackView>, Problem> {
    let event = body.event(event)?;
    let record = state.bots.callback(token.as_str(), &body.connection_id, event, false).await?;
    Ok(Json(CallbackView::of_record(&record)))
}
