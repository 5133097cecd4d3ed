//! Enqueueing in bulk and one by one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use roundsman_core::ports::{Clock, EnqueueRequest, JobStore, Store};
use roundsman_core::users::Authenticated;
use roundsman_engine::jobs::{JobLimits, JobWish, Jobs, JobsDeps};
use roundsman_engine::metrics::Metrics;
use roundsman_engine::random::OsRandom;
use roundsman_engine::wake::Wakes;
use tokio_util::task::TaskTracker;

use crate::Args;
use crate::database::Bench;
use crate::support::{KIND, catalog, per_second, wish};

/// Callers that enqueue one job at a time.
const CALLERS: usize = 64;
/// Single jobs enqueued by all callers together.
const SINGLES: usize = 20_000;
/// Bulk requests under way at once.
const BULK_CALLERS: usize = 2;

/// Bulk enqueue through the store, batch by batch.
pub(crate) async fn bulk(bench: &Bench, args: &Args) -> anyhow::Result<f64> {
    let started = bench.clock.monotonic();
    let next = Arc::new(AtomicUsize::new(0));
    let callers = (0..BULK_CALLERS).map(|_| {
        bulk_caller(bench.store.clone(), bench.clock(), next.clone(), args.jobs, args.batch)
    });
    let tasks: Vec<_> = callers.map(spawn).collect();
    for task in tasks {
        task.await??;
    }
    Ok(per_second(args.jobs, bench.clock.monotonic().saturating_sub(started)))
}

async fn bulk_caller(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    next: Arc<AtomicUsize>,
    jobs: usize,
    batch: usize,
) -> anyhow::Result<()> {
    loop {
        let first = next.fetch_add(batch, Ordering::Relaxed);
        if first >= jobs {
            return Ok(());
        }
        let wishes = (first..jobs.min(first + batch)).map(|n| wish(n, clock.as_ref())).collect();
        let request = EnqueueRequest { jobs: wishes, idempotency: None };
        JobStore::enqueue(store.as_ref(), request, clock.now()).await?;
    }
}

/// Single enqueue through the service, as requests of many clients would.
pub(crate) async fn single(bench: &Bench, _args: &Args) -> anyhow::Result<f64> {
    let jobs = Jobs::new(JobsDeps {
        store: bench.store.clone(),
        clock: bench.clock(),
        random: Arc::new(OsRandom),
        catalog: catalog(),
        wakes: Wakes::local(),
        metrics: Metrics::default(),
        limits: JobLimits::default(),
        tasks: TaskTracker::new(),
    });
    let started = bench.clock.monotonic();
    let tasks: Vec<_> = (0..CALLERS)
        .map(|_| {
            let jobs = jobs.clone();
            spawn(async move {
                for _ in 0..SINGLES / CALLERS {
                    let wish = JobWish { kind: KIND.to_owned(), ..JobWish::default() };
                    jobs.enqueue(&Authenticated::Admin, vec![wish], None).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(per_second(SINGLES, bench.clock.monotonic().saturating_sub(started)))
}

#[expect(clippy::disallowed_methods, reason = "every task is awaited where it is made")]
fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}
