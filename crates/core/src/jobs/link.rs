//! Jobs that wait for others, and batches of jobs that end together.

use super::{JobId, JobState, NewJob};
use crate::Timestamp;
use crate::users::UserId;

/// What becomes of a job when one that it waits for fails or is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// It is cancelled too, and so are those that wait for it.
    #[default]
    Cancel,
    /// It runs all the same.
    Run,
    /// It waits on, until the other is tried again and completes or somebody decides.
    Hold,
}

impl OnFailure {
    pub const ALL: [OnFailure; 3] = [OnFailure::Cancel, OnFailure::Run, OnFailure::Hold];

    pub fn as_str(self) -> &'static str {
        match self {
            OnFailure::Cancel => "cancel",
            OnFailure::Run => "run",
            OnFailure::Hold => "hold",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        OnFailure::ALL.into_iter().find(|policy| policy.as_str() == text)
    }

    /// What the end of one job means to another that waits for it.
    pub fn after(self, ended: JobState) -> LinkEnd {
        match (ended, self) {
            (JobState::Completed, _) | (_, OnFailure::Run) => LinkEnd::Satisfied,
            (_, OnFailure::Cancel) => LinkEnd::Cancelled,
            (_, OnFailure::Hold) => LinkEnd::Stays,
        }
    }
}

/// What becomes of a link when the job at its beginning ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEnd {
    /// There is nothing more to wait for here.
    Satisfied,
    /// Whoever waits is cancelled.
    Cancelled,
    Stays,
}

/// A job that waits for others is not due before this, which nobody lives to see. Triggers cannot
/// shorten a backoff, so they cannot shorten this.
pub const HELD_UNTIL: Timestamp = Timestamp::MAX;

/// A batch's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchId(i64);

impl BatchId {
    pub const fn new(value: i64) -> Self {
        BatchId(value)
    }

    pub const fn get(self) -> i64 {
        self.0
    }
}

/// Jobs that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBatch {
    pub user_id: UserId,
    pub name: String,
    pub jobs: Vec<NewJob>,
    /// Enqueued once, when all of them have ended.
    pub callback: Option<NewJob>,
}

/// How far a batch is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub id: BatchId,
    pub user_id: UserId,
    pub name: String,
    pub created_at: Timestamp,
    /// When the last of its jobs ended.
    pub finished_at: Option<Timestamp>,
    /// The job that was enqueued then.
    pub callback: Option<JobId>,
    /// Its jobs, wishes that joined one job counted once.
    pub total: u64,
    /// How many of them are in each state, in the order of [`JobState::ALL`].
    pub counts: [u64; 6],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_means_what_was_asked_for() {
        for policy in OnFailure::ALL {
            assert_eq!(policy.after(JobState::Completed), LinkEnd::Satisfied);
            assert_eq!(OnFailure::parse(policy.as_str()), Some(policy));
            for ended in [JobState::Failed, JobState::Cancelled] {
                let expected = match policy {
                    OnFailure::Cancel => LinkEnd::Cancelled,
                    OnFailure::Run => LinkEnd::Satisfied,
                    OnFailure::Hold => LinkEnd::Stays,
                };
                assert_eq!(policy.after(ended), expected);
            }
        }
        assert_eq!(OnFailure::parse("explode"), None);
    }
}
