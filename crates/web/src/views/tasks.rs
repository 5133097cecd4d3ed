//! Tasks, and what is said about them.

use roundsman_core::Timestamp;
use roundsman_core::ports::TaskFilter;
use roundsman_core::rooms::ProjectId;
use roundsman_core::tasks::{Task, TaskId, TaskStatus};
use roundsman_engine::tasks::{BroadcastWish, TaskWish};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::{next_before, page_rows, raw};
use crate::problem::{Place, Problem};

/// A wish for a task.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TaskRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskBody {
    /// The project that it is for. It belongs to the user who first names it.
    #[schema(example = "storyboard-7", max_length = 128)]
    project_id: String,
    /// What is to be done; configured executors say what can be.
    #[schema(example = "kling_video")]
    task_type: String,
    /// What its generator is told.
    #[schema(value_type = Object, example = json!({"prompt": "a cat on a roof"}))]
    params: Value,
    /// The node of the project's document that shows the result.
    #[schema(example = "node-3")]
    node_id: Option<String>,
    /// Looks in a row that may come to nothing before it fails.
    #[schema(minimum = 1, maximum = 1000, default = 3)]
    max_retries: Option<u32>,
}

impl TaskBody {
    pub(crate) fn into_wish(self) -> TaskWish {
        let TaskBody { project_id, task_type, params, node_id, max_retries } = self;
        TaskWish { project_id, task_type, params, node_id, max_retries }
    }
}

/// A task.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Task)]
pub(crate) struct TaskView {
    #[schema(example = "task_17")]
    task_id: String,
    #[schema(example = "storyboard-7")]
    project_id: String,
    #[schema(example = "kling_video")]
    task_type: String,
    /// `pending`, `processing`, `completed`, `failed` or `cancelled`.
    #[schema(example = "processing")]
    status: &'static str,
    /// What it waits for: `waiting`, `sending`, `polling`, `collecting` or `over`.
    #[schema(example = "polling")]
    stage: &'static str,
    #[schema(value_type = Object)]
    params: Box<RawValue>,
    node_id: Option<String>,
    /// Who does it.
    #[schema(example = "kling")]
    external_service: String,
    /// What they call it.
    external_task_id: Option<String>,
    /// Where its first file is; whoever has this address can read it.
    #[schema(example = "/results/5f2c9a5c0d6f4f0c8a8b2c1d3e4f5a6b/0")]
    result_url: Option<String>,
    #[schema(value_type = Option<Object>)]
    result_data: Option<Box<RawValue>>,
    /// Why it failed, or what was wrong with the latest look at it.
    error: Option<TaskErrorView>,
    /// Looks in a row that came to nothing.
    retry_count: u32,
    max_retries: u32,
    /// Looks that were answered.
    polls: u32,
    /// The task that this one tries once more.
    retry_of: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    completed_at: Option<Timestamp>,
    /// It is over by then, however it goes.
    #[schema(value_type = String, format = DateTime)]
    deadline_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    next_poll_at: Option<Timestamp>,
}

/// What went wrong with a task.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TaskError)]
struct TaskErrorView {
    /// Stable: `submit_unknown`, `deadline_exceeded`, `content_policy`.
    #[schema(example = "content_policy")]
    code: String,
    message: String,
}

impl From<Task> for TaskView {
    fn from(task: Task) -> Self {
        TaskView {
            task_id: task.id.to_string(),
            project_id: task.project_id.as_str().to_owned(),
            task_type: task.task_type.as_str().to_owned(),
            status: task.status.as_str(),
            stage: task.stage.as_str(),
            params: raw(&task.params),
            node_id: task.node_id,
            external_service: task.external_service,
            external_task_id: task.external_task_id,
            result_url: task.result_url,
            result_data: task.result_data.as_ref().map(raw),
            error: task.error.map(|error| TaskErrorView {
                code: error.code.as_str().to_owned(),
                message: error.message,
            }),
            retry_count: task.retry_count,
            max_retries: task.max_retries,
            polls: task.polls,
            retry_of: task.retry_of.map(|id| id.to_string()),
            created_at: task.created_at,
            updated_at: task.updated_at,
            completed_at: task.completed_at,
            deadline_at: task.deadline_at,
            next_poll_at: task.next_poll_at,
        }
    }
}

/// Which tasks of a project, and which part of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TaskListQuery {
    /// Only those that are this far: `pending`, `processing`, `completed`, `failed`, `cancelled`.
    #[param(example = "failed")]
    status: Option<String>,
    /// Only tasks before this one: `next_before` of the page before.
    #[param(example = "task_17")]
    before: Option<String>,
    /// Tasks on a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

impl TaskListQuery {
    /// Which, before which, and how many.
    pub(crate) fn check(
        self,
        project: ProjectId,
    ) -> Result<(TaskFilter, Option<TaskId>, u32), Problem> {
        let status = match self.status.as_deref() {
            None => None,
            Some(word) => Some(TaskStatus::parse(word).ok_or_else(|| {
                let said = "must be pending, processing, completed, failed or cancelled";
                Problem::field("status", said).at(Place::Query)
            })?),
        };
        let before = match self.before.as_deref() {
            None => None,
            Some(text) => Some(TaskId::parse(text).ok_or_else(|| {
                Problem::field("before", "must be a task such as task_17").at(Place::Query)
            })?),
        };
        let rows_max = page_rows(self.limit).map_err(|problem| problem.at(Place::Query))?;
        Ok((TaskFilter { project: Some(project), status }, before, rows_max))
    }
}

/// A page of tasks, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TaskList)]
pub(crate) struct TaskListView {
    tasks: Vec<TaskView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<String>,
}

impl TaskListView {
    pub(crate) fn new(tasks: Vec<Task>, rows_max: u32) -> Self {
        let next = next_before(tasks.iter().map(|task| task.id.get()), rows_max);
        TaskListView {
            next_before: next.map(|id| TaskId::new(id).to_string()),
            tasks: tasks.into_iter().map(TaskView::from).collect(),
        }
    }
}

/// How a task ended, as another service says it.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TaskBroadcast)]
#[serde(deny_unknown_fields)]
pub(crate) struct BroadcastBody {
    #[schema(example = "task_17")]
    task_id: String,
    result_url: Option<String>,
    #[schema(value_type = Option<Object>)]
    result_data: Option<Value>,
    /// Set if it came to nothing.
    error: Option<String>,
}

impl BroadcastBody {
    pub(crate) fn into_wish(self) -> BroadcastWish {
        let BroadcastBody { task_id, result_url, result_data, error } = self;
        BroadcastWish { task_id, result_url, result_data, error }
    }
}

/// What a broadcast came to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TaskBroadcasted)]
pub(crate) struct BroadcastView {
    /// `false` if it was over already: nothing was changed, and nobody was told again.
    is_applied: bool,
    task: TaskView,
}

impl BroadcastView {
    pub(crate) fn new(task: Task, is_applied: bool) -> Self {
        BroadcastView { is_applied, task: task.into() }
    }
}

/// What a room was told to do.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TaskPollingTriggered)]
pub(crate) struct TriggeredView {
    #[schema(example = "task_polling")]
    alarm: &'static str,
}

impl TriggeredView {
    pub(crate) const SET: TriggeredView = TriggeredView { alarm: "task_polling" };
}

/// What became of a generator's webhook.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TaskHint)]
pub(crate) struct HintView {
    success: bool,
    /// Whether it was about a task that is under way.
    is_known: bool,
}

impl HintView {
    pub(crate) fn new(is_known: bool) -> Self {
        HintView { success: true, is_known }
    }
}
