//! A database, a clock that stands still and handlers that do what a test tells them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    FinishedJob, Job, JobError, JobId, JobKey, Json, KindCatalog, KindName, KindSpec, Lane,
    LeaseOwner, LeaseRef, MergeRule, NewJob, Outcome, RetryPolicy, Role, RunningJob, WaitingJob,
    WorkerName,
};
use roundsman_core::ports::{
    Clock, EffectStore, EnqueueAnswer, EnqueueRequest, JobStore, ListFilter, ListPage, Scope, Store,
};
use roundsman_core::users::UserId;
use roundsman_engine::health::Health;
use roundsman_engine::jobs::{
    Handler, HandlerRegistry, HandlerResult, JobContext, JobLimits, Jobs, JobsDeps, Sweeper,
    Worker, WorkerDeps, WorkerOptions,
};
use roundsman_engine::metrics::Metrics;
use roundsman_engine::wake::{WakeListener, Wakes};
use roundsman_store::sqlite::{SqliteOptions, SqliteStore};
use roundsman_testkit::{ManualClock, SeededRandom, TestDatabase, eventually};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::backend::{self, Backend};
use crate::flaky::FlakyStore;

/// The lease of the kinds in these tests, and how often it is extended.
pub(crate) const TTL: Duration = Duration::from_secs(300);
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(30);
/// The most that waiting for something that must happen takes; only a failing test takes it.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// Longer than any test: whatever happens in time was not caused by a wait of this length.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);

pub(crate) const MICROSECOND: Duration = Duration::from_micros(1);

/// A kind that handlers in the process run.
pub(crate) const RENDER: &str = "tasks.render";

pub(crate) fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A moment before a time is over.
pub(crate) fn just_under(time: Duration) -> Duration {
    time.saturating_sub(MICROSECOND)
}

pub(crate) fn kind(name: &str) -> KindName {
    KindName::new(name).unwrap()
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) fn spec(name: &str) -> KindSpec {
    KindSpec {
        kind: kind(name),
        lease_ttl: TTL,
        heartbeat_every: HEARTBEAT,
        deadline: None,
        max_attempts: Some(3),
        retry: RetryPolicy { base: secs(2), cap: secs(300) },
        merge: MergeRule::Replace,
        concurrency: None,
        role: Role::Worker,
        lease_name: None,
    }
}

pub(crate) fn retry(code: &str) -> Outcome {
    Outcome::Retry { error: JobError::new(code, "it did not work"), after: None }
}

pub(crate) fn done(result: &str) -> Outcome {
    Outcome::Done { result: json(result) }
}

/// All that the engine is made of, over one fresh database.
pub(crate) struct World {
    pub(crate) store: Arc<FlakyStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) random: Arc<SeededRandom>,
    pub(crate) wakes: Wakes,
    pub(crate) metrics: Metrics,
    pub(crate) tasks: TaskTracker,
    pub(crate) catalog: Arc<KindCatalog>,
    owner: LeaseOwner,
    /// Goes with the test.
    _place: Place,
}

/// Where a test's database is.
enum Place {
    Memory,
    Folder { _folder: tempfile::TempDir },
    Server { _database: TestDatabase },
}

impl World {
    /// Over a database in memory that runs on the caller's thread.
    pub(crate) fn new() -> Self {
        World::with(vec![])
    }

    /// The same, with kinds of their own policy.
    pub(crate) fn with(specs: Vec<KindSpec>) -> Self {
        let catalog = catalog(specs);
        let store = SqliteStore::open_in_memory_inline(catalog.clone()).unwrap();
        let world = World::over(Arc::new(store), catalog, Place::Memory);
        // This database has no threads: there is nothing to wait for.
        world.begun().now_or_never().unwrap()
    }

    /// Over a database of this sort.
    pub(crate) async fn on(backend: Backend, specs: Vec<KindSpec>) -> Self {
        match backend {
            Backend::Sqlite => World::with(specs),
            Backend::Postgres => {
                let catalog = catalog(specs);
                let (store, database) = backend::postgres(&catalog).await;
                let place = Place::Server { _database: database };
                World::over(Arc::new(store), catalog, place).begun().await
            }
        }
    }

