//! What an audit is at a moment: read from its job.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::jobs::{FinishedState, Job, JobError, Json, Run, RunLog, RunOutcome};

/// The states, as the original's users know them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditStatus {
    /// It waits for a worker, or for its next attempt.
    Pending,
    Processing,
    Completed,
    Failed,
}

impl AuditStatus {
    pub const ALL: [AuditStatus; 4] = [
        AuditStatus::Pending,
        AuditStatus::Processing,
        AuditStatus::Completed,
        AuditStatus::Failed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            AuditStatus::Pending => "pending",
            AuditStatus::Processing => "processing",
            AuditStatus::Completed => "completed",
            AuditStatus::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        AuditStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }

    pub fn is_final(self) -> bool {
        matches!(self, AuditStatus::Completed | AuditStatus::Failed)
    }
}

/// All that the job says of an audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditState {
    pub status: AuditStatus,
    /// Of the run under way, or of the last one of an audit that is over.
    pub processing_started_at: Option<Timestamp>,
    pub processing_worker_id: Option<String>,
    pub last_heartbeat: Option<Timestamp>,
    /// Runs after the first. Raised when an attempt that has failed is put back; what a worker hands
    /// back when it shuts down is not counted.
    pub retry_count: u32,
    /// When a waiting one may be claimed: after a failure, when its backoff is over.
    pub next_attempt_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub error: Option<JobError>,
    /// The runs that did not complete it, oldest first, with their errors.
    pub troubles: Vec<Run>,
    /// How far the run under way has come.
    pub progress: Option<Json>,
}

/// What the holder of the last run was seen to do. A finished job does not say it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastRun {
    pub started_at: Option<Timestamp>,
    pub worker: Option<String>,
    pub heartbeat_at: Option<Timestamp>,
}

impl AuditState {
    /// The error of an audit that was cancelled.
    pub fn cancelled() -> JobError {
        JobError::new("cancelled", "it was cancelled")
    }

    /// The error of an audit whose job ended so; `None` if it is completed.
    pub fn error_of(end: &FinishedState) -> Option<JobError> {
        match end {
            FinishedState::Completed { .. } => None,
            FinishedState::Failed { error } => Some(error.clone()),
            FinishedState::Cancelled { .. } => Some(AuditState::cancelled()),
        }
    }

    /// What a job says of its audit. `last` is what is known of its latest run that is over.
    pub fn of(job: &Job, last: &LastRun) -> Self {
        let facts = job.facts();
        let waits = AuditState {
            status: AuditStatus::Pending,
            processing_started_at: None,
            processing_worker_id: None,
            last_heartbeat: None,
            retry_count: facts.attempt,
            next_attempt_at: None,
            finished_at: None,
            error: None,
            troubles: troubles(&facts.runs),
            progress: None,
        };
        let after_the_first = facts.attempt.saturating_sub(1);
        match job {
            Job::Waiting(job) => AuditState { next_attempt_at: Some(job.due_at()), ..waits },
            Job::Running(job) => AuditState {
                status: AuditStatus::Processing,
                processing_started_at: Some(job.lease.claimed_at),
                processing_worker_id: Some(job.lease.worker.as_str().to_owned()),
                last_heartbeat: Some(job.lease.heartbeat_at),
                retry_count: after_the_first,
                progress: job.progress.as_ref().map(|progress| progress.0.clone()),
                ..waits
            },
            Job::Finished(job) => {
                let error = AuditState::error_of(&job.state);
                AuditState {
                    status: match error {
                        None => AuditStatus::Completed,
                        Some(_) => AuditStatus::Failed,
                    },
                    processing_started_at: last.started_at,
                    processing_worker_id: last.worker.clone(),
                    last_heartbeat: last.heartbeat_at,
                    retry_count: after_the_first,
                    finished_at: Some(job.finished_at),
                    error,
                    ..waits
                }
            }
        }
    }
}

