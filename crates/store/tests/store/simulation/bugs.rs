//! Classic mistakes of job queues, made on purpose around a store that makes none of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    CancelCause, FinishedState, Job, JobError, JobId, LeaseOwner, LeaseRef, NewJob, Outcome,
    RunningJob, Settle, Settled,
};
use roundsman_core::ports::{
    CancelAnswer, ClaimAnswer, ClaimRequest, EnqueueAnswer, EnqueueRequest, Enqueued, Heartbeat,
    HeartbeatAnswer, JobStore, KindDepth, ListFilter, ListPage, ProcessStart, PruneReport,
    PruneRequest, RetryAnswer, Scope, StoreError, SweepReport, SweepRequest,
};

use super::rules::{ATTEMPTS, FENCE, NO_LOST_TRIGGER, ONE_LEASE, ONE_PER_KEY, ONE_STATE};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    /// Completing asks only whether the job runs, not under which lease.
    CompleteIgnoresLease,
    /// The sweep decides on what it read before, without looking again when it writes.
    SweepWithoutRecheck,
    /// A trigger joins the running job, which has read its state already.
    JoinsRunningJob,
    /// A failed run that folds starts counting its attempts anew.
    FoldForgetsAttempts,
    /// Handing a job back uses an attempt.
    ReleaseBurnsAttempt,
}

impl Bug {
    pub(super) const ALL: [Bug; 5] = [
        Bug::CompleteIgnoresLease,
        Bug::SweepWithoutRecheck,
        Bug::JoinsRunningJob,
        Bug::FoldForgetsAttempts,
        Bug::ReleaseBurnsAttempt,
    ];

    /// The rules that it breaks, of which the first to be looked at finds it.
    pub(super) fn broken_rules(self) -> &'static [&'static str] {
        match self {
            Bug::CompleteIgnoresLease => &[FENCE],
            Bug::SweepWithoutRecheck => &[FENCE, ONE_LEASE, ONE_PER_KEY],
            Bug::JoinsRunningJob => &[NO_LOST_TRIGGER],
            Bug::FoldForgetsAttempts => &[ATTEMPTS],
            // The last attempt, burnt, even fails the job.
            Bug::ReleaseBurnsAttempt => &[ATTEMPTS, ONE_STATE],
        }
    }
}

pub(super) struct Buggy<S> {
    inner: Arc<S>,
    bug: Bug,
    /// What the last sweep read: leases that were about to end.
    read_before: Mutex<BTreeMap<JobId, LeaseRef>>,
}

impl<S: JobStore> Buggy<S> {
    pub(super) fn new(inner: Arc<S>, bug: Bug) -> Self {
        Buggy { inner, bug, read_before: Mutex::default() }
    }

    async fn running(&self) -> Result<Vec<RunningJob>, StoreError> {
        let page = ListPage { before: None, rows_max: 10_000 };
        self.inner.leases(Scope::All, page).await
    }

    /// The job with the wish's key that runs now.
    async fn running_with_key(&self, wish: &NewJob) -> Result<Option<JobId>, StoreError> {
        if wish.key.is_none() {
            return Ok(None);
        }
        let same = |job: &RunningJob| {
            let facts = &job.facts;
            (facts.user_id, &facts.kind, &facts.key) == (wish.user_id, &wish.kind, &wish.key)
        };
        Ok(self.running().await?.into_iter().find(same).map(|job| job.facts.id))
    }

    async fn enqueue_joining_running(
        &self,
        request: EnqueueRequest,
        now: Timestamp,
    ) -> Result<EnqueueAnswer, StoreError> {
        let mut answers = Vec::new();
        for wish in request.jobs {
            if let Some(id) = self.running_with_key(&wish).await? {
                answers.push(Enqueued { id, coalesced: true });
                continue;
            }
            let one = EnqueueRequest { jobs: vec![wish], idempotency: None };
            match self.inner.enqueue(one, now).await? {
                EnqueueAnswer::Stored(stored) => answers.extend(stored),
                other => return Ok(other),
            }
        }
        Ok(EnqueueAnswer::Stored(answers))
    }

    /// The lease that the job has now, whatever the caller says it has.
    async fn current_lease(&self, lease: LeaseRef) -> Result<LeaseRef, StoreError> {
        Ok(match self.inner.job(Scope::All, lease.id).await? {
            Some(Job::Running(job)) => job.lease_ref(),
            _ => lease,
        })
    }

    /// The job that another one has just folded into, if it is due: then nothing but its attempts
    /// will be forgotten.
    async fn folded_into(&self, id: JobId, now: Timestamp) -> Result<Option<JobId>, StoreError> {
        let Some(Job::Finished(job)) = self.inner.job(Scope::All, id).await? else {
            return Ok(None);
        };
        let FinishedState::Cancelled { cause: CancelCause::Folded { into } } = job.state else {
            return Ok(None);
        };
        let survivor = self.inner.job(Scope::All, into).await?;
        let due = matches!(survivor, Some(Job::Waiting(job)) if job.due_at() <= now);
        Ok(due.then_some(into))
    }

