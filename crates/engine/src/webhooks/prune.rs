//! Deleting events that are past their retention: a periodic job, so that one node does it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::jobs::{JobError, KindSpec, Outcome};

use super::WebhookWork;
use crate::jobs::{Handler, HandlerResult, JobContext, next_round, periodic_spec};

/// The kind of the pruning job.
pub const PRUNE_EVENTS_KIND: &str = "webhooks.prune";
/// Rounds of pruning in one run, so that a large backlog does not hold the lease for ever.
const ROUNDS_PER_RUN_MAX: u32 = 20;

/// How long events are kept.
#[derive(Debug, Clone, Copy)]
pub struct WebhookRetention {
    pub every: Duration,
    pub events_for: Duration,
    /// Rows deleted in one transaction.
    pub rows_max: u32,
}

/// Every hour, what is older than thirty days.
impl Default for WebhookRetention {
    fn default() -> Self {
        WebhookRetention {
            every: Duration::from_secs(3600),
            events_for: Duration::from_secs(30 * 24 * 3600),
            rows_max: 1000,
        }
    }
}

/// The policy of the pruning job.
pub fn prune_events_spec() -> KindSpec {
    KindSpec { deadline: Some(Duration::from_secs(300)), ..periodic_spec(PRUNE_EVENTS_KIND) }
}

pub(super) fn pruner(work: &WebhookWork) -> Arc<dyn Handler> {
    Arc::new(Pruner { work: work.clone() })
}

struct Pruner {
    work: WebhookWork,
}

#[async_trait]
impl Handler for Pruner {
    fn spec(&self) -> KindSpec {
        prune_events_spec()
    }

    async fn run(&self, _context: JobContext) -> HandlerResult {
        let WebhookWork { store, clock, random, metrics, retention, .. } = &self.work;
        for _ in 0..ROUNDS_PER_RUN_MAX {
            let before = clock.now() - retention.events_for;
            match store.prune_webhook_events(before, retention.rows_max).await {
                Ok(rows) => {
                    metrics.pruned(rows);
                    if rows < u64::from(retention.rows_max) {
                        break;
                    }
                }
                Err(error) => {
                    let error = JobError::new("storage", error.to_string());
                    return Outcome::Retry { error, after: None }.into();
                }
            }
        }
        let at = next_round(clock.now(), retention.every, random.as_ref());
        Outcome::Again { at, payload: None }.into()
    }
}
