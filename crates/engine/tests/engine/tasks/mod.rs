//! Tasks and alarms over a real database, with a clock that stands still and generators that do what a
//! test tells them.

mod alarms;
mod bugs;
mod documents;
mod ends;
mod explored;
mod explored_in_time;
mod outside;
mod rounds;
mod seed_003;
mod service;
mod simulation;
mod submitting;

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{Job, JobId, KindSpec, Role};
use roundsman_core::ports::{
    AlarmStore, Clock, EffectStore, Executor, Executors, RoomStore, Scope, TaskFilter, TaskStore,
    UserStore,
};
use roundsman_core::rooms::ProjectId;
use roundsman_core::tasks::{POLLING_KIND, TASK_ENTITY, Task, TaskStatus};
use roundsman_core::users::{NewUser, UserId};
use roundsman_engine::alarms::{AlarmWork, Alarms, alarm_spec};
use roundsman_engine::jobs::Worker;
use roundsman_engine::rooms::room_specs;
use roundsman_engine::tasks::{TaskNews, TaskOptions, TaskWish, TaskWork, Tasks, task_specs};
use serde_json::json;

use self::outside::{Generator, Notebook, Shelf};
use crate::backend::Backend;
use crate::support::{World, secs, until_running};

/// The lease of a submission, and a little more.
const LEASE_OVER: Duration = Duration::from_secs(61);
const PROJECT: &str = "storyboard";
/// Long enough for a database, short enough for a test: a look that is not answered ends after it.
const POLL_TIME_MAX: Duration = Duration::from_millis(80);

/// Everything about tasks over one fresh database, with one user.
struct TaskWorld {
    world: World,
    generator: Arc<Generator>,
    notebook: Arc<Notebook>,
    shelf: Arc<Shelf>,
    work: TaskWork,
    tasks: Tasks,
    alarms: Alarms,
    worker: Arc<Worker>,
    user: UserId,
    _folder: tempfile::TempDir,
}

impl TaskWorld {
    async fn new(backend: Backend) -> Self {
        TaskWorld::with(backend, Generator::new("kling")).await
    }

    async fn with(backend: Backend, generator: Generator) -> Self {
        TaskWorld::with_options(backend, generator, |_| {}).await
    }

    async fn with_options(
        backend: Backend,
        generator: Generator,
        change: impl FnOnce(&mut TaskOptions),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = TaskOptions::new(folder.path().join("work"));
        (options.submit_wait, options.poll_time_max) = (Duration::ZERO, POLL_TIME_MAX);
        change(&mut options);
        let specs: Vec<KindSpec> =
            task_specs(&options).into_iter().chain([alarm_spec()]).chain(room_specs()).collect();
        let world = World::on(backend, specs).await;
        let generator = Arc::new(generator);
        let executors: Vec<Arc<dyn Executor>> = vec![generator.clone()];
        let (notebook, shelf) = (Arc::<Notebook>::default(), Arc::<Shelf>::default());
        let work = TaskWork {
            tasks: world.store.clone(),
            rooms: world.store.clone(),
            documents: notebook.clone(),
            clock: world.clock.clone(),
            random: world.random.clone(),
            wakes: world.wakes.clone(),
            metrics: world.metrics.clone(),
            executors: Executors::new(executors).unwrap(),
            media: shelf.clone(),
            options,
            news: TaskNews::default(),
        };
        let alarms = Alarms {
            alarms: world.store.clone(),
            rooms: world.store.clone(),
            tasks: world.store.clone(),
            clock: world.clock.clone(),
            wakes: world.wakes.clone(),
            alarms_per_room_max: 20,
        };
        let worker = start(&world, &work);
        let tasks = Tasks::new(&work, world.store.clone());
        let user = new_user(&world, "ada@example.org").await;
        TaskWorld {
            world,
            generator,
            notebook,
            shelf,
            work,
            tasks,
            alarms,
            worker,
            user,
            _folder: folder,
        }
    }

    fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    /// Makes a task; nobody sends it yet.
    async fn make(&self) -> Task {
        self.make_in(PROJECT).await
    }

    async fn make_in(&self, project: &str) -> Task {
        self.tasks.create(self.user, wish(project)).await.unwrap()
    }

    /// Makes a task that its generator takes.
    async fn accepted(&self) -> Task {
        let made = self.make().await;
        self.run_due().await;
        let task = self.task(&made).await;
        assert_eq!(task.status, TaskStatus::Processing, "{task:?}");
        task
    }

    async fn task(&self, task: &Task) -> Task {
        self.world.store.task(Scope::All, task.id).await.unwrap().expect("the task exists")
    }

