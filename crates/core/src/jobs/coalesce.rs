//! How a wish becomes a waiting job, or joins one that waits already.

use std::time::Duration;

use super::{JobFacts, JobId, JobKey, Json, KindName, Lane, MergeRule, RunLog, Tenant, WaitingJob};
use crate::Timestamp;
use crate::limits::PRIORITY_STEP_SECS;
use crate::users::UserId;

/// A wish for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    pub user_id: UserId,
    pub kind: KindName,
    /// `None`: it never coalesces with anything.
    pub key: Option<JobKey>,
    pub payload: Json,
    pub priority: i16,
    pub run_at: Timestamp,
    pub max_attempts: Option<u32>,
    /// Whom it is for, if its kind serves several in turn or limits each.
    pub tenant: Option<Tenant>,
}

impl NewJob {
    pub fn lane(&self) -> Lane {
        self.base_lane().of_tenant(self.tenant.as_ref())
    }

    /// The lane that workers ask for.
    pub fn base_lane(&self) -> Lane {
        Lane::of(self.user_id, &self.kind)
    }
}

/// The job that a wish becomes when nothing with its key waits.
pub fn first_wait(id: JobId, wish: NewJob, now: Timestamp) -> WaitingJob {
    let facts = JobFacts {
        id,
        user_id: wish.user_id,
        kind: wish.kind,
        key: wish.key,
        payload: wish.payload,
        priority: wish.priority,
        run_at: wish.run_at,
        triggered_at: now,
        created_at: now,
        attempt: 0,
        max_attempts: wish.max_attempts,
        tenant: wish.tenant,
        linked: false,
        runs: RunLog::default(),
    };
    WaitingJob { facts, not_before: None }
}

/// A trigger joins the waiting job with its key. The earliest time and the highest priority win; the
/// backoff stays, so that triggers cannot hammer what is failing.
pub fn coalesce(waiting: &mut WaitingJob, wish: NewJob, merge: MergeRule, now: Timestamp) {
    let facts = &mut waiting.facts;
    facts.run_at = facts.run_at.min(wish.run_at);
    facts.triggered_at = facts.triggered_at.max(now);
    facts.priority = facts.priority.max(wish.priority);
    facts.payload = merge.merge(std::mem::replace(&mut facts.payload, Json::null()), wish.payload);
}

/// When a job may be claimed.
pub fn due_at(run_at: Timestamp, not_before: Option<Timestamp>) -> Timestamp {
    not_before.map_or(run_at, |not_before| run_at.max(not_before))
}

/// A job's place in its lane. Fixed when it is written, so one index orders the lane, and a waiting
/// job of low priority overtakes every job that comes long enough after it.
pub fn rank(due_at: Timestamp, priority: i16) -> Timestamp {
    let head_start =
        Duration::from_secs(PRIORITY_STEP_SECS).saturating_mul(u32::from(priority.unsigned_abs()));
    if priority >= 0 { due_at - head_start } else { due_at + head_start }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros(secs * 1_000_000)
    }

    fn wish(run_at: Timestamp, priority: i16, payload: &str) -> NewJob {
        NewJob {
            user_id: UserId::new(1),
            kind: KindName::new("k").unwrap(),
            key: Some(JobKey::new("a").unwrap()),
            payload: Json::parse(payload).unwrap(),
            priority,
            run_at,
            max_attempts: Some(3),
            tenant: None,
        }
    }

    #[test]
    fn the_earliest_time_and_highest_priority_win() {
        let mut joined = first_wait(JobId::new(1), wish(at(50), 0, "1"), at(10));
        coalesce(&mut joined, wish(at(20), 5, "2"), MergeRule::Replace, at(11));
        assert_eq!(joined.facts.run_at, at(20));
        assert_eq!(joined.facts.priority, 5);
        assert_eq!(joined.facts.triggered_at, at(11));
        assert_eq!(joined.facts.payload.as_str(), "2");
        coalesce(&mut joined, wish(at(90), 0, "3"), MergeRule::Keep, at(12));
        assert_eq!((joined.facts.run_at, joined.facts.payload.as_str()), (at(20), "2"));
    }

    #[test]
    fn a_trigger_cannot_shorten_a_backoff() {
        let mut waiting = first_wait(JobId::new(1), wish(at(50), 0, "1"), at(10));
        waiting.not_before = Some(at(100));
        coalesce(&mut waiting, wish(at(10), 0, "2"), MergeRule::Replace, at(11));
        assert_eq!(waiting.due_at(), at(100));
    }

    #[test]
    fn age_overtakes_priority() {
        let old_and_low = rank(at(0), -1);
        assert!(old_and_low > rank(at(30), 0), "within two minutes the higher one goes first");
        assert!(old_and_low < rank(at(61), 0), "after that the older one does");
    }
}
