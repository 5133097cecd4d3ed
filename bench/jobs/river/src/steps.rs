//! The steps of the measurement.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::Task;
use crate::engine::Engine;

const LOOK_EVERY: Duration = Duration::from_millis(5);
const SPACING: Duration = Duration::from_millis(10);
const DRAIN_MAX: Duration = Duration::from_secs(900);

/// How fast it is.
pub(crate) async fn speed(engine: &Engine, task: &Task) -> anyhow::Result<Value> {
    bulk(engine, task.warm_up, task.batch).await?;
    drain(engine, task.warm_up).await?;
    let (singles, single_rate) = single(engine, task).await?;
    drain(engine, singles).await?;
    engine.settle_down().await?;
    let before = engine.bytes_written().await?;
    let bulk_rate = bulk(engine, task.jobs, task.batch).await?;
    let mut bytes = engine.bytes_written().await? - before;
    engine.settle_down().await?;
    let before = engine.bytes_written().await?;
    let drain_rate = drain(engine, task.jobs).await?;
    bytes += engine.bytes_written().await? - before;
    engine.settle_down().await?;
    let latencies = pickup(engine, task.pickups).await?;
    Ok(json!({
        "bulk": bulk_rate,
        "single": single_rate,
        "drain": drain_rate,
        "pickup_p50": percentile(&latencies, 0.5),
        "pickup_p99": percentile(&latencies, 0.99),
        "bytes": bytes / task.jobs as f64,
    }))
}

async fn bulk(engine: &Engine, jobs: usize, batch: usize) -> anyhow::Result<f64> {
    let next = AtomicUsize::new(0);
    let caller = || async {
        loop {
            let first = next.fetch_add(batch, Ordering::Relaxed);
            if first >= jobs {
                return anyhow::Ok(());
            }
            engine.bulk(first..jobs.min(first + batch)).await?;
        }
    };
    let began = Instant::now();
    // Two at a time, as everybody's.
    tokio::try_join!(caller(), caller())?;
    Ok(per_second(jobs, began.elapsed()))
}

async fn single(engine: &Engine, task: &Task) -> anyhow::Result<(usize, f64)> {
    let each = task.singles.div_ceil(task.callers);
    let began = Instant::now();
    together(engine, task.callers, |engine, _| async move {
        for n in 0..each {
            engine.single(n).await?;
        }
        Ok(())
    })
    .await?;
    Ok((each * task.callers, per_second(each * task.callers, began.elapsed())))
}

/// The clock stops when the database shows that nothing is left, and it is looked at only when every
/// worker has been called.
async fn drain(engine: &Engine, jobs: usize) -> anyhow::Result<f64> {
    let seen = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let counter = seen.clone();
    let working = engine
        .work(Arc::new(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        }))
        .await?;
    while seen.load(Ordering::Relaxed) < jobs || engine.unfinished().await? > 0 {
        ensure!(began.elapsed() < DRAIN_MAX, "{} of {jobs} jobs", seen.load(Ordering::Relaxed));
        rest(LOOK_EVERY).await;
    }
    let took = began.elapsed();
    working.stop().await?;
    Ok(per_second(jobs, took))
}

async fn pickup(engine: &Engine, jobs: usize) -> anyhow::Result<Vec<f64>> {
    let (started, mut starts) = mpsc::unbounded_channel();
    let working = engine
        .work(Arc::new(move |_| {
            let _ = started.send(Instant::now());
        }))
        .await?;
    rest(Duration::from_secs(1)).await;
    let mut latencies = Vec::with_capacity(jobs);
    for n in 0..jobs {
        rest(SPACING).await;
        let called = Instant::now();
        engine.single(n).await?;
        let at = starts.recv().await.context("the worker is gone")?;
        latencies.push(at.saturating_duration_since(called).as_secs_f64() * 1e3);
    }
    working.stop().await?;
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}

/// Each job is due at its time and its latency counts from then, so that falling behind cannot be
/// hidden.
pub(crate) async fn steady(engine: &Engine, task: &Task, rate: u32) -> anyhow::Result<Value> {
    let jobs = (u64::from(rate) * u64::from(task.secs)) as usize;
    let due = move |n: usize| Duration::from_nanos(n as u64 * 1_000_000_000 / u64::from(rate));
    let starts = Arc::new(Mutex::new(Vec::with_capacity(jobs)));
    let seen = starts.clone();
    let working = engine
        .work(Arc::new(move |n| {
            let at = Instant::now();
            seen.lock().unwrap_or_else(PoisonError::into_inner).push((n, at));
        }))
        .await?;
    rest(Duration::from_secs(1)).await;
    let before = engine.bytes_written().await?;
    let began = Instant::now();
    let callers = task.callers;
    together(engine, callers, move |engine, caller| async move {
        for n in (caller..jobs).step_by(callers) {
            let early = due(n).saturating_sub(began.elapsed());
            if !early.is_zero() {
                rest(early).await;
            }
            engine.single(n).await?;
        }
        Ok(())
    })
    .await?;
    let count = || starts.lock().unwrap_or_else(PoisonError::into_inner).len();
    while count() < jobs || engine.unfinished().await? > 0 {
        ensure!(began.elapsed() < DRAIN_MAX * 2, "{} of {jobs} jobs have run", count());
        rest(LOOK_EVERY).await;
    }
    let took = began.elapsed();
    let bytes = engine.bytes_written().await? - before;
    working.stop().await?;
    let starts = starts.lock().unwrap_or_else(PoisonError::into_inner);
    let late = starts.iter().map(|(n, at)| (*at - began).saturating_sub(due(*n)));
    let mut late: Vec<f64> = late.map(|late| late.as_secs_f64() * 1e3).collect();
    late.sort_by(f64::total_cmp);
    Ok(json!({
        "done": per_second(jobs, took),
        "p50": percentile(&late, 0.5),
        "p99": percentile(&late, 0.99),
        "max": percentile(&late, 1.0),
        "bytes": bytes / jobs as f64,
    }))
}

/// Callers at the same time, each with its number.
async fn together<F, W>(engine: &Engine, callers: usize, work: F) -> anyhow::Result<()>
where
    F: Fn(Engine, usize) -> W,
    W: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        tasks.spawn(work(engine.clone(), caller));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn rest(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}

fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

fn percentile(sorted: &[f64], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
