//! Measures how long the record stays wrong when every event is lost, with the real server and a
//! provider that is as late as Daily and allows no more than it: the curve over the number of
//! meetings that go on.
//!
//! The measurement fails if a change is never recorded, if something is looked at before anything has
//! changed, or if the provider was asked more than it allows.

mod case;
mod churn;
mod record;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bench_support::place::Target;
use bench_support::process;
use bench_support::say;
use bench_support::table::{Table, print_line, shown};
use clap::Parser;

use case::{Case, Seen};

/// Measure how fast lost events are made up for
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
    /// Meetings that go on, one measurement for each number
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 10_000])]
    meetings: Vec<usize>,
    /// People in each of them
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=500))]
    people: u16,
    /// Of a hundred meetings so many change within a round
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=30))]
    churn_percent: u16,
    /// Rounds during which they do
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Seconds from one round to the next
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=300))]
    round_secs: u16,
    /// Seconds that the provider's answers are old
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(0..=300))]
    lag_secs: u16,
    /// Runs; the median is shown
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Only what has this word in its name
    #[arg(long, default_value = "")]
    only: String,
    /// See that everything works, in seconds
    #[arg(long)]
    quick: bool,
}

/// Whatever happens is in the record after this many seconds.
const FRESH_SECS_MAX: f64 = 45.0;
const SLOWEST: &str = "fresh max, s";
const COLUMNS: [&str; 11] = [
    "changes",
    "fresh p50, s",
    "fresh p99, s",
    SLOWEST,
    "max since shown, s",
    "answers about all",
    "looks at one",
    "looks ÷ changes",
    "other calls",
    "processor, % of one core",
    "µs per meeting and round",
];

fn main() -> anyhow::Result<()> {
    let mut args = Args::parse();
    if args.quick {
        (args.meetings, args.rounds) = (vec![200], 2);
        (args.round_secs, args.lag_secs) = (5, 2);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut table = Table::new(&COLUMNS);
    let load = process::load()?;
    let outcome = runtime.block_on(run(&args, &mut table));
    print_line(&format!("load before: {load}"));
    table.print();
    print_bar(&table);
    outcome
}

async fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    for run in 1..=args.runs {
        for case in cases(args) {
            let name = case.name();
            if !name.contains(&args.only) {
                continue;
            }
            say(&format!("run {run} of {}: {name}", args.runs));
            let seen = case.measure(&args.binary).await.context(name.clone())?;
            table.add(&name, &figures(&case, &seen));
        }
    }
    Ok(())
}

fn cases(args: &Args) -> Vec<Case> {
    let mut targets = vec![Target::Sqlite { folder: args.sqlite_in.clone() }];
    targets.extend(args.postgres.clone().map(|url| Target::Postgres { url }));
    let secs = |secs: u16| Duration::from_secs(secs.into());
    let mut cases = Vec::new();
    for target in targets {
        cases.extend(args.meetings.iter().map(|meetings| Case {
            target: target.clone(),
            meetings: *meetings,
            people: args.people,
            changes_per_round: (meetings * usize::from(args.churn_percent) / 100).max(1),
            rounds: args.rounds.into(),
            round: secs(args.round_secs),
            lag: secs(args.lag_secs),
        }));
    }
    cases
}

#[expect(clippy::cast_precision_loss, reason = "counts of a measurement are small")]
fn figures(case: &Case, seen: &Seen) -> [f64; COLUMNS.len()] {
    let changes = seen.fresh_after.len() as f64;
    let compared = case.meetings as f64 * seen.domain_answers as f64;
    let processor = seen.processor.as_secs_f64();
    [
        changes,
        seen.within(0.5),
        seen.within(0.99),
        seen.within(1.0),
        seen.within(1.0) - case.lag.as_secs_f64(),
        seen.domain_answers as f64,
        seen.looks as f64,
        seen.looks as f64 / changes,
        seen.others as f64,
        100.0 * processor / seen.took.as_secs_f64(),
        1e6 * processor / compared,
    ]
}

fn print_bar(table: &Table) {
    for name in table.names() {
        let slowest = table.median(name, SLOWEST).unwrap_or(f64::NAN);
        let keeps = if slowest <= FRESH_SECS_MAX { "within" } else { "NOT within" };
        print_line(&format!("{name}: fresh {keeps} {FRESH_SECS_MAX} s ({} s)", shown(slowest)));
    }
}
