//! The task service: what users, generators' webhooks and other services ask for.

use std::time::Duration;

use roundsman_core::failpoint;
use roundsman_core::jobs::Json;
use roundsman_core::limits::PAGE_ROWS_MAX;
use roundsman_core::ports::{
    ChangeAnswer, EnqueueRequest, JobStore, OpenRoomAnswer, Scope, Store, StoreError, TaskFilter,
    TaskRequest, Unverified, WebhookDelivery,
};
use roundsman_core::rooms::ProjectId;
use roundsman_core::tasks::{
    CANCEL_KIND, KeptFile, NewTask, PARAMS_BYTES_MAX, POLLING_KIND, Produced,
    RESULT_DATA_BYTES_MAX, SUBMIT_KIND, Task, TaskError, TaskEvent, TaskId, TaskStage, TaskType,
    check_node, polling_wish,
};
use roundsman_core::users::UserId;
use serde_json::Value;
use tokio::sync::broadcast;

use super::work::TaskWork;
use crate::{Error, FieldError};

/// How often whoever waits for a task looks at the database: its job may run on another node.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A step that others were faster than is tried this often.
const TRIES_MAX: u32 = 8;
/// A user may ask for this many looks in a row that come to nothing.
const MAX_RETRIES_MAX: u32 = 1000;

/// Makes tasks, shows them, ends them. Cheap to clone.
#[derive(Clone)]
pub struct Tasks {
    work: TaskWork,
    store: std::sync::Arc<dyn Store>,
}

/// A wish for a task, as it came.
#[derive(Debug, Clone, Default)]
pub struct TaskWish {
    pub project_id: String,
    pub task_type: String,
    pub params: Value,
    pub node_id: Option<String>,
    pub max_retries: Option<u32>,
}

/// What another service says about the end of a task.
#[derive(Debug, Clone, Default)]
pub struct BroadcastWish {
    pub task_id: String,
    pub result_url: Option<String>,
    pub result_data: Option<Value>,
    /// Set if it came to nothing.
    pub error: Option<String>,
}

impl Tasks {
    pub fn new(work: &TaskWork, store: std::sync::Arc<dyn Store>) -> Self {
        Tasks { work: work.clone(), store }
    }

    /// Makes a task and sends it. Returns it as it is when its generator has answered, or after a
    /// while as it is then: it goes on whether or not anybody waits.
    pub async fn create(&self, user: UserId, wish: TaskWish) -> Result<Task, Error> {
        let checked = self.check(user, &wish)?;
        self.start(checked).await
    }

    /// Tries a task that has failed, or was cancelled, once more: as another task, so that what became
    /// of this one stays true.
    pub async fn retry(&self, scope: Scope, id: &str) -> Result<Task, Error> {
        let task = self.get(scope, id).await?.ok_or(Error::NotFound { what: "task" })?;
        if !task.status.is_over() {
            let said =
                format!("is {}: only a task that is over can be retried", task.status.as_str());
            return Err(Error::Invalid(vec![FieldError::new("task", said)]));
        }
        let wish = TaskWish {
            project_id: task.project_id.as_str().to_owned(),
            task_type: task.task_type.as_str().to_owned(),
            params: task.params.to_value(),
            node_id: task.node_id.clone(),
            max_retries: Some(task.max_retries),
        };
        let checked = self.check(task.user_id, &wish)?;
        self.start(NewTask { retry_of: Some(task.id), ..checked }).await
    }

    /// `None` if there is none for whoever asks.
    pub async fn get(&self, scope: Scope, id: &str) -> Result<Option<Task>, Error> {
        let Some(id) = TaskId::parse(id) else { return Ok(None) };
        Ok(self.work.tasks.task(scope, id).await?)
    }

    /// Tasks, newest first, those before `before`.
    pub async fn list(
        &self,
        scope: Scope,
        filter: TaskFilter,
        before: Option<TaskId>,
        rows_max: u32,
    ) -> Result<Vec<Task>, Error> {
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        Ok(self.work.tasks.tasks(scope, filter, before, rows_max).await?)
    }

    /// Ends a task that nobody wants any more; one that is over stays as it is. Returns it as it is.
    pub async fn cancel(&self, scope: Scope, id: &str) -> Result<Task, Error> {
        let missing = || Error::NotFound { what: "task" };
        let task = self.get(scope, id).await?.ok_or_else(missing)?;
        let (task, is_changed) = self.step(task, &TaskEvent::Cancelled).await?;
        if is_changed {
            self.work.wake(CANCEL_KIND);
        }
        Ok(task)
    }

