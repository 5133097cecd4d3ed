//! Where bots run: processes, containers, a cluster.
//!
//! Invariant: an answer is evidence. `Err(Unanswered)` means that nobody knows, and whoever asked
//! must neither kill nor bury a bot for it.

use async_trait::async_trait;

use crate::bots::WorkloadId;
use crate::users::UserId;

/// Starts, finds and ends workloads. Every call is bounded in time by its adapter.
#[async_trait]
pub trait Launcher: Send + Sync {
    /// Makes sure that the workload is there: starts it, unless one of its name exists already,
    /// whoever made it and whether or not they were told.
    async fn ensure(&self, spec: &LaunchSpec) -> Result<Launched, Unanswered>;

    /// How one workload is.
    async fn look(&self, workload: WorkloadId) -> Result<Sighting, Unanswered>;

    /// Every workload of this installation that the runtime knows, ended ones included. The list is
    /// complete or the call fails.
    async fn list(&self) -> Result<Vec<SeenWorkload>, Unanswered>;

    /// Asks the workload to end (SIGTERM) and returns without waiting for it. One that is not there
    /// is no error.
    async fn terminate(&self, workload: WorkloadId) -> Result<(), Unanswered>;

    /// Ends the workload at once (SIGKILL) and removes what is left of it. `Ok` only when the
    /// runtime says that it is gone, and with how it had ended if that is known.
    async fn remove(&self, workload: WorkloadId) -> Result<Removed, Unanswered>;

    /// The adapter's name as operators write it: `process`, `docker`, `nomad`.
    fn name(&self) -> &'static str;
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchSpec {
    pub workload: WorkloadId,
    pub user_id: UserId,
    pub platform: String,
    pub native_meeting_id: String,
    pub connection_id: String,
    /// Set for the workload beside what the adapter's own configuration adds. Holds secrets: never
    /// logged.
    pub env: Vec<(String, String)>,
}

/// What became of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launched {
    /// It runs. The handle is what the runtime calls it, for people: a container's number.
    Running { handle: String },
    /// There was one of that name, and it has ended.
    Exited { exit_code: Option<i32> },
    /// The runtime will not run it and none exists: no such image, no such program.
    Refused { reason: String },
}

/// How a workload is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    Running {
        handle: String,
    },
    /// It has ended; what is left of it is still there.
    Exited {
        exit_code: Option<i32>,
    },
    /// The runtime has none of that name.
    Absent,
}

/// A workload in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenWorkload {
    pub workload: WorkloadId,
    /// Never [`Sighting::Absent`].
    pub sighting: Sighting,
}

/// What was there when a workload was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Whether there was anything to remove.
    pub was_there: bool,
    /// How it had ended before it was killed, if it had.
    pub exit_code: Option<i32>,
}

/// The runtime could not be asked, or what it said cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the runtime gave no clear answer: {reason}")]
pub struct Unanswered {
    pub reason: String,
}

impl Unanswered {
    pub fn new(reason: impl Into<String>) -> Self {
        Unanswered { reason: reason.into() }
    }
}
