//! Nobody tries bots' tokens by the thousand.
//!
//! Invariant: only refusals count and only refusals are held back, so that no stranger can keep a
//! bot with a valid token from reporting.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::{Code, Problem};
use crate::state::Shared;

/// In the long run one refusal in this time is explained; the others are only told to wait.
const ONE_PER: Duration = Duration::from_secs(1);
/// This much of it may be used up at once: 120 refusals.
const BURST: Duration = Duration::from_secs(120);
/// Where bots call back.
const PREFIXES: [&str; 2] = ["/callback/", "/bots/internal/callback/"];

/// What the refusals so far have used up: the moment when all of it is paid off.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Duration>);

impl Refusals {
    /// Counts one at `now`; says how long to wait if it is one too many.
    fn count(&self, now: Duration) -> Result<(), Duration> {
        let mut paid_off_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = (*paid_off_at).max(now) + ONE_PER;
        let too_far = next.saturating_sub(now + BURST);
        if too_far > Duration::ZERO {
            return Err(too_far);
        }
        *paid_off_at = next;
        Ok(())
    }
}

/// Answers 429 in place of 401 to callbacks, once there were too many of these.
pub(crate) async fn count_refusals(
    State((state, refusals)): State<(Shared, Arc<Refusals>)>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let is_callback = PREFIXES.iter().any(|prefix| path.starts_with(prefix));
    let response = next.run(request).await;
    if !is_callback || response.status() != StatusCode::UNAUTHORIZED {
        return response;
    }
    state.metrics.limit_hit("callback_refused");
    match refusals.count(state.clock.monotonic()) {
        Ok(()) => response,
        Err(wait) => {
            let secs = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
            let detail = "Too many callbacks came without a valid token.";
            Problem::new(Code::TooManyRefusals, detail).retry_after_secs(secs).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_explained_and_then_one_at_a_time() {
        let refusals = Refusals::default();
        let at = Duration::from_secs;
        for _ in 0..120 {
            assert_eq!(refusals.count(at(1000)), Ok(()));
        }
        assert_eq!(refusals.count(at(1000)), Err(at(1)));
        assert_eq!(refusals.count(at(1000)), Err(at(1)), "being held back costs nothing");
        assert_eq!(refusals.count(at(1001)), Ok(()));
        assert_eq!(refusals.count(at(1001)), Err(at(1)));
    }
}
