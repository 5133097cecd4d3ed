//! A task as it is known.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::jobs::{ErrorCode, JobError, Json};
use crate::rooms::ProjectId;
use crate::users::UserId;

/// A type is at most this long; it is a metric label.
const TYPE_BYTES_MAX: usize = 64;
/// A node's name is at most this long.
pub const NODE_BYTES_MAX: usize = 200;
/// What a user says about a task is at most this long.
pub const PARAMS_BYTES_MAX: usize = 256 * 1024;
/// What a generator says about a result is kept up to this length.
pub const RESULT_DATA_BYTES_MAX: usize = 256 * 1024;

/// A task's number. Outside it is a word, `task_17`, because documents name tasks by words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(i64);

impl TaskId {
    pub const fn new(value: i64) -> Self {
        TaskId(value)
    }

    pub const fn get(self) -> i64 {
        self.0
    }

    /// Reads `task_17` or `17`.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("task_").unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse().ok()).flatten().map(TaskId)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task_{}", self.0)
    }
}

/// The text is no type of a task, or no name of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidTaskText(pub String);

/// What kind of work it is, such as `kling_video`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskType(String);

impl TaskType {
    pub fn new(text: &str) -> Result<Self, InvalidTaskText> {
        let fits = !text.is_empty()
            && text.len() <= TYPE_BYTES_MAX
            && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.'));
        let said = format!("must be 1 to {TYPE_BYTES_MAX} of a-z, 0-9, _, - and .");
        if fits { Ok(TaskType(text.to_owned())) } else { Err(InvalidTaskText(said)) }
    }

    /// Takes what was stored.
    pub fn from_stored(text: String) -> Self {
        TaskType(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Takes the name of a node as the document spells it.
pub fn check_node(text: &str) -> Result<String, InvalidTaskText> {
    let fits =
        !text.is_empty() && text.len() <= NODE_BYTES_MAX && !text.chars().any(char::is_control);
    let said = format!("must be 1 to {NODE_BYTES_MAX} bytes without control characters");
    if fits { Ok(text.to_owned()) } else { Err(InvalidTaskText(said)) }
}

/// How far it is, as everybody is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaskStatus {
    Pending,
    Processing,
    Completed,
    Failed,
    Cancelled,
}

impl TaskStatus {
    pub const ALL: [TaskStatus; 5] = [
        TaskStatus::Pending,
        TaskStatus::Processing,
        TaskStatus::Completed,
        TaskStatus::Failed,
        TaskStatus::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            TaskStatus::Pending => "pending",
            TaskStatus::Processing => "processing",
            TaskStatus::Completed => "completed",
            TaskStatus::Failed => "failed",
            TaskStatus::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        TaskStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }

    pub fn is_over(self) -> bool {
        matches!(self, TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled)
    }
}

/// What a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaskStage {
    /// To be sent: nobody outside knows of it.
    Waiting,
    /// It is being sent, or was when whoever sent it died: somebody outside may know of it.
    Sending,
    /// The generator has it.
    Polling,
    /// The generator is done, and its files are being fetched.
    Collecting,
    Over,
}

impl TaskStage {
    pub const ALL: [TaskStage; 5] = [
        TaskStage::Waiting,
        TaskStage::Sending,
        TaskStage::Polling,
        TaskStage::Collecting,
        TaskStage::Over,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            TaskStage::Waiting => "waiting",
            TaskStage::Sending => "sending",
            TaskStage::Polling => "polling",
            TaskStage::Collecting => "collecting",
            TaskStage::Over => "over",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        TaskStage::ALL.into_iter().find(|stage| stage.as_str() == text)
    }
}

/// Why a task came to nothing, or why the latest look at it did.
pub type TaskError = JobError;

/// A file that a task brought and that we keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFile {
    /// Where it is in the blob store.
    pub blob: String,
    pub bytes: u64,
    pub sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub id: TaskId,
    /// Whose project it is for.
    pub user_id: UserId,
    pub project_id: ProjectId,
    pub task_type: TaskType,
    pub status: TaskStatus,
    pub stage: TaskStage,
    /// A JSON object, as the user gave it.
    pub params: Json,
    /// The node of the document that shows the result.
    pub node_id: Option<String>,
    /// Who does it.
    pub external_service: String,
    /// What they call it; `None` until they have taken it.
    pub external_task_id: Option<String>,
    /// What it is sent under: the same however often it is sent.
    pub submit_key: String,
    pub result_url: Option<String>,
    pub result_data: Option<Json>,
    pub files: Vec<KeptFile>,
    /// Opens the files to whoever has it; drawn when the task is made.
    pub result_key: String,
    /// Of a failed task why; of one under way what was wrong with the latest look.
    pub error: Option<TaskError>,
    /// Looks in a row that came to nothing.
    pub retry_count: u32,
    pub max_retries: u32,
    /// Looks that were answered.
    pub polls: u32,
    /// The task that this one tries once more.
    pub retry_of: Option<TaskId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    /// However it is then, it ends.
    pub deadline_at: Timestamp,
    /// When it is to be looked at; `None` while it is not the generator's turn.
    pub next_poll_at: Option<Timestamp>,
    /// When somebody last said that a look would be worth it.
    pub hinted_at: Option<Timestamp>,
    /// When the project's document was told of its end; `None` until then.
    pub applied_at: Option<Timestamp>,
    /// Grows with every step: whoever writes about an older one is late.
    pub version: i64,
}

impl Task {
    /// The error's word, if there is one.
    pub fn error_code(&self) -> Option<&str> {
        self.error.as_ref().map(|error| ErrorCode::as_str(&error.code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for status in TaskStatus::ALL {
            assert_eq!(TaskStatus::parse(status.as_str()), Some(status));
        }
        for stage in TaskStage::ALL {
            assert_eq!(TaskStage::parse(stage.as_str()), Some(stage));
        }
        let id = TaskId::new(17);
        assert_eq!((TaskId::parse(&id.to_string()), TaskId::parse("17")), (Some(id), Some(id)));
        for odd in ["", "task_", "task_-1", "+1", "task_1x", "task_99999999999999999999"] {
            assert_eq!(TaskId::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn types_and_nodes_are_kept_whole_or_not_at_all() {
        assert!(TaskType::new("kling_video").is_ok());
        for bad in ["", "Kling", "a b", "a\0", &"x".repeat(TYPE_BYTES_MAX + 1)] {
            assert!(TaskType::new(bad).is_err(), "{bad:?}");
        }
        assert!(check_node("node 1").is_ok());
        for bad in ["", "a\n", &"x".repeat(NODE_BYTES_MAX + 1)] {
            assert!(check_node(bad).is_err(), "{bad:?}");
        }
    }
}
