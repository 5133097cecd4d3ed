//! Measures the job engine: bulk and single enqueue, draining a backlog, idle pickup; and, in the
//! same run on the same database, a raw loop of batch claim and complete as the yardstick.
//!
//! Figures of one run are comparable with each other; figures of two machines or two days are not.

mod backlog;
mod database;
mod drain;
mod enqueue;
mod pickup;
mod process;
mod raw;
mod report;
mod support;

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;

use database::Target;
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
    /// Jobs in the backlog
    #[arg(long, default_value_t = 200_000)]
    jobs: usize,
    /// Jobs per bulk enqueue
    #[arg(long, default_value_t = 5_000)]
    batch: usize,
    /// Slots of the draining worker
    #[arg(long, default_value_t = 2_000)]
    slots: usize,
    /// Single jobs for the pickup latency
    #[arg(long, default_value_t = 300)]
    pickups: usize,
    /// Claims to measure while `--jobs` wait; with these, nothing else is measured (J-15: `--jobs 1000000`)
    #[arg(long, default_value_t = 0)]
    claims: usize,
    /// Runs; the median is shown
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// The server's binary, to measure its start, memory and idle processor time
    #[arg(long)]
    binary: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(run(&args))?;
    report.print();
    Ok(())
}

async fn run(args: &Args) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let mut targets = vec![Target::Sqlite { folder: args.sqlite_in.clone() }];
    targets.extend(args.postgres.clone().map(|url| Target::Postgres { url }));
    for target in &targets {
        for run in 1..=args.runs {
            support::say(&format!("{}: run {run} of {}", target.name(), args.runs));
            measure(args, target, &mut report).await.context(target.name())?;
        }
    }
    if let Some(binary) = &args.binary {
        process::measure(binary, &args.sqlite_in, &mut report).await?;
    }
    Ok(report)
}

async fn measure(args: &Args, target: &Target, report: &mut Report) -> anyhow::Result<()> {
    let name = target.name();
    let bench = database::Bench::open(target).await?;
    if args.claims > 0 {
        return measure_backlog(args, name, bench, report).await;
    }
    report.add(name, "raw loop, jobs/s", raw::drain(target, &bench, args).await?);
    report.add(name, "bulk enqueue, jobs/s", enqueue::bulk(&bench, args).await?);
    bench.settle_down().await?;
    report.add(name, "drain, jobs/s", drain::drain(&bench, args).await?);
    report.add(name, "single enqueue, jobs/s (64 callers)", enqueue::single(&bench, args).await?);
    drain::drain(&bench, args).await?;
    bench.settle_down().await?;
    let latencies = pickup::pickup(&bench, args).await?;
    report.add(name, "idle pickup p50, ms", pickup::percentile(&latencies, 50));
    report.add(name, "idle pickup p99, ms", pickup::percentile(&latencies, 99));
    bench.close().await
}

/// Claims while many wait: p99 must stay under 20 ms with a million.
async fn measure_backlog(
    args: &Args,
    name: &str,
    bench: database::Bench,
    report: &mut Report,
) -> anyhow::Result<()> {
    enqueue::bulk(&bench, args).await?;
    bench.settle_down().await?;
    let latencies = backlog::claims(&bench, args).await?;
    for percent in [50, 99] {
        let what = format!("claim of 10 with {} waiting p{percent}, ms", args.jobs);
        report.add(name, &what, pickup::percentile(&latencies, percent));
    }
    bench.close().await
}
