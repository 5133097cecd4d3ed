//! Deleting what is past its retention: a periodic job, so that one node does it at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    JobError, JobKey, Json, KindName, KindSpec, MergeRule, NewJob, Outcome, RetryPolicy, Role,
};
use roundsman_core::ports::{Clock, PruneRequest, Random, Store};
use roundsman_core::users::UserId;

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

/// The policy of a periodic job: a short lease, so that another node takes over soon, and no limit
/// of attempts, because giving up housekeeping helps nobody.
pub fn prune_spec() -> KindSpec {
    KindSpec {
        kind: kind(),
        lease_ttl: Duration::from_secs(15),
        heartbeat_every: Duration::from_secs(5),
        deadline: Some(Duration::from_secs(300)),
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(300) },
        merge: MergeRule::Keep,
        concurrency: Some(1),
        role: Role::Scheduler,
        lease_name: None,
    }
}

impl Housekeeping {
    /// The wish that keeps the job alive; every start repeats it and joins what is there.
    pub fn wish(now: Timestamp) -> NewJob {
        NewJob {
            user_id: UserId::SYSTEM,
            kind: kind(),
            key: JobKey::new("all").ok(),
            payload: Json::null(),
            priority: 0,
            run_at: now,
            max_attempts: None,
        }
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

/// The next round of a periodic job, up to a tenth of its interval late so that nodes spread out.
fn next_round(now: Timestamp, every: Duration, random: &dyn Random) -> Timestamp {
    let spread_micros = u64::try_from(every.as_micros() / 10).unwrap_or(u64::MAX);
    now + every + Duration::from_micros(random.below(spread_micros.saturating_add(1)))
}

fn kind() -> KindName {
    KindName::new(PRUNE_KIND).expect("the name is a kind")
}
