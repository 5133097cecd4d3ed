//! What became of a task, for the document of its project.

use super::ProjectId;
use crate::Timestamp;
use crate::jobs::Json;

/// A task that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCompletion {
    pub project: ProjectId,
    pub task_id: String,
    /// The node that waits for it; without one, the node whose `data.taskId` names the task.
    pub node_id: Option<String>,
    pub outcome: TaskOutcome,
    pub at: Timestamp,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskOutcome {
    Completed {
        result_url: Option<String>,
        result_data: Option<Json>,
        /// What the node is called from now on, if it is to be called something.
        label: Option<String>,
        /// What the result shows, in words.
        description: Option<String>,
    },
    Failed {
        /// Stable, for programs: `submit_unknown`.
        code: String,
        /// For people.
        message: String,
    },
    Cancelled,
}

impl TaskOutcome {
    /// The word in the document.
    pub fn status(&self) -> &'static str {
        match self {
            TaskOutcome::Completed { .. } => "completed",
            TaskOutcome::Failed { .. } => "failed",
            TaskOutcome::Cancelled => "cancelled",
        }
    }
}
