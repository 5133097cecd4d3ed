//! No request takes longer than it may.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::{Code, Problem};
use crate::routes::CLAIM_PATH;
use crate::state::Shared;

/// Answers for a handler that has used up its time, the arrival of the body included. Only a claim
/// waits on purpose, so only a claim gets its waiting time on top.
pub(crate) async fn time_limit(
    State(state): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    let limits = &state.limits;
    let claims = request.uri().path() == CLAIM_PATH;
    let limit = limits.request_max + if claims { limits.claim_wait_max } else { Duration::ZERO };
    tokio::time::timeout(limit, next.run(request)).await.unwrap_or_else(|_| {
        let detail = format!(
            "There was no answer within {} s; a change may or may not have been made.",
            limit.as_secs_f64()
        );
        Problem::new(Code::TimedOut, detail).into_response()
    })
}
