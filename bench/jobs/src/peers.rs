//! Other engines beside ours, on the same servers in the same run, each driven the fastest way it
//! offers by a program of its own: `bench/jobs/node` and `bench/jobs/river`.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use bench_support::table::{Table, print_line, shown};
use bench_support::{percentile, say, spawn};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::sync::watch;

use crate::Args;
use crate::database::{Bench, Place, Target};
use crate::drain::drain;
use crate::enqueue::{Bulk, CALLERS, bulk, each_caller, single};
use crate::pickup::pickup;
use crate::statistics::{bytes_written, watch_dead_rows};
use crate::steady::{self, Load};

const BULK: &str = "bulk enqueue, jobs/s";
const SINGLE: &str = "single enqueue, jobs/s";
const DRAIN: &str = "drain, jobs/s";
const COLUMNS: [&str; 6] =
    [BULK, SINGLE, DRAIN, "pickup p50, ms", "pickup p99, ms", "bytes written a job"];
/// Jobs that nobody measures, before the others.
const WARM_UP: usize = 1_000;
/// More than the slowest needs for all of it.
const PEER_MAX: Duration = Duration::from_secs(1800);

/// An engine that is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    Graphile,
    PgBoss,
    River,
    /// As durable as ours.
    RiverSqliteFull,
    /// Commits may be lost with the power.
    RiverSqliteNormal,
}

impl Peer {
    const ALL: [Peer; 5] =
        [Peer::Graphile, Peer::PgBoss, Peer::River, Peer::RiverSqliteFull, Peer::RiverSqliteNormal];

    fn name(self) -> &'static str {
        match self {
            Peer::Graphile => "graphile-worker, PostgreSQL",
            Peer::PgBoss => "pg-boss, PostgreSQL",
            Peer::River => "riverqueue, PostgreSQL",
            Peer::RiverSqliteFull => "riverqueue, SQLite (FULL)",
            Peer::RiverSqliteNormal => "riverqueue, SQLite (NORMAL)",
        }
    }

    fn is_on(self, target: &Target) -> bool {
        let on_sqlite = matches!(self, Peer::RiverSqliteFull | Peer::RiverSqliteNormal);
        on_sqlite == matches!(target, Target::Sqlite { .. })
    }

    /// How its program is started, if it is installed.
    fn command(self, args: &Args) -> Option<Command> {
        let node = |script: &str| {
            let mut command = Command::new("node");
            command.arg(args.peers_node.as_ref()?.join(script));
            Some(command)
        };
        match self {
            Peer::Graphile => node("graphile.js"),
            Peer::PgBoss => node("pgboss.js"),
            Peer::River | Peer::RiverSqliteFull | Peer::RiverSqliteNormal => {
                args.peers_river.as_ref().map(Command::new)
            }
        }
    }
}

/// What a peer's program is asked for, as JSON in its only argument.
#[derive(Debug, Serialize)]
struct Task<'a> {
    /// A PostgreSQL URL, or the path of a file.
    database: &'a str,
    synchronous: &'static str,
    /// So many jobs a second for so many seconds; otherwise how fast it is.
    rate: Option<u32>,
    secs: u32,
    warm_up: usize,
    jobs: usize,
    batch: usize,
    callers: usize,
    singles: usize,
    pickups: usize,
}

/// What it answers in the last line that it prints: how fast it is.
#[derive(Debug, Deserialize)]
struct Speed {
    bulk: f64,
    single: f64,
    drain: f64,
    pickup_p50: f64,
    pickup_p99: f64,
    bytes: f64,
}

/// The same of a steady load.
#[derive(Debug, Deserialize)]
struct Steady {
    done: f64,
    p50: f64,
    p99: f64,
    max: f64,
    bytes: f64,
}

/// How fast each is.
pub(crate) async fn measure(args: &Args, targets: &[Target], jobs: usize) -> anyhow::Result<()> {
    let mut table = Table::new(&COLUMNS);
    let outcome = measure_all(args, targets, jobs, &mut table).await;
    print_line("\npeers\n");
    table.print();
    print_ratios(&table, targets);
    outcome
}

async fn measure_all(
    args: &Args,
    targets: &[Target],
    jobs: usize,
    table: &mut Table,
) -> anyhow::Result<()> {
    for run in 1..=args.runs {
        for target in targets {
            let name = own_name(target);
            say(&format!("peers, run {run} of {}: {name}", args.runs));
            table.add(&name, &own_speed(args, target, jobs).await.context(name.clone())?);
            for peer in peers_on(args, target) {
                let name = peer.name();
                say(&format!("peers, run {run} of {}: {name}", args.runs));
                let place = Place::make(target).await?;
                let task = Task { rate: None, jobs, ..task(args, peer) };
                let seen: Speed = ask(args, peer, &place, task).await.context(name)?;
                let pickup = [seen.pickup_p50, seen.pickup_p99];
                let Speed { bulk, single, drain, bytes, .. } = seen;
                table.add(name, &[bulk, single, drain, pickup[0], pickup[1], bytes]);
            }
        }
    }
    Ok(())
}

