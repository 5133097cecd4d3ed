//! Tasks: one file per group of operations, and what several of them share.
//!
//! Invariants:
//! - whoever changes a task holds the lock of its row; a lease that guards the change is held before,
//!   and the row of a service's slots, if one is taken; the room's row, whose document is told, and the
//!   jobs come after;
//! - a task is changed only as `roundsman_core::tasks` says, with all that the step brings.

mod change;
pub(super) mod check;
mod columns;
mod create;
mod read;
mod sweep;
mod tell;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::ports::{
    ChangeAnswer, Rearmed, Scope, StoreError, TaskChange, TaskFilter, TaskStore,
};
use roundsman_core::rooms::{AppendedUpdate, NewUpdate, ProjectId};
use roundsman_core::tasks::{NewTask, Task, TaskId, TaskLook, TaskStatus};

use super::PostgresStore;

#[async_trait]
impl TaskStore for PostgresStore {
    async fn create_tasks(
        &self,
        wishes: Vec<NewTask>,
        now: Timestamp,
    ) -> Result<Vec<Task>, StoreError> {
        let create = create::Create { wishes, catalog: &self.catalog, now };
        self.change("store.task_create", &create).await
    }

    async fn task(&self, scope: Scope, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.pool.run(&read::OneTask { scope, id }).await
    }

    async fn tasks_by_id(&self, ids: Vec<TaskId>) -> Result<Vec<Task>, StoreError> {
        self.pool.run(&read::ById { ids }).await
    }

    async fn task_of_result(&self, result_key: String) -> Result<Option<Task>, StoreError> {
        self.pool.run(&read::OfResult { result_key }).await
    }

    async fn tasks(
        &self,
        scope: Scope,
        filter: TaskFilter,
        before: Option<TaskId>,
        rows_max: u32,
    ) -> Result<Vec<Task>, StoreError> {
        self.pool.run(&read::Tasks { scope, filter, before, rows_max }).await
    }

    async fn change_task(
        &self,
        change: TaskChange,
        now: Timestamp,
    ) -> Result<ChangeAnswer, StoreError> {
        let change = change::Change { asked: change, catalog: &self.catalog, now };
        self.change("store.task_change", &change).await
    }

    async fn task_looks(
        &self,
        project: ProjectId,
        rows_max: u32,
    ) -> Result<Vec<TaskLook>, StoreError> {
        self.pool.run(&read::Looks { project, rows_max }).await
    }

    async fn tasks_pending(
        &self,
        projects: Vec<ProjectId>,
        count_max: u32,
    ) -> Result<Vec<u64>, StoreError> {
        self.pool.run(&read::Pending { projects, count_max }).await
    }

    async fn hint_task(
        &self,
        service: String,
        external_task_id: String,
        now: Timestamp,
    ) -> Result<Option<ProjectId>, StoreError> {
        let hint = tell::Hint { service, external_task_id, catalog: &self.catalog, now };
        self.change("store.task_hint", &hint).await
    }

    async fn rearm_tasks(
        &self,
        after: Option<TaskId>,
        rows_max: u32,
        now: Timestamp,
    ) -> Result<Rearmed, StoreError> {
        let rearm = sweep::Rearm { after, rows_max, catalog: &self.catalog, now };
        self.change("store.task_rearm", &rearm).await
    }

    async fn untold_tasks(&self, rows_max: u32) -> Result<Vec<Task>, StoreError> {
        self.pool.run(&sweep::Untold { rows_max }).await
    }

    async fn tell_task(
        &self,
        id: TaskId,
        update: Option<NewUpdate>,
        now: Timestamp,
    ) -> Result<Option<AppendedUpdate>, StoreError> {
        let tell = tell::Tell { id, update, catalog: &self.catalog, now };
        self.change("store.task_tell", &tell).await
    }

    async fn prune_tasks(&self, before: Timestamp, rows_max: u32) -> Result<u64, StoreError> {
        self.change("store.task_prune", &sweep::Prune { before, rows_max }).await
    }

    async fn task_counts(&self) -> Result<Vec<(TaskStatus, u64)>, StoreError> {
        self.pool.run(&read::Counts).await
    }
}

/// The statements whose plans are tested.
#[cfg(test)]
pub(super) fn hot_statements() -> Vec<&'static str> {
    vec![
        columns::LOCK_TASK,
        columns::UPDATE_TASK,
        change::SLOTS_TAKEN,
        read::ONE_TASK,
        read::OF_RESULT,
        read::TASKS_OF_ALL,
        read::TASKS_OF_USER,
        read::TASKS_OF_PROJECT,
        read::LOOKS,
        read::PENDING,
        sweep::UNFINISHED,
        sweep::UNTOLD,
        sweep::PRUNE,
        tell::HINT,
    ]
}
