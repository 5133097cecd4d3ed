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

use crate::Args;
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

/// Milliseconds from the enqueue having been acknowledged to the handler's start.
pub(crate) async fn pickup(bench: &Bench, args: &Args) -> anyhow::Result<Vec<f64>> {
    let (started, mut starts) = mpsc::unbounded_channel();
    let handler = Arc::new(Stopwatch { clock: bench.clock(), started });
    let wakes = Wakes::local();
    let worker = worker(bench, handler, 16, wakes.clone()).await?;
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    let running = tasks.spawn(worker.run(stop.clone(), Duration::from_secs(5)));
    let mut latencies = Vec::with_capacity(args.pickups);
    for n in 0..args.pickups {
        rest(SPACING, &stop).await;
        let job = wish(n, bench.clock.as_ref());
        let lane = job.lane();
        let request = EnqueueRequest { jobs: vec![job], idempotency: None };
        let now = Clock::now(bench.clock.as_ref());
        JobStore::enqueue(bench.store.as_ref(), request, now).await?;
        let acknowledged = bench.clock.monotonic();
        wakes.signal([(lane, 1)]);
        let Some(at) = starts.recv().await else { break };
        latencies.push(at.saturating_sub(acknowledged).as_secs_f64() * 1e3);
    }
    stop.cancel();
    running.await?;
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}

pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or(f64::NAN)
}