/// A steady load on each.
pub(crate) async fn measure_steady(args: &Args, targets: &[Target]) -> anyhow::Result<()> {
    let mut table = Table::new(&steady::COLUMNS);
    let outcome = steady_all(args, targets, &mut table).await;
    print_line("\nsteady\n");
    table.print();
    outcome
}

async fn steady_all(args: &Args, targets: &[Target], table: &mut Table) -> anyhow::Result<()> {
    let load = Load { rate: args.rate, secs: args.secs };
    for target in targets {
        let name = own_name(target);
        say(&format!("steady: {name}"));
        table.add(&name, &steady::measure(target, load).await.context(name.clone())?);
        for peer in peers_on(args, target) {
            let name = peer.name();
            say(&format!("steady: {name}"));
            let place = Place::make(target).await?;
            let (ended, end) = watch::channel(false);
            let watching = spawn(watch_dead_rows(place.postgres().await?, end));
            let task = Task { rate: Some(load.rate), ..task(args, peer) };
            let seen: Steady = ask(args, peer, &place, task).await.context(name)?;
            ended.send_replace(true);
            let (most, last) = watching.await??;
            let Steady { done, p50, p99, max, bytes } = seen;
            table.add(name, &[f64::from(load.rate), done, p50, p99, max, bytes, most, last]);
        }
    }
    Ok(())
}

fn own_name(target: &Target) -> String {
    format!("Roundsman, {}", target.name())
}

fn peers_on(args: &Args, target: &Target) -> Vec<Peer> {
    let wanted = |peer: &Peer| {
        peer.is_on(target) && peer.name().contains(&args.peer) && peer.command(args).is_some()
    };
    Peer::ALL.into_iter().filter(wanted).collect()
}

fn task(args: &Args, peer: Peer) -> Task<'static> {
    Task {
        database: "",
        synchronous: if peer == Peer::RiverSqliteNormal { "NORMAL" } else { "FULL" },
        rate: None,
        secs: args.secs,
        warm_up: WARM_UP,
        jobs: 0,
        batch: args.batch,
        callers: CALLERS,
        singles: args.singles,
        pickups: args.pickups,
    }
}

/// The same steps in the same order as the programs of the peers.
async fn own_speed(
    args: &Args,
    target: &Target,
    jobs: usize,
) -> anyhow::Result<[f64; COLUMNS.len()]> {
    let bench = Bench::open(target).await?;
    let client = bench.place.postgres().await?;
    let many = |jobs| Bulk { jobs, batch: args.batch, tenants: 0 };
    bulk(&bench, many(WARM_UP)).await?;
    drain(&bench, args.slots, WARM_UP).await?;
    let one_by_one = single(&bench, args.singles).await?;
    drain(&bench, args.slots, each_caller(args.singles) * CALLERS).await?;
    bench.settle_down().await?;
    let before = bytes_written(client.as_ref()).await?;
    let enqueued = bulk(&bench, many(jobs)).await?;
    let mut bytes = bytes_written(client.as_ref()).await? - before;
    bench.settle_down().await?;
    let before = bytes_written(client.as_ref()).await?;
    let drained = drain(&bench, args.slots, jobs).await?;
    bytes += bytes_written(client.as_ref()).await? - before;
    bench.settle_down().await?;
    let pickups = pickup(&bench, args.pickups).await?.called;
    bench.close().await;
    let (p50, p99) = (percentile(&pickups, 0.5), percentile(&pickups, 0.99));
    Ok([enqueued, one_by_one, drained, p50, p99, each(bytes, jobs)])
}

#[expect(clippy::cast_precision_loss, reason = "a figure needs no more than 52 bits")]
fn each(bytes: f64, jobs: usize) -> f64 {
    bytes / jobs as f64
}

/// Runs a peer's program and reads the last line that it prints.
async fn ask<T: for<'a> Deserialize<'a>>(
    args: &Args,
    peer: Peer,
    place: &Place,
    task: Task<'_>,
) -> anyhow::Result<T> {
    let database = place.address();
    let task = serde_json::to_string(&Task { database: &database, ..task })?;
    let mut command = peer.command(args).context("it is not installed")?;
    command.arg(task).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().context("cannot start it")?;
    let output = tokio::time::timeout(PEER_MAX, child.wait_with_output()).await;
    let output = output.context("it takes too long")??;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "it ended with {}: {text}", output.status);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).with_context(|| format!("it said {last:?}"))
}

/// Ours against the best of the others on the same database.
fn print_ratios(table: &Table, targets: &[Target]) {
    for target in targets {
        let own = own_name(target);
        for column in [BULK, SINGLE, DRAIN] {
            let peers = Peer::ALL.into_iter().filter(|peer| peer.is_on(target));
            let best = peers
                .filter_map(|peer| Some((peer.name(), table.median(peer.name(), column)?)))
                .max_by(|(_, a), (_, b)| a.total_cmp(b));
            let (Some((peer, best)), Some(ours)) = (best, table.median(&own, column)) else {
                continue;
            };
            print_line(&format!("{own}: {column} {} × {peer}", shown(ours / best)));
        }
    }
}
