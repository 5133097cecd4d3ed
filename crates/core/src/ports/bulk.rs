//! What is done to many jobs, one at a time, and what failed jobs need.

use async_trait::async_trait;

use super::{Scope, StoreError};
use crate::Timestamp;
use crate::jobs::{JobId, JobState, KindName};

/// Steps of bulk operations. Each is atomic; a caller takes as many as it likes.
#[async_trait]
pub trait BulkStore: Send + Sync {
    /// Gives a waiting job another priority, and with it another place in its lane.
    async fn reprioritise(
        &self,
        scope: Scope,
        id: JobId,
        priority: i16,
        now: Timestamp,
    ) -> Result<ReprioritiseAnswer, StoreError>;

    /// Deletes a job that is over.
    async fn delete_job(&self, scope: Scope, id: JobId) -> Result<DeleteAnswer, StoreError>;

    /// How many failed jobs are kept, per kind. Counts stop at [`super::DEPTH_COUNT_MAX`].
    async fn dead_counts(&self) -> Result<Vec<(KindName, u64)>, StoreError>;

    /// Deletes failed jobs: of these kinds those that ended before their own times, of all others
    /// those before `others_before`. At most `rows_max`; returns how many.
    async fn prune_dead(
        &self,
        horizons: Vec<(KindName, Timestamp)>,
        others_before: Timestamp,
        rows_max: u32,
    ) -> Result<u64, StoreError>;
}

/// What another priority came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReprioritiseAnswer {
    NotFound,
    Moved,
    /// It does not wait.
    NotWaiting(JobState),
}

/// What a deletion came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteAnswer {
    NotFound,
    Deleted,
    /// It is not over.
    NotFinished(JobState),
}
