//! Measures shared documents with the real server: how many updates are acknowledged a second and how
//! soon, how long a document takes that is not in memory, and what a room costs that is open and idle.
//! Beside it, with the same clients in the same run, Hocuspocus.
//!
//! The measurement fails if an update that was acknowledged is not there after the server was killed,
//! or if somebody does not hear what others in their room have written. Of Hocuspocus, which
//! acknowledges before it stores, it is counted what is lost.

mod contenders;
mod crowd;
mod documents;
mod wire;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, ensure};
use bench_support::table::{Table, print_line, shown};
use bench_support::websocket::Socket;
use bench_support::{pause, per_second, percentile, process, say};
use clap::Parser;
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;
use tokio::task::LocalSet;

use contenders::{Contender, Running};
use crowd::{Crowd, Plan};

/// Measure shared documents
#[derive(Debug, Parser)]
struct Args {
    /// The server's binary
    #[arg(long)]
    binary: PathBuf,
    /// Keep the embedded database in this folder (one that is on the disk you care about)
    #[arg(long, default_value = ".")]
    sqlite_in: PathBuf,
    /// A PostgreSQL URL with the right to create databases; without it only SQLite is measured
    #[arg(long)]
    postgres: Option<String>,
    /// A Redis URL; without it only SQLite is measured
    #[arg(long)]
    redis: Option<String>,
    /// The script of Hocuspocus; without it there is no comparison
    #[arg(long)]
    hocuspocus: Option<PathBuf>,
    /// How many clients write in how many rooms
    #[arg(long, value_delimiter = ',', default_values_t =
          [Size(1, 1), Size(16, 1), Size(64, 16), Size(256, 64)])]
    crowds: Vec<Size>,
    /// Updates of each client
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    updates: u16,
    /// Documents that are opened while they are not in memory
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    cold: u16,
    /// Nodes of each of them
    #[arg(long, default_value_t = 8_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    cold_nodes: u32,
    /// Rooms that are open at once, with 50 nodes in each
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u16).range(1..=20_000))]
    open: u16,
    /// Runs; the median is shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// See that everything works, in seconds
    #[arg(long)]
    quick: bool,
}

/// Clients and rooms, as `64x16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size(usize, usize);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let said = || format!("{text} is not CLIENTSxROOMS, with no more rooms than clients");
        let (clients, rooms) = text.split_once('x').ok_or_else(said)?;
        let (clients, rooms) = clients.parse().ok().zip(rooms.parse().ok()).ok_or_else(said)?;
        if (1..=clients).contains(&rooms) { Ok(Size(clients, rooms)) } else { Err(said()) }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.0, self.1)
    }
}

const SPEED: &str = "updates/s";
const P50: &str = "acknowledged p50, ms";
const P99: &str = "acknowledged p99, ms";
const COST: &str = "processor, µs an update";
const UPDATES: [&str; 7] =
    [SPEED, P50, P99, "heard/s", COST, "bytes an update", "acknowledged and lost by a kill, %"];
const OPEN_P50: &str = "open p50, ms";
const OPEN_P99: &str = "open p99, ms";
const COLD: [&str; 4] = [OPEN_P50, OPEN_P99, "KiB sent", "processor, ms each"];
const ROOM_KIB: &str = "KiB an open room";
const IDLE: [&str; 2] = [ROOM_KIB, "resident, MiB"];

/// Before anything is counted, one client writes so much, and so many documents are opened: what a
/// server has to learn once is not measured.
const WARM_UPDATES: usize = 500;
const WARM_DOCUMENTS: usize = 5;
/// Rooms of one connection.
const ROOMS_PER_CONNECTION: usize = 100;
const IDLE_NODES: usize = 50;
/// After the last room is open, memory settles.
const SETTLE: Duration = Duration::from_secs(3);
/// What a process has open beside its connections.
const OTHER_FILES: usize = 200;

