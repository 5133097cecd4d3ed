//! What generators tell.
//!
//! Invariant: nothing is believed but which task is meant, and that only of a service that is
//! configured here, and signed where the service signs.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, RawQuery, State};
use axum::http::HeaderMap;
use roundsman_core::ports::{Unverified, WebhookDelivery};
use roundsman_engine::tasks::HintError;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::TextPath;
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::{HintView, ProblemView};

/// The largest body that is read: it is only looked into for a name.
const BODY_BYTES_MAX: usize = 1024 * 1024;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(task_webhook)).layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
}

/// A generator's webhook.
///
/// Only says which task is worth a look; the generator is asked what became of it.
#[utoipa::path(
    post, path = "/webhooks/{service}", tag = "tasks", operation_id = "task_webhook",
    params(("service" = String, Path, example = "replicate")),
    request_body = serde_json::Value,
    responses(
        (status = 200, description = "It was heard", body = HintView),
        (status = 401, description = "`unauthorized`: the signature is missing, too old or does not fit", body = ProblemView, content_type = "application/problem+json"),
        (status = 404, description = "`not_found`: there is no such service, or it sends no webhooks", body = ProblemView, content_type = "application/problem+json")),
    security(()))]
async fn task_webhook(
    State(state): State<Shared>,
    TextPath(service): TextPath,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<HintView>, Problem> {
    let too_large = |_| Problem::new(Code::TooLarge, "The body is larger than is read here.");
    let body = body.map_err(too_large)?;
    let headers: Vec<(String, String)> = headers
        .iter()
        .filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        })
        .collect();
    let query = query.unwrap_or_default();
    let delivery = WebhookDelivery { headers: &headers, query: &query, body: &body };
    match state.tasks.hint(&service, &delivery).await {
        Ok(is_known) => Ok(Json(HintView::new(is_known))),
        Err(error) => Err(refusal(error)),
    }
}

fn refusal(error: HintError) -> Problem {
    match error {
        HintError::NoService | HintError::Unverified(Unverified::NoWebhooks) => {
            Problem::new(Code::NotFound, "No such service sends webhooks here.")
        }
        HintError::Unverified(Unverified::NoTask) => {
            Problem::field("body", "names no task of this service")
        }
        HintError::Unverified(Unverified::KeysUnavailable(_)) => {
            Problem::new(Code::ProviderUnavailable, "The service's keys cannot be read now.")
        }
        // In the same words whatever is wrong: who forges a signature learns nothing.
        HintError::Unverified(Unverified::Signature | Unverified::Stale) => {
            Problem::new(Code::Unauthorized, "Sign the body as the service does.")
        }
        HintError::Failed(error) => error.into(),
    }
}
