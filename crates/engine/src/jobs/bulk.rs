//! One thing done to many jobs, bounded per call: the caller goes on from the cursor.

use futures_util::future::join_all;
use roundsman_core::jobs::{Job, JobId, Lane};
use roundsman_core::limits::{BULK_JOBS_MAX, PAGE_ROWS_MAX, PRIORITY_MAX};
use roundsman_core::ports::{
    CancelAnswer, DeleteAnswer, ListFilter, ListPage, ReprioritiseAnswer, RetryAnswer, Scope,
    StoreError,
};
use roundsman_core::users::{Authenticated, UserId};

use super::service::{Jobs, scope};
use crate::{Error, FieldError};

/// Steps under way at once: the database puts their commits together.
const STEPS_AT_ONCE: usize = 50;

/// What is done to each job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkAction {
    Cancel,
    Retry,
    Reprioritise { priority: i16 },
    Delete,
}

/// Which jobs, and how many of them at most.
#[derive(Debug, Clone)]
pub struct BulkWish {
    pub action: BulkAction,
    pub filter: ListFilter,
    /// For the operator: of one user alone.
    pub user_id: Option<i64>,
    /// Only numbers below this one: where the call before ended.
    pub before: Option<JobId>,
    pub jobs_max: u32,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BulkReport {
    /// Jobs that fit the filter.
    pub matched: u64,
    /// Jobs to which it was done.
    pub changed: u64,
    /// Jobs whose state, or key, excludes it.
    pub skipped: u64,
    /// Where to go on; `None` if that was all.
    pub next_before: Option<JobId>,
}

impl Jobs {
    /// Does one thing to all jobs that fit, newest first, until the limit of the call is reached.
    pub async fn bulk(&self, caller: &Authenticated, wish: BulkWish) -> Result<BulkReport, Error> {
        let scope = narrowed(caller, wish.user_id)?;
        if !(1..=BULK_JOBS_MAX).contains(&wish.jobs_max) {
            let reason = format!("must be from 1 to {BULK_JOBS_MAX}");
            return Err(Error::Invalid(vec![FieldError::new("limit", reason)]));
        }
        if let BulkAction::Reprioritise { priority } = wish.action
            && !(-PRIORITY_MAX..=PRIORITY_MAX).contains(&priority)
        {
            let reason = format!("must be from {} to {PRIORITY_MAX}", -PRIORITY_MAX);
            return Err(Error::Invalid(vec![FieldError::new("priority", reason)]));
        }
        let mut report = BulkReport { next_before: wish.before, ..BulkReport::default() };
        let mut lanes: Vec<(Lane, usize)> = Vec::new();
        loop {
            let left = u64::from(wish.jobs_max) - report.matched;
            let rows_max = u32::try_from(left).unwrap_or(u32::MAX).min(PAGE_ROWS_MAX);
            let page = ListPage { before: report.next_before, rows_max };
            let store = &self.deps.store;
            let jobs = store.jobs(scope, wish.filter.clone(), page, self.now()).await?;
            for some in jobs.chunks(STEPS_AT_ONCE) {
                let steps = some.iter().map(|job| self.step(scope, wish.action, job.facts().id));
                for (job, done) in some.iter().zip(join_all(steps).await) {
                    if done? {
                        report.changed += 1;
                        lanes.push((job.facts().base_lane(), 1));
                    } else {
                        report.skipped += 1;
                    }
                    report.matched += 1;
                    report.next_before = Some(job.facts().id);
                }
            }
            let full = jobs.len() == rows_max as usize;
            if !full {
                report.next_before = None;
            }
            if !full || report.matched >= u64::from(wish.jobs_max) {
                break;
            }
        }
        if matches!(wish.action, BulkAction::Retry | BulkAction::Reprioritise { .. }) {
            lanes.sort_unstable();
            lanes.dedup_by(|one, other| {
                let same = one.0 == other.0;
                other.1 += if same { one.1 } else { 0 };
                same
            });
            self.deps.wakes.signal(lanes);
        }
        Ok(report)
    }

    /// Whether it was done. A job that is no longer there needs nothing done.
    async fn step(&self, scope: Scope, action: BulkAction, id: JobId) -> Result<bool, StoreError> {
        let (store, now) = (&self.deps.store, self.now());
        Ok(match action {
            BulkAction::Cancel => match store.cancel(scope, id, now).await? {
                CancelAnswer::Cancelled => true,
                CancelAnswer::Requested => {
                    self.deps.wakes.signal_cancel(id);
                    true
                }
                CancelAnswer::NotFound | CancelAnswer::Finished(_) => false,
            },
            BulkAction::Retry => store.retry(scope, id, now).await? == RetryAnswer::Requeued,
            BulkAction::Reprioritise { priority } => {
                let moved = store.reprioritise(scope, id, priority, now).await?;
                moved == ReprioritiseAnswer::Moved
            }
            BulkAction::Delete => store.delete_job(scope, id).await? == DeleteAnswer::Deleted,
        })
    }

    /// A page of jobs with everything about them, for whoever carries them elsewhere.
    pub async fn exported(
        &self,
        caller: &Authenticated,
        filter: ListFilter,
        user_id: Option<i64>,
        before: Option<JobId>,
    ) -> Result<Vec<Job>, Error> {
        let page = ListPage { before, rows_max: PAGE_ROWS_MAX };
        let scope = narrowed(caller, user_id)?;
        Ok(self.deps.store.jobs(scope, filter, page, self.now()).await?)
    }
}

/// What the caller may see, or one user of it.
pub(super) fn narrowed(caller: &Authenticated, user_id: Option<i64>) -> Result<Scope, Error> {
    match (scope(caller), user_id) {
        (Scope::All, Some(user)) => Ok(Scope::User(UserId::new(user))),
        (Scope::User(own), Some(user)) if own.get() != user => {
            Err(Error::NotFound { what: "user" })
        }
        (scope, _) => Ok(scope),
    }
}
