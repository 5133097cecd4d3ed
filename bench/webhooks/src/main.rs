//! Measures how fast webhooks are taken, with the real server: events about people, which are heard
//! in memory, and apart from them what is durable before it is answered.
//!
//! Beside it in the same run: an endpoint in Python, with Celery, that verifies and asks for the same.
//! The measurement fails if a request is not answered with 200, or if one that was is not taken.

mod bare;
mod events;
mod gaps;
mod load;
mod peak;
mod peer;
mod running;
mod steady;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bench_support::machine::Withheld;
use bench_support::place::Target;
use bench_support::sched::{Account, Sched};
use bench_support::table::{Table, print_line, shown};
use bench_support::{pause, process, say};
use clap::Parser;

use events::{Class, Events};
use load::Load;
use peer::Tasks;
use running::{BARE, Contender, Matters, Programs, Room, Running};
use steady::Steady;

/// Measure how fast webhooks are taken
#[derive(Debug, Clone, Parser)]
struct Args {
    /// The server's binary
    #[arg(long)]
    binary: PathBuf,
    /// Keep the embedded database in this folder (one that is on the disk you care about)
    #[arg(long, default_value = ".")]
    sqlite_in: PathBuf,
    /// A PostgreSQL URL with the right to create databases; without it PostgreSQL is not measured
    #[arg(long)]
    postgres: Option<String>,
    /// The bare loop, for what the machine gives at best; without it that is not measured
    #[arg(long)]
    bare: Option<PathBuf>,
    /// A Python with what peer.py imports, for the comparison; without it there is none
    #[arg(long)]
    python: Option<PathBuf>,
    /// Connections that requests come on
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,
    /// Rooms that events are about
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rooms: u16,
    /// Events about people, as fast as they are answered
    #[arg(long, default_value_t = 200_000)]
    requests: usize,
    /// The same of what is durable
    #[arg(long, default_value_t = 20_000)]
    durable: usize,
    /// The same for the comparison, because it takes its time
    #[arg(long, default_value_t = 10_000)]
    peer_requests: usize,
    /// Seconds at half of the rate that is seen beside clients with a processor of their own
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=600))]
    secs: u16,
    /// Runs; the median is shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Only what has this word in its name
    #[arg(long, default_value = "")]
    only: String,
    /// See that everything works, in seconds
    #[arg(long)]
    quick: bool,
}

const SPEED: &str = "requests/s";
const COST: &str = "processor, µs each";
const AT_HALF: &str = "p99 at half, ms";
const COLUMNS: [&str; 10] = [
    SPEED,
    "p50, ms",
    "p99, ms",
    COST,
    "at half: asked/s",
    "answered/s",
    "p50 at half, ms",
    AT_HALF,
    "at half within 1 ms, %",
    "by the server's clock, %",
];
/// Sent before anything is measured.
const WARM_UP: usize = 1000;
/// Between the two measurements, so that what the first has left is done, as far as it is at once.
const BREATH: Duration = Duration::from_secs(4);
/// How fast it is beside its clients is seen with this part of the requests.
const PROBE_PART: usize = 4;
/// What a participant's event is to be answered within.
const AIM_MILLIS: f64 = 1.0;

impl Args {
    fn programs(&self) -> Programs {
        let Args { binary, bare, python, .. } = self.clone();
        Programs { server: binary, bare, python }
    }
}

fn main() -> anyhow::Result<()> {
    let mut args = Args::parse();
    if args.quick {
        (args.requests, args.durable, args.peer_requests) = (5_000, 1_000, 1_000);
        (args.secs, args.runs) = (2, 1);
    }
    // One thread for the clients of the first measurement, so that the server has a processor.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build()?;
    let mut table = Table::new(&COLUMNS);
    let load = process::load()?;
    let withheld = Withheld::measure();
    let outcome = runtime.block_on(run(&args, &mut table));
    print_line(&format!("load before: {load}; {withheld}"));
    table.print();
    print_ratios(&table);
    print_floor(&table);
    outcome
}

async fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    for run in 1..=args.runs {
        for contender in contenders(args) {
            let name = contender.name();
            if !name.contains(&args.only) {
                continue;
            }
            say(&format!("run {run} of {}: {name}", args.runs));
            let figures = measure(args, &contender).await.context(name.clone())?;
            table.add(&name, &figures);
        }
    }
    Ok(())
}

fn contenders(args: &Args) -> Vec<Contender> {
    let sqlite = Target::Sqlite { folder: args.sqlite_in.clone() };
    let postgres = args.postgres.clone().map(|url| Target::Postgres { url });
    let on = |target: &Target, class| Contender::Roundsman { target: target.clone(), class };
    let mut contenders: Vec<Contender> = args.bare.iter().map(|_| Contender::Bare).collect();
    contenders.extend([Class::Nothing, Class::Participants].map(|class| on(&sqlite, class)));
    contenders.extend(postgres.iter().map(|target| on(target, Class::Participants)));
    if args.python.is_some() {
        contenders.extend([Tasks::Each, Tasks::Once].map(Contender::Peer));
    }
    for target in std::iter::once(&sqlite).chain(&postgres) {
        contenders.extend([Class::Recordings, Class::Exits].map(|class| on(target, class)));
    }
    contenders
}

async fn measure(args: &Args, contender: &Contender) -> anyhow::Result<[f64; COLUMNS.len()]> {
    let count = match contender {
        Contender::Peer(_) => args.peer_requests,
        contender if contender.class().is_durable() => args.durable,
        Contender::Roundsman { .. } | Contender::Bare => args.requests,
    };
    let (peak, processor) = at_most(args, contender, count).await?;
    let half = at_half(args, contender, count).await?;
    let seen = &half.came.load;
    Ok([
        peak.per_second(),
        peak.within(0.5),
        peak.within(0.99),
        peak.micros_each(processor),
        half.rate,
        seen.per_second(),
        seen.within(0.5),
        seen.within(0.99),
        seen.percent_within(AIM_MILLIS),
        half.soon_percent,
    ])
}

