//! Measures bots with the real server: heartbeats at a fixed rate, requests for bots, the sweep.
//!
//! Client and server share the machine; what the same rate of requests that do nothing costs is
//! measured in the same run, as the yardstick. The measurement fails if a request does, or if the
//! asked rate was not kept.

mod beats;
mod database;
#[expect(dead_code, reason = "notes are written below the tables of jobs alone")]
#[path = "../../jobs/src/report.rs"]
mod report;
mod starts;
mod sweep;

use std::path::PathBuf;

use anyhow::Context;
use bench_support::place::Target;
use bench_support::say;
use clap::Parser;

use report::Report;

/// Measure Roundsman's bots
#[derive(Debug, Parser)]
struct Args {
    /// A PostgreSQL URL with the right to create databases; without it PostgreSQL is not measured
    #[arg(long)]
    postgres: Option<String>,
    /// The Redis of the server on PostgreSQL
    #[arg(long)]
    redis: Option<String>,
    /// Measure the embedded database in this folder (one that is on the disk you care about)
    #[arg(long, default_value = ".")]
    sqlite_in: PathBuf,
    /// The server's binary
    #[arg(long)]
    binary: PathBuf,
    /// Live bots that send heartbeats
    #[arg(long, default_value_t = 5_000)]
    bots: usize,
    /// Heartbeats per second, of all bots together
    #[arg(long, default_value_t = 5_000)]
    rate: u32,
    /// Connections that they come on
    #[arg(long, default_value_t = 200)]
    connections: u32,
    /// For how long
    #[arg(long, default_value_t = 60)]
    secs: u32,
    /// Bots that are asked for
    #[arg(long, default_value_t = 20_000)]
    starts: usize,
    /// Live bots that are swept, of which one in a hundred is overdue
    #[arg(long, default_value_t = 100_000)]
    swept: usize,
    /// Runs; the median is shown
    #[arg(long, default_value_t = 1)]
    runs: usize,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut report = Report::default();
    let outcome = runtime.block_on(run(&args, &mut report));
    report.print("bots");
    outcome
}

async fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let mut targets = vec![Target::Sqlite { folder: args.sqlite_in.clone() }];
    targets.extend(args.postgres.clone().map(|url| Target::Postgres { url }));
    for target in &targets {
        let name = database::name(target);
        for run in 1..=args.runs {
            say(&format!("{name}: run {run} of {}", args.runs));
            beats::measure(args, target, report).await.context(name)?;
            starts::measure(args, target, report).await.context(name)?;
            sweep::measure(args, target, report).await.context(name)?;
        }
    }
    Ok(())
}
