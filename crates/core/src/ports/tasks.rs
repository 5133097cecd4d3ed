//! Tasks and alarms in the database.
//!
//! Invariants: a task changes only as [`crate::tasks::step`] says, in one transaction with the jobs,
//! frames, events and log that the step brings, and with the update of the document that tells of its
//! end; whoever says which version they have seen changes no other; whoever works under a lease changes
//! nothing without it. An alarm is a job of the kinds in [`crate::alarms`], and nothing else.

use async_trait::async_trait;

use super::{Scope, StoreError};
use crate::Timestamp;
use crate::alarms::{Alarm, AlarmName, AlarmWish};
use crate::effects::Frame;
use crate::jobs::LeaseRef;
use crate::rooms::{AppendedUpdate, NewUpdate, ProjectId};
use crate::tasks::{NewTask, Task, TaskEvent, TaskId, TaskLook, TaskRules, TaskStatus};

/// Stores tasks.
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// Makes tasks, each as [`crate::tasks::new_task`] says, with the jobs that send them and look
    /// after them. Durable when this returns.
    async fn create_tasks(
        &self,
        wishes: Vec<NewTask>,
        now: Timestamp,
    ) -> Result<Vec<Task>, StoreError>;

    async fn task(&self, scope: Scope, id: TaskId) -> Result<Option<Task>, StoreError>;

    /// These, in the order given; those that are not there are left out.
    async fn tasks_by_id(&self, ids: Vec<TaskId>) -> Result<Vec<Task>, StoreError>;

    /// The one whose files this key opens.
    async fn task_of_result(&self, result_key: String) -> Result<Option<Task>, StoreError>;

    /// Newest first, those with a lower number than `before`.
    async fn tasks(
        &self,
        scope: Scope,
        filter: TaskFilter,
        before: Option<TaskId>,
        rows_max: u32,
    ) -> Result<Vec<Task>, StoreError>;

    /// Takes a step.
    async fn change_task(
        &self,
        change: TaskChange,
        now: Timestamp,
    ) -> Result<ChangeAnswer, StoreError>;

    /// What is not over in a project, at most `rows_max`, those that are due first.
    async fn task_looks(
        &self,
        project: ProjectId,
        rows_max: u32,
    ) -> Result<Vec<TaskLook>, StoreError>;

    /// How many are not over in each of these projects, counted up to `count_max`.
    async fn tasks_pending(
        &self,
        projects: Vec<ProjectId>,
        count_max: u32,
    ) -> Result<Vec<u64>, StoreError>;

    /// Somebody says that a look at what a service calls so would be worth it: makes it due, and its
    /// room with it. `None` if there is no such task, or it is over.
    async fn hint_task(
        &self,
        service: String,
        external_task_id: String,
        now: Timestamp,
    ) -> Result<Option<ProjectId>, StoreError>;

    /// Sets the jobs of tasks that wait and have none: those numbered after `after`, at most
    /// `rows_max` of them, by their numbers.
    async fn rearm_tasks(
        &self,
        after: Option<TaskId>,
        rows_max: u32,
        now: Timestamp,
    ) -> Result<Rearmed, StoreError>;

    /// Those that are over and of whose end the document was not told, oldest first.
    async fn untold_tasks(&self, rows_max: u32) -> Result<Vec<Task>, StoreError>;

    /// Tells the document of the end of a task, if it was not told yet.
    async fn tell_task(
        &self,
        id: TaskId,
        update: Option<NewUpdate>,
        now: Timestamp,
    ) -> Result<Option<AppendedUpdate>, StoreError>;

    /// Forgets tasks that ended before this, with their log: those that brought no files and whose
    /// document was told, at most `rows_max` of them, the oldest first. Returns how many.
    async fn prune_tasks(&self, before: Timestamp, rows_max: u32) -> Result<u64, StoreError>;

    /// How many there are in each state, for metrics. Counts of those that are over may be left out.
    async fn task_counts(&self) -> Result<Vec<(TaskStatus, u64)>, StoreError>;
}

/// Sets and shows alarms.
#[async_trait]
pub trait AlarmStore: Send + Sync {
    /// Sets a user's alarm; one that is firing is set again. `false` if the room has `alarms_max`
    /// others already.
    async fn set_alarm(
        &self,
        wish: AlarmWish,
        alarms_max: u32,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Takes a user's alarm back. `false` if it is not set; one that is firing is not stopped.
    async fn cancel_alarm(
        &self,
        project: ProjectId,
        name: AlarmName,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// The alarms of a room, its own and its users', by their times: those that are set, and those
    /// that are firing.
    async fn alarms(&self, project: ProjectId, rows_max: u32) -> Result<Vec<Alarm>, StoreError>;
}

/// Which tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFilter {
    pub project: Option<ProjectId>,
    pub status: Option<TaskStatus>,
}

/// A step of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskChange {
    pub id: TaskId,
    pub event: TaskEvent,
    pub rules: TaskRules,
    /// The version that whoever decided has seen; `None` takes it as it is.
    pub version: Option<i64>,
    /// Whose lease it is done under.
    pub guard: Option<LeaseRef>,
    /// Only if fewer than this many of its service are under way.
    pub slots_max: Option<u32>,
    /// Tells the document of its end: stored if the step is one, and otherwise not.
    pub update: Option<NewUpdate>,
    /// Whether the document knows already, so that there is nothing to tell it.
    pub is_told: bool,
}

impl TaskChange {
    /// A step that nothing stands in the way of.
    pub fn new(id: TaskId, event: TaskEvent, rules: TaskRules) -> Self {
        TaskChange {
            id,
            event,
            rules,
            version: None,
            guard: None,
            slots_max: None,
            update: None,
            is_told: false,
        }
    }
}

/// What a step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeAnswer {
    /// The task as it is now, what listeners are told, and the update of the document.
    Changed {
        task: Box<Task>,
        frames: Vec<Frame>,
        appended: Option<AppendedUpdate>,
    },
    /// Nothing follows: it is over, or it is as it was.
    Unchanged(Box<Task>),
    /// It has changed since, or the step is not possible; this is how it is.
    Stale(Box<Task>),
    /// All slots of its service are taken.
    NoSlot,
    NotFound,
    LeaseLost,
}

/// What the sweep found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rearmed {
    /// The jobs that were lost and are there again.
    pub jobs: u32,
    /// Where to go on; `None` at the end.
    pub next_after: Option<TaskId>,
}