    /// A generator says that a look at one of its tasks would be worth it. Whatever else it says, it is
    /// asked: who it is from is known, what became of the task is not.
    pub async fn hint(
        &self,
        service: &str,
        delivery: &WebhookDelivery<'_>,
    ) -> Result<bool, HintError> {
        let executor = self.work.executors.of_service(service).ok_or(HintError::NoService)?;
        let external = executor.verify_webhook(delivery).await.map_err(HintError::Unverified)?;
        let now = self.work.clock.now();
        let found = self.work.tasks.hint_task(service.to_owned(), external, now).await;
        let found = found.map_err(|error| HintError::Failed(error.into()))?;
        if found.is_some() {
            self.work.wake(POLLING_KIND);
        }
        Ok(found.is_some())
    }

    /// Sets the alarm `task_polling` of a room, due after the usual pause. A room without tasks finds
    /// that out and rests.
    pub async fn trigger(&self, project: &ProjectId) -> Result<(), Error> {
        let now = self.work.clock.now();
        let at = now + self.work.options.rules.poll_every;
        let request = EnqueueRequest { jobs: vec![polling_wish(project, at)], idempotency: None };
        JobStore::enqueue(self.store.as_ref(), request, now).await?;
        self.work.wake(POLLING_KIND);
        Ok(())
    }

    /// Another service says how a task ended: that is applied once, to the task, to the document and
    /// to whoever listens. Returns the task as it is, and whether it has ended just now.
    pub async fn broadcast(
        &self,
        project: &ProjectId,
        wish: BroadcastWish,
    ) -> Result<(Task, bool), Error> {
        let missing = || Error::NotFound { what: "task" };
        let task = self.get(Scope::All, &wish.task_id).await?;
        let task = task.filter(|task| task.project_id == *project).ok_or_else(missing)?;
        let event = match wish.error {
            Some(message) => TaskEvent::Failed { error: TaskError::new("reported", message) },
            None => TaskEvent::Produced(Produced {
                result_url: wish.result_url,
                result_data: wish.result_data.as_ref().map(data_of).transpose()?,
                files: Vec::new(),
            }),
        };
        self.step(task, &event).await
    }

    /// The file that a key opens, with what it is.
    pub async fn file(&self, result_key: &str, place: usize) -> Result<Option<KeptFile>, Error> {
        let task = self.work.tasks.task_of_result(result_key.to_owned()).await?;
        Ok(task.and_then(|task| task.files.into_iter().nth(place)))
    }

    /// How many tasks are under way in a project, counted up to a limit.
    pub async fn pending(&self, project: &ProjectId) -> Result<u64, Error> {
        let count_max = self.work.options.tasks_per_project_max;
        let counts = self.work.tasks.tasks_pending(vec![project.clone()], count_max).await?;
        Ok(counts.first().copied().unwrap_or_default())
    }

    /// How many there are in each state, for metrics.
    pub async fn count(&self) -> Result<(), StoreError> {
        self.work.metrics.set_tasks(&self.work.tasks.task_counts().await?);
        Ok(())
    }

    pub fn media(&self) -> &std::sync::Arc<dyn roundsman_core::ports::MediaStore> {
        &self.work.media
    }

    pub fn work_folder(&self) -> &std::path::Path {
        &self.work.options.work_folder
    }

    /// Takes a step, whoever else changes the task meanwhile, unless it is over.
    async fn step(&self, mut task: Task, event: &TaskEvent) -> Result<(Task, bool), Error> {
        for _ in 0..TRIES_MAX {
            match self.work.change(&task, event.clone(), None).await? {
                ChangeAnswer::Changed { task, .. } => return Ok((*task, true)),
                ChangeAnswer::Unchanged(task) => return Ok((*task, false)),
                ChangeAnswer::Stale(newer) => task = *newer,
                ChangeAnswer::NoSlot | ChangeAnswer::LeaseLost | ChangeAnswer::NotFound => {
                    return Err(Error::NotFound { what: "task" });
                }
            }
        }
        Ok((task, false))
    }