/// As fast as it answers, on all processors, and what processor time that has cost.
async fn at_most(
    args: &Args,
    contender: &Contender,
    count: usize,
) -> anyhow::Result<(Load, Duration)> {
    let (mut running, mut events) = start(args, contender, count, Room::Everywhere).await?;
    let (address, connections) = (running.address().to_owned(), usize::from(args.connections));
    let requests = events.make(count);
    let before = running.processor()?;
    let peak = peak::send(&address, connections, requests).await?;
    let processor = running.processor()?.saturating_sub(before);
    running.settled().await?;
    running.check(events.made()).await?;
    Ok((peak, processor))
}

/// What came of half of the rate.
struct Half {
    rate: f64,
    came: Steady,
    /// Answered within a millisecond by the server's own account.
    soon_percent: f64,
}

/// At half of what it answers where it is measured: beside clients that have a processor of their own.
async fn at_half(args: &Args, contender: &Contender, count: usize) -> anyhow::Result<Half> {
    let (mut running, mut events) = start(args, contender, count, Room::BesideTheClient).await?;
    let (address, connections) = (running.address().to_owned(), usize::from(args.connections));
    let others = running.others().await?;
    let steadily = async |requests: Vec<Vec<u8>>, rate: f64| {
        let (address, others) = (address.clone(), others.clone());
        let sent = tokio::task::spawn_blocking(move || {
            steady::send(&address, connections, &requests, rate, &others)
        });
        sent.await.context("clients")?
    };
    let most = steadily(events.make(count / PROBE_PART), f64::INFINITY).await?.load;
    running.settled().await?;
    pause(BREATH).await;
    let rate = most.per_second() / 2.0;
    // No more than there are bots to end.
    let count_max = if contender.class().is_durable() { count } else { usize::MAX };
    let requests = events.make(whole(rate * f64::from(args.secs)).clamp(1, count_max));
    let before = running.answered().await?;
    let account = running.pid().map(Account::begin).transpose()?;
    let came = steadily(requests, rate).await?;
    let sched = account.as_ref().map(Account::end).transpose()?;
    let soon_percent = match (before, running.answered().await?) {
        (Some((all_before, soon_before)), Some((all, soon))) => {
            100.0 * (soon - soon_before) / (all - all_before)
        }
        _ => f64::NAN,
    };
    print_half(&contender.name(), &came, sched.as_ref());
    running.check(events.made()).await?;
    Ok(Half { rate, came, soon_percent })
}

/// A fresh server that has warmed up.
async fn start(
    args: &Args,
    contender: &Contender,
    count: usize,
    room: Room,
) -> anyhow::Result<(Running, Events)> {
    let rooms = usize::from(args.rooms);
    let matters = Matters { rooms, bots: WARM_UP + 2 * count };
    let mut running = Running::start(contender, &args.programs(), matters, room).await?;
    let mut events = Events::new(contender.class(), rooms)?;
    let address = running.address().to_owned();
    peak::send(&address, usize::from(args.connections), events.make(WARM_UP)).await?;
    running.settled().await?;
    Ok((running, events))
}

/// Who had the processors at half of the rate: what of a latency is the machine's.
fn print_half(name: &str, came: &Steady, sched: Option<&Sched>) {
    let Steady { load, away_percent, away_longest, .. } = came;
    let longest = away_longest.as_secs_f64() * 1e3;
    let shares = [0.5, 0.9, 0.99, 0.999, 1.0].map(|share| shown(load.within(share))).join(", ");
    print_line(&format!("{name}, at half: p50, p90, p99, p99.9 and longest {shares} ms"));
    print_line(&format!(
        "  the client had no processor {away_percent:.2} % of the time, up to {longest:.1} ms"
    ));
    if let Some(sched) = sched {
        print_line(&format!("  {sched}"));
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of requests that fit into memory"
)]
fn whole(count: f64) -> usize {
    count as usize
}

/// Against the better of the two that are compared with.
fn print_ratios(table: &Table) {
    let peers = [Tasks::Each, Tasks::Once];
    let best = peers
        .into_iter()
        .filter_map(|tasks| Some((tasks.name(), table.median(tasks.name(), SPEED)?)))
        .max_by(|(_, a), (_, b)| a.total_cmp(b));
    let Some((peer, speed)) = best else { return };
    let cost = table.median(peer, COST).unwrap_or(f64::NAN);
    for name in table.names().filter(|name| name.ends_with(", participants")) {
        let faster = table.median(name, SPEED).unwrap_or(f64::NAN) / speed;
        let cheaper = cost / table.median(name, COST).unwrap_or(f64::NAN);
        print_line(&format!(
            "{name}: {} times as many requests/s as {peer}, each at 1/{} of the processor time",
            shown(faster),
            shown(cheaper)
        ));
    }
}

/// What a participant's event takes at half of the rate, beside what the machine gives at best.
fn print_floor(table: &Table) {
    let Some(floor) = table.median(BARE, AT_HALF) else { return };
    for name in table.names().filter(|name| name.ends_with(", participants")) {
        let took = table.median(name, AT_HALF).unwrap_or(f64::NAN);
        let (took, floor) = (shown(took), shown(floor));
        print_line(&format!("{name}: p99 at half {took} ms, that of a bare loop {floor} ms"));
    }
}
