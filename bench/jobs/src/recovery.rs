//! Recovery: a worker process is killed half way through a backlog; how long until everything is done,
//! and whether anything was lost.
//!
//! The processes are this program's own, with the engine's worker, sweeper and sign of life at the
//! server's intervals. With the embedded database the next one is started when the first is dead;
//! with PostgreSQL also one that works beside it from the beginning.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use bench_support::{pause, say};
use roundsman_core::ports::Clock;
use roundsman_engine::clock::{DatabaseClock, SYNC_EVERY};
use roundsman_engine::jobs::Sweeper;
use roundsman_engine::metrics::Metrics;
use roundsman_engine::random::OsRandom;
use roundsman_engine::wake::{Wakes, rest};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Args;
use crate::database::{self, Bench, Place, Target};
use crate::drain::{Nothing, worker_on};
use crate::enqueue::{Bulk, bulk};
use crate::report::Report;

/// As the server does it: `[jobs] sweep_secs`, and its sign of life.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
const ALIVE_EVERY: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// More than it takes until leases end by themselves, and to drain after that.
const PATIENCE: Duration = Duration::from_secs(600);

/// Who goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heir {
    /// A process that is started when the first is dead.
    Next,
    /// One that has worked beside it.
    Beside,
}

pub(crate) async fn measure(
    args: &Args,
    target: &Target,
    jobs: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    kill(args, target, jobs, Heir::Next, report).await?;
    if matches!(target, Target::Postgres { .. }) {
        kill(args, target, jobs, Heir::Beside, report).await?;
    }
    Ok(())
}

async fn kill(
    args: &Args,
    target: &Target,
    jobs: usize,
    heir: Heir,
    report: &mut Report,
) -> anyhow::Result<()> {
    let bench = Bench::open(target).await?;
    bulk(&bench, Bulk { jobs, batch: args.batch, tenants: 0 }).await?;
    bench.settle_down().await?;
    let place = bench.close().await;
    let outside = Outside::open(&place).await?;
    let first = Process::start(&place, args.slots)?;
    let beside = match heir {
        Heir::Beside => Some(Process::start(&place, args.slots)?),
        Heir::Next => None,
    };
    let clock = DatabaseClock::start();
    while outside.count(FINISHED).await? < jobs / 2 {
        ensure!(clock.monotonic() < PATIENCE, "the backlog is not worked off");
        pause(LOOK_EVERY).await;
    }
    // Kills, and waits until it is gone.
    drop(first);
    let killed = clock.monotonic();
    let left_running = outside.count(RUNNING).await?;
    let _heir = match beside {
        Some(beside) => beside,
        None => Process::start(&place, args.slots)?,
    };
    while outside.count(UNFINISHED).await? > 0 {
        ensure!(clock.monotonic() < killed + PATIENCE, "jobs of the dead are not taken over");
        pause(LOOK_EVERY).await;
    }
    let took = clock.monotonic().saturating_sub(killed);
    let (finished, again) = (outside.count(FINISHED).await?, outside.count(AGAIN).await?);
    let who = match heir {
        Heir::Next => "the next process",
        Heir::Beside => "one beside it",
    };
    say(&format!("  {who}: {took:?}, {left_running} ran, {again} ran again"));
    add(report, target.name(), who, took, [left_running, again, jobs - finished.min(jobs)]);
    ensure!(finished == jobs, "{finished} of {jobs} jobs have completed");
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure needs no more than 52 bits")]
fn add(report: &mut Report, target: &str, who: &str, took: Duration, counts: [usize; 3]) {
    let [running, again, lost] = counts.map(|count| count as f64);
    let what = |what: &str| format!("killed, {who} goes on: {what}");
    report.add(target, &what("s until all is done"), took.as_secs_f64());
    report.add(target, &what("jobs left running"), running);
    report.add(target, &what("jobs that ran again"), again);
    report.add(target, &what("jobs lost"), lost);
}

const FINISHED: &str = "SELECT count(*) FROM job_finished WHERE state = 3";
const RUNNING: &str = "SELECT count(*) FROM job_running";
const AGAIN: &str = "SELECT count(*) FROM job_finished WHERE attempt > 1";
const UNFINISHED: &str =
    "SELECT (SELECT count(*) FROM job_queue) + (SELECT count(*) FROM job_running)";

/// A look at the database beside those who work on it.
enum Outside {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Outside {
    async fn open(place: &Place) -> anyhow::Result<Outside> {
        let Some(client) = place.postgres().await? else {
            let file = rusqlite::Connection::open(place.address())?;
            file.busy_timeout(Duration::from_secs(5))?;
            return Ok(Outside::Sqlite(file));
        };
        client.batch_execute("SET search_path TO roundsman").await?;
        Ok(Outside::Postgres(client))
    }

    async fn count(&self, query: &str) -> anyhow::Result<usize> {
        let count: i64 = match self {
            Outside::Sqlite(file) => file.prepare_cached(query)?.query_row([], |row| row.get(0))?,
            Outside::Postgres(client) => client.query_one(query, &[]).await?.try_get(0)?,
        };
        Ok(usize::try_from(count)?)
    }
}

/// A worker process. It ends as by a crash when this is dropped.
struct Process(Child);

impl Process {
    fn start(place: &Place, slots: usize) -> anyhow::Result<Process> {
        let program = std::env::current_exe().context("where is this program?")?;
        let mut command = Command::new(program);
        command.args(["--work-on", &place.address(), "--slots", &slots.to_string()]);
        // It ends by itself if this process does: see `work`.
        command.stdin(Stdio::piped());
        Ok(Process(command.spawn().context("cannot start a worker process")?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a worker process does, until it is killed or whoever started it is gone.
pub(crate) async fn work(address: &str, slots: usize) -> anyhow::Result<()> {
    let (store, clock) = database::open(address).await?;
    let owner = store.begin_process(0, clock.now()).await?.owner;
    let (stop, tasks, wakes) = (CancellationToken::new(), TaskTracker::new(), Wakes::local());
    end_with_parent(stop.clone());
    tasks.spawn(every(ALIVE_EVERY, stop.clone(), {
        let (store, clock) = (store.clone(), clock.clone());
        async move || store.keep_process(owner, clock.now()).await
    }));
    tasks.spawn(every(SYNC_EVERY, stop.clone(), {
        let (store, clock) = (store.clone(), clock.clone());
        async move || clock.sync(store.as_ref()).await
    }));
    let (random, metrics) = (Arc::new(OsRandom), Metrics::default());
    let sweeper = Sweeper::new(store.clone(), clock.clone(), random, wakes.clone(), metrics);
    tasks.spawn(every(SWEEP_EVERY, stop.clone(), async move || sweeper.tick().await.map(|_| ())));
    let handler = Arc::new(Nothing::default());
    let worker = worker_on(store.clone(), clock, handler, slots, wakes, owner);
    worker.run(stop, Duration::from_secs(5)).await;
    tasks.close();
    tasks.wait().await;
    store.close().await;
    Ok(())
}

async fn every<E: std::fmt::Display>(
    interval: Duration,
    stop: CancellationToken,
    mut tick: impl AsyncFnMut() -> Result<(), E>,
) {
    loop {
        if let Err(error) = tick().await {
            say(&format!("a round failed: {error}"));
        }
        if !rest(interval, &stop).await {
            return;
        }
    }
}

/// Nobody ever writes to the pipe: it ends with the parent.
fn end_with_parent(stop: CancellationToken) {
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        stop.cancel();
    });
}
