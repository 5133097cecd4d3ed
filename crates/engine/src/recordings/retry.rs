//! Tries once more, every night, what has failed: a periodic job, so that one node does it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobError, Json, KindSpec, Outcome};
use roundsman_core::ports::{Scope, StoreError};
use roundsman_core::recordings::{PROCESS_KIND, RETRY_KIND};

use super::work::RecordingWork;
use crate::jobs::{Handler, HandlerResult, JobContext, periodic_spec};

/// Five in the morning, UTC.
const NIGHT: Duration = Duration::from_secs(5 * 3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Recordings in one transaction, and transactions in one night: what is beyond waits for the next.
const ROWS_PER_STEP_MAX: u32 = 200;
const STEPS_MAX: u32 = 50;

/// The policy of the job.
pub fn retry_spec() -> KindSpec {
    KindSpec { deadline: Some(Duration::from_secs(300)), ..periodic_spec(RETRY_KIND) }
}

/// The next night after an instant.
pub fn next_night(now: Timestamp) -> Timestamp {
    let (day, night) = (micros(DAY), micros(NIGHT));
    let days = (now.as_micros() - night).div_euclid(day) + 1;
    Timestamp::from_micros(days * day + night)
}

pub(super) fn retrier(work: &RecordingWork) -> Arc<dyn Handler> {
    Arc::new(Retrier { work: work.clone() })
}

struct Retrier {
    work: RecordingWork,
}

#[async_trait]
impl Handler for Retrier {
    fn spec(&self) -> KindSpec {
        retry_spec()
    }

    async fn run(&self, _context: JobContext) -> HandlerResult {
        match self.retry_all().await {
            Ok(()) => {
                let at = next_night(self.work.clock.now());
                Outcome::Again { at, payload: Some(Json::null()) }.into()
            }
            Err(error) => {
                let error = JobError::new("storage", error.to_string());
                Outcome::Retry { error, after: None }.into()
            }
        }
    }
}

impl Retrier {
    async fn retry_all(&self) -> Result<(), StoreError> {
        let RecordingWork { recordings, clock, .. } = &self.work;
        let mut all = 0;
        for _ in 0..STEPS_MAX {
            let now = clock.now();
            let rows =
                recordings.retry_recordings(Scope::All, None, ROWS_PER_STEP_MAX, now).await?;
            all += rows;
            self.work.wake(PROCESS_KIND, rows as usize);
            if rows < ROWS_PER_STEP_MAX {
                break;
            }
        }
        if all > 0 {
            tracing::info!(recordings = all, "recordings that have failed are tried again");
        }
        Ok(())
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_night_comes_at_five() {
        let next = |text: &str| next_night(Timestamp::parse_rfc3339(text).unwrap()).to_string();
        for (now, night) in [
            ("2026-01-01T00:00:00Z", "2026-01-01T05:00:00.000000Z"),
            ("2026-01-01T04:59:59.999999Z", "2026-01-01T05:00:00.000000Z"),
            ("2026-01-01T05:00:00Z", "2026-01-02T05:00:00.000000Z"),
            ("2026-12-31T23:00:00Z", "2027-01-01T05:00:00.000000Z"),
            ("1970-01-01T00:00:00Z", "1970-01-01T05:00:00.000000Z"),
        ] {
            assert_eq!(next(now), night, "{now}");
        }
    }
}
