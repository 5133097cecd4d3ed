//! Measures alarms of rooms with the real server: what rooms cost that wait for a time that is far
//! away, how late alarms are that come due at so many a second, and what many at once come to.
//!
//! Lateness is counted from the time an alarm was set to until what it tells is committed. The
//! measurement fails if an alarm does not fire, fires twice, or fires early.

mod fill;
mod seen;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bench_support::place::{Place, Target};
use bench_support::server::Server;
use bench_support::table::{Table, print_line};
use bench_support::{pause, percentile, process, say};
use clap::Parser;

use fill::Filler;
use seen::Firings;

/// Measure alarms
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
    /// Rooms whose alarm is a day away
    #[arg(long, default_value_t = 1_000_000)]
    idle: usize,
    /// Seconds for which they are watched
    #[arg(long, default_value_t = 30)]
    idle_secs: u64,
    /// Alarms that come due at the same moment
    #[arg(long, default_value_t = 10_000)]
    at_once: usize,
    /// Alarms that come due each second, one measurement for each number
    #[arg(long, value_delimiter = ',', default_values_t = [100, 500, 1_000, 2_000])]
    rates: Vec<usize>,
    /// Seconds for which they do
    #[arg(long, default_value_t = 30)]
    secs: u64,
    /// See that everything works, in seconds
    #[arg(long)]
    quick: bool,
}

/// Before the first alarm the server starts and settles.
const LEAD: Duration = Duration::from_secs(8);
/// How long the last alarms are waited for.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> anyhow::Result<()> {
    let mut args = Args::parse();
    if args.quick {
        (args.idle, args.idle_secs, args.at_once) = (5_000, 3, 500);
        (args.rates, args.secs) = (vec![50], 3);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    print_line(&format!("load before: {}", process::load()?));
    runtime.block_on(run(&args))
}

async fn run(args: &Args) -> anyhow::Result<()> {
    let mut targets = vec![Target::Sqlite { folder: args.sqlite_in.clone() }];
    targets.extend(args.postgres.clone().map(|url| Target::Postgres { url }));
    let mut idle =
        Table::new(&["rooms", "processor, % of one core", "resident, MiB", "set per second"]);
    let mut late = Table::new(&["alarms", "p50, ms", "p99, ms", "max, ms", "fired per second"]);
    for target in &targets {
        say(&format!("{}: {} idle rooms", target.name(), args.idle));
        idle.add(target.name(), &measure_idle(args, target).await.context("idle")?);
        say(&format!("{}: {} at once", target.name(), args.at_once));
        let name = format!("{}, all at once", target.name());
        late.add(&name, &measure_firing(args, target, args.at_once, Duration::ZERO).await?);
        for rate in &args.rates {
            say(&format!("{}: {rate} a second", target.name()));
            let name = format!("{}, {rate} a second", target.name());
            let alarms = rate * usize::try_from(args.secs)?;
            let spread = Duration::from_secs(args.secs);
            late.add(&name, &measure_firing(args, target, alarms, spread).await?);
        }
    }
    idle.print();
    late.print();
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure needs no more than 52 bits")]
async fn measure_idle(args: &Args, target: &Target) -> anyhow::Result<[f64; 4]> {
    let place = Place::open(target, None, "alarms").await?;
    let filler = Filler::open(&place).await?;
    let day = Duration::from_secs(24 * 3600);
    let rate = filler.set(args.idle, day, Duration::from_secs(3600)).await?;
    filler.close().await;
    let server = Server::start(&args.binary, &place, &[])?;
    pause(LEAD).await;
    let before = server.processor()?;
    let watched = Duration::from_secs(args.idle_secs);
    pause(watched).await;
    let used = server.processor()?.saturating_sub(before);
    let share = used.as_secs_f64() / watched.as_secs_f64() * 100.0;
    Ok([args.idle as f64, share, process::resident_kib(server.pid())? / 1024.0, rate])
}

#[expect(clippy::cast_precision_loss, reason = "a figure needs no more than 52 bits")]
async fn measure_firing(
    args: &Args,
    target: &Target,
    alarms: usize,
    spread: Duration,
) -> anyhow::Result<[f64; 5]> {
    let place = Place::open(target, None, "alarms").await?;
    let filler = Filler::open(&place).await?;
    // Setting them takes a while, too.
    let setting = Duration::from_micros(200) * u32::try_from(alarms)?;
    filler.set(alarms, LEAD + setting, spread).await?;
    filler.close().await;
    let server = Server::start(&args.binary, &place, &[])?;
    let firings = Firings::wait(&place, alarms, PATIENCE + LEAD + setting + spread).await?;
    drop(server);
    let mut late = firings.late_ms()?;
    late.sort_by(f64::total_cmp);
    let max = late.last().copied().unwrap_or(f64::NAN);
    let (p50, p99) = (percentile(&late, 0.5), percentile(&late, 0.99));
    Ok([alarms as f64, p50, p99, max, firings.per_second()])
}
