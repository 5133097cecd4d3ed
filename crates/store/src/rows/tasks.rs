//! Tasks between rows and the types of `roundsman_core`, and the small decisions about them that both
//! adapters must make alike.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::effects::Violation;
use roundsman_core::jobs::{JobError, Json, NewJob};
use roundsman_core::ports::{ChangeAnswer, StoreError, TaskChange};
use roundsman_core::rooms::ProjectId;
use roundsman_core::tasks::{
    KeptFile, Stepped, TASK_ENTITY, Task, TaskId, TaskLook, TaskStage, TaskStatus, TaskType,
    collect_wish, polling_wish, step, submit_wish,
};
use roundsman_core::users::UserId;

use super::check::{LOG_MATCHES_STATE, ROW_CONSISTENT, violation};
use super::inconsistent;

pub(crate) const TASKS: &str = "tasks";

/// A row of `tasks`.
#[derive(Debug)]
pub(crate) struct TaskColumns {
    pub(crate) no: i64,
    pub(crate) user_id: i64,
    pub(crate) project_id: String,
    pub(crate) task_type: String,
    pub(crate) status: String,
    pub(crate) stage: String,
    pub(crate) params: String,
    pub(crate) node_id: Option<String>,
    pub(crate) external_service: String,
    pub(crate) external_task_id: Option<String>,
    pub(crate) submit_key: String,
    pub(crate) result_url: Option<String>,
    pub(crate) result_data: Option<String>,
    pub(crate) files: String,
    pub(crate) result_key: String,
    pub(crate) error_code: Option<String>,
    pub(crate) error_message: Option<String>,
    pub(crate) retry_count: i64,
    pub(crate) max_retries: i64,
    pub(crate) polls: i64,
    pub(crate) retry_of: Option<i64>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) completed_at: Option<Timestamp>,
    pub(crate) deadline_at: Timestamp,
    pub(crate) next_poll_at: Option<Timestamp>,
    pub(crate) hinted_at: Option<Timestamp>,
    pub(crate) applied_at: Option<Timestamp>,
    pub(crate) version: i64,
}

impl TaskColumns {
    pub(crate) fn into_task(self) -> Result<Task, StoreError> {
        let row = self.no;
        let error = match (self.error_code, self.error_message) {
            (None, None) => None,
            (Some(code), message) => Some(JobError::new(&code, message.unwrap_or_default())),
            (None, Some(_)) => {
                return Err(inconsistent(
                    TASKS,
                    "error_code",
                    row,
                    "a message without a code".to_owned(),
                ));
            }
        };
        let files: Vec<KeptFile> = serde_json::from_str(&self.files)
            .map_err(|error| inconsistent(TASKS, "files", row, error.to_string()))?;
        Ok(Task {
            id: TaskId::new(row),
            user_id: UserId::new(self.user_id),
            project_id: ProjectId::from_stored(self.project_id),
            task_type: TaskType::from_stored(self.task_type),
            status: status(&self.status, row)?,
            stage: stage(&self.stage, row)?,
            params: Json::from_stored(self.params),
            node_id: self.node_id,
            external_service: self.external_service,
            external_task_id: self.external_task_id,
            submit_key: self.submit_key,
            result_url: self.result_url,
            result_data: self.result_data.map(Json::from_stored),
            files,
            result_key: self.result_key,
            error,
            retry_count: count("retry_count", row, self.retry_count)?,
            max_retries: count("max_retries", row, self.max_retries)?,
            polls: count("polls", row, self.polls)?,
            retry_of: self.retry_of.map(TaskId::new),
            created_at: self.created_at,
            updated_at: self.updated_at,
            completed_at: self.completed_at,
            deadline_at: self.deadline_at,
            next_poll_at: self.next_poll_at,
            hinted_at: self.hinted_at,
            applied_at: self.applied_at,
            version: self.version,
        })
    }
}

/// What a round reads of a task.
#[derive(Debug)]
pub(crate) struct LookColumns {
    pub(crate) no: i64,
    pub(crate) stage: String,
    pub(crate) retry_count: i64,
    pub(crate) next_poll_at: Option<Timestamp>,
    pub(crate) deadline_at: Timestamp,
}

