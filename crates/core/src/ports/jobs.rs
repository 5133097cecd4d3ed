//! The jobs in the database. Every method is one atomic step; none waits on anything but the
//! database.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use crate::Timestamp;
use crate::jobs::{
    Job, JobId, JobKey, JobState, Json, KindName, Lane, LeaseOwner, LeaseRef, NewJob, RunningJob,
    Settle, Settled, WorkerName,
};
use crate::users::UserId;

/// Stores, hands out and settles jobs.
///
/// Batch methods answer in the order of what they were given. A whole batch commits or fails
/// together, but a stale lease in it is an answer and does not disturb its neighbours. Callers keep
/// batches under [`crate::limits::STORE_BATCH_ROWS_MAX`].
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Writes wishes. A wish that names a tenant makes a gate for its lane, if there is none. A wish whose (user, kind, key) waits already joins that job; several wishes
    /// with one key in the same call join each other. Durable when this returns.
    async fn enqueue(
        &self,
        request: EnqueueRequest,
        now: Timestamp,
    ) -> Result<EnqueueAnswer, StoreError>;

    /// Moves jobs that have come due from `scheduled` to `pending`, then claims pending ones, best
    /// rank first, none whose key is running. Each claim draws a new `lease_no` and uses an
    /// attempt. Never more than `total_max`, nor than a lane's `max`. What passes a gate does so by
    /// [`crate::jobs::plan`].
    async fn claim(&self, request: ClaimRequest, now: Timestamp)
    -> Result<ClaimAnswer, StoreError>;

    /// Extends leases and stores progress. Checks the token alone, never the time: a late heartbeat
    /// that finds its lease still there has won against the sweep.
    async fn heartbeat(
        &self,
        beats: Vec<Heartbeat>,
        now: Timestamp,
    ) -> Result<Vec<HeartbeatAnswer>, StoreError>;

    /// Ends runs by [`crate::jobs::settle`], folding by [`crate::jobs::fold`], each with its
    /// effects. A run whose lease is gone changes nothing, and none of its effects happen.
    async fn settle(
        &self,
        settles: Vec<Settle>,
        jitter: u64,
        now: Timestamp,
    ) -> Result<Vec<Settled>, StoreError>;

    /// Takes jobs from holders that are gone, silent or over their deadline, by
    /// [`crate::jobs::rescue`]. Compares the time again in the write itself, so that of a late
    /// heartbeat and a sweep exactly one wins. Safe to run anywhere, any number of times at once.
    async fn sweep(&self, request: SweepRequest, now: Timestamp)
    -> Result<SweepReport, StoreError>;

    /// Announces a new server process and returns its owner mark. An embedded database belongs to
    /// one process, so there every in-process lease of an earlier one is rescued here, at once.
    async fn begin_process(&self, jitter: u64, now: Timestamp) -> Result<ProcessStart, StoreError>;

    /// Shows that the process lives; called every second or two. On a shared database it holds a lock
    /// that ends with the process: a sweep that finds it free twice, [`PROCESS_GONE_AFTER`] apart
    /// and without a heartbeat in between, takes the leases of that process without waiting for their
    /// time. A store does this for one process, the last that was named.
    async fn keep_process(&self, owner: LeaseOwner, now: Timestamp) -> Result<(), StoreError>;

    /// Cancels: a waiting job at once, a running one by telling its holder.
    async fn cancel(
        &self,
        scope: Scope,
        id: JobId,
        now: Timestamp,
    ) -> Result<CancelAnswer, StoreError>;

    /// Tries again by hand: a finished job with all attempts before it, a waiting one without its
    /// backoff.
    async fn retry(
        &self,
        scope: Scope,
        id: JobId,
        now: Timestamp,
    ) -> Result<RetryAnswer, StoreError>;

    /// One job in whatever state it is, from one consistent look.
    async fn job(&self, scope: Scope, id: JobId) -> Result<Option<Job>, StoreError>;

    /// Jobs by descending number, from one consistent look.
    async fn jobs(
        &self,
        scope: Scope,
        filter: ListFilter,
        page: ListPage,
        now: Timestamp,
    ) -> Result<Vec<Job>, StoreError>;

    /// Running jobs, by descending number.
    async fn leases(&self, scope: Scope, page: ListPage) -> Result<Vec<RunningJob>, StoreError>;

    /// Deletes what is past its retention, at most `rows_max` rows of each sort.
    async fn prune(&self, request: PruneRequest) -> Result<PruneReport, StoreError>;

    /// How much waits and runs, per kind. Counts stop at [`DEPTH_COUNT_MAX`].
    async fn depths(&self, now: Timestamp) -> Result<Vec<KindDepth>, StoreError>;
}

/// A process that is seen to be gone must still be gone this much later. One that has only lost its
/// connection is back by then.
pub const PROCESS_GONE_AFTER: Duration = Duration::from_secs(5);

/// Counting a lane stops here: an exact count of a million rows would cost more than it tells.
pub const DEPTH_COUNT_MAX: u64 = 100_000;