fn main() -> anyhow::Result<()> {
    let mut args = Args::parse();
    if args.quick {
        (args.crowds, args.updates, args.runs) = (vec![Size(4, 2)], 20, 1);
        (args.cold, args.cold_nodes, args.open) = (3, 500, 200);
    }
    let most = args.crowds.iter().map(|size| size.0).max().unwrap_or(0);
    let files = process::open_files_max()?;
    ensure!(
        files >= most + OTHER_FILES,
        "{files} open files are too few for {most} connections: raise the limit (ulimit -n)"
    );
    print_line(&format!("load before: {}", process::load()?));
    // One thread: the server has the other processor.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut tables =
        Tables { updates: Table::new(&UPDATES), cold: Table::new(&COLD), idle: Table::new(&IDLE) };
    let outcome = LocalSet::new().block_on(&runtime, run(&args, &mut tables));
    tables.print(&args);
    outcome
}

struct Tables {
    updates: Table,
    cold: Table,
    idle: Table,
}

fn contenders(args: &Args) -> Vec<Contender> {
    let (binary, folder) = (args.binary.clone(), args.sqlite_in.clone());
    let mut all = vec![Contender::Sqlite { binary: binary.clone(), folder }];
    if let Some((url, redis)) = args.postgres.clone().zip(args.redis.clone()) {
        all.push(Contender::Postgres { binary, url: url.clone(), redis });
        all.extend(args.hocuspocus.clone().map(|script| Contender::Hocuspocus { script, url }));
    }
    all
}

async fn run(args: &Args, tables: &mut Tables) -> anyhow::Result<()> {
    for run in 1..=args.runs {
        for contender in contenders(args) {
            let name = contender.name();
            for size in &args.crowds {
                let row = row(name, *size);
                say(&format!("run {run} of {}: {row}", args.runs));
                let figures = measure_updates(&contender, *size, args.updates.into()).await;
                tables.updates.add(&row, &figures.with_context(|| row.clone())?);
            }
            say(&format!("run {run} of {}: {name}, documents that are not in memory", args.runs));
            let figures = measure_cold(args, &contender).await;
            tables.cold.add(name, &figures.context("documents that are not in memory")?);
            say(&format!("run {run} of {}: {name}, open rooms", args.runs));
            let figures = measure_idle(&contender, args.open.into()).await;
            tables.idle.add(name, &figures.context("open rooms")?);
        }
    }
    Ok(())
}

fn row(name: &str, Size(clients, rooms): Size) -> String {
    format!("{name}, {clients} clients in {rooms} rooms")
}

#[expect(clippy::cast_precision_loss, reason = "counts of a measurement are small")]
async fn measure_updates(
    contender: &Contender,
    Size(clients, rooms): Size,
    updates: usize,
) -> anyhow::Result<[f64; UPDATES.len()]> {
    let mut server = Running::start(contender).await?;
    let (wire, token) = (contender.wire(), server.token().to_owned());
    let warm = Plan { prefix: "warm-", clients: 1, rooms: 1, updates: WARM_UPDATES };
    Crowd::gather(server.address()?, wire, &token, warm).await?.tell().await?;
    let plan = Plan { prefix: "room-", clients, rooms, updates };
    let crowd = Crowd::gather(server.address()?, wire, &token, plan).await?;
    let before = server.processor()?;
    let told = crowd.tell().await?;
    let used = server.processor()?.saturating_sub(before);
    // Nobody has left: a server that stores when the last one leaves has had no reason to.
    server.restart()?;
    drop(told.sockets);
    let lost = lost(&server, plan).await?;
    ensure!(lost == 0 || !contender.is_durable(), "{lost} updates were acknowledged and are lost");
    let all = plan.all_updates();
    Ok([
        per_second(all, told.time),
        percentile(&told.latencies, 0.5),
        percentile(&told.latencies, 0.99),
        told.heard_per_sec,
        used.as_secs_f64() * 1e6 / all as f64,
        told.update_bytes,
        100.0 * lost as f64 / all as f64,
    ])
}

