//! A store under test with a clock that stands still, and short names for what cases do with it.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    FinishedJob, Job, JobId, JobState, Json, Lane, LeaseOwner, LeaseRef, NewJob, Outcome,
    RunningJob, Settle, Settled, WaitingJob, WorkerName,
};
use roundsman_core::limits::PAGE_ROWS_MAX;
use roundsman_core::ports::{
    ClaimAnswer, ClaimRequest, EnqueueAnswer, EnqueueRequest, Enqueued, Heartbeat, HeartbeatAnswer,
    LaneDemand, ListFilter, ListPage, Scope, Store, SweepReport, SweepRequest,
};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::backdoor::Backdoor;
use super::wishes::{ADA, TTL, key, kind};

/// 2026-01-01T00:00:00Z, so that a failure shows a date that is easy to read.
const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// In what adapters may differ.
#[derive(Debug, Clone, Copy)]
pub struct Traits {
    /// The database belongs to one process, so that a new one knows that all others are dead.
    pub exclusive: bool,
    /// How many races a case that counts them runs.
    pub races: usize,
    /// How many races a heartbeat of a bot and a sweep run.
    pub bot_races: usize,
    /// How often many starts at once meet one limit.
    pub start_rounds: usize,
    /// How often a transcript is read while it is written.
    pub transcript_reads: usize,
    /// How many revisions of each segment are told at once.
    pub transcript_revisions: usize,
    /// How many rooms are open at once.
    pub open_rooms: usize,
}

/// One store on a fresh database.
pub struct Fixture {
    pub store: Arc<dyn Store>,
    pub traits: Traits,
    /// `None` where nobody but the store can reach the database. The cases that need it then have
    /// nothing to look at; the same adapter runs them elsewhere.
    pub backdoor: Option<Arc<dyn Backdoor>>,
    now_micros: AtomicI64,
    /// Whatever must live as long as the store: a folder, a database.
    _keep: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Fixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fixture")
            .field("store", &self.store.describe())
            .field("traits", &self.traits)
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}

impl Fixture {
    pub fn new(store: Arc<dyn Store>, traits: Traits, keep: impl Any + Send + Sync) -> Self {
        Fixture {
            store,
            traits,
            backdoor: None,
            now_micros: AtomicI64::new(START.as_micros()),
            _keep: Box::new(keep),
        }
    }

    #[must_use]
    pub fn with_backdoor(self, backdoor: impl Backdoor + 'static) -> Self {
        Fixture { backdoor: Some(Arc::new(backdoor)), ..self }
    }