/// The runs that did not complete a job.
pub fn troubles(runs: &RunLog) -> Vec<Run> {
    runs.runs.iter().filter(|run| run.outcome != RunOutcome::Done).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::audits::{AuditId, run_wish};
    use crate::jobs::{
        Disposition, JobId, Lease, LeaseNo, LeaseOwner, Outcome, Rescue, RetryPolicy, RunningJob,
        WaitingJob, WorkerName, first_wait, rescue, retry_by_hand, settle,
    };
    use crate::users::UserId;

    const RETRY: RetryPolicy =
        RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(300) };

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros(secs * 1_000_000)
    }

    fn waiting() -> WaitingJob {
        first_wait(JobId::new(4), run_wish(AuditId::new(7), UserId::new(1), 0, 3, at(0)), at(0))
    }

    fn claimed(mut job: WaitingJob, lease_no: i64, now: Timestamp) -> RunningJob {
        job.facts.attempt += 1;
        let lease = Lease {
            lease_no: LeaseNo::new(lease_no),
            until: now + Duration::from_secs(300),
            ttl: Duration::from_secs(300),
            worker: WorkerName::new("w"),
            owner: LeaseOwner::Outside,
            claimed_at: now,
            heartbeat_at: now,
            deadline_at: None,
        };
        RunningJob { facts: job.facts, lease, progress: None, cancel_requested: false }
    }

    fn requeued(disposition: Disposition) -> WaitingJob {
        match disposition {
            Disposition::Requeue(job) => job,
            Disposition::Finish(job) => panic!("finished: {job:?}"),
        }
    }

    fn finished(disposition: Disposition) -> Job {
        match disposition {
            Disposition::Finish(job) => Job::Finished(job.into()),
            Disposition::Requeue(job) => panic!("waits: {job:?}"),
        }
    }

    fn shown(job: &Job) -> (AuditStatus, u32, Option<String>) {
        let state = AuditState::of(job, &LastRun::default());
        (state.status, state.retry_count, state.error.map(|error| error.code.as_str().to_owned()))
    }

    #[test]
    fn a_backoff_is_pending_and_three_attempts_are_two_retries() {
        let boom = || Outcome::Retry { error: JobError::new("timeout", "slow"), after: None };
        assert_eq!(shown(&Job::Waiting(waiting())), (AuditStatus::Pending, 0, None));
        let run = claimed(waiting(), 1, at(1));
        assert_eq!(shown(&Job::Running(run.clone().into())), (AuditStatus::Processing, 0, None));
        let back = requeued(settle(run, boom(), RETRY, 1, at(2)));
        let state = AuditState::of(&Job::Waiting(back.clone()), &LastRun::default());
        assert_eq!((state.status, state.retry_count), (AuditStatus::Pending, 1));
        assert_eq!(state.troubles[0].error.as_ref().unwrap().code.as_str(), "timeout");
        assert!(state.next_attempt_at.unwrap() > at(2), "it backs off");
        let run = claimed(back, 2, at(10));
        assert_eq!(shown(&Job::Running(run.clone().into())), (AuditStatus::Processing, 1, None));
        let back = requeued(rescue(run, Rescue::LeaseExpired, RETRY, 1, at(400)));
        assert_eq!(shown(&Job::Waiting(back.clone())), (AuditStatus::Pending, 2, None));
        let run = claimed(back, 3, at(401));
        let ended = finished(settle(run, boom(), RETRY, 1, at(402)));
        assert_eq!(shown(&ended), (AuditStatus::Failed, 2, Some("timeout".to_owned())));
    }

    #[test]
    fn what_is_handed_back_is_no_retry_and_what_is_cancelled_has_failed() {
        let run = claimed(waiting(), 1, at(1));
        let back = requeued(settle(run, Outcome::Release, RETRY, 0, at(2)));
        assert_eq!(shown(&Job::Waiting(back.clone())), (AuditStatus::Pending, 0, None));
        let ended = finished(settle(claimed(back, 2, at(3)), Outcome::Cancelled, RETRY, 0, at(4)));
        assert_eq!(shown(&ended), (AuditStatus::Failed, 0, Some("cancelled".to_owned())));
        let Job::Finished(job) = ended else { panic!("it is over") };
        assert_eq!(
            shown(&Job::Waiting(retry_by_hand(*job, at(9)))),
            (AuditStatus::Pending, 0, None)
        );
    }
}
