//! The worker: claims as much as it has room for, and ends in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::select;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, CallError, ClaimWish};
use crate::life::{Ending, Surroundings, work};
use crate::time::{now, pause};
use crate::{Error, Handler, Job};

/// How long a claim waits at the server. A worker that has to end waits for its claim, because what
/// is given to nobody is only given again when its lease is over.
const WAIT_SECS: u64 = 10;
/// The shortest and the longest lease that the server grants.
const LEASE_SECS: (u64, u64) = (5, 3600);
/// How long a server that does not answer is left alone, at first and at most.
const PATIENCE_MS: (u64, u64) = (200, 10_000);

/// Claims jobs, runs their handlers, keeps their leases and tells how they ended.
pub struct Worker {
    api: Api,
    name: String,
    handlers: BTreeMap<String, Arc<dyn Handler>>,
    concurrency: usize,
    lease: Duration,
    wait: Duration,
    stop_grace: Duration,
    shutdown_grace: Duration,
}

/// What became of the jobs that a worker had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    pub completed: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub released: u64,
    /// Somebody else has them, or had them in the end.
    pub lost: u64,
}

impl Worker {
    /// `url` is the server's, `token` a user's with the scope `work`.
    pub fn new(url: &str, token: &str) -> Result<Self, Error> {
        Ok(Worker {
            api: Api::new(url, token)?,
            name: format!("rust-{}", std::process::id()),
            handlers: BTreeMap::new(),
            concurrency: 4,
            lease: Duration::from_secs(60),
            wait: Duration::from_secs(WAIT_SECS),
            stop_grace: Duration::from_secs(5),
            shutdown_grace: Duration::from_secs(20),
        })
    }

    /// What the server shows as holder of the leases.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// With a client of your own, for TLS or a proxy.
    #[must_use]
    pub fn http_client(mut self, client: reqwest::Client) -> Self {
        self.api = self.api.with_client(client);
        self
    }

    #[must_use]
    pub fn handle(mut self, kind: impl Into<String>, handler: impl Handler + 'static) -> Self {
        self.handlers.insert(kind.into(), Arc::new(handler));
        self
    }

    /// How many jobs are worked on at once.
    #[must_use]
    pub fn concurrency(mut self, jobs_max: usize) -> Self {
        self.concurrency = jobs_max.max(1);
        self
    }

    /// How long a job is lost for if this worker dies; a heartbeat is sent three times in it. Whole
    /// seconds, between what the server allows.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Duration::from_secs(lease.as_secs().clamp(LEASE_SECS.0, LEASE_SECS.1));
        self
    }

    /// How long a claim waits at the server if there is nothing to do. Whole seconds.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long a handler that was told to stop may take.
    #[must_use]
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.stop_grace = grace;
        self
    }

    /// How long jobs may go on after the worker was told to end.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// Works until `shutdown` is ready, then lets jobs finish, and hands back those that do not.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Summary {
        let around = Surroundings {
            api: self.api.clone(),
            lease: self.lease,
            // Nothing keeps a lease while its handler is being stopped.
            stop_grace: self.stop_grace.min(self.lease / 3),
            ending: CancellationToken::new(),
        };
        let claiming = CancellationToken::new();
        let mut mine = Mine::default();
        let told = async {
            shutdown.await;
            claiming.cancel();
        };
        tokio::join!(told, self.claim_until(&claiming, &around, &mut mine));
        if timeout(self.shutdown_grace, mine.drain()).await.is_err() {
            around.ending.cancel();
            mine.drain().await;
        }
        mine.summary
    }

    async fn claim_until(
        &self,
        claiming: &CancellationToken,
        around: &Surroundings,
        mine: &mut Mine,
    ) {
        let room = Arc::new(Semaphore::new(self.concurrency));
        let kinds: Vec<String> = self.handlers.keys().cloned().collect();
        let mut patience_ms = PATIENCE_MS.0;
        while let Some(mut places) = places(&room, claiming).await {
            mine.count_ended();
            let before = now();
            match self.claim(&kinds, places.len()).await {
                Ok(claimed) => {
                    patience_ms = PATIENCE_MS.0;
                    for job in claimed {
                        let place = places.pop();
                        let is_late = claiming.is_cancelled();
                        mine.jobs.spawn(self.life(job, before, place, is_late, around.clone()));
                    }
                }
                Err(why) => {
                    tracing::warn!(%why, "cannot claim");
                    let wait = pause(Duration::from_millis(patience_ms));
                    select! { biased; () = claiming.cancelled() => {}, () = wait => {} }
                    patience_ms = (patience_ms * 2).min(PATIENCE_MS.1);
                }
            }
        }
    }

    async fn claim(&self, kinds: &[String], max: usize) -> Result<Vec<Job>, CallError> {
        let (worker, lease, wait) = (self.name.as_str(), self.lease, self.wait);
        self.api.claim(&ClaimWish { worker, kinds, max, lease, wait }).await
    }

    /// One job with the place that it takes. What came after the worker was told to end is handed back.
    fn life(
        &self,
        job: Job,
        claimed: Instant,
        place: Option<OwnedSemaphorePermit>,
        is_late: bool,
        around: Surroundings,
    ) -> impl Future<Output = Ending> + Send + 'static {
        let handler = self.handlers.get(&job.kind).cloned();
        async move {
            let _place = place;
            match handler {
                Some(handler) if !is_late => work(&around, &*handler, job, claimed).await,
                _ => around.api.release(&job).await.map_or(Ending::Lost, |()| Ending::Released),
            }
        }
    }
}

/// Waits for room for one job, and takes what else is free. `None` when no more is to be claimed.
async fn places(
    room: &Arc<Semaphore>,
    claiming: &CancellationToken,
) -> Option<Vec<OwnedSemaphorePermit>> {
    let first = select! {
        biased;
        () = claiming.cancelled() => return None,
        place = Arc::clone(room).acquire_owned() => place.ok()?,
    };
    let mut places = vec![first];
    while let Ok(place) = Arc::clone(room).try_acquire_owned() {
        places.push(place);
    }
    Some(places)
}

/// The jobs that go on, and those that have ended.
#[derive(Default)]
struct Mine {
    jobs: JoinSet<Ending>,
    summary: Summary,
}

impl Mine {
    fn count_ended(&mut self) {
        while let Some(ended) = self.jobs.try_join_next() {
            self.summary.count(ended.unwrap_or(Ending::Lost));
        }
    }

    async fn drain(&mut self) {
        while let Some(ended) = self.jobs.join_next().await {
            self.summary.count(ended.unwrap_or(Ending::Lost));
        }
    }
}

impl Summary {
    fn count(&mut self, ending: Ending) {
        let counter = match ending {
            Ending::Completed => &mut self.completed,
            Ending::Failed => &mut self.failed,
            Ending::Cancelled => &mut self.cancelled,
            Ending::Released => &mut self.released,
            Ending::Lost => &mut self.lost,
        };
        *counter += 1;
    }
}
