//! Jobs that wait for others, and batches.

use async_trait::async_trait;

use super::{Enqueued, IdempotencyKey, Scope, StoreError};
use crate::Timestamp;
use crate::jobs::{Batch, BatchId, JobId, NewBatch, NewJob, OnFailure};

/// Links between jobs. Whatever ends a job resolves its links in the same transaction, by
/// [`OnFailure::after`]; a job that nobody waits for, and that is in no batch, is not looked at.
#[async_trait]
pub trait BatchStore: Send + Sync {
    /// Writes a wish that waits until others have ended. A job that ended before counts as what it
    /// ended as.
    async fn enqueue_after(
        &self,
        wish: NewJob,
        after: Vec<JobId>,
        on_failure: OnFailure,
        now: Timestamp,
    ) -> Result<AfterAnswer, StoreError>;

    /// The jobs that a job still waits for, by number.
    async fn waits_for(&self, id: JobId) -> Result<Vec<JobId>, StoreError>;

    /// Writes wishes as a batch. When the last of its jobs ends, the callback is enqueued in the
    /// same transaction. With a key, the same request is carried out once.
    async fn create_batch(
        &self,
        batch: NewBatch,
        idempotency: Option<IdempotencyKey>,
        now: Timestamp,
    ) -> Result<BatchAnswer, StoreError>;

    async fn batch(
        &self,
        scope: Scope,
        id: BatchId,
        now: Timestamp,
    ) -> Result<Option<Batch>, StoreError>;

    /// Deletes batches that ended before this. Their jobs stay.
    async fn prune_batches(&self, before: Timestamp, rows_max: u32) -> Result<u64, StoreError>;
}

/// What became of the wish for a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchAnswer {
    Stored(BatchId, Vec<Enqueued>),
    /// The same request had been carried out before; nothing was written.
    Replayed(BatchId, Vec<Enqueued>),
    /// The idempotency key was used with another body. Nothing was written.
    KeyReused,
}

/// What became of a wish that waits for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterAnswer {
    Stored(JobId),
    /// There is no such job for this user; nothing was written.
    NoSuchJob(JobId),
    /// A job with its key waits already; nothing was written.
    KeyTaken {
        by: JobId,
    },
}
