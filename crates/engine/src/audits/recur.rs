//! The alarms of audits that recur: each starts an audit when its time comes, and rings again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::audits::{RECUR_KIND, RUN_KIND, RecurringId};
use roundsman_core::jobs::{
    JobError, Json, KindName, KindSpec, LeaseRef, MergeRule, Outcome, RetryPolicy, Role,
};
use roundsman_core::ports::{DueAnswer, Scope, StoreError};

use super::work::AuditWork;
use crate::jobs::{Handler, HandlerResult, JobContext};

/// Alarms that ring at once in one process.
const AT_ONCE_MAX: usize = 16;

/// The policy of the job: an alarm is never given up.
pub fn recur_spec() -> KindSpec {
    KindSpec {
        lease_ttl: Duration::from_secs(15),
        heartbeat_every: Duration::from_secs(5),
        deadline: Some(Duration::from_secs(60)),
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(300) },
        merge: MergeRule::Keep,
        concurrency: Some(AT_ONCE_MAX),
        role: Role::Scheduler,
        lease_name: Some("recurring_audit:{key}"),
        ..KindSpec::new(KindName::new(RECUR_KIND).expect("a built-in kind has a valid name"))
    }
}

pub(super) fn recurrer(work: &AuditWork) -> Arc<dyn Handler> {
    Arc::new(Recurrer { work: work.clone() })
}

struct Recurrer {
    work: AuditWork,
}

#[async_trait]
impl Handler for Recurrer {
    fn spec(&self) -> KindSpec {
        recur_spec()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let key = context.job.key.as_ref();
        let Some(id) = key.and_then(|key| key.as_str().parse().ok()).map(RecurringId::new) else {
            return Outcome::Done { result: Json::null() }.into();
        };
        match self.ring(id, context.lease).await {
            Ok(outcome) => outcome.into(),
            Err(error) => {
                let error = JobError::new("storage", error.to_string());
                Outcome::Retry { error, after: None }.into()
            }
        }
    }
}

impl Recurrer {
    async fn ring(&self, id: RecurringId, guard: LeaseRef) -> Result<Outcome, StoreError> {
        let AuditWork { store, clock, metrics, settings, .. } = &self.work;
        let over = Outcome::Done { result: Json::null() };
        let Some(known) = store.recurring(Scope::All, id).await? else { return Ok(over) };
        let page = &known.website_url;
        let priority = self.work.priority(known.user_id, page, known.priority, true).await?;
        let attempts = settings.attempts_max;
        let answer = store.start_due_audit(id, priority, attempts, guard, clock.now()).await?;
        Ok(match answer {
            DueAnswer::Started { audit, next_at } => {
                metrics.audit_recurred("started");
                let (audit, recurring) = (audit.id.get(), id.get());
                tracing::info!(audit, recurring, %next_at, "a recurring audit is started");
                self.work.wake(known.user_id, RUN_KIND);
                Outcome::Again { at: next_at, payload: None }
            }
            DueAnswer::Skipped { next_at } => {
                metrics.audit_recurred("skipped");
                let recurring = id.get();
                tracing::warn!(recurring, %next_at, "the audit before is not over: one is left out");
                Outcome::Again { at: next_at, payload: None }
            }
            DueAnswer::NotBefore(at) => Outcome::Again { at, payload: None },
            DueAnswer::Over => over,
            // Whoever has the lease now goes on.
            DueAnswer::LeaseLost => Outcome::Release,
        })
    }
}
