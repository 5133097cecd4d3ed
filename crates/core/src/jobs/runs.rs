//! What a job remembers of its runs: who ran it, for how long, how it ended.

use serde::{Deserialize, Serialize};

use super::{JobError, LeaseNo, WorkerName};
use crate::Timestamp;
use crate::limits::RUNS_KEPT_MAX;

/// One run of a job, from claim to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub attempt: u32,
    pub lease_no: LeaseNo,
    pub worker: WorkerName,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub outcome: RunOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<JobError>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// It did what it was to do; the job is completed.
    Done,
    /// It did what it was to do and asked to run again later.
    Again,
    /// It failed and may be tried again.
    Retry,
    /// It failed for good.
    Failed,
    /// It was cancelled while it ran.
    Cancelled,
    /// Its worker handed it back unfinished; the attempt does not count.
    Released,
    /// Its worker stopped sending heartbeats.
    LeaseExpired,
    /// It ran longer than its kind allows.
    DeadlineExceeded,
}

/// The latest runs, oldest first, and how many there were in all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunLog {
    /// All runs ever, including those no longer listed.
    pub total: u64,
    pub runs: Vec<Run>,
}

impl RunLog {
    /// Adds a run, forgetting the oldest beyond [`RUNS_KEPT_MAX`].
    pub fn push(&mut self, run: Run) {
        self.total += 1;
        self.runs.push(run);
        let surplus = self.runs.len().saturating_sub(RUNS_KEPT_MAX);
        self.runs.drain(..surplus);
    }

    /// Adds the runs of another job that folds into this one. Whose runs came first depends on
    /// what people retried by hand, so the tokens decide; and a job that folded, was retried by
    /// hand and is folded into brings runs that are here already.
    pub fn merge(&mut self, other: RunLog) {
        self.total += other.total;
        self.runs.extend(other.runs);
        self.runs.sort_by_key(|run| run.lease_no);
        let listed = self.runs.len();
        self.runs.dedup_by_key(|run| run.lease_no);
        self.total -= (listed - self.runs.len()) as u64;
        let surplus = self.runs.len().saturating_sub(RUNS_KEPT_MAX);
        self.runs.drain(..surplus);
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The error of the latest run that had one.
    pub fn last_error(&self) -> Option<&JobError> {
        self.runs.iter().rev().find_map(|run| run.error.as_ref())
    }

    /// What is wrong with this log, if anything: tokens must grow from run to run.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.runs.len() as u64 > self.total {
            return Err("lists more runs than it counts");
        }
        if self.runs.windows(2).any(|pair| pair[0].lease_no >= pair[1].lease_no) {
            return Err("lease numbers do not grow from run to run");
        }
        if self.runs.iter().any(|run| run.ended_at < run.started_at) {
            return Err("a run ended before it started");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(lease_no: i64) -> Run {
        Run {
            attempt: 1,
            lease_no: LeaseNo::new(lease_no),
            worker: WorkerName::new("w"),
            started_at: Timestamp::EPOCH,
            ended_at: Timestamp::EPOCH,
            outcome: RunOutcome::Retry,
            error: None,
        }
    }

    fn log(lease_nos: &[i64]) -> RunLog {
        let mut log = RunLog::default();
        for lease_no in lease_nos {
            log.push(run(*lease_no));
        }
        log
    }

    #[test]
    fn old_runs_are_counted_but_not_kept() {
        let log = log(&(1..=50).collect::<Vec<_>>());
        assert_eq!((log.total, log.runs.len()), (50, RUNS_KEPT_MAX));
        assert_eq!(log.runs[0].lease_no, LeaseNo::new(31));
        assert_eq!(log.check(), Ok(()));
    }

    #[test]
    fn merged_logs_are_in_the_order_of_their_tokens() {
        let mut log_one = log(&[3, 9]);
        log_one.merge(log(&[5, 7]));
        let order: Vec<i64> = log_one.runs.iter().map(|run| run.lease_no.get()).collect();
        assert_eq!(order, [3, 5, 7, 9]);
        assert_eq!((log_one.total, log_one.check()), (4, Ok(())));
    }

    #[test]
    fn a_run_that_both_logs_have_counts_once() {
        let mut both = log(&[3, 5]);
        both.merge(log(&[5, 7]));
        assert_eq!((both.total, both.runs.len(), both.check()), (3, 3, Ok(())));
    }

    #[test]
    fn tokens_that_do_not_grow_are_found() {
        assert!(log(&[5, 5]).check().is_err());
    }
}
