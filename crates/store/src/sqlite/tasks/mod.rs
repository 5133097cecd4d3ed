//! Tasks: every method of the port is one closure over one transaction, and the statements of each are
//! in the module of its name.
//!
//! Invariant: a task is changed only as `roundsman_core::tasks` says, with all that the step brings and
//! with the update of the document that tells of its end.

mod change;
pub(super) mod check;
mod columns;
#[cfg(test)]
mod plans;
mod read;
mod sweep;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::ports::{
    ChangeAnswer, Rearmed, Scope, StoreError, TaskChange, TaskFilter, TaskStore,
};
use roundsman_core::rooms::{AppendedUpdate, NewUpdate, ProjectId};
use roundsman_core::tasks::{NewTask, Task, TaskId, TaskLook, TaskStatus};

use super::SqliteStore;

#[async_trait]
impl TaskStore for SqliteStore {
    async fn create_tasks(
        &self,
        wishes: Vec<NewTask>,
        now: Timestamp,
    ) -> Result<Vec<Task>, StoreError> {
        self.write("store.task_create", move |conn, catalog| {
            change::create_all(conn, catalog, wishes, now)
        })
        .await
    }

    async fn task(&self, scope: Scope, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.read(move |conn| read::one(conn, scope, id)).await
    }

    async fn tasks_by_id(&self, ids: Vec<TaskId>) -> Result<Vec<Task>, StoreError> {
        self.read(move |conn| read::by_id(conn, &ids)).await
    }

    async fn task_of_result(&self, result_key: String) -> Result<Option<Task>, StoreError> {
        self.read(move |conn| read::of_result(conn, &result_key)).await
    }

    async fn tasks(
        &self,
        scope: Scope,
        filter: TaskFilter,
        before: Option<TaskId>,
        rows_max: u32,
    ) -> Result<Vec<Task>, StoreError> {
        self.read(move |conn| read::list(conn, scope, &filter, before, rows_max)).await
    }

    async fn change_task(
        &self,
        change: TaskChange,
        now: Timestamp,
    ) -> Result<ChangeAnswer, StoreError> {
        self.write("store.task_change", move |conn, catalog| {
            change::change_one(conn, catalog, &change, now)
        })
        .await
    }

    async fn task_looks(
        &self,
        project: ProjectId,
        rows_max: u32,
    ) -> Result<Vec<TaskLook>, StoreError> {
        self.read(move |conn| read::looks(conn, &project, rows_max)).await
    }

    async fn tasks_pending(
        &self,
        projects: Vec<ProjectId>,
        count_max: u32,
    ) -> Result<Vec<u64>, StoreError> {
        self.read(move |conn| read::pending(conn, &projects, count_max)).await
    }

    async fn hint_task(
        &self,
        service: String,
        external_task_id: String,
        now: Timestamp,
    ) -> Result<Option<ProjectId>, StoreError> {
        self.write("store.task_hint", move |conn, catalog| {
            change::hint(conn, catalog, &service, &external_task_id, now)
        })
        .await
    }

    async fn rearm_tasks(
        &self,
        after: Option<TaskId>,
        rows_max: u32,
        now: Timestamp,
    ) -> Result<Rearmed, StoreError> {
        self.write("store.task_rearm", move |conn, catalog| {
            sweep::rearm(conn, catalog, after, rows_max, now)
        })
        .await
    }

    async fn untold_tasks(&self, rows_max: u32) -> Result<Vec<Task>, StoreError> {
        self.read(move |conn| sweep::untold(conn, rows_max)).await
    }

    async fn tell_task(
        &self,
        id: TaskId,
        update: Option<NewUpdate>,
        now: Timestamp,
    ) -> Result<Option<AppendedUpdate>, StoreError> {
        self.write("store.task_tell", move |conn, catalog| {
            change::tell(conn, catalog, id, update, now)
        })
        .await
    }

    async fn prune_tasks(&self, before: Timestamp, rows_max: u32) -> Result<u64, StoreError> {
        self.write("store.task_prune", move |conn, _| sweep::prune(conn, before, rows_max)).await
    }

    async fn task_counts(&self) -> Result<Vec<(TaskStatus, u64)>, StoreError> {
        self.read(read::counts).await
    }
}
