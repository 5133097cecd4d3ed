//! What a run may come to, and what the store answers when told.

use std::time::Duration;

use super::{JobError, JobState, Json, LeaseRef};
use crate::Timestamp;
use crate::effects::Effects;

/// What a worker says at the end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done { result: Json },
    /// It is done for now and runs again: an alarm, a periodic look. A payload replaces the job's
    /// own, for handlers that have used up what it said.
    Again { at: Timestamp, payload: Option<Json> },
    /// It failed and should be tried again, after the backoff or after a time of its own choosing.
    Retry { error: JobError, after: Option<Duration> },
    /// It failed and trying again is pointless.
    Fail { error: JobError },
    /// It stopped because it was asked to.
    Cancelled,
    /// It is handed back unfinished; the attempt does not count.
    Release,
}

/// The end of one run, to be written under its lease.
#[derive(Debug, Clone)]
pub struct Settle {
    pub lease: LeaseRef,
    pub outcome: Outcome,
    /// Committed together with the outcome, or not at all.
    pub effects: Effects,
}

/// What became of a settled run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Written; this is the state the job is in now.
    Landed { state: JobState },
    /// The lease was no longer held; nothing was written.
    LeaseLost,
}

/// Why the sweep takes a job from its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rescue {
    /// No heartbeat for a whole lease.
    LeaseExpired,
    /// The run took longer than its kind allows.
    DeadlineExceeded,
    /// The process that held it is known to be gone.
    OwnerGone,
}
