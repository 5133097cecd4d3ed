//! Forgets audits that are past their retention: a periodic job, so that one node does it at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::jobs::{JobError, KindSpec, Outcome};

use super::work::AuditWork;
use crate::jobs::{Handler, HandlerResult, JobContext, next_round, periodic_spec};

/// The kind of the pruning job.
pub const PRUNE_KIND: &str = "audits.prune";
const EVERY: Duration = Duration::from_secs(600);
/// Audits in one transaction, and transactions in one run: what is beyond waits for the next.
const ROWS_PER_STEP_MAX: u32 = 200;
const STEPS_MAX: u32 = 20;

pub(super) fn prune_spec() -> KindSpec {
    KindSpec { deadline: Some(Duration::from_secs(300)), ..periodic_spec(PRUNE_KIND) }
}

pub(super) fn pruner(work: &AuditWork) -> Arc<dyn Handler> {
    Arc::new(Pruner { work: work.clone() })
}

struct Pruner {
    work: AuditWork,
}

#[async_trait]
impl Handler for Pruner {
    fn spec(&self) -> KindSpec {
        prune_spec()
    }

    async fn run(&self, _context: JobContext) -> HandlerResult {
        let AuditWork { store, clock, random, metrics, settings, .. } = &self.work;
        for _ in 0..STEPS_MAX {
            let before = clock.now() - settings.keep_for;
            match store.prune_audits(before, ROWS_PER_STEP_MAX).await {
                Ok(rows) => {
                    metrics.pruned(rows);
                    if rows < u64::from(ROWS_PER_STEP_MAX) {
                        break;
                    }
                }
                Err(error) => {
                    let error = JobError::new("storage", error.to_string());
                    return Outcome::Retry { error, after: None }.into();
                }
            }
        }
        let at = next_round(clock.now(), EVERY, random.as_ref());
        Outcome::Again { at, payload: None }.into()
    }
}
