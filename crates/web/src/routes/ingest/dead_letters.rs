//! Messages that could not be taken, for the operator.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AppQuery, Caller, IdPath};
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::{DeadLetterListView, IngestedView, PageQuery, ProblemView};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_dead_letters))
        .routes(routes!(replay_dead_letter))
        .routes(routes!(delete_dead_letter))
}

/// List messages that could not be taken, newest first.
///
/// A page ends early where its messages are large together.
#[utoipa::path(
    get, path = "/ingest/dead-letters", tag = "ingest", operation_id = "list_dead_letters",
    params(PageQuery),
    responses((status = 200, description = "A page of messages", body = DeadLetterListView)),
    security(("admin_key" = []), ("bearer" = [])))]
async fn list_dead_letters(
    State(state): State<Shared>,
    caller: Caller,
    AppQuery(query): AppQuery<PageQuery>,
) -> Result<Json<DeadLetterListView>, Problem> {
    caller.require_operator()?;
    let (before, rows_max) = query.check_plain()?;
    let page = state.transcripts.dead_letters(before, rows_max).await?;
    Ok(Json(page.into()))
}

/// Try to take a message again. If it is taken, it is deleted here.
#[utoipa::path(
    post, path = "/ingest/dead-letters/{id}/replay", tag = "ingest", operation_id = "replay_dead_letter",
    params(("id" = i64, Path, description = "The message's number")),
    responses(
        (status = 200, description = "It was taken", body = IngestedView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json"),
        (status = 422, description = "`invalid_request`: it still cannot be taken", body = ProblemView, content_type = "application/problem+json")),
    security(("admin_key" = []), ("bearer" = [])))]
async fn replay_dead_letter(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<IngestedView>, Problem> {
    caller.require_operator()?;
    let replayed = state.transcripts.replay_dead_letter(id).await;
    let ingested = replayed.map_err(|error| {
        let problem = Problem::from(error);
        if problem.code != Code::Unauthorized {
            return problem;
        }
        // It is the message's token that proves nothing, not the operator's.
        Problem::new(Code::InvalidRequest, "The message's token is missing or not valid.")
    })?;
    Ok(Json(ingested.ok_or_else(no_such_letter)?.into()))
}

/// Delete a message that could not be taken.
#[utoipa::path(
    delete, path = "/ingest/dead-letters/{id}", tag = "ingest", operation_id = "delete_dead_letter",
    params(("id" = i64, Path, description = "The message's number")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("admin_key" = []), ("bearer" = [])))]
async fn delete_dead_letter(
    State(state): State<Shared>,
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<StatusCode, Problem> {
    caller.require_operator()?;
    if state.transcripts.delete_dead_letter(id).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(no_such_letter())
}

fn no_such_letter() -> Problem {
    Problem::new(Code::NotFound, "Message not found")
}
