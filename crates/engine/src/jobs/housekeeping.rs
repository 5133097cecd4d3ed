//! Deleting what is past its retention: a periodic job, so that one node does it at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobError, KindName, KindSpec, NewJob, Outcome, Rate};
use roundsman_core::ports::{Clock, PruneReport, PruneRequest, Random, Store, StoreError};

use super::periodic::{next_round, periodic_spec, periodic_wish};
use super::{Handler, HandlerResult, JobContext};
use crate::metrics::Metrics;

/// The kind of the pruning job.
pub const PRUNE_KIND: &str = "jobs.prune";
/// Rounds of pruning in one run, so that a large backlog does not hold the lease for ever.
const ROUNDS_PER_RUN_MAX: u32 = 20;

/// How long what is kept.
#[derive(Debug, Clone)]
pub struct Housekeeping {
    pub every: Duration,
    pub rows_max: u32,
    pub completed_for: Duration,
    pub failed_for: Duration,
    /// Kinds whose failed jobs are kept for a time of their own.
    pub failed_of_kinds: Vec<(KindName, Duration)>,
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
            // Those are pruned by kind.
            failed_before: Timestamp::EPOCH,
            cancelled_before: now - self.cancelled_for,
            idempotency_before: now - self.idempotency_for,
            frames_before: now - self.frames_for,
            buckets_before: now - Duration::from_secs(Rate::PER_SECS_MAX.into()),
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

impl PruneHandler {
    async fn prune(&self) -> Result<PruneReport, StoreError> {
        let (now, options) = (self.clock.now(), &self.options);
        let mut report = self.store.prune(options.request(now)).await?;
        let horizons = options.failed_of_kinds.iter();
        let horizons = horizons.map(|(kind, kept_for)| (kind.clone(), now - *kept_for)).collect();
        let others_before = now - options.failed_for;
        let dead = self.store.prune_dead(horizons, others_before, options.rows_max).await?;
        let ended_before = now - options.completed_for;
        let batches = self.store.prune_batches(ended_before, options.rows_max).await?;
        report.more |= batches == u64::from(options.rows_max);
        report.jobs += dead;
        report.more |= dead == u64::from(options.rows_max);
        Ok(report)
    }
}

#[async_trait]
impl Handler for PruneHandler {
    fn spec(&self) -> KindSpec {
        prune_spec()
    }

    async fn run(&self, _context: JobContext) -> HandlerResult {
        for _ in 0..ROUNDS_PER_RUN_MAX {
            match self.prune().await {
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
