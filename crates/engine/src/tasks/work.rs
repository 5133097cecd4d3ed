//! The jobs of tasks, as a node puts them together.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobError, Json, KindName, KindSpec, Lane, NewJob, Outcome};
use roundsman_core::ports::{
    Clock, Executor, Executors, ExternalTask, MediaStore, Random, RoomDocuments, RoomStore,
    StoreError, TaskRequest, TaskStore,
};
use roundsman_core::tasks::{PRUNE_KIND, SWEEP_KIND, Task, TaskId, TaskRules};
use roundsman_core::users::UserId;
use tokio::sync::broadcast;

use super::cancel::{cancel_spec, canceller};
use super::collect::{collect_spec, collector};
use super::poll::{poller, polling_spec};
use super::prune::{prune_spec, pruner};
use super::submit::{submit_spec, submitter};
use super::sweep::{sweep_spec, sweeper};
use crate::jobs::{Handler, periodic_wish};
use crate::metrics::Metrics;
use crate::wake::Wakes;

/// News of tasks that a slow reader may fall behind; one that does looks at the database.
const NEWS_QUEUED_MAX: usize = 1024;

/// What the jobs of tasks are made of. Cheap to clone.
#[derive(Clone)]
pub struct TaskWork {
    pub tasks: Arc<dyn TaskStore>,
    pub rooms: Arc<dyn RoomStore>,
    /// Who writes into the documents of projects.
    pub documents: Arc<dyn RoomDocuments>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub wakes: Wakes,
    pub metrics: Metrics,
    pub executors: Executors,
    pub media: Arc<dyn MediaStore>,
    pub options: TaskOptions,
    /// Tasks that have just taken a step on this node.
    pub news: TaskNews,
}

/// Tells whoever waits for a task on this node that it has taken a step.
#[derive(Debug, Clone)]
pub struct TaskNews(broadcast::Sender<TaskId>);

impl Default for TaskNews {
    fn default() -> Self {
        TaskNews(broadcast::channel(NEWS_QUEUED_MAX).0)
    }
}

impl TaskNews {
    pub(super) fn tell(&self, id: TaskId) {
        // Nobody waiting is fine.
        let _ = self.0.send(id);
    }

    pub(super) fn listen(&self) -> broadcast::Receiver<TaskId> {
        self.0.subscribe()
    }
}

/// How tasks are worked on.
#[derive(Debug, Clone)]
pub struct TaskOptions {
    pub rules: TaskRules,
    /// Where files are while they are fetched.
    pub work_folder: PathBuf,
    /// How long whoever makes a task waits to be told what became of sending it.
    pub submit_wait: Duration,
    /// Tries to send a task that its generator could not take.
    pub submit_attempts_max: u32,
    /// How long one look may take.
    pub poll_time_max: Duration,
    /// Looks that one room has under way.
    pub polls_at_once_max: usize,
    /// Rooms whose tasks are looked at, tasks that are sent, and tasks whose files are fetched, at once
    /// in one process.
    pub rooms_at_once_max: usize,
    pub submits_at_once_max: usize,
    pub collects_at_once_max: usize,
    /// Tries to fetch the files of a task.
    pub collect_attempts_max: u32,
    pub sweep_every: Duration,
    /// How long a task that brought no files is kept after its end.
    pub keep_for: Duration,
    /// Tasks that one project may have under way.
    pub tasks_per_project_max: u32,
    /// Where clients and generators reach this server, without a slash at the end.
    pub public_url: Option<String>,
}

impl TaskOptions {
    pub fn new(work_folder: PathBuf) -> Self {
        TaskOptions {
            rules: TaskRules::default(),
            work_folder,
            submit_wait: Duration::from_secs(15),
            submit_attempts_max: 8,
            poll_time_max: Duration::from_secs(10),
            polls_at_once_max: 32,
            rooms_at_once_max: 64,
            submits_at_once_max: 32,
            collects_at_once_max: 4,
            collect_attempts_max: 8,
            sweep_every: Duration::from_secs(60),
            keep_for: Duration::from_secs(30 * 24 * 3600),
            tasks_per_project_max: 2000,
            public_url: None,
        }
    }
}

/// The policies of all kinds of jobs about tasks.
pub fn task_specs(options: &TaskOptions) -> Vec<KindSpec> {
    vec![
        submit_spec(options.submits_at_once_max),
        polling_spec(options.rooms_at_once_max),
        collect_spec(options.collects_at_once_max),
        cancel_spec(),
        sweep_spec(),
        prune_spec(),
    ]
}

/// The wishes that keep the periodic jobs alive; every start repeats them.
pub fn task_wishes(now: Timestamp) -> Vec<NewJob> {
    vec![periodic_wish(SWEEP_KIND, now), periodic_wish(PRUNE_KIND, now)]
}

impl TaskWork {
    /// The handlers of all kinds of jobs about tasks.
    pub fn handlers(&self) -> Vec<Arc<dyn Handler>> {
        vec![
            self.submitter(),
            self.poller(),
            self.collector(),
            self.canceller(),
            self.sweeper(),
            self.pruner(),
        ]
    }

    /// Sends one task to its generator.
    pub fn submitter(&self) -> Arc<dyn Handler> {
        submitter(self)
    }

    /// Looks at the tasks of one room.
    pub fn poller(&self) -> Arc<dyn Handler> {
        poller(self)
    }

    /// Fetches what one task brought.
    pub fn collector(&self) -> Arc<dyn Handler> {
        collector(self)
    }

    /// Tells a generator that nobody wants a task any more.
    pub fn canceller(&self) -> Arc<dyn Handler> {
        canceller(self)
    }

    /// Looks after what was lost.
    pub fn sweeper(&self) -> Arc<dyn Handler> {
        sweeper(self)
    }

    /// Forgets what ended long ago.
    pub fn pruner(&self) -> Arc<dyn Handler> {
        pruner(self)
    }

    /// There is this much new work of a kind.
    pub(super) fn wake(&self, kind: &str) {
        let kind = KindName::new(kind).expect("a built-in kind has a valid name");
        self.wakes.signal([(Lane::of(UserId::SYSTEM, &kind), 1)]);
    }

    pub(super) fn executor(&self, task: &Task) -> Option<&Arc<dyn Executor>> {
        self.executors.of_service(&task.external_service)
    }

    /// Anything in `0..=100`.
    pub(super) fn chance(&self) -> u8 {
        u8::try_from(self.random.below(101)).unwrap_or_default()
    }
}

impl std::fmt::Debug for TaskWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskWork").field("options", &self.options).finish_non_exhaustive()
    }
}

/// What a task asks for, as its generator is told.
pub(super) fn request_of(task: &Task) -> TaskRequest {
    TaskRequest {
        task_type: task.task_type.as_str().to_owned(),
        params: task.params.to_value(),
        key: task.submit_key.clone(),
    }
}

/// The task as its generator knows it; `None` if it does not.
pub(super) fn external_of(task: &Task) -> Option<ExternalTask> {
    let external_task_id = task.external_task_id.clone()?;
    Some(ExternalTask { external_task_id, request: request_of(task) })
}

pub(super) fn built_in(kind: &'static str) -> KindName {
    KindName::new(kind).expect("a built-in kind has a valid name")
}

pub(super) fn done() -> Outcome {
    Outcome::Done { result: Json::null() }
}

pub(super) fn storage(error: &StoreError) -> Outcome {
    Outcome::Retry { error: JobError::new("storage", error.to_string()), after: None }
}