    /// Takes what the last sweep found, although it may have been heard of since.
    async fn sweep_what_was_read(&self, now: Timestamp) -> Result<(), StoreError> {
        let running = self.running().await?;
        let soon = now + Duration::from_secs(5);
        let found = running.iter().filter(|job| job.lease.until < soon);
        let found: BTreeMap<_, _> = found.map(|job| (job.facts.id, job.lease_ref())).collect();
        let before = {
            let mut kept = self.read_before.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *kept, found)
        };
        let settles = before.into_values().map(|lease| Settle {
            lease,
            outcome: Outcome::Retry { error: JobError::new("crashed", "silent"), after: None },
            effects: Effects::default(),
        });
        self.inner.settle(settles.collect(), 0, now).await?;
        Ok(())
    }
}

#[async_trait]
impl<S: JobStore> JobStore for Buggy<S> {
    async fn enqueue(
        &self,
        request: EnqueueRequest,
        now: Timestamp,
    ) -> Result<EnqueueAnswer, StoreError> {
        match self.bug {
            Bug::JoinsRunningJob => self.enqueue_joining_running(request, now).await,
            _ => self.inner.enqueue(request, now).await,
        }
    }

    async fn settle(
        &self,
        mut settles: Vec<Settle>,
        jitter: u64,
        now: Timestamp,
    ) -> Result<Vec<Settled>, StoreError> {
        for one in &mut settles {
            match (self.bug, &one.outcome) {
                (Bug::CompleteIgnoresLease, Outcome::Done { .. }) => {
                    one.lease = self.current_lease(one.lease).await?;
                }
                (Bug::ReleaseBurnsAttempt, Outcome::Release) => {
                    let error = JobError::new("released", "handed back");
                    one.outcome = Outcome::Retry { error, after: Some(Duration::ZERO) };
                }
                _ => {}
            }
        }
        let ids: Vec<JobId> = settles.iter().map(|one| one.lease.id).collect();
        let answers = self.inner.settle(settles, jitter, now).await?;
        if self.bug == Bug::FoldForgetsAttempts {
            for id in ids {
                if let Some(survivor) = self.folded_into(id, now).await? {
                    // Cancelled and retried by hand, a job has all attempts before it.
                    self.inner.cancel(Scope::All, survivor, now).await?;
                    self.inner.retry(Scope::All, survivor, now).await?;
                }
            }
        }
        Ok(answers)
    }

    async fn sweep(
        &self,
        request: SweepRequest,
        now: Timestamp,
    ) -> Result<SweepReport, StoreError> {
        if self.bug == Bug::SweepWithoutRecheck {
            self.sweep_what_was_read(now).await?;
        }
        self.inner.sweep(request, now).await
    }

    async fn claim(
        &self,
        request: ClaimRequest,
        now: Timestamp,
    ) -> Result<ClaimAnswer, StoreError> {
        self.inner.claim(request, now).await
    }

    async fn heartbeat(
        &self,
        beats: Vec<Heartbeat>,
        now: Timestamp,
    ) -> Result<Vec<HeartbeatAnswer>, StoreError> {
        self.inner.heartbeat(beats, now).await
    }

    async fn begin_process(&self, jitter: u64, now: Timestamp) -> Result<ProcessStart, StoreError> {
        self.inner.begin_process(jitter, now).await
    }

    async fn keep_process(&self, owner: LeaseOwner, now: Timestamp) -> Result<(), StoreError> {
        self.inner.keep_process(owner, now).await
    }

    async fn cancel(
        &self,
        scope: Scope,
        id: JobId,
        now: Timestamp,
    ) -> Result<CancelAnswer, StoreError> {
        self.inner.cancel(scope, id, now).await
    }

    async fn retry(
        &self,
        scope: Scope,
        id: JobId,
        now: Timestamp,
    ) -> Result<RetryAnswer, StoreError> {
        self.inner.retry(scope, id, now).await
    }

    async fn job(&self, scope: Scope, id: JobId) -> Result<Option<Job>, StoreError> {
        self.inner.job(scope, id).await
    }

    async fn jobs(
        &self,
        scope: Scope,
        filter: ListFilter,
        page: ListPage,
        now: Timestamp,
    ) -> Result<Vec<Job>, StoreError> {
        self.inner.jobs(scope, filter, page, now).await
    }

    async fn leases(&self, scope: Scope, page: ListPage) -> Result<Vec<RunningJob>, StoreError> {
        self.inner.leases(scope, page).await
    }

    async fn prune(&self, request: PruneRequest) -> Result<PruneReport, StoreError> {
        self.inner.prune(request).await
    }

    async fn depths(&self, now: Timestamp) -> Result<Vec<KindDepth>, StoreError> {
        self.inner.depths(now).await
    }
}
