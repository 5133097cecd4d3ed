//! Measures the job engine: how fast it is, what a long backlog, a long history, limits and a crash
//! do to it, and, in the same run, other engines and a raw loop of statements as yardsticks.
//!
//! Figures of one run are comparable with each other; figures of two machines or two days are not.

mod backlog;
mod curve;
mod database;
mod drain;
mod enqueue;
mod history;
mod limits;
mod peers;
mod pickup;
mod process;
mod raw;
mod recovery;
mod report;
mod speed;
mod statistics;
mod steady;
mod support;

use std::path::PathBuf;

use anyhow::Context;
use bench_support::machine::Withheld;
use bench_support::table::print_line;
use bench_support::{percentile, say};
use clap::{Parser, ValueEnum};

use database::Target;
use enqueue::Bulk;
use report::Report;

/// Measure Roundsman's jobs
#[derive(Debug, Parser)]
struct Args {
    /// A PostgreSQL URL with the right to create databases; without it PostgreSQL is not measured
    #[arg(long)]
    postgres: Option<String>,
    /// Measure the embedded database in this folder (one that is on the disk you care about)
    #[arg(long, default_value = ".")]
    sqlite_in: PathBuf,
    /// What to measure; everything, if nothing is named
    #[arg(long, value_enum, value_delimiter = ',')]
    phase: Vec<Phase>,
    /// Jobs in the backlog; each phase has its own number, if this is not given
    #[arg(long, value_parser = clap::value_parser!(u32).range(100..=100_000_000))]
    jobs: Option<u32>,
    /// Jobs per bulk enqueue
    #[arg(long, default_value_t = 5_000)]
    batch: usize,
    /// Slots of the draining worker
    #[arg(long, default_value_t = 2_000)]
    slots: usize,
    /// Single jobs, for enqueueing one by one
    #[arg(long, default_value_t = 20_000)]
    singles: usize,
    /// Single jobs for the pickup latency
    #[arg(long, default_value_t = 300)]
    pickups: usize,
    /// Claims to measure in a long backlog
    #[arg(long, default_value_t = 500)]
    claims: usize,
    /// Jobs a second of the steady load
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// Seconds of the steady load
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    secs: u32,
    /// Runs of the phases that are short; the median is shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// The server's binary, to measure its start, memory and idle processor time
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The folder with graphile-worker and pg-boss, for the comparison
    #[arg(long)]
    peers_node: Option<PathBuf>,
    /// The program that drives riverqueue, for the comparison
    #[arg(long)]
    peers_river: Option<PathBuf>,
    /// Only peers with this word in their name
    #[arg(long, default_value = "")]
    peer: String,
    /// See that everything works, in a minute
    #[arg(long)]
    quick: bool,
    /// Be one of the worker processes that recovery kills
    #[arg(long, hide = true)]
    work_on: Option<String>,
}

/// What is measured, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Phase {
    /// Raw loop, enqueueing, draining, pickup
    Speed,
    /// The same on other engines
    Peers,
    /// So many jobs a second for a minute, on other engines too
    Steady,
    /// Claims while a million wait
    Backlog,
    /// From a thousand jobs to a million
    Curve,
    /// The same work after a million have finished
    History,
    /// Draining with and without limits
    Limits,
    /// A worker process is killed
    Recovery,
    /// The server as a process
    Server,
}

impl Phase {
    /// How many jobs, if nobody says.
    fn jobs(self) -> usize {
        match self {
            Phase::Speed | Phase::Peers => 200_000,
            Phase::Backlog | Phase::Curve | Phase::History => 1_000_000,
            Phase::Limits | Phase::Recovery => 100_000,
            Phase::Steady | Phase::Server => 0,
        }
    }

    /// Those that take long are measured once.
    fn is_repeated(self) -> bool {
        matches!(self, Phase::Speed | Phase::Limits | Phase::Recovery)
    }
}

