//! So many jobs a second, for a minute, whatever each takes: every one is enqueued by itself when it
//! is due, and its latency counts from then to the handler's first instruction, so that an engine
//! that falls behind cannot hide it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use async_trait::async_trait;
use bench_support::{pause, per_second, percentile, spawn};
use roundsman_core::Timestamp;
use roundsman_core::jobs::{Json, KindSpec, Outcome};
use roundsman_core::ports::Clock;
use roundsman_core::users::Authenticated;
use roundsman_engine::jobs::{Handler, HandlerResult, JobContext, JobWish, Jobs};
use roundsman_engine::wake::Wakes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::database::{Bench, Target};
use crate::drain::{unfinished, worker};
use crate::enqueue::{CALLERS, service};
use crate::statistics::{bytes_written, watch_dead_rows};
use crate::support::{KIND, spec};

/// Slots of the worker: more than ever run at once.
const SLOTS: usize = 256;
/// How long the last jobs are waited for.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The columns of the table.
pub(crate) const COLUMNS: [&str; 8] = [
    "asked/s",
    "done/s",
    "p50, ms",
    "p99, ms",
    "max, ms",
    "bytes written a job",
    "dead rows, most",
    "dead rows, at the end",
];

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) rate: u32,
    pub(crate) secs: u32,
}

impl Load {
    pub(crate) fn jobs(self) -> usize {
        usize::try_from(u64::from(self.rate) * u64::from(self.secs)).unwrap_or(usize::MAX)
    }

    /// When a job is due, from the beginning.
    fn due(self, n: usize) -> Duration {
        let n = u64::try_from(n).unwrap_or(u64::MAX);
        Duration::from_nanos(n.saturating_mul(1_000_000_000) / u64::from(self.rate))
    }
}

/// Remembers how late each job was started.
struct Lateness {
    clock: Arc<dyn Clock>,
    late_ms: Mutex<Vec<f64>>,
}

impl Lateness {
    fn seen(&self) -> usize {
        self.late_ms.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[async_trait]
impl Handler for Lateness {
    fn spec(&self) -> KindSpec {
        spec()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let late = self.clock.now().since(context.job.run_at).as_secs_f64() * 1e3;
        self.late_ms.lock().unwrap_or_else(PoisonError::into_inner).push(late);
        Outcome::Done { result: Json::null() }.into()
    }
}

/// One minute of it, in the order of the columns.
pub(crate) async fn measure(target: &Target, load: Load) -> anyhow::Result<[f64; COLUMNS.len()]> {
    let bench = Bench::open(target).await?;
    let wakes = Wakes::local();
    let handler = Arc::new(Lateness { clock: bench.clock(), late_ms: Mutex::default() });
    let worker = worker(&bench, handler.clone(), SLOTS, wakes.clone()).await?;
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let running = tasks.spawn(worker.run(stop.clone(), Duration::from_secs(5)));
    let client = bench.place.postgres().await?;
    let (ended, end) = watch::channel(false);
    let watching = spawn(watch_dead_rows(bench.place.postgres().await?, end));

    let before = bytes_written(client.as_ref()).await?;
    let started = bench.clock.monotonic();
    send_all(&bench, &service(&bench, wakes), load).await?;
    done(&bench, &handler, load.jobs()).await?;
    let took = bench.clock.monotonic().saturating_sub(started);
    let written = bytes_written(client.as_ref()).await? - before;
    ended.send_replace(true);
    let (most, last) = watching.await??;
    stop.cancel();
    running.await?;
    bench.close().await;

    let mut late = handler.late_ms.lock().unwrap_or_else(PoisonError::into_inner).clone();
    late.sort_by(f64::total_cmp);
    Ok(figures(load, took, &late, written, (most, last)))
}

#[expect(clippy::cast_precision_loss, reason = "a figure needs no more than 52 bits")]
fn figures(
    load: Load,
    took: Duration,
    late: &[f64],
    written: f64,
    dead: (f64, f64),
) -> [f64; COLUMNS.len()] {
    [
        f64::from(load.rate),
        per_second(load.jobs(), took),
        percentile(late, 0.5),
        percentile(late, 0.99),
        percentile(late, 1.0),
        written / load.jobs() as f64,
        dead.0,
        dead.1,
    ]
}

/// Callers take turns, each with one job at a time.
async fn send_all(bench: &Bench, service: &Jobs, load: Load) -> anyhow::Result<()> {
    let (clock, started) = (bench.clock(), bench.clock.monotonic());
    let first_due = bench.clock.now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (clock, service) = (clock.clone(), service.clone());
            spawn(async move {
                for n in (caller..load.jobs()).step_by(CALLERS) {
                    let due = load.due(n);
                    let early = (started + due).saturating_sub(clock.monotonic());
                    if !early.is_zero() {
                        pause(early).await;
                    }
                    send(&service, first_due + due).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    Ok(())
}

async fn send(service: &Jobs, due: Timestamp) -> anyhow::Result<()> {
    let wish = JobWish { kind: KIND.to_owned(), run_at: Some(due), ..JobWish::default() };
    service.enqueue(&Authenticated::Admin, vec![wish], None).await?;
    Ok(())
}

async fn done(bench: &Bench, handler: &Lateness, jobs: usize) -> anyhow::Result<()> {
    let waits_since = bench.clock.monotonic();
    while handler.seen() < jobs || unfinished(bench).await? > 0 {
        let waited = bench.clock.monotonic().saturating_sub(waits_since);
        ensure!(waited < PATIENCE, "{} of {jobs} jobs have been started", handler.seen());
        pause(LOOK_EVERY).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_due_evenly() {
        let load = Load { rate: 1_000, secs: 60 };
        assert_eq!(load.jobs(), 60_000);
        assert_eq!(load.due(0), Duration::ZERO);
        assert_eq!(load.due(59_999), Duration::from_millis(59_999));
    }
}
