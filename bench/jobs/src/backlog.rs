//! Claims from a long backlog: how long one takes while a million jobs wait (J-15).

use std::time::Duration;

use roundsman_core::effects::Effects;
use roundsman_core::jobs::{Json, LeaseOwner, LeaseRef, Outcome, Settle, WorkerName};
use roundsman_core::ports::{ClaimRequest, Clock, JobStore, LaneDemand};

use crate::database::Bench;
use crate::support::wish;

/// Jobs per claim: what a worker with a few free slots asks for.
pub(crate) const CLAIM_JOBS: u32 = 10;
/// The aim, with a million waiting.
pub(crate) const CLAIM_P99_MS_MAX: f64 = 20.0;
/// Jobs settled together afterwards.
const SETTLE_JOBS: usize = 1_000;

/// What claims from a backlog came to.
pub(crate) struct Claims {
    /// Milliseconds per claim, in order.
    pub(crate) latencies: Vec<f64>,
    /// Jobs that were claimed, and completed afterwards.
    pub(crate) jobs: usize,
}

/// Claims one after the other. What was claimed is completed when all have been made.
pub(crate) async fn claims(bench: &Bench, count: usize) -> anyhow::Result<Claims> {
    let demand = LaneDemand {
        lane: wish(0, bench.clock.as_ref()).lane(),
        max: CLAIM_JOBS,
        lease_ttl: Duration::from_secs(3600),
        deadline: None,
    };
    let request = ClaimRequest {
        worker: WorkerName::new("bench"),
        owner: LeaseOwner::Outside,
        demands: vec![demand],
        total_max: CLAIM_JOBS,
    };
    let (mut latencies, mut leases) = (Vec::with_capacity(count), Vec::new());
    for _ in 0..count {
        let asked = bench.clock.monotonic();
        let now = Clock::now(bench.clock.as_ref());
        let answer = JobStore::claim(bench.store.as_ref(), request.clone(), now).await?;
        latencies.push(bench.clock.monotonic().saturating_sub(asked).as_secs_f64() * 1e3);
        anyhow::ensure!(!answer.jobs.is_empty(), "the backlog is shorter than was asked for");
        leases.extend(answer.jobs.iter().map(roundsman_core::jobs::RunningJob::lease_ref));
    }
    latencies.sort_by(f64::total_cmp);
    for leases in leases.chunks(SETTLE_JOBS) {
        let settles = leases.iter().copied().map(done).collect();
        JobStore::settle(bench.store.as_ref(), settles, 0, Clock::now(bench.clock.as_ref()))
            .await?;
    }
    Ok(Claims { latencies, jobs: leases.len() })
}

fn done(lease: LeaseRef) -> Settle {
    let outcome = Outcome::Done { result: Json::null() };
    Settle { lease, outcome, effects: Effects::default() }
}
