//! Deleting what is past its retention: a periodic job, so that one node does it at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobError, KindSpec, NewJob, Outcome};
use roundsman_core::ports::{Clock, PruneRequest, Random, Store};

use super::periodic::{next_round, periodic_spec, periodic_wish};
use super::{Handler, HandlerResult, JobContext};
use crate::metrics::Metrics;

/// The kind of the pruning job.
pub const PRUNE_KIND: &str = "jobs.prune";
/// Rounds of pruning in one run, so that a large backlog does not hold the lease for ever.
const ROUNDS_PER_RUN_MAX: u32 = 20;

/// How long what is kept.
#[derive(Debug, Clone, Copy)]
pub struct Housekeeping {
    pub every: Duration,
    pub rows_max: u32,
    pub completed_for: Duration,
    pub failed_for: Duration,
    pub cancelled_for: Duration,
    pub idempotency_for: Duration,
    pub frames_for: Duration,
}

/// The policy of the pruning job.
pub fn prune_spec() -> KindSpec {
    KindSpec { deadline: Some(Duration::from_secs(300)), ..periodic_spec(PRUNE_KIND) }
}

impl Housekeeping {
    /// The wish that keeps the job alive.
    pub fn wish(now: Timestamp) -> NewJob {
        periodic_wish(PRUNE_KIND, now)
    }

    /// The handler of the pruning job.
    pub fn handler(
        self,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        metrics: Metrics,
    ) -> Arc<dyn Handler> {
        Arc::new(PruneHandler { options: self, store, clock, random, metrics })
    }

    fn request(&self, now: Timestamp) -> PruneRequest {
        PruneRequest {
            completed_before: now - self.completed_for,
            failed_before: now - self.failed_for,
            cancelled_before: now - self.cancelled_for,
            idempotency_before: now - self.idempotency_for,
            frames_before: now - self.frames_for,
            rows_max: self.rows_max,
        }
    }
}

struct PruneHandler {
    options: Housekeeping,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    metrics: Metrics,
}

#[async_trait]
impl Handler for PruneHandler {
    fn spec(&self) -> KindSpec {
        prune_spec()
    }

    async fn run(&self, _context: JobContext) -> HandlerResult {
        for _ in 0..ROUNDS_PER_RUN_MAX {
            match self.store.prune(self.options.request(self.clock.now())).await {
                Ok(report) => {
                    let rows = report.jobs + report.idempotency_keys + report.frames;
                    self.metrics.pruned(rows);
                    if !report.more {
                        break;
                    }
                }
                Err(error) => {
                    let error = JobError::new("storage", error.to_string());
                    return Outcome::Retry { error, after: None }.into();
                }
            }
        }
        let at = next_round(self.clock.now(), self.options.every, self.random.as_ref());
        Outcome::Again { at, payload: None }.into()
    }
}