    /// Over a database on disk with its threads.
    pub(crate) async fn on_disk() -> Self {
        let catalog = catalog(vec![]);
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("test.db"));
        let store = SqliteStore::open(&options, catalog.clone()).unwrap();
        World::over(Arc::new(store), catalog, Place::Folder { _folder: folder }).begun().await
    }

    /// With this process announced, so that its workers own their leases.
    async fn begun(mut self) -> Self {
        self.owner = self.store.begin_process(0, self.clock.now()).await.unwrap().owner;
        self
    }

    fn over(store: Arc<dyn Store>, catalog: Arc<KindCatalog>, place: Place) -> Self {
        World {
            store: Arc::new(FlakyStore::new(store)),
            clock: Arc::default(),
            random: Arc::new(SeededRandom::new(7)),
            wakes: Wakes::local(),
            metrics: Metrics::default(),
            tasks: TaskTracker::new(),
            catalog,
            owner: LeaseOwner::Outside,
            _place: place,
        }
    }

    /// The mark of leases that are held inside this process.
    pub(crate) fn owner(&self) -> LeaseOwner {
        self.owner
    }

    pub(crate) fn jobs(&self) -> Jobs {
        self.jobs_with(JobLimits::default())
    }

    pub(crate) fn jobs_with(&self, limits: JobLimits) -> Jobs {
        Jobs::new(JobsDeps {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            catalog: self.catalog.clone(),
            wakes: self.wakes.clone(),
            metrics: self.metrics.clone(),
            limits,
            tasks: self.tasks.clone(),
        })
    }

    pub(crate) fn sweeper(&self) -> Sweeper {
        Sweeper::new(
            self.store.clone(),
            self.clock.clone(),
            self.random.clone(),
            self.wakes.clone(),
            self.metrics.clone(),
        )
    }

    /// A worker with a hundred slots that never polls.
    pub(crate) fn worker(&self, handlers: Vec<Arc<dyn Handler>>) -> Arc<Worker> {
        self.worker_with(handlers, |_| {})
    }

    pub(crate) fn worker_with(
        &self,
        handlers: Vec<Arc<dyn Handler>>,
        adjust: impl FnOnce(&mut WorkerOptions),
    ) -> Arc<Worker> {
        let deps = WorkerDeps {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            wakes: self.wakes.clone(),
            metrics: self.metrics.clone(),
            health: Health::new(self.clock.clone()),
            handlers: handlers.into_iter().fold(HandlerRegistry::default(), HandlerRegistry::with),
            tasks: self.tasks.clone(),
        };
        let mut options = WorkerOptions {
            name: WorkerName::new("w1"),
            owner: self.owner,
            roles: vec![Role::Worker],
            slots: 100,
            claim_max: 100,
            poll_every: NEVER,
        };
        adjust(&mut options);
        Arc::new(Worker::new(deps, options))
    }

    /// A wish of the system itself, due now.
    pub(crate) fn wish(&self, name: &str) -> NewJob {
        NewJob {
            user_id: UserId::SYSTEM,
            kind: kind(name),
            key: None,
            payload: Json::null(),
            priority: 0,
            run_at: self.clock.now(),
            max_attempts: Some(3),
            tenant: None,
        }
    }

    pub(crate) fn keyed(&self, name: &str, key: &str) -> NewJob {
        NewJob { key: Some(JobKey::new(key).unwrap()), ..self.wish(name) }
    }

    /// Straight into the database: nobody is woken.
    pub(crate) async fn enqueue(&self, wish: NewJob) -> JobId {
        let request = EnqueueRequest { jobs: vec![wish], idempotency: None };
        match self.store.enqueue(request, self.clock.now()).await.unwrap() {
            EnqueueAnswer::Stored(jobs) => jobs[0].id,
            other => panic!("{other:?}"),
        }
    }

    /// So many wishes of one kind.
    pub(crate) async fn enqueue_many(&self, name: &str, count: usize) {
        let request = EnqueueRequest { jobs: vec![self.wish(name); count], idempotency: None };
        self.store.enqueue(request, self.clock.now()).await.unwrap();
    }

    pub(crate) async fn job(&self, id: JobId) -> Job {
        self.store.job(Scope::All, id).await.unwrap().expect("the job exists")
    }

    pub(crate) async fn waiting(&self, id: JobId) -> WaitingJob {
        match self.job(id).await {
            Job::Waiting(job) => job,
            other => panic!("not waiting: {other:?}"),
        }
    }

    pub(crate) async fn running(&self, id: JobId) -> RunningJob {
        match self.job(id).await {
            Job::Running(job) => *job,
            other => panic!("not running: {other:?}"),
        }
    }

    pub(crate) async fn finished(&self, id: JobId) -> FinishedJob {
        match self.job(id).await {
            Job::Finished(job) => *job,
            other => panic!("not finished: {other:?}"),
        }
    }

    /// The newest two hundred jobs, or those of one kind.
    pub(crate) async fn all_jobs(&self, name: Option<&str>) -> Vec<Job> {
        let mut found: Vec<Job> = Vec::new();
        loop {
            let filter = ListFilter { kind: name.map(kind), ..ListFilter::default() };
            let page = ListPage { before: found.last().map(|job| job.facts().id), rows_max: 200 };
            let more = self.store.jobs(Scope::All, filter, page, self.clock.now()).await.unwrap();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }

    /// What every test ends with: the database finds nothing wrong with itself.
    pub(crate) async fn check(&self) {
        self.store.mend();
        assert_eq!(self.store.check().await.unwrap(), []);
    }
}