    /// What every test ends with: the store finds nothing wrong with itself, and neither does a
    /// reader of all its jobs.
    pub async fn finish(&self) {
        let violations = self.store.check().await.expect("check");
        assert!(violations.is_empty(), "check() found {violations:#?}");
        assert_keys_are_unique(&self.all_jobs().await);
        self.store.close().await;
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_micros.load(Ordering::SeqCst))
    }

    pub fn advance(&self, by: Duration) {
        let micros = (self.now() + by).as_micros();
        self.now_micros.store(micros, Ordering::SeqCst);
    }

    /// Ada's wish for a job without a key, due now, with three attempts.
    pub fn wish(&self, kind_name: &str) -> NewJob {
        NewJob {
            user_id: ADA,
            kind: kind(kind_name),
            key: None,
            payload: Json::null(),
            priority: 0,
            run_at: self.now(),
            max_attempts: Some(3),
            tenant: None,
        }
    }

    pub fn keyed(&self, kind_name: &str, key_text: &str) -> NewJob {
        NewJob { key: Some(key(key_text)), ..self.wish(kind_name) }
    }

    pub async fn enqueue(&self, jobs: Vec<NewJob>) -> Vec<Enqueued> {
        let request = EnqueueRequest { jobs, idempotency: None };
        match self.store.enqueue(request, self.now()).await {
            Ok(EnqueueAnswer::Stored(stored)) => stored,
            other => panic!("expected the jobs to be stored, got {other:?}"),
        }
    }

    /// Writes one wish and expects that it became a job of its own.
    pub async fn put(&self, wish: NewJob) -> JobId {
        let stored = self.enqueue(vec![wish]).await;
        assert_eq!(stored.len(), 1);
        assert!(!stored[0].coalesced, "expected a new job");
        stored[0].id
    }

    /// Writes one wish and expects that it joined a waiting job.
    pub async fn join(&self, wish: NewJob) -> JobId {
        let stored = self.enqueue(vec![wish]).await;
        assert_eq!(stored.len(), 1);
        assert!(stored[0].coalesced, "expected it to join a waiting job");
        stored[0].id
    }

    pub async fn claim_with(&self, request: ClaimRequest) -> ClaimAnswer {
        self.store.claim(request, self.now()).await.expect("claim")
    }

    /// Claims for a worker outside, as much as the demands allow in all.
    pub async fn claim_lanes(&self, demands: Vec<LaneDemand>) -> ClaimAnswer {
        let total_max = demands.iter().map(|demand| demand.max).sum();
        self.claim_with(ClaimRequest {
            worker: WorkerName::new("w"),
            owner: LeaseOwner::Outside,
            demands,
            total_max,
        })
        .await
    }

    pub async fn claim(&self, kind_name: &str, max: u32) -> Vec<RunningJob> {
        self.claim_lanes(vec![demand(kind_name, max)]).await.jobs
    }

    /// Claims exactly one job; there must be one.
    pub async fn claim_one(&self, kind_name: &str) -> RunningJob {
        let mut jobs = self.claim(kind_name, 1).await;
        assert_eq!(jobs.len(), 1, "expected a job of kind {kind_name}");
        jobs.remove(0)
    }

    pub async fn assert_nothing_to_claim(&self, kind_name: &str) {
        let jobs = self.claim(kind_name, 100).await;
        assert!(jobs.is_empty(), "expected nothing to claim, got {jobs:?}");
    }

    pub async fn heartbeat(&self, lease: LeaseRef) -> HeartbeatAnswer {
        self.heartbeat_with(lease, None, None).await
    }

    pub async fn heartbeat_with(
        &self,
        lease: LeaseRef,
        ttl: Option<Duration>,
        progress: Option<Json>,
    ) -> HeartbeatAnswer {
        let beat = Heartbeat { lease, ttl, progress };
        let answers = self.store.heartbeat(vec![beat], self.now()).await.expect("heartbeat");
        assert_eq!(answers.len(), 1);
        answers[0]
    }

    pub async fn settle(&self, lease: LeaseRef, outcome: Outcome) -> Settled {
        self.settle_with(lease, outcome, Effects::default()).await
    }

    pub async fn settle_with(
        &self,
        lease: LeaseRef,
        outcome: Outcome,
        effects: Effects,
    ) -> Settled {
        let settle = Settle { lease, outcome, effects };
        let answers = self.settle_batch(vec![settle]).await;
        answers[0]
    }

    pub async fn settle_batch(&self, settles: Vec<Settle>) -> Vec<Settled> {
        let count = settles.len();
        let answers = self.store.settle(settles, 0, self.now()).await.expect("settle");
        assert_eq!(answers.len(), count, "one answer per settle");
        answers
    }

    /// Settles and expects that it landed.
    pub async fn land(&self, lease: LeaseRef, outcome: Outcome) -> JobState {
        match self.settle(lease, outcome).await {
            Settled::Landed { state } => state,
            Settled::LeaseLost => panic!("the lease {lease:?} was lost"),
        }
    }

    /// Sweeps without limits, as a node that has been serving for ever.
    pub async fn sweep(&self) -> SweepReport {
        self.sweep_with(SweepRequest {
            rows_max: 10_000,
            serving_since: Timestamp::EPOCH,
            jitter: 0,
        })
        .await
    }

    pub async fn sweep_with(&self, request: SweepRequest) -> SweepReport {
        self.store.sweep(request, self.now()).await.expect("sweep")
    }

    pub async fn find(&self, scope: Scope, id: JobId) -> Option<Job> {
        self.store.job(scope, id).await.expect("job")
    }

    pub async fn job(&self, id: JobId) -> Job {
        let job = self.find(Scope::All, id).await;
        job.unwrap_or_else(|| panic!("job {id} is gone"))
    }

    pub async fn state(&self, id: JobId) -> JobState {
        self.job(id).await.state(self.now())
    }

    pub async fn waiting(&self, id: JobId) -> WaitingJob {
        match self.job(id).await {
            Job::Waiting(job) => job,
            other => panic!("expected job {id} to wait, it is {other:?}"),
        }
    }

    pub async fn running(&self, id: JobId) -> RunningJob {
        match self.job(id).await {
            Job::Running(job) => *job,
            other => panic!("expected job {id} to run, it is {other:?}"),
        }
    }

    pub async fn finished(&self, id: JobId) -> FinishedJob {
        match self.job(id).await {
            Job::Finished(job) => *job,
            other => panic!("expected job {id} to be finished, it is {other:?}"),
        }
    }

    pub async fn list(&self, scope: Scope, filter: ListFilter) -> Vec<Job> {
        let page = ListPage { before: None, rows_max: PAGE_ROWS_MAX };
        self.store.jobs(scope, filter, page, self.now()).await.expect("jobs")
    }

    /// Every job there is, by descending number, read page by page.
    pub async fn all_jobs(&self) -> Vec<Job> {
        let mut jobs: Vec<Job> = Vec::new();
        loop {
            let page =
                ListPage { before: jobs.last().map(|job| job.facts().id), rows_max: PAGE_ROWS_MAX };
            let rows = self
                .store
                .jobs(Scope::All, ListFilter::default(), page, self.now())
                .await
                .expect("jobs");
            if rows.is_empty() {
                return jobs;
            }
            jobs.extend(rows);
        }
    }
}

/// A future of whatever kind, so that different ones can run at once.
pub(super) type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub(super) fn boxed<T>(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
    Box::pin(future)
}

/// Runs futures on the runtime's threads, all starting together; answers in no particular order.
pub(super) async fn at_once<T, F>(futures: impl IntoIterator<Item = F>) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let futures: Vec<F> = futures.into_iter().collect();
    let start = Arc::new(Barrier::new(futures.len()));
    let mut tasks = JoinSet::new();
    for future in futures {
        let start = Arc::clone(&start);
        tasks.spawn(async move {
            start.wait().await;
            future.await
        });
    }
    tasks.join_all().await
}

/// At most one waiting and one running job per (user, kind, key), each number once.
pub fn assert_keys_are_unique(jobs: &[Job]) {
    let (mut ids, mut held) = (BTreeSet::new(), BTreeSet::new());
    for job in jobs {
        let facts = job.facts();
        assert!(ids.insert(facts.id), "job {} is listed twice", facts.id);
        let place = match job {
            Job::Waiting(_) => "waiting",
            Job::Running(_) => "running",
            Job::Finished(_) => continue,
        };
        if let Some(key) = &facts.key {
            let held_once = held.insert((place, facts.user_id, &facts.kind, key));
            assert!(held_once, "two {place} jobs with the key of {job:?}");
        }
    }
}

/// Ada's demand for a kind.
pub(super) fn demand(kind_name: &str, max: u32) -> LaneDemand {
    LaneDemand { lane: Lane::of(ADA, &kind(kind_name)), max, lease_ttl: TTL, deadline: None }
}
