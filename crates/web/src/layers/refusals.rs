//! Nobody tries bots' tokens, meetings' tokens, links' secrets or signatures by the thousand.
//!
//! Invariant: only refusals count and only refusals are held back, so that no stranger can keep a
//! bot with a valid token from reporting, somebody with a link from reading, or Daily from telling.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::shown_path::PUBLIC_TRANSCRIPTS;
use crate::problem::{Code, Problem};
use crate::routes::{DAILY_WEBHOOK, DAILY_WEBHOOK_AS_KNOWN};
use crate::state::Shared;

/// In the long run one refusal in this time is explained; the others are only told to wait.
const ONE_PER: Duration = Duration::from_secs(1);
/// This much of it may be used up at once: 120 refusals.
const BURST: Duration = Duration::from_secs(120);

/// Where secrets are tried, and what a wrong one is answered.
struct Door {
    prefixes: &'static [&'static str],
    refusal: StatusCode,
    metric: &'static str,
}

const DOORS: [Door; 4] = [
    // Where bots call back.
    Door {
        prefixes: &["/callback/", "/bots/internal/callback/"],
        refusal: StatusCode::UNAUTHORIZED,
        metric: "callback_refused",
    },
    Door { prefixes: &["/ingest/"], refusal: StatusCode::UNAUTHORIZED, metric: "ingest_refused" },
    // A link that does not hold is no different from one that never was.
    Door {
        prefixes: &[PUBLIC_TRANSCRIPTS],
        refusal: StatusCode::NOT_FOUND,
        metric: "share_refused",
    },
    Door {
        prefixes: &[DAILY_WEBHOOK, DAILY_WEBHOOK_AS_KNOWN],
        refusal: StatusCode::UNAUTHORIZED,
        metric: "daily_refused",
    },
];

/// What the refusals so far have used up, for each door: the moment when all of it is paid off.
#[derive(Debug, Default)]
pub(crate) struct Refusals([Mutex<Duration>; DOORS.len()]);

impl Refusals {
    /// Counts one at `now`; says how long to wait if it is one too many.
    fn count(&self, door: usize, now: Duration) -> Result<(), Duration> {
        let mut paid_off_at = self.0[door].lock().unwrap_or_else(PoisonError::into_inner);
        let next = (*paid_off_at).max(now) + ONE_PER;
        let too_far = next.saturating_sub(now + BURST);
        if too_far > Duration::ZERO {
            return Err(too_far);
        }
        *paid_off_at = next;
        Ok(())
    }
}

/// Answers 429 in place of a refusal, once there were too many of these.
pub(crate) async fn count_refusals(
    State((state, refusals)): State<(Shared, Arc<Refusals>)>,
    request: Request,
    next: Next,
) -> Response {
    let door = door_at(request.uri().path());
    let response = next.run(request).await;
    let Some(door) = door.filter(|door| response.status() == DOORS[*door].refusal) else {
        return response;
    };
    state.metrics.limit_hit(DOORS[door].metric);
    match refusals.count(door, state.clock.monotonic()) {
        Ok(()) => response,
        Err(wait) => {
            let secs = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
            let detail = "Too many requests came here without a valid token.";
            Problem::new(Code::TooManyRefusals, detail).retry_after_secs(secs).into_response()
        }
    }
}

fn door_at(path: &str) -> Option<usize> {
    let leads = |door: &Door| door.prefixes.iter().any(|prefix| path.starts_with(prefix));
    DOORS.iter().position(leads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_explained_and_then_one_at_a_time() {
        let refusals = Refusals::default();
        let at = Duration::from_secs;
        for _ in 0..120 {
            assert_eq!(refusals.count(0, at(1000)), Ok(()));
        }
        assert_eq!(refusals.count(0, at(1000)), Err(at(1)));
        assert_eq!(refusals.count(0, at(1000)), Err(at(1)), "being held back costs nothing");
        assert_eq!(refusals.count(1, at(1000)), Ok(()), "every door has a count of its own");
        assert_eq!(refusals.count(0, at(1001)), Ok(()));
        assert_eq!(refusals.count(0, at(1001)), Err(at(1)));
    }

    #[test]
    fn doors_are_known_by_their_paths() {
        assert_eq!(door_at("/callback/started"), Some(0));
        assert_eq!(door_at("/ingest/transcription"), Some(1));
        assert_eq!(door_at("/public/transcripts/x.txt"), Some(2));
        assert_eq!(door_at("/webhooks/daily"), Some(3));
        assert_eq!(door_at("/v1/daily/webhook"), Some(3));
        assert_eq!(door_at("/jobs"), None);
    }
}
