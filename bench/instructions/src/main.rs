//! A fixed piece of work on the embedded database, to have its instructions counted: see
//! `scripts/instructions`.
//!
//! Nothing in it depends on time, chance or another thread: the database is in memory and works on
//! the caller's thread, the clock stands still, and every job is the same in every run. What is
//! counted is what happens inside [`counted`].

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::FutureExt;
use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    Json, KindCatalog, KindName, KindSpec, LeaseOwner, LeaseRef, NewJob, Outcome, RunningJob,
    Settle, WorkerName,
};
use roundsman_core::ports::{ClaimRequest, EnqueueRequest, JobStore, LaneDemand, StoreError};
use roundsman_core::users::UserId;
use roundsman_store::sqlite::SqliteStore;

/// Jobs that an operation is counted for, whatever it takes at a time.
const JOBS: usize = 1_000;
/// Jobs that wait, and jobs that have finished, before anything is counted.
const BACKLOG: usize = 2_000;
const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// What is counted.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Enqueue,
    Claim,
    Complete,
}

fn main() -> anyhow::Result<()> {
    let usage = "usage: bench-instructions enqueue|claim|complete JOBS_AT_A_TIME";
    let mut arguments = std::env::args().skip(1);
    let operation = match arguments.next().as_deref() {
        Some("enqueue") => Operation::Enqueue,
        Some("claim") => Operation::Claim,
        Some("complete") => Operation::Complete,
        _ => anyhow::bail!(usage),
    };
    let batch: usize = arguments.next().context(usage)?.parse()?;
    ensure!(batch > 0 && JOBS.is_multiple_of(batch), "{JOBS} jobs are not a multiple of {batch}");
    run(operation, batch)
}

fn run(operation: Operation, batch: usize) -> anyhow::Result<()> {
    let store = store()?;
    let rounds = JOBS / batch;
    match operation {
        Operation::Enqueue => {
            let requests: Vec<_> = (0..rounds).map(|_| wishes(batch)).collect();
            counted(requests, |request| enqueue(&store, request))
        }
        Operation::Claim => {
            let requests: Vec<_> = (0..rounds).map(|_| claim_of(batch)).collect();
            counted(requests, |request| {
                let jobs = claim(&store, request)?;
                ensure!(jobs.len() == batch, "{} jobs were claimed", jobs.len());
                Ok(())
            })
        }
        Operation::Complete => {
            let jobs = claim(&store, claim_of(JOBS))?;
            let leases: Vec<_> = jobs.iter().map(RunningJob::lease_ref).collect();
            let settles = |leases: &[LeaseRef]| leases.iter().copied().map(done).collect();
            let batches: Vec<Vec<Settle>> = leases.chunks(batch).map(settles).collect();
            counted(batches, |settles| complete(&store, settles))
        }
    }
}

/// The counter looks for this function by its name and counts from its first instruction to its last.
#[inline(never)]
fn counted<T>(inputs: Vec<T>, mut work: impl FnMut(T) -> anyhow::Result<()>) -> anyhow::Result<()> {
    for input in inputs {
        work(input)?;
    }
    Ok(())
}

/// A database that has been used: every statement was prepared, jobs wait and others have finished.
fn store() -> anyhow::Result<SqliteStore> {
    let spec = KindSpec::new(kind());
    let catalog = Arc::new(KindCatalog::new(spec.clone()).with(spec));
    let store = SqliteStore::open_in_memory_inline(catalog)?;
    enqueue(&store, wishes(BACKLOG))?;
    let jobs = claim(&store, claim_of(BACKLOG))?;
    complete(&store, jobs.iter().map(|job| done(job.lease_ref())).collect())?;
    enqueue(&store, wishes(BACKLOG))?;
    Ok(store)
}

fn enqueue(store: &SqliteStore, request: EnqueueRequest) -> anyhow::Result<()> {
    at_once(JobStore::enqueue(store, request, NOW)).map(drop)
}

fn claim(store: &SqliteStore, request: ClaimRequest) -> anyhow::Result<Vec<RunningJob>> {
    Ok(at_once(JobStore::claim(store, request, NOW))?.jobs)
}

fn complete(store: &SqliteStore, settles: Vec<Settle>) -> anyhow::Result<()> {
    at_once(JobStore::settle(store, settles, 0, NOW)).map(drop)
}

/// Without threads there is nothing to wait for.
fn at_once<T>(call: impl Future<Output = Result<T, StoreError>>) -> anyhow::Result<T> {
    Ok(call.now_or_never().context("the store waits for something")??)
}

fn kind() -> KindName {
    KindName::new("bench.nothing").expect("the name is a kind")
}

fn wishes(count: usize) -> EnqueueRequest {
    let wish = |n| NewJob {
        user_id: UserId::SYSTEM,
        kind: kind(),
        key: None,
        payload: Json::from_stored(format!("{{\"n\":{n}}}")),
        priority: 0,
        run_at: NOW,
        max_attempts: Some(3),
        tenant: None,
    };
    EnqueueRequest { jobs: (0..count).map(wish).collect(), idempotency: None }
}

fn claim_of(jobs: usize) -> ClaimRequest {
    let max = u32::try_from(jobs).unwrap_or(u32::MAX);
    let demand = LaneDemand {
        lane: roundsman_core::jobs::Lane::of(UserId::SYSTEM, &kind()),
        max,
        lease_ttl: Duration::from_secs(300),
        deadline: None,
    };
    ClaimRequest {
        worker: WorkerName::new("bench"),
        owner: LeaseOwner::Outside,
        demands: vec![demand],
        total_max: max,
    }
}

fn done(lease: LeaseRef) -> Settle {
    let outcome = Outcome::Done { result: Json::null() };
    Settle { lease, outcome, effects: Effects::default() }
}