fn main() -> anyhow::Result<()> {
    let mut args = Args::parse();
    if args.quick {
        (args.jobs, args.singles, args.pickups) = (args.jobs.or(Some(5_000)), 640, 50);
        (args.claims, args.rate, args.secs, args.runs) = (50, 500, 3, 1);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if let Some(address) = &args.work_on {
        return runtime.block_on(recovery::work(address, args.slots));
    }
    let load = bench_support::process::load()?;
    print_line(&format!("load before: {load}; {}", Withheld::measure()));
    runtime.block_on(run(&args))
}

async fn run(args: &Args) -> anyhow::Result<()> {
    let mut targets = vec![Target::Sqlite { folder: args.sqlite_in.clone() }];
    targets.extend(args.postgres.clone().map(|url| Target::Postgres { url }));
    let named = |phase: &Phase| args.phase.is_empty() || args.phase.contains(phase);
    for phase in Phase::value_variants().iter().copied().filter(named) {
        let jobs = args.jobs.map_or(phase.jobs(), |jobs| jobs as usize);
        let title = phase.to_possible_value().map(|value| value.get_name().to_owned());
        let title = title.unwrap_or_default();
        match phase {
            Phase::Peers => peers::measure(args, &targets, jobs).await.context(title)?,
            Phase::Steady => peers::measure_steady(args, &targets).await.context(title)?,
            _ => {
                let mut report = Report::default();
                let outcome = repeat(args, phase, &targets, jobs, &mut report).await;
                // What was seen before something failed is shown, too.
                report.print(&title);
                outcome.context(title)?;
            }
        }
    }
    Ok(())
}

async fn repeat(
    args: &Args,
    phase: Phase,
    targets: &[Target],
    jobs: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    if phase == Phase::Server {
        let Some(binary) = &args.binary else { return Ok(()) };
        return process::measure(binary, &args.sqlite_in, report).await;
    }
    let runs = if phase.is_repeated() { args.runs } else { 1 };
    for run in 1..=runs {
        for target in targets {
            let name = target.name();
            say(&format!("{phase:?}, {name}: run {run} of {runs}"));
            measure(args, phase, target, jobs, report).await.context(name)?;
        }
    }
    Ok(())
}

async fn measure(
    args: &Args,
    phase: Phase,
    target: &Target,
    jobs: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    match phase {
        Phase::Speed => speed::measure(args, target, jobs, report).await,
        Phase::Backlog => measure_backlog(args, target, jobs, report).await,
        Phase::Curve => curve::measure(args, target, jobs, report).await,
        Phase::History => history::measure(args, target, jobs, report).await,
        Phase::Limits => limits::measure(args, target, jobs, report).await,
        Phase::Recovery => recovery::measure(args, target, jobs, report).await,
        Phase::Peers | Phase::Steady | Phase::Server => Ok(()),
    }
}

/// Claims while many wait.
async fn measure_backlog(
    args: &Args,
    target: &Target,
    jobs: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let bench = database::Bench::open(target).await?;
    let name = target.name();
    let rate = enqueue::bulk(&bench, Bulk { jobs, batch: args.batch, tenants: 0 }).await?;
    let waiting = support::grouped(jobs);
    report.add(name, &format!("bulk enqueue of {waiting}, jobs/s"), rate);
    bench.settle_down().await?;
    let count = args.claims.min(jobs / backlog::CLAIM_JOBS as usize);
    let latencies = backlog::claims(&bench, count).await?.latencies;
    for (share, percent) in [(0.5, "p50"), (0.99, "p99"), (1.0, "max")] {
        let what = format!("claim of {} with {waiting} waiting {percent}, ms", backlog::CLAIM_JOBS);
        report.add(name, &what, percentile(&latencies, share));
    }
    let (p99, most) = (percentile(&latencies, 0.99), backlog::CLAIM_P99_MS_MAX);
    let held = if p99 <= most { "is kept" } else { "is not kept" };
    report.note(format!("{name}: the aim of a p99 of at most {most} ms {held}."));
    bench.close().await;
    Ok(())
}