fn catalog(specs: Vec<KindSpec>) -> Arc<KindCatalog> {
    Arc::new(specs.into_iter().fold(KindCatalog::new(spec("default")), KindCatalog::with))
}

/// A handler that says when it starts, and ends as the test says.
pub(crate) fn scripted(spec: KindSpec) -> (Arc<dyn Handler>, Starts) {
    let (starts, received) = mpsc::unbounded_channel();
    (Arc::new(Scripted { spec, starts }), Starts(received))
}

/// A handler that does the same every time, at once.
pub(crate) fn always(spec: KindSpec, outcome: Outcome) -> Arc<dyn Handler> {
    Arc::new(Always { spec, outcome })
}

/// The runs of a scripted handler, as they start.
pub(crate) struct Starts(mpsc::UnboundedReceiver<Started>);

impl Starts {
    pub(crate) async fn next(&mut self) -> Started {
        let start = tokio::time::timeout(SOON, self.0.recv()).await;
        start.expect("a handler starts soon").expect("the handler exists")
    }

    pub(crate) async fn take(&mut self, count: usize) -> Vec<Started> {
        let mut starts = Vec::new();
        while starts.len() < count {
            starts.push(self.next().await);
        }
        starts
    }

    /// Whether a run has started that was not taken; lets everything that can run do so first.
    pub(crate) async fn is_empty(&self) -> bool {
        let_others_run().await;
        self.0.is_empty()
    }
}

/// One run of a scripted handler. It waits until it is told how to end.
pub(crate) struct Started {
    pub(crate) context: JobContext,
    reply: oneshot::Sender<Reply>,
    gone: Arc<AtomicBool>,
}

type Reply = Box<dyn FnOnce() -> HandlerResult + Send>;

impl Started {
    pub(crate) fn id(&self) -> JobId {
        self.context.job.id
    }

    pub(crate) fn lease(&self) -> LeaseRef {
        self.context.lease
    }

    /// Whether the handler's future was dropped, at its end or before it.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Waits until it is.
    pub(crate) async fn gone(&self) {
        until("the handler is dropped", || self.is_gone()).await;
    }

    pub(crate) fn reply(self, outcome: Outcome) {
        self.reply_with(outcome, Effects::default());
    }

    pub(crate) fn reply_with(self, outcome: Outcome, effects: Effects) {
        self.send(Box::new(move || HandlerResult { outcome, effects }));
    }

    pub(crate) fn panic(self, message: &'static str) {
        self.send(Box::new(move || panic!("{message}")));
    }

    fn send(self, reply: Reply) {
        // A handler that was stopped does not listen any more, as in real life.
        let _ = self.reply.send(reply);
    }
}

struct Scripted {
    spec: KindSpec,
    starts: mpsc::UnboundedSender<Started>,
}

#[async_trait]
impl Handler for Scripted {
    fn spec(&self) -> KindSpec {
        self.spec.clone()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let gone = Arc::new(AtomicBool::new(false));
        let _guard = SetOnDrop(gone.clone());
        let (reply, told) = oneshot::channel();
        self.starts.send(Started { context, reply, gone }).unwrap();
        match told.await {
            Ok(reply) => reply(),
            // The test has forgotten this run: it works for ever.
            Err(_) => std::future::pending().await,
        }
    }
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Always {
    spec: KindSpec,
    outcome: Outcome,
}

#[async_trait]
impl Handler for Always {
    fn spec(&self) -> KindSpec {
        self.spec.clone()
    }

    async fn run(&self, _context: JobContext) -> HandlerResult {
        self.outcome.clone().into()
    }
}

/// Lets every task that can make progress make it. For tests on one thread.
pub(crate) async fn let_others_run() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Waits for something that tasks on this thread bring about, with nobody's help but a database's.
pub(crate) async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    // A database on this thread keeps nobody waiting.
    for _ in 0..1000 {
        if reached() {
            return;
        }
        tokio::task::yield_now().await;
    }
    let reached = eventually(SOON, async || reached().then_some(())).await;
    reached.unwrap_or_else(|late| panic!("it never came to this: {what}: {late}"));
}

/// Waits until so many handlers run: ends are known, though not yet written.
pub(crate) async fn until_running(worker: &Worker, count: usize) {
    until("handlers have ended", || worker.running_count() == count).await;
}

pub(crate) fn lane(name: &str) -> Lane {
    Lane::of(UserId::SYSTEM, &kind(name))
}

/// Whether a listener was woken since its last wait.
pub(crate) fn woken(listener: &WakeListener) -> bool {
    listener.waker().notified().now_or_never().is_some()
}

/// Fails a test that hangs.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, work).await.expect("it happens soon")
}
