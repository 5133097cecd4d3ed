//! Keyed durable jobs: the one primitive under everything Roundsman does.
//!
//! Invariants, each enforced by a rule here and a constraint or fence in `store`:
//! - at most one waiting and one running job per (user, kind, key);
//! - a trigger that meets a waiting job joins it, one that meets a running job leaves one more;
//! - whoever does not hold the current `lease_no` changes nothing;
//! - a finished job never changes again, except that a person may ask for it to be tried anew.

mod backoff;
mod coalesce;
mod diagram;
mod error;
mod fold;
mod job;
mod kind;
mod outcome;
mod payload;
mod runs;
mod settle;

pub use backoff::RetryPolicy;
pub use coalesce::{NewJob, coalesce, due_at, first_wait, rank};
pub use diagram::job_diagram;
pub use error::{ErrorCode, JobError};
pub use fold::{Folded, fold};
pub use job::{
    CancelCause, FinishedJob, FinishedState, Job, JobFacts, JobId, JobState, Lease, LeaseNo,
    LeaseOwner, LeaseRef, Progress, RunningJob, UnknownState, WaitingJob, WorkerName,
};
pub use kind::{
    InvalidKey, InvalidKind, JobKey, KindCatalog, KindName, KindSpec, Lane, RESERVED_SYSTEMS, Role,
};
pub use outcome::{Outcome, Rescue, Settle, Settled};
pub use payload::{InvalidJson, Json, MergeRule};
pub use runs::{Run, RunLog, RunOutcome};
pub use settle::{Disposition, rescue, retry_by_hand, settle};
