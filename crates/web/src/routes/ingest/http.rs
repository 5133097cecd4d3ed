//! Messages as the bodies of requests.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use serde_json::value::RawValue;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::take;
use crate::extract::{JsonBytes, bearer};
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::{IngestResultView, IngestedListView, IngestedView, MessageShape, ProblemView};

/// Messages in one request.
const MESSAGES_MAX: usize = 1000;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(ingest))
}

/// Tell what was said.
///
/// The body is one message, or a list of up to 1,000, each of which is answered. Several messages of
/// a meeting are taken in their order. A message that was taken may be sent again: what it says is
/// known, and nothing happens.
#[utoipa::path(
    post, path = "/ingest/transcription", tag = "ingest", operation_id = "ingest",
    request_body = MessageShape,
    responses(
        (status = 200, description = "It is stored. A list is answered `{\"results\": […]}`, with `error` and `detail` for those that were not taken", body = IngestedView),
        (status = 401, description = "`unauthorized`: the token is missing or proves nothing, of all messages", body = ProblemView, content_type = "application/problem+json"),
        (status = 422, description = "`invalid_request`: the message cannot be taken, or there is no such meeting", body = ProblemView, content_type = "application/problem+json"),
        (status = 429, description = "`too_many_refusals`", body = ProblemView, content_type = "application/problem+json")),
    security(("meeting_token" = [])))]
async fn ingest(
    State(state): State<Shared>,
    headers: HeaderMap,
    JsonBytes(body): JsonBytes,
) -> Result<Response, Problem> {
    let text = std::str::from_utf8(&body)
        .map_err(|_| Problem::new(Code::InvalidJson, "The body is not UTF-8."))?;
    let bearer = bearer(&headers);
    if !text.trim_ascii_start().starts_with('[') {
        let view: IngestedView = take(&state, text, bearer).await?.into();
        return Ok(Json(view).into_response());
    }
    let messages = list(text)?;
    // Asked for in this order, they are taken in this order, and with few commits.
    let taking = messages.into_iter().map(|message| take(&state, message.get(), bearer));
    let answers = join_all(taking).await;
    all_known(&answers)?;
    let results = answers.into_iter().map(IngestResultView::from).collect();
    Ok(Json(IngestedListView { results }).into_response())
}

/// Each message is only skimmed here; it is read once, by whoever takes it.
fn list(text: &str) -> Result<Vec<&RawValue>, Problem> {
    let messages: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| {
        Problem::new(Code::InvalidJson, format!("The body is not JSON: {error}."))
    })?;
    if messages.len() > MESSAGES_MAX {
        let words = format!("must be at most {MESSAGES_MAX} messages");
        return Err(Problem::field("body", words));
    }
    Ok(messages)
}

/// Whoever knows no token of any meeting is told so, and counted, as with a single message.
fn all_known<T>(answers: &[Result<T, Problem>]) -> Result<(), Problem> {
    let unknown = |answer: &Result<T, Problem>| {
        answer.as_ref().err().filter(|problem| problem.code == Code::Unauthorized).cloned()
    };
    let strangers: Vec<Problem> = answers.iter().filter_map(unknown).collect();
    match strangers.into_iter().next() {
        Some(problem) if answers.iter().all(|answer| unknown(answer).is_some()) => Err(problem),
        _ => Ok(()),
    }
}
