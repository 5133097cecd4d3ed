//! One sweep over many live bots: first when nobody is overdue, then with one in a hundred.

use std::time::Duration;

use anyhow::{Context, ensure};
use bench_support::place::Target;
use bench_support::server::Server;
use bench_support::{pause, say};
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;

use crate::Args;
use crate::database::{self, Fill};
use crate::report::Report;

/// Between two sweeps: long enough that the jobs of those that were given up are done by then.
const EVERY_SECS: &str = "15";
const SETTINGS: [(&str, &str); 4] = [
    ("ROUNDSMAN_BOTS_SWEEP_SECS", EVERY_SECS),
    ("ROUNDSMAN_BOTS_HEARTBEAT_SECS", "1"),
    // Nobody is overdue before the server has listened for this long: at the second sweep.
    ("ROUNDSMAN_BOTS_ACTIVE_SILENCE_SECS_MAX", "5"),
    ("ROUNDSMAN_LAUNCHER", "process"),
];
const ROUND_MAX: Duration = Duration::from_secs(120);
/// Seldom, because looking costs the server something too.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const SUM: &str = "roundsman_jobs_processing_seconds_sum{kind=\"bots.sweep\"}";
const COUNT: &str = "roundsman_jobs_processing_seconds_count{kind=\"bots.sweep\"}";
const FAILED: &str = "roundsman_bots_ended_total{status=\"failed\"}";

pub(crate) async fn measure(
    args: &Args,
    target: &Target,
    report: &mut Report,
) -> anyhow::Result<()> {
    let place = database::open(args, target).await?;
    drop(Server::start(&args.binary, &place, &[])?);
    let overdue = args.swept / 100;
    database::fill(&place, Fill { bots: args.swept, overdue, others_heard_in_hours: 24 }).await?;
    let server = Server::start(&args.binary, &place, &SETTINGS)?;
    say("  sweep");
    let name = database::name(target);
    let all = args.swept;
    let first = round(&server, 0.0, 0.0).await?;
    report.add(name, &format!("sweep of {all} live bots, s"), first.secs);
    let second = round(&server, 1.0, first.sum).await?;
    let what = format!("sweep of {all}, giving up {overdue}");
    report.add(name, &format!("{what}, s"), second.secs);
    report.add(name, &format!("{what}, processor, s"), second.processor);
    let failed = server.metric(FAILED).await?;
    let expected = f64::from(u32::try_from(overdue)?);
    ensure!((failed - expected).abs() < 0.5, "{failed} were given up and not {expected}");
    Ok(())
}

struct Round {
    secs: f64,
    processor: f64,
    /// The time of all rounds so far.
    sum: f64,
}

/// Waits for the end of the round after `done` of them.
async fn round(server: &Server, done: f64, sum_before: f64) -> anyhow::Result<Round> {
    let clock = DatabaseClock::start();
    let started = clock.monotonic();
    // Between two rounds the server has nothing to do.
    let before = server.processor()?;
    while server.metric(COUNT).await? <= done {
        ensure!(clock.monotonic().saturating_sub(started) < ROUND_MAX, "no sweep comes round");
        pause(LOOK_EVERY).await;
    }
    let sum = server.metric(SUM).await.context("no time of the sweep")?;
    let processor = server.processor()?.saturating_sub(before);
    Ok(Round { secs: sum - sum_before, processor: processor.as_secs_f64(), sum })
}
