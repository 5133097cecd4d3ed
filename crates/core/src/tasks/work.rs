//! The jobs of tasks.

use super::TaskId;
use crate::Timestamp;
use crate::jobs::{JobKey, Json, KindName, NewJob};
use crate::rooms::ProjectId;
use crate::users::UserId;

/// Sends one task to its generator; its key is the task's number.
pub const SUBMIT_KIND: &str = "tasks.submit";
/// Fetches the files that one task brought; its key is the task's number.
pub const COLLECT_KIND: &str = "tasks.collect";
/// Tells the generator that nobody wants one task any more; its key is the task's number.
pub const CANCEL_KIND: &str = "tasks.cancel";
/// Looks after what a mistake or an operator has lost.
pub const SWEEP_KIND: &str = "tasks.sweep";
/// Forgets tasks that ended long ago.
pub const PRUNE_KIND: &str = "tasks.prune";
/// The alarm `task_polling` of a room: looks at all its tasks; its key is the project.
pub const POLLING_KIND: &str = "rooms.task_polling";

pub fn submit_wish(task: TaskId, run_at: Timestamp) -> NewJob {
    wish(SUBMIT_KIND, &task.get().to_string(), run_at)
}

pub fn collect_wish(task: TaskId, run_at: Timestamp) -> NewJob {
    wish(COLLECT_KIND, &task.get().to_string(), run_at)
}

pub fn cancel_wish(task: TaskId, run_at: Timestamp) -> NewJob {
    wish(CANCEL_KIND, &task.get().to_string(), run_at)
}

pub fn polling_wish(project: &ProjectId, run_at: Timestamp) -> NewJob {
    wish(POLLING_KIND, project.as_str(), run_at)
}

/// The task that a job's key names.
pub fn task_of_key(key: Option<&JobKey>) -> Option<TaskId> {
    TaskId::parse(key?.as_str())
}

/// Owned by the system, so that a user cannot cancel what keeps a promise to them.
fn wish(kind: &str, key: &str, run_at: Timestamp) -> NewJob {
    NewJob {
        user_id: UserId::SYSTEM,
        kind: KindName::new(kind).expect("a built-in kind has a valid name"),
        key: JobKey::new(key).ok(),
        payload: Json::null(),
        priority: 0,
        run_at,
        max_attempts: None,
        tenant: None,
    }
}
