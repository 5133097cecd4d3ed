//! The states of a job as a picture, drawn by asking the rules themselves.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{
    CancelCause, Disposition, FinishedJob, FinishedState, Job, JobError, JobFacts, JobId, JobState,
    Json, KindName, Lease, LeaseNo, LeaseOwner, Outcome, Rescue, RetryPolicy, RunLog, RunningJob,
    WaitingJob, WorkerName, rescue, retry_by_hand, settle,
};
use crate::Timestamp;
use crate::users::UserId;

/// When the drawing takes place.
const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);
/// Later than [`NOW`].
const LATER: Timestamp = Timestamp::from_micros(2_000_000_000);
const RETRY: RetryPolicy =
    RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(300) };

/// A Mermaid state diagram of every step that the rules allow.
pub fn job_diagram() -> String {
    let mut lines = vec!["stateDiagram-v2".to_owned()];
    for (from, to, label) in steps() {
        let from = from.map_or("[*]", JobState::as_str);
        lines.push(format!("    {from} --> {}: {label}", to.as_str()));
    }
    lines.join("\n") + "\n"
}

/// Every step: from where (`None`: it is made), to where, and what causes it.
fn steps() -> BTreeSet<(Option<JobState>, JobState, &'static str)> {
    let mut steps = BTreeSet::new();
    for run_at in [NOW, LATER] {
        let waiting = Job::Waiting(WaitingJob { facts: facts(0, run_at), not_before: None });
        steps.insert((None, waiting.state(NOW), "enqueue"));
        steps.insert((Some(waiting.state(NOW)), JobState::Cancelled, "cancel"));
    }
    steps.insert((Some(JobState::Scheduled), JobState::Pending, "its time comes"));
    steps.insert((Some(JobState::Pending), JobState::Processing, "claim"));
    for (label, outcome) in outcomes() {
        for attempt in [1, 3] {
            let end = settle(running(attempt), outcome.clone(), RETRY, u64::MAX, NOW);
            steps.insert((Some(JobState::Processing), state_of(end), label));
        }
    }
    for (label, why) in rescues() {
        for attempt in [1, 3] {
            let end = rescue(running(attempt), why, RETRY, u64::MAX, NOW);
            steps.insert((Some(JobState::Processing), state_of(end), label));
        }
    }
    for state in finished_states() {
        let ended = finished(state);
        let from = Job::Finished(Box::new(ended.clone())).state(NOW);
        let to = Job::Waiting(retry_by_hand(ended, NOW)).state(NOW);
        steps.insert((Some(from), to, "retried by hand"));
    }
    steps
}

fn outcomes() -> [(&'static str, Outcome); 6] {
    let error = JobError::new("boom", "it broke");
    [
        ("done", Outcome::Done { result: Json::null() }),
        ("again", Outcome::Again { at: LATER, payload: None }),
        ("failed attempt", Outcome::Retry { error: error.clone(), after: None }),
        ("failed for good", Outcome::Fail { error }),
        ("cancelled while running", Outcome::Cancelled),
        ("handed back", Outcome::Release),
    ]
}

fn rescues() -> [(&'static str, Rescue); 2] {
    [("lease expired", Rescue::LeaseExpired), ("deadline passed", Rescue::DeadlineExceeded)]
}

fn finished_states() -> [FinishedState; 3] {
    [
        FinishedState::Completed { result: Json::null() },
        FinishedState::Failed { error: JobError::new("boom", "it broke") },
        FinishedState::Cancelled { cause: CancelCause::Requested },
    ]
}

fn state_of(end: Disposition) -> JobState {
    match end {
        Disposition::Finish(job) => Job::Finished(Box::new(job)).state(NOW),
        Disposition::Requeue(job) => Job::Waiting(job).state(NOW),
    }
}

fn finished(state: FinishedState) -> FinishedJob {
    FinishedJob { facts: facts(1, NOW), state, finished_at: NOW, progress: None }
}

fn running(attempt: u32) -> RunningJob {
    let lease = Lease {
        lease_no: LeaseNo::new(1),
        until: LATER,
        ttl: Duration::from_secs(300),
        worker: WorkerName::new("w"),
        owner: LeaseOwner::Outside,
        claimed_at: NOW,
        heartbeat_at: NOW,
        deadline_at: None,
    };
    let facts = facts(attempt, NOW);
    RunningJob { facts, lease, progress: None, cancel_requested: false }
}

fn facts(attempt: u32, run_at: Timestamp) -> JobFacts {
    JobFacts {
        id: JobId::new(1),
        user_id: UserId::SYSTEM,
        kind: KindName::new("drawn").expect("the name is a kind"),
        key: None,
        payload: Json::null(),
        priority: 0,
        run_at,
        triggered_at: NOW,
        created_at: NOW,
        attempt,
        max_attempts: Some(3),
        tenant: None,
        linked: false,
        runs: RunLog::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_changes_only_by_hand() {
        for (from, _, label) in steps() {
            let over = from.is_some_and(JobState::is_terminal);
            assert_eq!(over, label == "retried by hand", "{from:?} {label}");
        }
    }

    #[test]
    fn every_state_can_be_reached_and_every_live_one_left() {
        let steps = steps();
        for state in JobState::ALL {
            assert!(steps.iter().any(|(_, to, _)| *to == state), "{state:?} is never reached");
            assert!(
                steps.iter().any(|(from, _, _)| *from == Some(state)),
                "{state:?} is never left"
            );
        }
    }
}
