//! Keyed durable jobs: the one primitive under everything Roundsman does.
//!
//! Invariants, each enforced by a rule here and a constraint or fence in `store`:
//! - at most one waiting and one running job per (user, kind, key);
//! - a trigger that meets a waiting job joins it, one that meets a running job leaves one more;
//! - whoever does not hold the current `lease_no` changes nothing;
//! - a finished job never changes again, except that a person may ask for it to be tried anew.

mod backoff;
mod bucket;
mod coalesce;
mod cron;
mod diagram;
mod error;
mod fold;
mod gate;
mod job;
mod kind;
mod lane;
mod link;
mod outcome;
mod payload;
mod runs;
mod schedule;
mod settle;
mod share;
mod turn;

pub use backoff::{RetryPolicy, spread};
pub use bucket::{Bucket, Rate};
pub use coalesce::{NewJob, coalesce, due_at, first_wait, rank};
pub use cron::{Cron, InvalidCron, time_zone};
pub use diagram::job_diagram;
pub use error::{ErrorCode, JobError};
pub use fold::{Folded, fold};
pub use gate::{
    BucketName, Gate, GateChange, GateLimits, GateName, InvalidLimits, bucket_names, gates_of,
};
pub use job::{
    CancelCause, FinishedJob, FinishedState, Job, JobFacts, JobId, JobState, Lease, LeaseNo,
    LeaseOwner, LeaseRef, Progress, RunningJob, UnknownState, WaitingJob, WorkerName,
};
pub use kind::{
    InvalidKey, InvalidKind, JobKey, KindCatalog, KindName, KindSpec, RESERVED_SYSTEMS, Role,
};
pub use lane::{InvalidTenant, Lane, LaneRange, Tenant, ranges_from};
pub use link::{Batch, BatchId, HELD_UNTIL, LinkEnd, NewBatch, OnFailure};
pub use outcome::{Outcome, Rescue, Settle, Settled};
pub use payload::{InvalidJson, Json, MergeRule};
pub use runs::{Run, RunLog, RunOutcome};
pub use schedule::{
    Firing, Missed, Rhythm, SCHEDULE_KIND, Schedule, ScheduleChange, ScheduleId, ScheduleSpec,
    ScheduledJob,
};
pub use settle::{Disposition, rescue, retry_by_hand, settle};
pub use turn::{GatePlan, GateScene, plan, spend};
