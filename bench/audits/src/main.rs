//! Measures whole audits with the real server: asked for over HTTP, fetched from a website on the same
//! machine, judged, stored, and seen to be completed.
//!
//! The website is the testkit's own, in the process of the measurement; what it costs is not counted,
//! but it shares the processors. The measurement fails if an audit does.

mod auditing;

use std::path::PathBuf;

use anyhow::Context;
use bench_support::machine::Withheld;
use bench_support::place::Target;
use bench_support::table::{Table, print_line};
use bench_support::{process, say};
use clap::Parser;

/// Measure how fast websites are audited
#[derive(Debug, Parser)]
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
    /// Audits at the same time, one measurement for each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64])]
    concurrency: Vec<u16>,
    /// Audits in each measurement
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    audits: u32,
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

const COLUMNS: [&str; 7] = [
    "audits/s",
    "p50, ms",
    "p99, ms",
    "requests to the site each",
    "processor, ms each",
    "memory at rest, MiB",
    "peak memory, MiB",
];

fn main() -> anyhow::Result<()> {
    let mut args = Args::parse();
    if args.quick {
        (args.audits, args.runs) = (64, 1);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut table = Table::new(&COLUMNS);
    let load = process::load()?;
    let withheld = Withheld::measure();
    let outcome = runtime.block_on(run(&args, &mut table));
    print_line(&format!("load before: {load}; {withheld}"));
    table.print();
    outcome
}

async fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let sqlite = Target::Sqlite { folder: args.sqlite_in.clone() };
    let postgres = args.postgres.clone().map(|url| Target::Postgres { url });
    for run in 1..=args.runs {
        for target in std::iter::once(&sqlite).chain(&postgres) {
            for at_once in &args.concurrency {
                let name = format!("{}, {at_once} at once", target.name());
                if !name.contains(&args.only) {
                    continue;
                }
                say(&format!("run {run} of {}: {name}", args.runs));
                let measured = auditing::measure(&args.binary, target, *at_once, args.audits);
                table.add(&name, &measured.await.context(name.clone())?);
            }
        }
    }
    Ok(())
}
