//! Measures the embedded store: bulk enqueue, then claim and complete in batches until all is done.
//!
//! `cargo run --release -p roundsman-store --example sqlite_drain -- FOLDER [JOBS] [BATCH]`

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    Json, KindCatalog, KindName, KindSpec, Lane, LeaseOwner, LeaseRef, MergeRule, NewJob, Outcome,
    RetryPolicy, Role, RunningJob, Settle, WorkerName,
};
use roundsman_core::ports::{ClaimRequest, Database, EnqueueRequest, JobStore, LaneDemand};
use roundsman_core::users::UserId;
use roundsman_store::sqlite::{SqliteOptions, SqliteStore};

const USER: UserId = UserId::new(1);
const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the measurements are its output")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("the first argument is a folder on the disk to measure");
    let jobs: usize = arguments.next().map_or(200_000, |text| text.parse().expect("a number"));
    let batch: usize = arguments.next().map_or(1000, |text| text.parse().expect("a number"));
    let path = Path::new(&folder).join("sqlite_drain.db");
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    let store = SqliteStore::open(&SqliteOptions::new(&path), catalog()).expect("open");

    let (took, ()) = timed(enqueue_all(&store, jobs, 5000)).await;
    println!("enqueue  {:>9.0} jobs/s", rate(jobs, took));
    let (took, stalls) = timed(drain_all(&store, jobs, batch)).await;
    println!("drain    {:>9.0} jobs/s  slowest round {:?}", rate(jobs, took), stalls);
    let commits = 200;
    let (took, ()) = timed(async {
        for _ in 0..commits {
            store.ping().await.expect("ping");
        }
    })
    .await;
    println!("one small commit {:?}", took / commits);
    store.close().await;
}

async fn enqueue_all(store: &SqliteStore, jobs: usize, batch: usize) {
    let kind = KindName::new("render").expect("a kind");
    let wish = NewJob {
        user_id: USER,
        kind,
        key: None,
        payload: Json::from_stored(r#"{"n":12345,"url":"https://example.org/page"}"#.to_owned()),
        priority: 0,
        run_at: NOW,
        max_attempts: Some(3),
    };
    for _ in 0..jobs / batch {
        let request = EnqueueRequest { jobs: vec![wish.clone(); batch], idempotency: None };
        store.enqueue(request, NOW).await.expect("enqueue");
    }
}

/// Claims the next batch while the last one is settled, as a busy worker does: the two share a
/// commit. Returns the longest round.
async fn drain_all(store: &SqliteStore, jobs: usize, batch: usize) -> Duration {
    let (mut held, mut done) = (Vec::new(), 0);
    let mut slowest = Duration::ZERO;
    while done < jobs {
        let settles: Vec<Settle> = held.drain(..).map(completed).collect();
        done += settles.len();
        let (took, (claimed, settled)) = timed(async {
            tokio::join!(store.claim(claim_of(batch), NOW), store.settle(settles, 0, NOW))
        })
        .await;
        settled.expect("settle");
        held.extend(claimed.expect("claim").jobs.iter().map(RunningJob::lease_ref));
        slowest = slowest.max(took);
    }
    slowest
}

fn completed(lease: LeaseRef) -> Settle {
    Settle { lease, outcome: Outcome::Done { result: Json::null() }, effects: Effects::default() }
}

fn claim_of(batch: usize) -> ClaimRequest {
    let max = u32::try_from(batch).expect("a small number");
    let lane = Lane::of(USER, &KindName::new("render").expect("a kind"));
    ClaimRequest {
        worker: WorkerName::new("worker-1"),
        owner: LeaseOwner::Process(1),
        demands: vec![LaneDemand { lane, max, lease_ttl: Duration::from_mins(5), deadline: None }],
        total_max: max,
    }
}

fn catalog() -> Arc<KindCatalog> {
    Arc::new(KindCatalog::new(KindSpec {
        kind: KindName::new("any").expect("a kind"),
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

#[expect(clippy::disallowed_methods, reason = "a measurement needs the real time")]
async fn timed<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let start = Instant::now();
    let value = work.await;
    (start.elapsed(), value)
}

#[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
fn rate(jobs: usize, took: Duration) -> f64 {
    jobs as f64 / took.as_secs_f64()
}
