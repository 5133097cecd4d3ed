//! Heartbeats at a fixed rate, whatever the answers take: each is due at its time, and its latency
//! counts from then, so that a server that falls behind cannot hide it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use roundsman_core::bots::{CallbackKey, ConnectionId, MeetingId, WorkloadId};
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;
use roundsman_engine::wake::rest;
use tokio_util::sync::CancellationToken;

use crate::Args;
use crate::database::{Bench, Fill, Target};
use crate::http::{Connection, request};
use crate::report::Report;
use crate::server::{SECRET, Server, say};

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
    let bench = Bench::open(target).await?;
    // The first start makes the tables.
    drop(Server::start(&args.binary, &bench, &[])?);
    let fill = Fill { bots: args.bots, overdue: 0, others_heard_in_hours: 0 };
    bench.fill(fill).await?;
    let server = Server::start(&args.binary, &bench, &[])?;
    say("  heartbeats");
    let nothing = vec![request("GET", "/healthz", &[], "")];
    let yardstick = run(args, &server, nothing, YARDSTICK_SECS).await?;
    let beats = run(args, &server, beats(args.bots), args.secs).await?;
    let name = target.name();
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
            let connection = Bench::connection_of(number);
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
        let never = CancellationToken::new();
        let (mut latencies, mut errors) = (Vec::new(), 0);
        let mut number = self.first;
        while number < self.count {
            let due =
                self.started + Duration::from_secs_f64(f64::from(number) / f64::from(self.rate));
            let early = due.saturating_sub(clock.monotonic());
            if !early.is_zero() {
                rest(early, &never).await;
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

fn percentile(sorted: &[f64], share: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "an index into a list that fits into memory"
    )]
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

#[expect(clippy::disallowed_methods, reason = "every task is awaited where it is made")]
fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}
