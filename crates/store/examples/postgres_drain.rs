//! Measures the store on PostgreSQL: bulk enqueue, then drain by claiming and settling in batches.
//!
//! `cargo run --release -p roundsman-store --example postgres_drain -- URL [jobs] [batch] [loops]`
//! works on a database of its own that must be empty.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    Json, KindCatalog, KindName, KindSpec, Lane, LeaseOwner, MergeRule, NewJob, Outcome,
    RetryPolicy, Role, RunningJob, Settle, Settled, WorkerName,
};
use roundsman_core::ports::{
    ClaimRequest, Database, EffectStore, EnqueueRequest, JobStore, LaneDemand,
};
use roundsman_core::users::UserId;
use roundsman_store::postgres::{PostgresOptions, PostgresStore};
use tokio::task::JoinSet;

const USER: UserId = UserId::new(1);
const ENQUEUE_ROWS: usize = 5_000;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a measurement is read on the terminal")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().ok_or("the URL of an empty database is missing")?;
    let mut number = |default: usize| args.next().map_or(Ok(default), |text| text.parse());
    let (jobs, batch, loops) = (number(200_000)?, number(1_000)?, number(2)?);
    let store =
        Arc::new(PostgresStore::connect(PostgresOptions::new(url.parse()?), catalog()).await?);
    println!("{}: {jobs} jobs, batches of {batch}, {loops} loops", store.describe());

    let seconds = enqueue(&store, jobs).await?;
    report("enqueue", jobs, seconds);
    let seconds = drain(&store, jobs, batch, loops).await?;
    report("drain", jobs, seconds);
    let violations = store.check().await?;
    println!("check: {} violations", violations.len());
    Ok(())
}

async fn enqueue(store: &PostgresStore, jobs: usize) -> Result<f64, Box<dyn Error>> {
    let began = stopwatch();
    let mut written = 0;
    while written < jobs {
        let rows = ENQUEUE_ROWS.min(jobs - written);
        let now = store.now().await?;
        let wish = |n: usize| NewJob {
            user_id: USER,
            kind: kind(),
            key: None,
            payload: Json::from_stored(format!("{{\"n\":{n}}}")),
            priority: 0,
            run_at: now,
            max_attempts: Some(3),
        };
        let request = EnqueueRequest {
            jobs: (written..written + rows).map(wish).collect(),
            idempotency: None,
        };
        store.enqueue(request, now).await?;
        written += rows;
    }
    Ok(began.elapsed().as_secs_f64())
}

async fn drain(
    store: &Arc<PostgresStore>,
    jobs: usize,
    batch: usize,
    loops: usize,
) -> Result<f64, Box<dyn Error>> {
    let began = stopwatch();
    let done = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for number in 0..loops {
        let (store, done) = (Arc::clone(store), Arc::clone(&done));
        workers.spawn(async move {
            let mut seen = BTreeSet::new();
            while done.load(Ordering::Relaxed) < jobs {
                let now = store.now().await?;
                let claimed = store.claim(request(number, batch), now).await?.jobs;
                let settles: Vec<Settle> = claimed.iter().map(finished).collect();
                seen.extend(claimed.iter().map(|job| job.facts.id));
                let settled = store.settle(settles, 0, now).await?;
                let landed =
                    settled.iter().filter(|one| matches!(one, Settled::Landed { .. })).count();
                done.fetch_add(landed, Ordering::Relaxed);
            }
            Ok::<_, roundsman_core::ports::StoreError>(seen.len())
        });
    }
    let mut claimed = 0;
    for result in workers.join_all().await {
        claimed += result?;
    }
    assert_eq!((claimed, done.load(Ordering::Relaxed)), (jobs, jobs), "each job once");
    Ok(began.elapsed().as_secs_f64())
}

fn request(worker: usize, batch: usize) -> ClaimRequest {
    let max = u32::try_from(batch).unwrap_or(u32::MAX);
    ClaimRequest {
        worker: WorkerName::new(&format!("w{worker}")),
        owner: LeaseOwner::Outside,
        demands: vec![LaneDemand {
            lane: Lane::of(USER, &kind()),
            max,
            lease_ttl: Duration::from_mins(5),
            deadline: None,
        }],
        total_max: max,
    }
}

fn finished(job: &RunningJob) -> Settle {
    Settle {
        lease: job.lease_ref(),
        outcome: Outcome::Done { result: Json::null() },
        effects: Effects::default(),
    }
}

#[expect(clippy::disallowed_methods, reason = "a measurement needs the real time")]
fn stopwatch() -> Instant {
    Instant::now()
}

fn kind() -> KindName {
    KindName::new("bench").expect("a valid kind")
}

fn catalog() -> Arc<KindCatalog> {
    Arc::new(KindCatalog::new(KindSpec {
        kind: kind(),
        lease_ttl: Duration::from_mins(5),
        heartbeat_every: Duration::from_secs(30),
        deadline: None,
        max_attempts: Some(3),
        retry: RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_mins(5) },
        merge: MergeRule::Replace,
        concurrency: None,
        role: Role::Worker,
        lease_name: None,
    }))
}

#[expect(clippy::print_stdout, reason = "a measurement is read on the terminal")]
#[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 2^53")]
fn report(what: &str, jobs: usize, seconds: f64) {
    println!("{what}: {:.0} jobs/s ({seconds:.2} s)", jobs as f64 / seconds);
}
