//! Claims from a long backlog: how long one takes while a million jobs wait (J-15).

use std::time::Duration;

use roundsman_core::jobs::{LeaseOwner, WorkerName};
use roundsman_core::ports::{ClaimRequest, Clock, JobStore, LaneDemand};

use crate::Args;
use crate::database::Bench;
use crate::support::wish;

/// Jobs per claim: what a worker with a few free slots asks for.
const CLAIM_JOBS: u32 = 10;

/// Milliseconds per claim, in order. The jobs that were claimed stay leased.
pub(crate) async fn claims(bench: &Bench, args: &Args) -> anyhow::Result<Vec<f64>> {
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
    let mut latencies = Vec::with_capacity(args.claims);
    for _ in 0..args.claims {
        let asked = bench.clock.monotonic();
        let now = Clock::now(bench.clock.as_ref());
        let answer = JobStore::claim(bench.store.as_ref(), request.clone(), now).await?;
        anyhow::ensure!(!answer.jobs.is_empty(), "the backlog is shorter than was asked for");
        latencies.push(bench.clock.monotonic().saturating_sub(asked).as_secs_f64() * 1e3);
    }
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}
