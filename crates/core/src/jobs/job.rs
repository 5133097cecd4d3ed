//! A job in each of its states, with only the data that state has.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{JobError, JobKey, Json, KindName, Lane, RunLog, Tenant};
use crate::Timestamp;
use crate::limits::WORKER_BYTES_MAX;
use crate::users::UserId;

/// A job's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(i64);

impl JobId {
    pub const fn new(value: i64) -> Self {
        JobId(value)
    }

    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The fencing token: drawn from one sequence of the database at every claim, so it only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseNo(i64);

impl LeaseNo {
    pub const fn new(value: i64) -> Self {
        LeaseNo(value)
    }

    pub const fn get(self) -> i64 {
        self.0
    }
}

/// Names one claim of one job: what every write under a lease repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseRef {
    pub id: JobId,
    pub lease_no: LeaseNo,
}

/// Who runs a job, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerName(String);

impl WorkerName {
    /// Cuts to the limit and replaces control characters: a worker's name is only shown.
    pub fn new(text: &str) -> Self {
        let clean: String =
            text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        WorkerName(clean[..clean.floor_char_boundary(WORKER_BYTES_MAX)].to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where the holder of a lease lives. On an embedded database a new start knows that every
/// in-process holder of an earlier start is dead, and takes its jobs over at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseOwner {
    /// A worker inside a server process; the number is that process's start.
    Process(i64),
    /// A worker elsewhere, speaking the HTTP worker protocol.
    Outside,
}

/// What stays with a job through all its states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFacts {
    pub id: JobId,
    pub user_id: UserId,
    pub kind: KindName,
    pub key: Option<JobKey>,
    pub payload: Json,
    pub priority: i16,
    /// When it was asked to run (the earliest wish of all that were coalesced).
    pub run_at: Timestamp,
    /// The latest trigger that was coalesced into it.
    pub triggered_at: Timestamp,
    pub created_at: Timestamp,
    /// Tries so far, counted at the claim so that a worker that dies has used one.
    pub attempt: u32,
    /// `None`: no limit.
    pub max_attempts: Option<u32>,
    pub tenant: Option<Tenant>,
    /// Somebody has to be told when it ends: see [`super::OnFailure`] and [`super::Batch`].
    pub linked: bool,
    pub runs: RunLog,
}

impl JobFacts {
    pub fn lane(&self) -> Lane {
        self.base_lane().of_tenant(self.tenant.as_ref())
    }

    /// The lane that workers ask for.
    pub fn base_lane(&self) -> Lane {
        Lane::of(self.user_id, &self.kind)
    }

    /// Whether no further attempt is allowed.
    pub fn attempts_used_up(&self) -> bool {
        self.max_attempts.is_some_and(|max| self.attempt >= max)
    }
}

/// A job that waits, for its time (`scheduled`) or for a worker (`pending`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingJob {
    pub facts: JobFacts,
    /// A backoff that no trigger may shorten.
    pub not_before: Option<Timestamp>,
}

impl WaitingJob {
    /// When it may be claimed.
    pub fn due_at(&self) -> Timestamp {
        super::due_at(self.facts.run_at, self.not_before)
    }

    /// Its place among the due jobs of its lane; the smallest goes first.
    pub fn rank(&self) -> Timestamp {
        super::rank(self.due_at(), self.facts.priority)
    }
}

/// A claim on a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub lease_no: LeaseNo,
    pub until: Timestamp,
    pub ttl: Duration,
    pub worker: WorkerName,
    pub owner: LeaseOwner,
    pub claimed_at: Timestamp,
    pub heartbeat_at: Timestamp,
    /// The end of the run, heartbeats or not.
    pub deadline_at: Option<Timestamp>,
}

/// How far a run has come, in whatever form its handler reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress(pub Json);

/// A job that somebody works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningJob {
    pub facts: JobFacts,
    pub lease: Lease,
    pub progress: Option<Progress>,
    /// A person asked for it to stop; the holder learns it with its next heartbeat.
    pub cancel_requested: bool,
}

impl RunningJob {
    pub fn lease_ref(&self) -> LeaseRef {
        LeaseRef { id: self.facts.id, lease_no: self.lease.lease_no }
    }
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishedState {
    Completed { result: Json },
    Failed { error: JobError },
    Cancelled { cause: CancelCause },
}

/// Why a job was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelCause {
    /// Somebody asked for it.
    Requested,
    /// It met a waiting job with its key, which goes on in its place.
    Folded { into: JobId },
}

/// A job that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedJob {
    pub facts: JobFacts,
    pub state: FinishedState,
    pub finished_at: Timestamp,
    pub progress: Option<Progress>,
}

/// A job, wherever it is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    Waiting(WaitingJob),
    Running(Box<RunningJob>),
    Finished(Box<FinishedJob>),
}

impl Job {
    pub fn facts(&self) -> &JobFacts {
        match self {
            Job::Waiting(job) => &job.facts,
            Job::Running(job) => &job.facts,
            Job::Finished(job) => &job.facts,
        }
    }

    pub fn state(&self, now: Timestamp) -> JobState {
        match self {
            Job::Waiting(job) if job.due_at() > now => JobState::Scheduled,
            Job::Waiting(_) => JobState::Pending,
            Job::Running(_) => JobState::Processing,
            Job::Finished(job) => match job.state {
                FinishedState::Completed { .. } => JobState::Completed,
                FinishedState::Failed { .. } => JobState::Failed,
                FinishedState::Cancelled { .. } => JobState::Cancelled,
            },
        }
    }
}

/// The states by name, as the API and the tables spell them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobState {
    Scheduled,
    Pending,
    Processing,
    Completed,
    Failed,
    Cancelled,
}

/// The text names no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a state is one of scheduled, pending, processing, completed, failed, cancelled")]
pub struct UnknownState;

impl JobState {
    pub const ALL: [JobState; 6] = [
        JobState::Scheduled,
        JobState::Pending,
        JobState::Processing,
        JobState::Completed,
        JobState::Failed,
        JobState::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Scheduled => "scheduled",
            JobState::Pending => "pending",
            JobState::Processing => "processing",
            JobState::Completed => "completed",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Result<Self, UnknownState> {
        JobState::ALL.into_iter().find(|state| state.as_str() == text).ok_or(UnknownState)
    }

    pub fn is_terminal(self) -> bool {
        matches!(self, JobState::Completed | JobState::Failed | JobState::Cancelled)
    }
}
