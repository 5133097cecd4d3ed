//! Heartbeats at a fixed rate, whatever the answers take: each is due at its time, and its latency
//! counts from then, so that a server that falls behind cannot hide it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use bench_support::http::{Connection, request};
use bench_support::place::Target;
use bench_support::server::{SECRET, Server};
use bench_support::{pause, percentile, say, spawn};
use roundsman_core::bots::{CallbackKey, ConnectionId, MeetingId, WorkloadId};
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;

use crate::Args;
use crate::database::{self, Fill};
use crate::report::Report;

/// How long the yardstick is measured.
const YARDSTICK_SECS: u32 = 10;
/// The asked rate counts as kept down to this share of it.
const KEPT_MIN: f64 = 0.99;

/// What a load came to.
struct Load {
    /// Milliseconds, sorted.
    latencies: Vec<f64>,
    per_second: f64,
    errors: usize,
    /// Of one core, in percent.
    processor: f64,
}

pub(crate) async fn measure(
    args: &Args,
    target: &Target,
    report: &mut Report,
) -> anyhow::Result<()> {
    let place = database::open(args, target).await?;
    // The first start makes the tables.
    drop(Server::start(&args.binary, &place, &[])?);
    let fill = Fill { bots: args.bots, overdue: 0, others_heard_in_hours: 0 };
    database::fill(&place, fill).await?;
    let server = Server::start(&args.binary, &place, &[])?;
    say("  heartbeats");
    let nothing = vec![request("GET", "/healthz", &[], "")];
    let yardstick = run(args, &server, nothing, YARDSTICK_SECS).await?;
    let beats = run(args, &server, beats(args.bots), args.secs).await?;
    let name = database::name(target);
    add(report, name, "nothing", &yardstick);
    add(report, name, "heartbeat", &beats);
    let ratio = beats.processor / yardstick.processor.max(1e-9);
    report.add(name, "heartbeat to nothing, processor time", ratio);
    ensure!(beats.errors == 0, "{} heartbeats failed", beats.errors);
    let kept = beats.per_second / f64::from(args.rate);
    ensure!(kept >= KEPT_MIN, "only {:.0} heartbeats/s were answered", beats.per_second);
    Ok(())
}

fn add(report: &mut Report, target: &str, what: &str, load: &Load) {
    report.add(target, &format!("{what}, answered/s"), load.per_second);
    for (share, name) in [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"), (1.0, "max")] {
        report.add(target, &format!("{what} {name}, ms"), percentile(&load.latencies, share));
    }
    report.add(target, &format!("{what}, processor, % of one core"), load.processor);
}

/// One heartbeat of every bot.
fn beats(bots: usize) -> Vec<Vec<u8>> {
    let key = CallbackKey::new(SECRET.as_bytes());
    (1..=bots)
        .map(|number| {
            let id = i64::try_from(number).unwrap_or(i64::MAX);
            let connection = database::connection_of(number);
            let workload = WorkloadId { meeting_id: MeetingId::new(id), attempt: 1 };
            let token = key.token(workload, &ConnectionId::from_stored(connection.clone()));
            let authorization = format!("authorization: Bearer {token}");
            let body = format!(r#"{{"connection_id":"{connection}"}}"#);
            request("POST", "/callback/heartbeat", &[&authorization], &body)
        })
        .collect()
}

async fn run(
    args: &Args,
    server: &Server,
    requests: Vec<Vec<u8>>,
    secs: u32,
) -> anyhow::Result<Load> {
    let requests = Arc::new(requests);
    let clock = Arc::new(DatabaseClock::start());
    let mut connections = Vec::new();
    for _ in 0..args.connections {
        connections.push(Connection::open(server.address()).await?);
    }
    let (processor, started) = (server.processor()?, clock.monotonic());
    let tasks: Vec<_> = connections
        .into_iter()
        .zip(0..)
        .map(|(connection, lane)| {
            let lane = Lane {
                connection,
                first: lane,
                step: args.connections,
                count: args.rate * secs,
                rate: args.rate,
                started,
            };
            spawn(lane.send_all(requests.clone(), clock.clone()))
        })
        .collect();
    let (mut latencies, mut errors) = (Vec::new(), 0);
    for task in tasks {
        let (more, failed) = task.await.context("a client")??;
        latencies.extend(more);
        errors += failed;
    }
    let took = clock.monotonic().saturating_sub(started);
    let processor = server.processor()?.saturating_sub(processor);
    latencies.sort_by(f64::total_cmp);
    let answered = u32::try_from(latencies.len())?;
    Ok(Load {
        per_second: f64::from(answered) / took.as_secs_f64(),
        processor: 100.0 * processor.as_secs_f64() / took.as_secs_f64(),
        latencies,
        errors,
    })
}

/// The requests of one connection: every `step`th of all.
struct Lane {
    connection: Connection,
    first: u32,
    step: u32,
    count: u32,
    rate: u32,
    started: Duration,
}

impl Lane {
    /// Returns latencies in milliseconds, and how many were not answered with 200.
    async fn send_all(
        mut self,
        requests: Arc<Vec<Vec<u8>>>,
        clock: Arc<DatabaseClock>,
    ) -> anyhow::Result<(Vec<f64>, usize)> {
        let (mut latencies, mut errors) = (Vec::new(), 0);
        let mut number = self.first;
        while number < self.count {
            let due =
                self.started + Duration::from_secs_f64(f64::from(number) / f64::from(self.rate));
            let early = due.saturating_sub(clock.monotonic());
            if !early.is_zero() {
                pause(early).await;
            }
            let request = &requests[usize::try_from(number)? % requests.len()];
            match self.connection.call(request).await? {
                200 => {}
                _ => errors += 1,
            }
            let latency = clock.monotonic().saturating_sub(due);
            latencies.push(latency.as_secs_f64() * 1e3);
            number += self.step;
        }
        Ok((latencies, errors))
    }
}
