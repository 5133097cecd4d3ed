//! Draining a backlog with the engine's own worker: claim, lease, run, settle, history and all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use async_trait::async_trait;
use bench_support::per_second;
use roundsman_core::jobs::{Json, KindSpec, LeaseOwner, Outcome, Role, WorkerName};
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

use crate::database::Bench;
use crate::support::spec;

/// How often it is looked whether the backlog is gone.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// More than a million jobs take on a slow machine.
const DRAIN_MAX: Duration = Duration::from_secs(900);
/// Jobs in one claim of the worker.
const CLAIM_MAX: u32 = 1_000;

/// A handler that does nothing but count.
#[derive(Default)]
pub(crate) struct Nothing {
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

/// Runs a worker until this many jobs have run and the database shows nothing unfinished; returns
/// jobs per second.
pub(crate) async fn drain(bench: &Bench, slots: usize, jobs: usize) -> anyhow::Result<f64> {
    let handler = Arc::new(Nothing::default());
    let worker = worker(bench, handler.clone(), slots, Wakes::local()).await?;
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    let started = bench.clock.monotonic();
    let running = tasks.spawn(worker.run(stop.clone(), Duration::from_secs(30)));
    // Looking into the database costs time that is being measured: only the end is looked for there.
    while handler.runs.load(Ordering::Relaxed) < jobs || unfinished(bench).await? > 0 {
        let runs = handler.runs.load(Ordering::Relaxed);
        let took = bench.clock.monotonic().saturating_sub(started);
        ensure!(took < DRAIN_MAX, "only {runs} of {jobs} jobs have run after {took:?}");
        rest(LOOK_EVERY, &stop).await;
    }
    let took = bench.clock.monotonic().saturating_sub(started);
    stop.cancel();
    running.await?;
    Ok(per_second(jobs, took))
}

/// The worker of a measurement that has a process to itself.
pub(crate) async fn worker(
    bench: &Bench,
    handler: Arc<dyn Handler>,
    slots: usize,
    wakes: Wakes,
) -> anyhow::Result<Arc<Worker>> {
    let start = bench.store.begin_process(0, bench.clock.now()).await?;
    let (store, clock) = (bench.store.clone(), bench.clock());
    Ok(worker_on(store, clock, handler, slots, wakes, start.owner))
}

pub(crate) fn worker_on(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    handler: Arc<dyn Handler>,
    slots: usize,
    wakes: Wakes,
    owner: LeaseOwner,
) -> Arc<Worker> {
    let deps = WorkerDeps {
        store,
        health: Health::new(clock.clone()),
        clock,
        random: Arc::new(OsRandom),
        wakes,
        metrics: Metrics::default(),
        handlers: HandlerRegistry::default().with(handler),
        tasks: TaskTracker::new(),
    };
    let options = WorkerOptions {
        name: WorkerName::new("bench"),
        owner,
        roles: vec![Role::Worker],
        slots,
        claim_max: CLAIM_MAX,
        poll_every: Duration::from_secs(5),
    };
    Arc::new(Worker::new(deps, options))
}

/// Jobs that wait or run. Counting stops at the store's own limit.
pub(crate) async fn unfinished(bench: &Bench) -> anyhow::Result<usize> {
    let depths = bench.store.depths(bench.clock.now()).await?;
    let waiting: u64 = depths.iter().map(|d| d.scheduled + d.pending + d.processing).sum();
    Ok(usize::try_from(waiting)?)
}
