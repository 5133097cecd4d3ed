//! The job service: what callers outside the process, and other systems inside it, use.
//!
//! Invariant: every method takes who is asking and touches only what belongs to them, but for counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use roundsman_core::Timestamp;
use roundsman_core::failpoint;
use roundsman_core::jobs::{Job, JobId, JobState, KindCatalog, KindName, Lane, NewJob, RunningJob};
use roundsman_core::limits::PAGE_ROWS_MAX;
use roundsman_core::ports::{
    CancelAnswer, Clock, EnqueueAnswer, EnqueueRequest, Enqueued, IdempotencyKey, KindDepth,
    ListFilter, ListPage, Random, RetryAnswer, Scope, Store,
};
use roundsman_core::users::{Authenticated, UserId};
use sha2::{Digest, Sha256};
use tokio_util::task::TaskTracker;

use super::batch::Batchers;
use super::wish::{Asker, check_wishes};
use super::{JobLimits, JobWish};
use crate::metrics::Metrics;
use crate::wake::Wakes;
use crate::{Error, FieldError};

/// What the service is made of.
#[derive(Clone)]
pub struct JobsDeps {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub catalog: Arc<KindCatalog>,
    pub wakes: Wakes,
    pub metrics: Metrics,
    pub limits: JobLimits,
    /// Where the service's own tasks run, so that a shutdown can wait for them.
    pub tasks: TaskTracker,
}

/// Enqueues, hands out, settles and shows jobs.
#[derive(Clone)]
pub struct Jobs {
    pub(super) deps: Arc<JobsDeps>,
    pub(super) batchers: Batchers,
}

/// A client's promise that repeating a request means the same request.
#[derive(Debug, Clone)]
pub struct IdempotencyWish {
    pub route: &'static str,
    pub key: String,
    /// The request's body as it was sent.
    pub body: bytes::Bytes,
}

/// What enqueueing came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnqueueReport {
    pub jobs: Vec<Enqueued>,
    /// The same request was carried out before; this is its answer.
    pub replayed: bool,
}

impl Jobs {
    pub fn new(deps: JobsDeps) -> Self {
        let batchers = Batchers::start(&deps);
        Jobs { deps: Arc::new(deps), batchers }
    }

    /// How much waits and runs, of all users together: for the operator alone.
    pub async fn depths(&self) -> Result<Vec<KindDepth>, Error> {
        Ok(self.deps.store.depths(self.now()).await?)
    }

    pub fn catalog(&self) -> &KindCatalog {
        &self.deps.catalog
    }

    /// How large a payload may be.
    pub fn payload_bytes_max(&self) -> usize {
        self.deps.limits.payload_bytes_max
    }

    pub fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    /// Stores wishes durably and wakes whoever can work on them.
    pub async fn enqueue(
        &self,
        caller: &Authenticated,
        wishes: Vec<JobWish>,
        idempotency: Option<IdempotencyWish>,
    ) -> Result<EnqueueReport, Error> {
        let deps = &self.deps;
        if wishes.is_empty() || wishes.len() > deps.limits.jobs_per_request_max {
            let reason = format!("must hold 1 to {} jobs", deps.limits.jobs_per_request_max);
            return Err(Error::Invalid(vec![FieldError::new("jobs", reason)]));
        }
        let now = deps.clock.now();
        let asker = asker(caller);
        let jobs = check_wishes(wishes, asker, &deps.catalog, &deps.limits, now)?;
        let lanes = lanes_of(&jobs);
        let kinds: Vec<KindName> = jobs.iter().map(|job| job.kind.clone()).collect();
        let answer = match idempotency {
            Some(wish) => {
                let idempotency = Some(idempotency_key(asker.user_id, wish)?);
                deps.store.enqueue(EnqueueRequest { jobs, idempotency }, now).await?
            }
            None => EnqueueAnswer::Stored(self.batchers.enqueue(jobs).await?),
        };
        match answer {
            EnqueueAnswer::Stored(jobs) => {
                failpoint::hit("jobs.enqueued");
                deps.metrics.enqueued(kinds.iter().zip(&jobs));
                deps.wakes.signal(lanes);
                Ok(EnqueueReport { jobs, replayed: false })
            }
            EnqueueAnswer::Replayed(jobs) => Ok(EnqueueReport { jobs, replayed: true }),
            EnqueueAnswer::KeyReused => Err(Error::IdempotencyKeyReused),
        }
    }