impl LookColumns {
    pub(crate) fn into_look(self) -> Result<TaskLook, StoreError> {
        Ok(TaskLook {
            id: TaskId::new(self.no),
            stage: stage(&self.stage, self.no)?,
            retry_count: count("retry_count", self.no, self.retry_count)?,
            next_poll_at: self.next_poll_at,
            deadline_at: self.deadline_at,
        })
    }
}

pub(crate) fn status(text: &str, row: i64) -> Result<TaskStatus, StoreError> {
    let unfit = || inconsistent(TASKS, "status", row, format!("{text:?}"));
    TaskStatus::parse(text).ok_or_else(unfit)
}

pub(crate) fn stage(text: &str, row: i64) -> Result<TaskStage, StoreError> {
    let unfit = || inconsistent(TASKS, "stage", row, format!("{text:?}"));
    TaskStage::parse(text).ok_or_else(unfit)
}

fn count(column: &'static str, row: i64, value: i64) -> Result<u32, StoreError> {
    u32::try_from(value)
        .map_err(|_| inconsistent(TASKS, column, row, format!("{value} is no count")))
}

pub(crate) fn files_to_text(files: &[KeptFile]) -> String {
    serde_json::to_string(files).expect("words and numbers can be written")
}

/// What a step comes to.
pub(crate) enum Decided {
    Answered(ChangeAnswer),
    Write(Box<Stepped>),
}

/// What becomes of a task as it is in the database now.
pub(crate) fn decide(known: Task, change: &TaskChange, now: Timestamp) -> Decided {
    if known.status.is_over() {
        return Decided::Answered(ChangeAnswer::Unchanged(known.into()));
    }
    if change.version.is_some_and(|seen| seen != known.version) {
        return Decided::Answered(ChangeAnswer::Stale(known.into()));
    }
    match step(known.clone(), change.event.clone(), change.rules, now) {
        Ok(Some(stepped)) => Decided::Write(stepped.into()),
        Ok(None) => Decided::Answered(ChangeAnswer::Unchanged(known.into())),
        Err(_) => Decided::Answered(ChangeAnswer::Stale(known.into())),
    }
}

/// The jobs that a task that waits must have: whoever does its next step, and its room's round.
pub(crate) fn jobs_of(
    id: TaskId,
    stage: TaskStage,
    project: &ProjectId,
    now: Timestamp,
) -> Vec<NewJob> {
    let own = match stage {
        TaskStage::Waiting | TaskStage::Sending => Some(submit_wish(id, now)),
        TaskStage::Collecting => Some(collect_wish(id, now)),
        TaskStage::Polling => None,
        TaskStage::Over => return Vec::new(),
    };
    own.into_iter().chain([polling_wish(project, now)]).collect()
}

/// What cannot be true of tasks.
pub(crate) fn check_tasks(
    tasks: &[Task],
    logged: &BTreeMap<(String, i64), String>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for task in tasks {
        let subject = format!("{TASKS} {}", task.id.get());
        let from_log = logged.get(&(TASK_ENTITY.to_owned(), task.id.get())).map(String::as_str);
        if from_log != Some(task.status.as_str()) {
            let said = from_log.unwrap_or("nothing");
            let text = format!("the row says {}, the log {said}", task.status.as_str());
            found.push(violation(LOG_MATCHES_STATE, &subject, text));
        }
        found.extend(contradiction(task).map(|text| violation(ROW_CONSISTENT, &subject, text)));
    }
    found
}

fn contradiction(task: &Task) -> Option<&'static str> {
    let is_over = task.status.is_over();
    let is_pending = matches!(task.stage, TaskStage::Waiting | TaskStage::Sending);
    if is_over != (task.stage == TaskStage::Over) {
        return Some("its stage is not that of its status");
    }
    if !is_over && is_pending != (task.status == TaskStatus::Pending) {
        return Some("its stage is not that of its status");
    }
    if is_over != task.completed_at.is_some() {
        return Some("it is over without a time, or has one and is not");
    }
    if task.status == TaskStatus::Failed && task.error.is_none() {
        return Some("it has failed without a reason");
    }
    if task.stage == TaskStage::Polling && task.external_task_id.is_none() {
        return Some("it is looked at and nobody knows it");
    }
    if task.applied_at.is_some() && !is_over {
        return Some("its end was told before it was over");
    }
    None
}