/// How many updates were acknowledged that are not stored. Each client has counted up to the last one.
async fn lost(server: &Running, plan: Plan) -> anyhow::Result<usize> {
    let stored = server.stored(plan.rooms).await?;
    let mut lost = 0;
    for client in 0..plan.clients {
        let said = stored.get(&plan.room(client)).map(|nodes| &nodes[documents::key(client)]);
        // Numbers of Yjs come back as fractions if they are large.
        let number = said.and_then(serde_json::Value::as_u64).unwrap_or(0);
        lost += plan.updates.saturating_sub(usize::try_from(number)?);
    }
    Ok(lost)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a measurement are small")]
async fn measure_cold(args: &Args, contender: &Contender) -> anyhow::Result<[f64; COLD.len()]> {
    let (count, nodes) = (usize::from(args.cold), usize::try_from(args.cold_nodes)?);
    let mut server = Running::start(contender).await?;
    server.fill("cold-", WARM_DOCUMENTS + count, nodes).await?;
    server.restart()?;
    let (clock, token) = (DatabaseClock::start(), server.token().to_owned());
    let (mut times, mut bytes) = (Vec::new(), 0);
    let mut before = server.processor()?;
    for number in 0..WARM_DOCUMENTS + count {
        if number == WARM_DOCUMENTS {
            (times, bytes, before) = (Vec::new(), 0, server.processor()?);
        }
        // What a connection takes is not counted.
        let wire = contender.wire();
        let mut socket = Socket::open(server.address()?, wire.path(), &[]).await?;
        let began = clock.monotonic();
        bytes += wire::open(&mut socket, wire, &format!("cold-{number}"), &token).await?;
        times.push(clock.monotonic().saturating_sub(began).as_secs_f64() * 1e3);
    }
    let used = server.processor()?.saturating_sub(before);
    times.sort_by(f64::total_cmp);
    Ok([
        percentile(&times, 0.5),
        percentile(&times, 0.99),
        bytes as f64 / 1024.0 / count as f64,
        used.as_secs_f64() * 1e3 / count as f64,
    ])
}

#[expect(clippy::cast_precision_loss, reason = "counts of a measurement are small")]
async fn measure_idle(contender: &Contender, rooms: usize) -> anyhow::Result<[f64; IDLE.len()]> {
    let mut server = Running::start(contender).await?;
    // The first rooms bring what a server needs once.
    let all = rooms + ROOMS_PER_CONNECTION;
    server.fill("idle-", all, IDLE_NODES).await?;
    server.restart()?;
    let (wire, token) = (contender.wire(), server.token().to_owned());
    let (mut sockets, mut early_kib) = (Vec::new(), 0.0);
    for first in (0..all).step_by(ROOMS_PER_CONNECTION) {
        let mut socket = Socket::open(server.address()?, wire.path(), &[]).await?;
        for number in first..(first + ROOMS_PER_CONNECTION).min(all) {
            wire::open(&mut socket, wire, &format!("idle-{number}"), &token).await?;
        }
        sockets.push(socket);
        if first == 0 {
            pause(SETTLE).await;
            early_kib = server.resident_kib()?;
        }
    }
    pause(SETTLE).await;
    let resident_kib = server.resident_kib()?;
    drop(sockets);
    Ok([(resident_kib - early_kib) / rooms as f64, resident_kib / 1024.0])
}

impl Tables {
    fn print(&self, args: &Args) {
        self.updates.print();
        self.cold.print();
        self.idle.print();
        let all = contenders(args);
        let Some((theirs, ours)) = all.split_last() else { return };
        if theirs.is_durable() {
            return;
        }
        for ours in ours.iter().map(Contender::name) {
            for size in &args.crowds {
                let names = (row(ours, *size), row(theirs.name(), *size));
                print_ratios(&self.updates, &names.0, &names.1, &[SPEED, P50, P99, COST]);
            }
            print_ratios(&self.cold, ours, theirs.name(), &[OPEN_P50, OPEN_P99]);
            print_ratios(&self.idle, ours, theirs.name(), &[ROOM_KIB]);
        }
    }
}

fn print_ratios(table: &Table, ours: &str, theirs: &str, columns: &[&str]) {
    for column in columns {
        let medians = table.median(ours, column).zip(table.median(theirs, column));
        if let Some((our, their)) = medians {
            print_line(&format!("{column}: {ours} is {} × {theirs}", shown(our / their)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_clients_and_rooms() {
        assert_eq!("64x16".parse(), Ok(Size(64, 16)));
        for wrong in ["64", "1x2", "0x0", "ax1"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }
}
