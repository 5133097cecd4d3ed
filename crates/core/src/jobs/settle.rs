//! What follows from the end of a run: the job is over, or waits again.

use super::{
    CancelCause, FinishedJob, FinishedState, JobError, Outcome, Rescue, RetryPolicy, Run,
    RunOutcome, RunningJob, WaitingJob,
};
use crate::Timestamp;

/// Where a run that ended leaves its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disposition {
    Finish(FinishedJob),
    /// It waits again. If its key has a waiting job by now, the two are folded: see [`fold()`](super::fold()).
    Requeue(WaitingJob),
}

/// The end of a run as its holder reported it. `jitter` is a random number for the backoff.
pub fn settle(
    job: RunningJob,
    outcome: Outcome,
    retry: RetryPolicy,
    jitter: u64,
    now: Timestamp,
) -> Disposition {
    let cancelled = job.cancel_requested;
    match outcome {
        Outcome::Done { result } => {
            let job = logged(job, RunOutcome::Done, None, now);
            finish(job, FinishedState::Completed { result }, now)
        }
        Outcome::Fail { error } => {
            let job = logged(job, RunOutcome::Failed, Some(error.clone()), now);
            finish(job, FinishedState::Failed { error }, now)
        }
        Outcome::Cancelled => cancel(job, now),
        Outcome::Again { .. } | Outcome::Retry { .. } | Outcome::Release if cancelled => {
            cancel(job, now)
        }
        Outcome::Again { at, payload } => {
            let mut job = logged(job, RunOutcome::Again, None, now);
            job.facts.attempt = 0;
            if let Some(payload) = payload {
                job.facts.payload = payload;
            }
            requeue(job, at, None)
        }
        Outcome::Release => {
            let mut job = logged(job, RunOutcome::Released, None, now);
            job.facts.attempt = job.facts.attempt.saturating_sub(1);
            let run_at = job.facts.run_at;
            requeue(job, run_at, None)
        }
        Outcome::Retry { error, after } => {
            let wait = after.unwrap_or_else(|| retry.wait(job.facts.attempt, jitter));
            failed_attempt(job, RunOutcome::Retry, error, now + wait, now)
        }
    }
}

/// The end of a run that its holder did not report.
pub fn rescue(
    job: RunningJob,
    why: Rescue,
    retry: RetryPolicy,
    jitter: u64,
    now: Timestamp,
) -> Disposition {
    if job.cancel_requested {
        return cancel(job, now);
    }
    let attempt = job.facts.attempt;
    match why {
        Rescue::LeaseExpired | Rescue::OwnerGone => {
            // The wait for the lease was a backoff already. Only what is tried without limit must
            // slow down further, or it would kill worker after worker for ever.
            let wait = match job.facts.max_attempts {
                Some(_) => std::time::Duration::ZERO,
                None => retry.wait(attempt.saturating_sub(1), jitter),
            };
            let error = JobError::new(
                "crashed",
                format!(
                    "worker {} stopped reporting; attempt {attempt}",
                    job.lease.worker.as_str()
                ),
            );
            failed_attempt(job, RunOutcome::LeaseExpired, error, now + wait, now)
        }
        Rescue::DeadlineExceeded => {
            let error = JobError::new(
                "deadline_exceeded",
                format!("attempt {attempt} ran longer than its kind allows"),
            );
            let next = now + retry.wait(attempt, jitter);
            failed_attempt(job, RunOutcome::DeadlineExceeded, error, next, now)
        }
    }
}

/// A finished job that a person wants tried anew: all attempts are before it again.
pub fn retry_by_hand(job: FinishedJob, now: Timestamp) -> WaitingJob {
    let mut facts = job.facts;
    facts.attempt = 0;
    facts.run_at = now;
    facts.triggered_at = now;
    WaitingJob { facts, not_before: None }
}

fn failed_attempt(
    job: RunningJob,
    outcome: RunOutcome,
    error: JobError,
    next_at: Timestamp,
    now: Timestamp,
) -> Disposition {
    let used_up = job.facts.attempts_used_up();
    let job = logged(job, outcome, Some(error.clone()), now);
    if used_up {
        return finish(job, FinishedState::Failed { error: final_error(error, outcome) }, now);
    }
    requeue(job, next_at, Some(next_at))
}

/// A job that only ever crashed says how often, because the last crash alone looks like bad luck.
fn final_error(error: JobError, outcome: RunOutcome) -> JobError {
    match outcome {
        RunOutcome::LeaseExpired => JobError::new("crashed", format!("{}; gave up", error.message)),
        _ => error,
    }
}

fn cancel(job: RunningJob, now: Timestamp) -> Disposition {
    let job = logged(job, RunOutcome::Cancelled, None, now);
    finish(job, FinishedState::Cancelled { cause: CancelCause::Requested }, now)
}

fn finish(job: RunningJob, state: FinishedState, now: Timestamp) -> Disposition {
    let RunningJob { facts, progress, .. } = job;
    Disposition::Finish(FinishedJob { facts, state, finished_at: now, progress })
}

fn requeue(job: RunningJob, run_at: Timestamp, not_before: Option<Timestamp>) -> Disposition {
    let mut facts = job.facts;
    facts.run_at = run_at;
    Disposition::Requeue(WaitingJob { facts, not_before })
}

