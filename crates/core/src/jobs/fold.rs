//! When a job that wants to wait again meets a waiting job with its key: one goes on for both.

use super::{CancelCause, FinishedJob, FinishedState, Json, MergeRule, RunOutcome, WaitingJob};
use crate::Timestamp;

/// The two jobs after folding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    /// The job that waits on, in place of both.
    pub survivor: WaitingJob,
    /// The job that came back, now over.
    pub ended: FinishedJob,
}

/// Folds `returning` into `waiting`, which has the same user, kind and key.
///
/// The survivor inherits attempts, runs and backoff; otherwise a job that always fails would start
/// from its first attempt with every trigger and never stop. A job that came back because it asked
/// to run again has done its work and used its payload: it ends completed rather than cancelled.
pub fn fold(
    waiting: WaitingJob,
    returning: WaitingJob,
    merge: MergeRule,
    now: Timestamp,
) -> Folded {
    let mut survivor = waiting;
    let facts = &mut survivor.facts;
    let back = &returning.facts;
    let attempt_max = facts.max_attempts.map_or(u32::MAX, |max| max.saturating_sub(1));
    facts.attempt = facts.attempt.max(back.attempt).min(attempt_max);
    facts.run_at = facts.run_at.min(back.run_at);
    facts.triggered_at = facts.triggered_at.max(back.triggered_at);
    facts.priority = facts.priority.max(back.priority);
    facts.runs.merge(back.runs.clone());
    let done_for_now = back.runs.runs.last().is_some_and(|run| run.outcome == RunOutcome::Again);
    if !done_for_now {
        let own = std::mem::replace(&mut facts.payload, Json::null());
        facts.payload = merge.merge(back.payload.clone(), own);
    }
    survivor.not_before = survivor.not_before.max(returning.not_before);

    let state = if done_for_now {
        FinishedState::Completed { result: Json::null() }
    } else {
        FinishedState::Cancelled { cause: CancelCause::Folded { into: survivor.facts.id } }
    };
    let ended = FinishedJob { facts: returning.facts, state, finished_at: now, progress: None };
    Folded { survivor, ended }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{JobId, JobKey, KindName, LeaseNo, NewJob, Run, WorkerName, first_wait};
    use crate::users::UserId;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros(secs * 1_000_000)
    }

    fn waiting(id: i64, run_at: i64, payload: &str) -> WaitingJob {
        let wish = NewJob {
            user_id: UserId::new(1),
            kind: KindName::new("k").unwrap(),
            key: Some(JobKey::new("a").unwrap()),
            payload: Json::parse(payload).unwrap(),
            priority: 0,
            run_at: at(run_at),
            max_attempts: Some(3),
            tenant: None,
        };
        first_wait(JobId::new(id), wish, at(1))
    }

    fn returning(outcome: RunOutcome) -> WaitingJob {
        let mut job = waiting(1, 30, "[1]");
        job.facts.attempt = 2;
        job.not_before = Some(at(90));
        job.facts.runs.push(Run {
            attempt: 2,
            lease_no: LeaseNo::new(4),
            worker: WorkerName::new("w"),
            started_at: at(2),
            ended_at: at(3),
            outcome,
            error: None,
        });
        job
    }

    #[test]
    fn the_survivor_inherits_attempts_runs_and_backoff() {
        let folded =
            fold(waiting(2, 10, "[2]"), returning(RunOutcome::Retry), MergeRule::Append, at(5));
        let survivor = folded.survivor;
        assert_eq!(survivor.facts.id, JobId::new(2));
        assert_eq!((survivor.facts.attempt, survivor.facts.runs.total), (2, 1));
        assert_eq!((survivor.facts.run_at, survivor.due_at()), (at(10), at(90)));
        assert_eq!(survivor.facts.payload.as_str(), "[1,2]");
        let cause = CancelCause::Folded { into: JobId::new(2) };
        assert_eq!(folded.ended.state, FinishedState::Cancelled { cause });
    }

    #[test]
    fn a_job_that_runs_again_has_used_its_payload_and_is_completed() {
        let folded =
            fold(waiting(2, 10, "[2]"), returning(RunOutcome::Again), MergeRule::Append, at(5));
        assert_eq!(folded.survivor.facts.payload.as_str(), "[2]");
        assert!(matches!(folded.ended.state, FinishedState::Completed { .. }));
    }

    #[test]
    fn the_survivor_keeps_at_least_one_attempt() {
        let mut target = waiting(2, 10, "1");
        target.facts.max_attempts = Some(1);
        let folded = fold(target, returning(RunOutcome::Retry), MergeRule::Replace, at(5));
        assert_eq!(folded.survivor.facts.attempt, 0);
    }
}
