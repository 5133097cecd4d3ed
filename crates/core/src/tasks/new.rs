//! How a wish becomes a task.

use std::time::Duration;

use super::machine::logged;
use super::{Stepped, Task, TaskId, TaskStage, TaskStatus, TaskType, polling_wish, submit_wish};
use crate::Timestamp;
use crate::effects::Effects;
use crate::jobs::Json;
use crate::rooms::ProjectId;
use crate::users::UserId;

/// What tasks may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskRules {
    /// How long a room rests between looks at its tasks.
    pub poll_every: Duration,
    /// From its making to its end, whatever happens.
    pub deadline: Duration,
    /// Looks in a row that may come to nothing.
    pub max_retries: u32,
}

impl Default for TaskRules {
    fn default() -> Self {
        TaskRules {
            poll_every: Duration::from_secs(10),
            deadline: Duration::from_secs(2 * 3600),
            max_retries: 3,
        }
    }
}

/// A wish for a task, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    pub user_id: UserId,
    pub project_id: ProjectId,
    pub task_type: TaskType,
    pub params: Json,
    pub node_id: Option<String>,
    pub external_service: String,
    /// Drawn for it: what it is sent under.
    pub submit_key: String,
    /// Drawn for it: what opens its files.
    pub result_key: String,
    pub max_retries: u32,
    pub retry_of: Option<TaskId>,
    pub deadline_at: Timestamp,
    /// When its room looks at it for the first time, if nobody does before.
    pub first_look_at: Timestamp,
}

/// The task that a wish becomes, with the jobs that send it and look after it.
pub fn new_task(id: TaskId, wish: NewTask, now: Timestamp) -> Stepped {
    let first_look_at = wish.first_look_at;
    let task = Task {
        id,
        user_id: wish.user_id,
        project_id: wish.project_id,
        task_type: wish.task_type,
        status: TaskStatus::Pending,
        stage: TaskStage::Waiting,
        params: wish.params,
        node_id: wish.node_id,
        external_service: wish.external_service,
        external_task_id: None,
        submit_key: wish.submit_key,
        result_url: None,
        result_data: None,
        files: Vec::new(),
        result_key: wish.result_key,
        error: None,
        retry_count: 0,
        max_retries: wish.max_retries,
        polls: 0,
        retry_of: wish.retry_of,
        created_at: now,
        updated_at: now,
        completed_at: None,
        deadline_at: wish.deadline_at,
        next_poll_at: None,
        hinted_at: None,
        applied_at: None,
        version: 1,
    };
    let cause = if task.retry_of.is_some() { "retry" } else { "user" };
    let effects = Effects {
        jobs: vec![submit_wish(id, now), polling_wish(&task.project_id, first_look_at)],
        transitions: vec![logged(&task, None, cause)],
        ..Effects::default()
    };
    Stepped { task, effects }
}