fn logged(
    mut job: RunningJob,
    outcome: RunOutcome,
    error: Option<JobError>,
    now: Timestamp,
) -> RunningJob {
    job.facts.runs.push(Run {
        attempt: job.facts.attempt,
        lease_no: job.lease.lease_no,
        worker: job.lease.worker.clone(),
        started_at: job.lease.claimed_at,
        // A wall clock may have been set back in between.
        ended_at: now.max(job.lease.claimed_at),
        outcome,
        error,
    });
    job
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::jobs::{
        JobFacts, JobId, Json, KindName, Lease, LeaseNo, LeaseOwner, RunLog, WorkerName,
    };
    use crate::users::UserId;

    const RETRY: RetryPolicy =
        RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(300) };

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros(secs * 1_000_000)
    }

    fn running(attempt: u32, max_attempts: Option<u32>) -> RunningJob {
        let facts = JobFacts {
            id: JobId::new(1),
            user_id: UserId::new(1),
            kind: KindName::new("k").unwrap(),
            key: None,
            payload: Json::parse("1").unwrap(),
            priority: 0,
            run_at: at(5),
            triggered_at: at(5),
            created_at: at(5),
            attempt,
            max_attempts,
            tenant: None,
            linked: false,
            runs: RunLog::default(),
        };
        let lease = Lease {
            lease_no: LeaseNo::new(7),
            until: at(310),
            ttl: Duration::from_secs(300),
            worker: WorkerName::new("w"),
            owner: LeaseOwner::Outside,
            claimed_at: at(10),
            heartbeat_at: at(10),
            deadline_at: None,
        };
        RunningJob { facts, lease, progress: None, cancel_requested: false }
    }

    fn retry_outcome() -> Outcome {
        Outcome::Retry { error: JobError::new("boom", "it broke"), after: None }
    }

    fn finished(disposition: Disposition) -> FinishedJob {
        match disposition {
            Disposition::Finish(job) => job,
            Disposition::Requeue(job) => panic!("waits again: {job:?}"),
        }
    }

    fn requeued(disposition: Disposition) -> WaitingJob {
        match disposition {
            Disposition::Requeue(job) => job,
            Disposition::Finish(job) => panic!("finished: {job:?}"),
        }
    }

    #[test]
    fn a_failure_waits_and_the_last_one_fails() {
        let job = requeued(settle(running(1, Some(3)), retry_outcome(), RETRY, 1_500_000, at(20)));
        assert_eq!(job.due_at(), at(20) + Duration::from_millis(1500));
        assert_eq!(job.not_before, Some(job.due_at()), "no trigger may come first");
        assert_eq!(job.facts.attempt, 1);
        assert_eq!(job.facts.runs.runs[0].error.as_ref().unwrap().code.as_str(), "boom");

        let job = finished(settle(running(3, Some(3)), retry_outcome(), RETRY, 0, at(20)));
        assert!(matches!(job.state, FinishedState::Failed { .. }));
    }

    #[test]
    fn a_kind_without_limit_is_never_given_up() {
        let job = requeued(settle(running(1000, None), retry_outcome(), RETRY, 0, at(20)));
        assert_eq!(job.facts.attempt, 1000);
        requeued(rescue(running(1000, None), Rescue::LeaseExpired, RETRY, 0, at(20)));
    }

    #[test]
    fn handing_back_does_not_use_an_attempt() {
        let job = requeued(settle(running(3, Some(3)), Outcome::Release, RETRY, 0, at(20)));
        assert_eq!((job.facts.attempt, job.due_at()), (2, at(5)));
    }

    #[test]
    fn running_again_starts_counting_anew() {
        let outcome = Outcome::Again { at: at(50), payload: Some(Json::parse("2").unwrap()) };
        let job = requeued(settle(running(2, Some(3)), outcome, RETRY, 0, at(20)));
        assert_eq!((job.facts.attempt, job.due_at(), job.not_before), (0, at(50), None));
        assert_eq!(job.facts.payload.as_str(), "2");
    }

    #[test]
    fn a_crash_is_tried_again_at_once_until_attempts_are_used_up() {
        for why in [Rescue::LeaseExpired, Rescue::OwnerGone] {
            let job = requeued(rescue(running(2, Some(3)), why, RETRY, u64::MAX, at(400)));
            assert_eq!(job.due_at(), at(400));
            let job = finished(rescue(running(3, Some(3)), why, RETRY, 0, at(400)));
            assert!(
                matches!(job.state, FinishedState::Failed { error } if error.code.as_str() == "crashed")
            );
        }
    }

    #[test]
    fn a_deadline_counts_as_a_failed_attempt() {
        let why = Rescue::DeadlineExceeded;
        let job = requeued(rescue(running(1, Some(3)), why, RETRY, 2_000_000, at(400)));
        assert_eq!(job.due_at(), at(402));
        let job = finished(rescue(running(1, Some(1)), why, RETRY, 0, at(400)));
        assert!(
            matches!(job.state, FinishedState::Failed { error } if error.code.as_str() == "deadline_exceeded")
        );
    }

    #[test]
    fn a_cancel_request_ends_whatever_would_wait_again_but_not_what_is_done() {
        let again = Outcome::Again { at: at(50), payload: None };
        for outcome in [again, retry_outcome(), Outcome::Release, Outcome::Cancelled] {
            let job = RunningJob { cancel_requested: true, ..running(1, None) };
            let job = finished(settle(job, outcome, RETRY, 0, at(20)));
            let cause = CancelCause::Requested;
            assert_eq!(job.state, FinishedState::Cancelled { cause });
        }
        let job = RunningJob { cancel_requested: true, ..running(1, None) };
        let done = Outcome::Done { result: Json::null() };
        let job = finished(settle(job, done, RETRY, 0, at(20)));
        assert!(matches!(job.state, FinishedState::Completed { .. }));
    }

    #[test]
    fn a_clock_set_back_leaves_a_sound_run_log() {
        let job = requeued(settle(running(1, None), Outcome::Release, RETRY, 0, at(1)));
        assert_eq!(job.facts.runs.check(), Ok(()));
    }
}
