//! The schedules in the database.

use async_trait::async_trait;

use super::{Scope, StoreError};
use crate::Timestamp;
use crate::jobs::{LeaseRef, NewJob, Schedule, ScheduleChange, ScheduleId, ScheduleSpec};
use crate::users::UserId;

/// Keeps schedules, each with the job that looks after it: see [`Schedule::keeper`].
#[async_trait]
pub trait ScheduleStore: Send + Sync {
    /// Makes a schedule and its keeper. `None` if the user has as many as they may.
    async fn create_schedule(
        &self,
        user: UserId,
        spec: ScheduleSpec,
        now: Timestamp,
    ) -> Result<Option<Schedule>, StoreError>;

    async fn schedule(&self, scope: Scope, id: ScheduleId) -> Result<Option<Schedule>, StoreError>;

    /// Schedules by descending number.
    async fn schedules(
        &self,
        scope: Scope,
        before: Option<ScheduleId>,
        rows_max: u32,
    ) -> Result<Vec<Schedule>, StoreError>;

    /// Changes a schedule by [`Schedule::changed`] and wakes its keeper.
    async fn change_schedule(
        &self,
        scope: Scope,
        id: ScheduleId,
        change: ScheduleChange,
        now: Timestamp,
    ) -> Result<Option<Schedule>, StoreError>;

    /// Its keeper ends when it finds it gone.
    async fn delete_schedule(&self, scope: Scope, id: ScheduleId) -> Result<bool, StoreError>;

    /// Does what is due by [`Schedule::due`]: the jobs and the step to the next moment are one.
    async fn fire_schedule(
        &self,
        id: ScheduleId,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<Fired, StoreError>;
}

/// What firing came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fired {
    /// The lease is gone; nothing was written.
    LeaseLost,
    /// There is no such schedule any more.
    Gone,
    /// These were enqueued; the next moment, if one is to come.
    Done { jobs: Vec<NewJob>, missed: u64, next_at: Option<Timestamp> },
}
