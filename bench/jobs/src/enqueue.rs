//! Enqueueing in bulk and one by one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bench_support::{per_second, spawn};
use roundsman_core::jobs::{NewJob, Tenant};
use roundsman_core::ports::{Clock, EnqueueRequest, JobStore, Store};
use roundsman_core::users::Authenticated;
use roundsman_engine::jobs::{JobLimits, JobWish, Jobs, JobsDeps};
use roundsman_engine::metrics::Metrics;
use roundsman_engine::random::OsRandom;
use roundsman_engine::wake::Wakes;
use tokio_util::task::TaskTracker;

use crate::database::Bench;
use crate::support::{KIND, catalog, wish};

/// Callers that enqueue one job at a time.
pub(crate) const CALLERS: usize = 64;
/// Bulk requests under way at once.
const BULK_CALLERS: usize = 2;

/// What is enqueued in bulk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bulk {
    pub(crate) jobs: usize,
    /// Jobs per call.
    pub(crate) batch: usize,
    /// Jobs are shared out among so many tenants; none: they name nobody.
    pub(crate) tenants: usize,
}

/// Bulk enqueue through the store, batch by batch; returns jobs per second.
pub(crate) async fn bulk(bench: &Bench, bulk: Bulk) -> anyhow::Result<f64> {
    let started = bench.clock.monotonic();
    let next = Arc::new(AtomicUsize::new(0));
    let callers = (0..BULK_CALLERS)
        .map(|_| bulk_caller(bench.store.clone(), bench.clock(), next.clone(), bulk));
    let tasks: Vec<_> = callers.map(spawn).collect();
    for task in tasks {
        task.await??;
    }
    Ok(per_second(bulk.jobs, bench.clock.monotonic().saturating_sub(started)))
}

async fn bulk_caller(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    next: Arc<AtomicUsize>,
    bulk: Bulk,
) -> anyhow::Result<()> {
    loop {
        let first = next.fetch_add(bulk.batch, Ordering::Relaxed);
        if first >= bulk.jobs {
            return Ok(());
        }
        let numbers = first..bulk.jobs.min(first + bulk.batch);
        let jobs = numbers.map(|n| bulk.wish(n, clock.as_ref())).collect();
        let request = EnqueueRequest { jobs, idempotency: None };
        JobStore::enqueue(store.as_ref(), request, clock.now()).await?;
    }
}

impl Bulk {
    fn wish(self, n: usize, clock: &dyn Clock) -> NewJob {
        let tenant = n.checked_rem(self.tenants).map(|tenant| format!("tenant-{tenant}"));
        let tenant = tenant.and_then(|name| Tenant::new(&name).ok());
        NewJob { tenant, ..wish(n, clock) }
    }
}

/// The service, with the wakes that it shares with a worker.
pub(crate) fn service(bench: &Bench, wakes: Wakes) -> Jobs {
    Jobs::new(JobsDeps {
        store: bench.store.clone(),
        clock: bench.clock(),
        random: Arc::new(OsRandom),
        catalog: catalog(),
        wakes,
        metrics: Metrics::default(),
        limits: JobLimits::default(),
        tasks: TaskTracker::new(),
    })
}

/// Single enqueue through the service, as requests of many clients would; returns jobs per second.
/// There are as many jobs as callers can share evenly.
pub(crate) async fn single(bench: &Bench, jobs: usize) -> anyhow::Result<f64> {
    let service = service(bench, Wakes::local());
    let each = each_caller(jobs);
    let started = bench.clock.monotonic();
    let tasks: Vec<_> = (0..CALLERS)
        .map(|_| {
            let service = service.clone();
            spawn(async move {
                for _ in 0..each {
                    let wish = JobWish { kind: KIND.to_owned(), ..JobWish::default() };
                    service.enqueue(&Authenticated::Admin, vec![wish], None).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(per_second(each * CALLERS, bench.clock.monotonic().saturating_sub(started)))
}

/// How many of so many single jobs each caller enqueues.
pub(crate) fn each_caller(jobs: usize) -> usize {
    jobs.div_ceil(CALLERS)
}