    /// Runs every job that is due, and those that become due by it.
    async fn run_due(&self) {
        for _ in 0..2000 {
            self.worker.claim_tick().await.unwrap();
            if self.worker.running_count() == 0 {
                return;
            }
            until_running(&self.worker, 0).await;
            self.worker.settle_tick().await.unwrap();
        }
        panic!("there is always more to do");
    }

    /// Lets time pass in steps of a second, with every job run when it is due.
    async fn pass(&self, time: Duration) {
        for _ in 0..time.as_secs() {
            self.world.clock.advance(secs(1));
            self.run_due().await;
        }
    }

    /// Lets time pass at once, and then runs what is due.
    async fn jump(&self, time: Duration) {
        self.world.clock.advance(time);
        self.run_due().await;
    }

    /// A process died: when its leases are over, another one takes its place.
    async fn die(&mut self) {
        self.world.clock.advance(LEASE_OVER);
        self.worker.keep_tick().await.unwrap();
        until_running(&self.worker, 0).await;
        self.worker = start(&self.world, &self.work);
        self.world.sweeper().tick().await.unwrap();
        // What is tried without a limit waits after a crash.
        self.world.clock.advance(secs(300));
    }

    /// The names of the alarms that are set in the room.
    async fn alarm_names(&self) -> Vec<String> {
        let found = self.world.store.alarms(project(), 100).await.unwrap();
        found.into_iter().map(|alarm| alarm.name).collect()
    }

    /// L1: whoever waits has an alarm in time.
    async fn assert_looked_after(&self) {
        let looks = self.world.store.task_looks(project(), 100).await.unwrap();
        if looks.is_empty() {
            return;
        }
        let found = self.world.store.alarms(project(), 100).await.unwrap();
        let round = found.iter().find(|alarm| alarm.name == "task_polling").expect("a round");
        let first = looks.iter().filter_map(|look| look.next_poll_at).min();
        let in_time = first.unwrap_or(self.now()).max(self.now() + secs(10));
        assert!(round.at <= in_time || round.attempts_failed > 0, "{round:?} {looks:?}");
    }

    /// Every job that waits.
    async fn jobs_waiting(&self) -> Vec<JobId> {
        let all = self.world.all_jobs(None).await;
        let waits = all.iter().filter(|job| matches!(job, Job::Waiting(_)));
        waits.map(|job| job.facts().id).collect()
    }

    async fn rounds(&self) -> Vec<Job> {
        self.world.all_jobs(Some(POLLING_KIND)).await
    }

    /// What every test ends with: the log of each task leads to where it is, and what is over was told
    /// to the document once.
    async fn check(&self) {
        self.world.check().await;
        let all =
            self.world.store.tasks(Scope::All, TaskFilter::default(), None, 1000).await.unwrap();
        let told = self.notebook.told();
        for task in all {
            let log = self.world.store.transitions(TASK_ENTITY.to_owned(), task.id.get()).await;
            let ends = log.unwrap().iter().filter(|step| is_end(&step.to_state)).count();
            assert_eq!(ends, usize::from(task.status.is_over()), "{task:?}");
            let name = format!("{} ", task.id);
            let times = told.iter().filter(|told| told.starts_with(&name)).count();
            assert_eq!(times, usize::from(task.applied_at.is_some()), "{task:?} {told:?}");
        }
    }
}

fn is_end(state: &str) -> bool {
    TaskStatus::parse(state).is_some_and(TaskStatus::is_over)
}

fn project() -> ProjectId {
    ProjectId::new(PROJECT).unwrap()
}

fn wish(project: &str) -> TaskWish {
    TaskWish {
        project_id: project.to_owned(),
        task_type: "kling".to_owned(),
        params: json!({ "prompt": "a cat on a roof" }),
        node_id: Some("node-1".to_owned()),
        max_retries: None,
    }
}

fn start(world: &World, work: &TaskWork) -> Arc<Worker> {
    let mut handlers = work.handlers();
    handlers.push(alarm_work(world).handler());
    world.worker_with(handlers, |options| {
        options.roles = vec![Role::Worker, Role::Scheduler];
    })
}

fn alarm_work(world: &World) -> AlarmWork {
    AlarmWork {
        clock: world.clock.clone(),
        wakes: world.wakes.clone(),
        metrics: world.metrics.clone(),
    }
}

async fn new_user(world: &World, email: &str) -> UserId {
    let person =
        NewUser { email: email.to_owned(), name: None, image_url: None, max_concurrent_bots: 1 };
    world.store.find_or_create_user(person, world.clock.now()).await.unwrap().0.id
}

/// How far the project's document is.
async fn head_of(world: &TaskWorld) -> i64 {
    world.world.store.room(project()).await.unwrap().expect("a room").head_seq
}
