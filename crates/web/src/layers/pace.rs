//! How many requests one token may make.
//!
//! Counted before the token is looked at, so that a flood costs no look into the database, and whether or
//! not the token is valid. What is kept of a token is a hash that leads nowhere.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::extract::sent_token;
use crate::problem::{Code, Problem};
use crate::state::Shared;

/// What a token has not used is saved for this long.
const SAVED: Duration = Duration::from_secs(2);
/// Tokens that are counted at once. Beyond it, those that were quiet are forgotten, and if none was, new
/// ones go uncounted.
const TOKENS_MAX: usize = 20_000;

/// The count of each token: the moment when all that it has used up is paid off.
#[derive(Debug)]
pub(crate) struct Pace {
    /// What one request costs.
    one: Duration,
    hasher: RandomState,
    paid_off_at: Mutex<HashMap<u64, Duration>>,
}

impl Pace {
    /// `None` if there is no limit.
    pub(crate) fn new(requests_per_sec_max: u32) -> Option<Arc<Self>> {
        let one = Duration::from_secs(1).checked_div(requests_per_sec_max)?;
        let (hasher, paid_off_at) = (RandomState::new(), Mutex::default());
        Some(Arc::new(Pace { one, hasher, paid_off_at }))
    }

    /// Counts one at `now`; says how long to wait if it is one too many.
    fn count(&self, token: &str, now: Duration) -> Result<(), Duration> {
        let key = self.hasher.hash_one(token);
        let mut counts = self.paid_off_at.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= TOKENS_MAX && !counts.contains_key(&key) {
            counts.retain(|_, paid_off_at| *paid_off_at > now);
            if counts.len() >= TOKENS_MAX {
                return Ok(());
            }
        }
        let paid_off_at = counts.entry(key).or_default();
        let next = (*paid_off_at).max(now) + self.one;
        let too_far = next.saturating_sub(now + SAVED);
        if too_far > Duration::ZERO {
            return Err(too_far);
        }
        *paid_off_at = next;
        Ok(())
    }
}

pub(crate) async fn pace(
    State((state, pace)): State<(Shared, Arc<Pace>)>,
    request: Request,
    next: Next,
) -> Response {
    let counted = counted(&pace, request.headers(), state.clock.monotonic());
    match counted {
        Ok(()) => next.run(request).await,
        Err(wait) => {
            let secs = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
            let detail = "This token makes more requests than it may.";
            Problem::new(Code::TooManyRequests, detail).retry_after_secs(secs).into_response()
        }
    }
}

fn counted(pace: &Pace, headers: &HeaderMap, now: Duration) -> Result<(), Duration> {
    sent_token(headers).map_or(Ok(()), |token| pace.count(token, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Duration = Duration::from_secs(1000);

    #[test]
    fn a_token_has_what_it_saved_and_then_its_rate() {
        let pace = Pace::new(10).unwrap();
        for _ in 0..20 {
            assert_eq!(pace.count("a", AT), Ok(()));
        }
        assert_eq!(pace.count("a", AT), Err(Duration::from_millis(100)));
        assert_eq!(pace.count("b", AT), Ok(()), "every token has a count of its own");
        assert_eq!(pace.count("a", AT + Duration::from_millis(100)), Ok(()));
        assert!(pace.count("a", AT + Duration::from_millis(100)).is_err());
    }

    #[test]
    fn without_a_limit_nothing_is_counted() {
        assert!(Pace::new(0).is_none());
    }

    #[test]
    fn tokens_are_forgotten_and_never_too_many() {
        let pace = Pace::new(1000).unwrap();
        for number in 0..TOKENS_MAX + 100 {
            assert_eq!(pace.count(&number.to_string(), AT), Ok(()));
        }
        assert_eq!(pace.paid_off_at.lock().unwrap().len(), TOKENS_MAX);
        assert_eq!(pace.count("new", AT + SAVED), Ok(()));
        assert_eq!(pace.paid_off_at.lock().unwrap().len(), 1);
    }
}