    /// Cancels a job and shows it as it is afterwards.
    pub async fn cancel(&self, caller: &Authenticated, id: JobId) -> Result<Job, Error> {
        let scope = scope(caller);
        match self.deps.store.cancel(scope, id, self.now()).await? {
            CancelAnswer::NotFound => Err(Error::NotFound { what: "job" }),
            CancelAnswer::Finished(state) => Err(Error::WrongState { state }),
            CancelAnswer::Cancelled => self.job(caller, id).await,
            CancelAnswer::Requested => {
                failpoint::hit("jobs.cancel_requested");
                // Whoever runs it is told now if they can hear it, with their heartbeat otherwise.
                self.deps.wakes.signal_cancel(id);
                self.job(caller, id).await
            }
        }
    }

    /// Tries a job again and shows it as it is afterwards.
    pub async fn retry(&self, caller: &Authenticated, id: JobId) -> Result<Job, Error> {
        match self.deps.store.retry(scope(caller), id, self.now()).await? {
            RetryAnswer::NotFound => Err(Error::NotFound { what: "job" }),
            RetryAnswer::Running => Err(Error::WrongState { state: JobState::Processing }),
            RetryAnswer::KeyTaken { by } => Err(Error::KeyTaken { by: by.get() }),
            RetryAnswer::Requeued => {
                let job = self.job(caller, id).await?;
                self.deps.wakes.signal([(job.facts().base_lane(), 1)]);
                Ok(job)
            }
        }
    }

    pub async fn job(&self, caller: &Authenticated, id: JobId) -> Result<Job, Error> {
        let found = self.deps.store.job(scope(caller), id).await?;
        found.ok_or(Error::NotFound { what: "job" })
    }

    /// A page of jobs, newest first.
    pub async fn jobs(
        &self,
        caller: &Authenticated,
        filter: ListFilter,
        before: Option<JobId>,
        rows_max: u32,
    ) -> Result<Vec<Job>, Error> {
        let page = ListPage { before, rows_max: rows_max.clamp(1, PAGE_ROWS_MAX) };
        Ok(self.deps.store.jobs(scope(caller), filter, page, self.now()).await?)
    }

    /// A page of running jobs with the names of their leases, newest first.
    pub async fn leases(
        &self,
        caller: &Authenticated,
        before: Option<JobId>,
        rows_max: u32,
    ) -> Result<Vec<(String, RunningJob)>, Error> {
        let page = ListPage { before, rows_max: rows_max.clamp(1, PAGE_ROWS_MAX) };
        let running = self.deps.store.leases(scope(caller), page).await?;
        let named = |job: RunningJob| {
            let spec = self.deps.catalog.spec(&job.facts.kind);
            (spec.lease_name_of(job.facts.id, job.facts.key.as_ref()), job)
        };
        Ok(running.into_iter().map(named).collect())
    }
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").field("limits", &self.deps.limits).finish_non_exhaustive()
    }
}

pub(super) fn asker(caller: &Authenticated) -> Asker {
    match caller {
        Authenticated::Admin => Asker { user_id: UserId::SYSTEM, operator: true },
        Authenticated::User { user_id, .. } => Asker { user_id: *user_id, operator: false },
    }
}

pub(super) fn scope(caller: &Authenticated) -> Scope {
    match caller {
        Authenticated::Admin => Scope::All,
        Authenticated::User { user_id, .. } => Scope::User(*user_id),
    }
}

pub(super) fn lanes_of(jobs: &[NewJob]) -> Vec<(Lane, usize)> {
    let mut lanes: BTreeMap<Lane, usize> = BTreeMap::new();
    for job in jobs {
        *lanes.entry(job.base_lane()).or_default() += 1;
    }
    lanes.into_iter().collect()
}

pub(super) fn idempotency_key(
    user_id: UserId,
    wish: IdempotencyWish,
) -> Result<IdempotencyKey, Error> {
    const KEY_CHARS_MAX: usize = 255;
    let plain = wish.key.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    if wish.key.is_empty() || wish.key.len() > KEY_CHARS_MAX || !plain {
        let reason = format!("must be 1 to {KEY_CHARS_MAX} visible ASCII characters");
        return Err(Error::Invalid(vec![FieldError::new("Idempotency-Key", reason)]));
    }
    let body_hash = Sha256::digest(&wish.body).into();
    Ok(IdempotencyKey { user_id, route: wish.route, key: wish.key, body_hash })
}
