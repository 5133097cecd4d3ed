//! From enqueue to the handler's first instruction, on an idle system.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::jobs::{Json, KindSpec, Outcome};
use roundsman_core::ports::{Clock, EnqueueRequest, JobStore};
use roundsman_engine::jobs::{Handler, HandlerResult, JobContext};
use roundsman_engine::wake::{Wakes, rest};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::database::Bench;
use crate::drain::worker;
use crate::support::{spec, wish};

/// Between two jobs, so that each finds the system idle.
const SPACING: Duration = Duration::from_millis(10);

/// Reports when it was started.
struct Stopwatch {
    clock: Arc<dyn Clock>,
    started: mpsc::UnboundedSender<Duration>,
}

#[async_trait]
impl Handler for Stopwatch {
    fn spec(&self) -> KindSpec {
        spec()
    }

    async fn run(&self, _context: JobContext) -> HandlerResult {
        // The receiver lives as long as the measurement.
        let _ = self.started.send(self.clock.monotonic());
        Outcome::Done { result: Json::null() }.into()
    }
}

/// Milliseconds to the handler's start, in order.
#[derive(Debug, Default)]
pub(crate) struct Pickups {
    /// From the enqueue having been acknowledged.
    pub(crate) acknowledged: Vec<f64>,
    /// From the call that enqueues.
    pub(crate) called: Vec<f64>,
}

pub(crate) async fn pickup(bench: &Bench, jobs: usize) -> anyhow::Result<Pickups> {
    let (started, mut starts) = mpsc::unbounded_channel();
    let handler = Arc::new(Stopwatch { clock: bench.clock(), started });
    let wakes = Wakes::local();
    let worker = worker(bench, handler, 16, wakes.clone()).await?;
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    let running = tasks.spawn(worker.run(stop.clone(), Duration::from_secs(5)));
    let mut pickups = Pickups::default();
    for n in 0..jobs {
        rest(SPACING, &stop).await;
        let job = wish(n, bench.clock.as_ref());
        let lane = job.lane();
        let request = EnqueueRequest { jobs: vec![job], idempotency: None };
        let called = bench.clock.monotonic();
        let now = Clock::now(bench.clock.as_ref());
        JobStore::enqueue(bench.store.as_ref(), request, now).await?;
        let acknowledged = bench.clock.monotonic();
        wakes.signal([(lane, 1)]);
        let Some(at) = starts.recv().await else { break };
        let since = |from: Duration| at.saturating_sub(from).as_secs_f64() * 1e3;
        pickups.acknowledged.push(since(acknowledged));
        pickups.called.push(since(called));
    }
    stop.cancel();
    running.await?;
    pickups.acknowledged.sort_by(f64::total_cmp);
    pickups.called.sort_by(f64::total_cmp);
    Ok(pickups)
}
