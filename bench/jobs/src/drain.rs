//! Draining a backlog with the engine's own worker: claim, lease, run, settle, history and all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::jobs::{Json, KindSpec, Outcome, Role, WorkerName};
use roundsman_core::ports::{Clock, Store};
use roundsman_engine::health::Health;
use roundsman_engine::jobs::{
    Handler, HandlerRegistry, HandlerResult, JobContext, Worker, WorkerDeps, WorkerOptions,
};
use roundsman_engine::metrics::Metrics;
use roundsman_engine::random::OsRandom;
use roundsman_engine::wake::{Wakes, rest};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Args;
use crate::database::Bench;
use crate::support::{per_second, spec};

/// How often it is looked whether the backlog is gone.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A handler that does nothing but count.
#[derive(Default)]
struct Nothing {
    runs: AtomicUsize,
}

#[async_trait]
impl Handler for Nothing {
    fn spec(&self) -> KindSpec {
        spec()
    }

    async fn run(&self, _context: JobContext) -> HandlerResult {
        self.runs.fetch_add(1, Ordering::Relaxed);
        Outcome::Done { result: Json::null() }.into()
    }
}

/// Runs a worker until the database shows nothing unfinished; returns jobs per second.
pub(crate) async fn drain(bench: &Bench, args: &Args) -> anyhow::Result<f64> {
    let before = unfinished(bench.store.as_ref(), bench).await?;
    // Counting stops at its limit, so a full backlog is taken to be what was enqueued.
    let jobs = if before >= 100_000 { args.jobs } else { before };
    let handler = Arc::new(Nothing::default());
    let worker = worker(bench, handler.clone(), args.slots, Wakes::local()).await?;
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    let started = bench.clock.monotonic();
    let running = tasks.spawn(worker.run(stop.clone(), Duration::from_secs(30)));
    // Looking into the database costs time that is being measured: only the end is looked for there.
    while handler.runs.load(Ordering::Relaxed) < jobs
        || unfinished(bench.store.as_ref(), bench).await? > 0
    {
        rest(LOOK_EVERY, &stop).await;
    }
    let took = bench.clock.monotonic().saturating_sub(started);
    stop.cancel();
    running.await?;
    Ok(per_second(jobs, took))
}

pub(crate) async fn worker(
    bench: &Bench,
    handler: Arc<dyn Handler>,
    slots: usize,
    wakes: Wakes,
) -> anyhow::Result<Arc<Worker>> {
    let start = bench.store.begin_process(0, bench.clock.now()).await?;
    let deps = WorkerDeps {
        store: bench.store.clone(),
        clock: bench.clock(),
        random: Arc::new(OsRandom),
        wakes,
        metrics: Metrics::default(),
        health: Health::new(bench.clock()),
        handlers: HandlerRegistry::default().with(handler),
        tasks: TaskTracker::new(),
    };
    let options = WorkerOptions {
        name: WorkerName::new("bench"),
        owner: start.owner,
        roles: vec![Role::Worker],
        slots,
        claim_max: 1_000,
        poll_every: Duration::from_secs(5),
    };
    Ok(Arc::new(Worker::new(deps, options)))
}

async fn unfinished(store: &dyn Store, bench: &Bench) -> anyhow::Result<usize> {
    let depths = store.depths(bench.clock.now()).await?;
    let waiting: u64 = depths.iter().map(|d| d.scheduled + d.pending + d.processing).sum();
    Ok(usize::try_from(waiting)?)
}
