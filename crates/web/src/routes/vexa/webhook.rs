//! Where a user wants to be told of their meetings.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use roundsman_core::users::TokenScope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AccountCaller, AppJson, AppQuery, TextPath};
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::{
    DeliveriesView, PageQuery, ProblemView, ReplayView, WebhookBody, WebhookUserView, WebhookView,
};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(set_webhook, get_webhook))
        .routes(routes!(list_deliveries))
        .routes(routes!(replay_delivery))
}

/// Set, change or take away the user's webhook.
///
/// Without a secret of the user's own the first one is made here and is in this answer only.
#[utoipa::path(
    put, path = "/user/webhook", tag = "webhooks", operation_id = "set_webhook",
    request_body = WebhookBody,
    responses((status = 200, description = "The user", body = WebhookUserView)),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"])))]
async fn set_webhook(
    State(state): State<Shared>,
    caller: AccountCaller,
    AppJson(body): AppJson<WebhookBody>,
) -> Result<Json<WebhookUserView>, Problem> {
    let user = caller.require(TokenScope::Bot)?;
    let had = state.webhooks.endpoint(user).await?;
    let had_secret = had.is_some_and(|endpoint| endpoint.secret.is_some());
    let makes_one = body.leaves_the_secret_to_us() && !had_secret;
    let (user, endpoint) = state.webhooks.set_endpoint(user, body.try_into()?).await?;
    let made = endpoint.as_ref().filter(|_| makes_one);
    Ok(Json(WebhookUserView::new(&user, made)))
}

/// The user's webhook.
#[utoipa::path(
    get, path = "/user/webhook", tag = "webhooks", operation_id = "get_webhook",
    responses((status = 200, description = "Where the user is told, without the secret", body = WebhookView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn get_webhook(
    State(state): State<Shared>,
    caller: AccountCaller,
) -> Result<Json<WebhookView>, Problem> {
    let user = caller.require(TokenScope::Read)?;
    Ok(Json(state.webhooks.endpoint(user).await?.into()))
}

/// List events with every try to deliver them, newest first.
#[utoipa::path(
    get, path = "/user/webhook/deliveries", tag = "webhooks", operation_id = "list_deliveries",
    params(PageQuery),
    responses((status = 200, description = "A page of events", body = DeliveriesView)),
    security(("api_key" = ["read"]), ("bearer" = ["read"])))]
async fn list_deliveries(
    State(state): State<Shared>,
    caller: AccountCaller,
    AppQuery(query): AppQuery<PageQuery>,
) -> Result<Json<DeliveriesView>, Problem> {
    let user = caller.require(TokenScope::Read)?;
    let (before, rows_max) = query.check_plain()?;
    let events = state.webhooks.deliveries(user, before, rows_max).await?;
    Ok(Json(DeliveriesView::new(&events, rows_max)))
}

/// Deliver an event once more, under its own id.
#[utoipa::path(
    post, path = "/user/webhook/deliveries/{event_id}/replay", tag = "webhooks", operation_id = "replay_delivery",
    params(("event_id" = String, Path, description = "The event's id", example = "evt_2c26b46b68ffc68ff99b453c1d304134")),
    responses(
        (status = 202, description = "It will be sent", body = ReplayView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("api_key" = ["bot"]), ("bearer" = ["bot"])))]
async fn replay_delivery(
    State(state): State<Shared>,
    caller: AccountCaller,
    TextPath(event_id): TextPath,
) -> Result<(StatusCode, Json<ReplayView>), Problem> {
    let user = caller.require(TokenScope::Bot)?;
    if !state.webhooks.replay(user, &event_id).await? {
        return Err(Problem::new(Code::NotFound, "Event not found"));
    }
    let message = "The event will be delivered again.";
    Ok((StatusCode::ACCEPTED, Json(ReplayView { message, event_id })))
}