    fn check(&self, user: UserId, wish: &TaskWish) -> Result<NewTask, Error> {
        let mut wrong = Vec::new();
        let mut note = |field: &str, message: String| wrong.push(FieldError::new(field, message));
        let project_id = ProjectId::new(&wish.project_id);
        let task_type = TaskType::new(&wish.task_type);
        let node_id = wish.node_id.as_deref().map(check_node).transpose();
        let params = Json::from_value(&wish.params);
        let executor = self.work.executors.of_task_type(&wish.task_type);
        let submit_key = self.draw();
        if executor.is_none() {
            let known: Vec<&str> = self.work.executors.task_types().collect();
            note("task_type", format!("unsupported; known are: {}", known.join(", ")));
        }
        if !wish.params.is_object() {
            note("params", "must be an object".to_owned());
        } else if let Some(executor) = executor {
            let (task_type, params) = (wish.task_type.clone(), wish.params.clone());
            let request = TaskRequest { task_type, params, key: submit_key.clone() };
            if let Err(said) = executor.check(&request) {
                note("params", said);
            }
        }
        if wish.max_retries.is_some_and(|max| max == 0 || max > MAX_RETRIES_MAX) {
            note("max_retries", format!("must be 1 to {MAX_RETRIES_MAX}"));
        }
        if let Ok(params) = &params
            && params.as_str().len() > PARAMS_BYTES_MAX
        {
            let bytes = params.as_str().len();
            let bytes_max = PARAMS_BYTES_MAX;
            return Err(Error::TooLarge { field: "params", bytes, bytes_max });
        }
        match (project_id, task_type, node_id, params, executor) {
            (Ok(project_id), Ok(task_type), Ok(node_id), Ok(params), Some(executor))
                if wrong.is_empty() =>
            {
                let rules = self.work.options.rules;
                let now = self.work.clock.now();
                Ok(NewTask {
                    user_id: user,
                    project_id,
                    task_type,
                    params,
                    node_id,
                    external_service: executor.service().to_owned(),
                    submit_key,
                    result_key: self.draw(),
                    max_retries: wish.max_retries.unwrap_or(rules.max_retries),
                    retry_of: None,
                    deadline_at: now + rules.deadline,
                    first_look_at: now + rules.poll_every,
                })
            }
            (project_id, task_type, node_id, params, _) => {
                let mut said = |field: &str, message: Option<String>| {
                    wrong.extend(message.map(|message| FieldError::new(field, message)));
                };
                said("project_id", project_id.err().map(|error| error.to_string()));
                said("task_type", task_type.err().map(|error| error.to_string()));
                said("node_id", node_id.err().map(|error| error.to_string()));
                said("params", params.err().map(|error| error.to_string()));
                Err(Error::Invalid(wrong))
            }
        }
    }

    async fn start(&self, wish: NewTask) -> Result<Task, Error> {
        let now = self.work.clock.now();
        let (user, project) = (wish.user_id, wish.project_id.clone());
        match self.work.rooms.open_room(user, project.clone(), now).await? {
            OpenRoomAnswer::Open { .. } => {}
            OpenRoomAnswer::Foreign | OpenRoomAnswer::NoSuchUser => {
                let reason = "this project belongs to somebody else".to_owned();
                return Err(Error::Forbidden { reason });
            }
        }
        let tasks_max = self.work.options.tasks_per_project_max;
        if self.pending(&project).await? >= u64::from(tasks_max) {
            self.work.metrics.limit_hit("tasks_per_project");
            let said = format!("has {tasks_max} tasks under way already");
            return Err(Error::Invalid(vec![FieldError::new("project_id", said)]));
        }
        let news = self.work.news.listen();
        let made = self.work.tasks.create_tasks(vec![wish], now).await?;
        failpoint::hit("tasks.created");
        let made = made.into_iter().next().ok_or(Error::NotFound { what: "task" })?;
        self.work.metrics.task_created(&made.external_service);
        self.work.wake(SUBMIT_KIND);
        Ok(self.answered(made, news).await)
    }

    /// The task when its generator has answered, or as it is when nobody may wait any longer.
    async fn answered(&self, made: Task, mut news: broadcast::Receiver<TaskId>) -> Task {
        let began = self.work.clock.monotonic();
        let mut latest = made;
        loop {
            let waits = matches!(latest.stage, TaskStage::Waiting | TaskStage::Sending);
            let waited = self.work.clock.monotonic().saturating_sub(began);
            if !waits || waited >= self.work.options.submit_wait {
                return latest;
            }
            let heard =
                async { while matches!(news.recv().await, Ok(told) if told != latest.id) {} };
            let limit = LOOK_EVERY.min(self.work.options.submit_wait.saturating_sub(waited));
            let _ = tokio::time::timeout(limit, heard).await;
            match self.work.tasks.task(Scope::All, latest.id).await {
                Ok(Some(task)) => latest = task,
                // It is stored; how it is can be asked later.
                Ok(None) | Err(_) => return latest,
            }
        }
    }

    fn draw(&self) -> String {
        let mut bytes = [0u8; 16];
        self.work.random.fill(&mut bytes);
        hex::encode(bytes)
    }
}

/// Why a webhook was not taken.
#[derive(Debug)]
pub enum HintError {
    NoService,
    Unverified(Unverified),
    Failed(Error),
}

fn data_of(data: &Value) -> Result<Json, Error> {
    let invalid = |said: String| Error::Invalid(vec![FieldError::new("result_data", said)]);
    let json = Json::from_value(data).map_err(|error| invalid(error.to_string()))?;
    let bytes = json.as_str().len();
    if bytes > RESULT_DATA_BYTES_MAX {
        let bytes_max = RESULT_DATA_BYTES_MAX;
        return Err(Error::TooLarge { field: "result_data", bytes, bytes_max });
    }
    Ok(json)
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").finish_non_exhaustive()
    }
}
