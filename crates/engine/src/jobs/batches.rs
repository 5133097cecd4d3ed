//! Jobs that wait for others, and batches, as callers make and see them.

use roundsman_core::jobs::{Batch, BatchId, HELD_UNTIL, Job, JobId, NewBatch, NewJob, OnFailure};
use roundsman_core::limits::{AFTER_JOBS_MAX, BATCH_NAME_BYTES_MAX};
use roundsman_core::ports::{AfterAnswer, BatchAnswer, Enqueued};
use roundsman_core::users::Authenticated;

use super::JobWish;
use super::service::{IdempotencyWish, Jobs, asker, idempotency_key, lanes_of, scope};
use super::wish::check_wishes;
use crate::{Error, FieldError};

/// What a job waits for. Nothing in it has been checked.
#[derive(Debug, Clone, Default)]
pub struct AfterWish {
    pub after: Vec<i64>,
    pub on_failure: Option<String>,
}

/// Jobs that belong together. Nothing in it has been checked.
#[derive(Debug, Clone, Default)]
pub struct BatchWish {
    pub name: Option<String>,
    pub jobs: Vec<JobWish>,
    pub callback: Option<JobWish>,
}

/// A batch that was made, now or when the same request came before.
#[derive(Debug, Clone)]
pub struct BatchReport {
    pub id: BatchId,
    /// Its jobs, in the order of the wishes.
    pub jobs: Vec<Enqueued>,
    pub replayed: bool,
}

impl Jobs {
    /// Stores a wish that waits until other jobs have ended.
    pub async fn enqueue_after(
        &self,
        caller: &Authenticated,
        wish: JobWish,
        after: AfterWish,
    ) -> Result<Job, Error> {
        let invalid =
            |field: &str, reason: String| Err(Error::Invalid(vec![FieldError::new(field, reason)]));
        if after.after.is_empty() || after.after.len() > AFTER_JOBS_MAX {
            return invalid("after", format!("must hold 1 to {AFTER_JOBS_MAX} numbers of jobs"));
        }
        let on_failure = match after.on_failure.as_deref().map(OnFailure::parse) {
            None => OnFailure::default(),
            Some(Some(policy)) => policy,
            Some(None) => return invalid("on_failure", "must be cancel, run or hold".to_owned()),
        };
        let job = self.check(caller, vec![wish])?.remove(0);
        let lanes = lanes_of(std::slice::from_ref(&job));
        let ids: Vec<JobId> = after.after.into_iter().map(JobId::new).collect();
        let kind = job.kind.clone();
        let store = &self.deps.store;
        match store.enqueue_after(job, ids, on_failure, self.now()).await? {
            AfterAnswer::NoSuchJob(id) => invalid("after", format!("there is no job {id}")),
            AfterAnswer::KeyTaken { by } => Err(Error::KeyTaken { by: by.get() }),
            AfterAnswer::Stored(id) => {
                let stored = Enqueued { id, coalesced: false };
                self.deps.metrics.enqueued([(&kind, &stored)].into_iter());
                self.deps.wakes.signal(lanes);
                self.job(caller, id).await
            }
        }
    }

    /// What a job still waits for.
    pub async fn waits_for(&self, job: &Job) -> Result<Vec<JobId>, Error> {
        match job {
            Job::Waiting(waiting) if waiting.not_before == Some(HELD_UNTIL) => {
                Ok(self.deps.store.waits_for(waiting.facts.id).await?)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Stores wishes as a batch.
    pub async fn create_batch(
        &self,
        caller: &Authenticated,
        wish: BatchWish,
        idempotency: Option<IdempotencyWish>,
    ) -> Result<BatchReport, Error> {
        let limit = self.deps.limits.jobs_per_request_max;
        if wish.jobs.is_empty() || wish.jobs.len() > limit {
            let reason = format!("must hold 1 to {limit} jobs");
            return Err(Error::Invalid(vec![FieldError::new("jobs", reason)]));
        }
        let name = wish.name.unwrap_or_default();
        if name.len() > BATCH_NAME_BYTES_MAX || name.chars().any(char::is_control) {
            let reason = format!("at most {BATCH_NAME_BYTES_MAX} bytes without control characters");
            return Err(Error::Invalid(vec![FieldError::new("name", reason)]));
        }
        let jobs = self.check(caller, wish.jobs)?;
        let callback = match wish.callback {
            Some(wish) => self.check(caller, vec![wish])?.pop(),
            None => None,
        };
        let lanes = lanes_of(&jobs);
        let kinds: Vec<_> = jobs.iter().map(|job| job.kind.clone()).collect();
        let user_id = asker(caller).user_id;
        let idempotency = idempotency.map(|wish| idempotency_key(user_id, wish)).transpose()?;
        let batch = NewBatch { user_id, name, jobs, callback };
        match self.deps.store.create_batch(batch, idempotency, self.now()).await? {
            BatchAnswer::Stored(id, jobs) => {
                self.deps.metrics.enqueued(kinds.iter().zip(&jobs));
                self.deps.wakes.signal(lanes);
                Ok(BatchReport { id, jobs, replayed: false })
            }
            BatchAnswer::Replayed(id, jobs) => Ok(BatchReport { id, jobs, replayed: true }),
            BatchAnswer::KeyReused => Err(Error::IdempotencyKeyReused),
        }
    }

    /// How far a batch is.
    pub async fn batch(&self, caller: &Authenticated, id: i64) -> Result<Batch, Error> {
        let found = self.deps.store.batch(scope(caller), BatchId::new(id), self.now()).await?;
        found.ok_or(Error::NotFound { what: "batch" })
    }

    fn check(&self, caller: &Authenticated, wishes: Vec<JobWish>) -> Result<Vec<NewJob>, Error> {
        let deps = &self.deps;
        check_wishes(wishes, asker(caller), &deps.catalog, &deps.limits, self.now())
    }
}