/// Whose rows an operation may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One user's. The rows of others do not exist.
    User(UserId),
    /// Everybody's: for the operator.
    All,
}

/// Wishes to be written in one transaction.
#[derive(Debug, Clone, Default)]
pub struct EnqueueRequest {
    pub jobs: Vec<NewJob>,
    /// Set when a client may send the same request again.
    pub idempotency: Option<IdempotencyKey>,
}

/// Names one request of one client, however often it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub user_id: UserId,
    pub route: &'static str,
    pub key: String,
    /// Of the request's body: the same key with another body is a mistake of the client.
    pub body_hash: [u8; 32],
}

/// What became of an enqueue request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnqueueAnswer {
    Stored(Vec<Enqueued>),
    /// The request was carried out before; this is what it was answered then.
    Replayed(Vec<Enqueued>),
    /// The idempotency key was used with another body. Nothing was written.
    KeyReused,
}

/// What became of one wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enqueued {
    pub id: JobId,
    /// It joined a job that was waiting already.
    pub coalesced: bool,
}

/// A worker's wish for work.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    pub worker: WorkerName,
    pub owner: LeaseOwner,
    /// Each lane at most once.
    pub demands: Vec<LaneDemand>,
    pub total_max: u32,
}

/// How much of one lane a worker can take, and on what terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneDemand {
    pub lane: Lane,
    pub max: u32,
    pub lease_ttl: Duration,
    pub deadline: Option<Duration>,
}

/// What a claim brought.
#[derive(Debug, Clone, Default)]
pub struct ClaimAnswer {
    pub jobs: Vec<RunningJob>,
    /// When the next scheduled job, of whatever lane, comes due, or a rate lets the next one through;
    /// `None` if nothing of the kind is known.
    pub next_due_at: Option<Timestamp>,
    /// A lane that was asked for has a gate: what it kept back may pass at any time, unannounced.
    pub gated: bool,
}

/// A sign of life for one lease.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    pub lease: LeaseRef,
    /// `None`: as long as it was claimed for.
    pub ttl: Option<Duration>,
    /// Replaces what was stored before.
    pub progress: Option<Json>,
}

/// What a heartbeat learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeartbeatAnswer {
    Extended { until: Timestamp, cancel_requested: bool },
    LeaseLost,
}

/// How far a sweep goes.
#[derive(Debug, Clone, Copy)]
pub struct SweepRequest {
    pub rows_max: u32,
    /// Since when this node has been able to take heartbeats without a break. An outside worker is
    /// given one full lease from then: our own outage must not look like its death. A process is not
    /// taken for gone before it had time to come back from an outage that we had too.
    pub serving_since: Timestamp,
    pub jitter: u64,
}

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// (kind, how it ended) of every job that was taken from its holder.
    pub rescued: Vec<(KindName, JobState)>,
}

/// A process that has announced itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStart {
    pub owner: LeaseOwner,
    /// How many leases of dead processes were taken over.
    pub rescued: u32,
}

/// What a cancel came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAnswer {
    NotFound,
    /// It was waiting and is cancelled.
    Cancelled,
    /// It is running; its holder is told.
    Requested,
    /// It had ended already, in this state.
    Finished(JobState),
}

/// What a retry by hand came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAnswer {
    NotFound,
    /// It waits and is due now.
    Requeued,
    /// It is being worked on.
    Running,
    /// Another job with its key waits already.
    KeyTaken {
        by: JobId,
    },
}

/// Which jobs to list. Every `None` lets all through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    pub kind: Option<KindName>,
    pub key: Option<JobKey>,
    pub state: Option<JobState>,
    pub key_prefix: Option<String>,
    /// Made at this time or later.
    pub created_from: Option<Timestamp>,
    /// Made before this time.
    pub created_before: Option<Timestamp>,
    /// Failed, with this text in the error's code or message, to the letter.
    pub error: Option<String>,
}

/// Which part of a list, by descending number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPage {
    /// Only numbers below this one.
    pub before: Option<JobId>,
    pub rows_max: u32,
}

/// What is past its retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneRequest {
    pub completed_before: Timestamp,
    pub failed_before: Timestamp,
    pub cancelled_before: Timestamp,
    pub idempotency_before: Timestamp,
    pub frames_before: Timestamp,
    /// Buckets that nobody used since are full: see [`crate::jobs::Rate::PER_SECS_MAX`].
    pub buckets_before: Timestamp,
    pub rows_max: u32,
}

/// What pruning removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneReport {
    pub jobs: u64,
    pub idempotency_keys: u64,
    pub frames: u64,
    /// A limit was reached: there is more to prune.
    pub more: bool,
}

/// How much of one kind waits and runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindDepth {
    pub kind: KindName,
    pub scheduled: u64,
    pub pending: u64,
    pub processing: u64,
    /// When the longest-waiting pending job came due.
    pub oldest_due_at: Option<Timestamp>,
}
