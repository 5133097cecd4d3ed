//! What the provider has told, and how it comes to tell it: for the operator.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppQuery, Caller, IdPath};
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::{InboxEventView, InboxListView, InboxQuery, ProblemView, SubscriptionView};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_inbox))
        .routes(routes!(get_inbox_event))
        .routes(routes!(subscribe_to_provider))
}

/// List events of the provider, newest first, with what became of them.
#[utoipa::path(
    get, path = "/presence/inbox", tag = "presence", operation_id = "list_inbox",
    params(InboxQuery),
    responses((status = 200, description = "A page of events, without what they say", body = InboxListView)),
    security(("admin_key" = []), ("bearer" = [])))]
async fn list_inbox(
    State(state): State<Shared>,
    caller: Caller,
    AppQuery(query): AppQuery<InboxQuery>,
) -> Result<Json<InboxListView>, Problem> {
    caller.require_operator()?;
    let (filter, before, rows_max) = query.check()?;
    let events = state.presence.inbox(filter, before, rows_max).await?;
    Ok(Json(InboxListView::new(events, rows_max)))
}

/// An event of the provider, with what it says.
#[utoipa::path(
    get, path = "/presence/inbox/{id}", tag = "presence", operation_id = "get_inbox_event",
    params(("id" = i64, Path, description = "The event's number")),
    responses(
        (status = 200, description = "The event", body = InboxEventView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("admin_key" = []), ("bearer" = [])))]
async fn get_inbox_event(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<InboxEventView>, Problem> {
    caller.require_operator()?;
    let event = state.presence.inbox_event(id).await?;
    let event = event.ok_or_else(|| Problem::new(Code::NotFound, "Event not found"))?;
    Ok(Json(InboxEventView::whole(event)))
}

/// Have the provider send its events here.
///
/// Makes the subscription, or renews the one that is there: the provider tries at once whether this
/// server answers.
#[utoipa::path(
    post, path = "/presence/subscription", tag = "presence", operation_id = "subscribe_to_provider",
    responses(
        (status = 200, description = "The subscription as the provider has it", body = SubscriptionView),
        (status = 502, description = "`provider_refused`: it could not reach this server, for example", body = ProblemView, content_type = "application/problem+json"),
        (status = 503, description = "`provider_unavailable`; `not_configured`: there is no provider, no secret, or no address at which it can reach this server; and those of every route", body = ProblemView, content_type = "application/problem+json")),
    security(("admin_key" = []), ("bearer" = [])))]
async fn subscribe_to_provider(
    State(state): State<Shared>,
    caller: Caller,
) -> Result<Json<SubscriptionView>, Problem> {
    caller.require_operator()?;
    let made = state.presence.subscribe().await?;
    let made = made.ok_or_else(|| {
        let detail = "Nobody has said where the provider can reach this server.";
        Problem::new(Code::NotConfigured, detail)
    })?;
    Ok(Json(made.into()))
}
