//! As many requests as are answered: each connection sends the next when it has the answer to the
//! one before.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use bench_support::http::Connection;
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;

use crate::load::Load;

/// Nothing takes longer than this.
const TIME_MAX: Duration = Duration::from_secs(300);

pub(crate) async fn send(
    address: &str,
    connections: usize,
    requests: Vec<Vec<u8>>,
) -> anyhow::Result<Load> {
    let mut lanes: Vec<Vec<Vec<u8>>> = vec![Vec::new(); connections];
    for (number, request) in requests.into_iter().enumerate() {
        lanes[number % connections].push(request);
    }
    let mut opened = Vec::new();
    for requests in lanes {
        opened.push((Connection::open(address).await?, requests));
    }
    let clock = Arc::new(DatabaseClock::start());
    let started = clock.monotonic();
    let tasks: Vec<_> = opened
        .into_iter()
        .map(|(connection, requests)| {
            bench_support::spawn(send_all(connection, requests, clock.clone()))
        })
        .collect();
    let done = async {
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.push(task.await.context("a client")??);
        }
        anyhow::Ok(latencies)
    };
    let latencies = tokio::time::timeout(TIME_MAX, done).await.context("still not done")??;
    let took = clock.monotonic().saturating_sub(started);
    Ok(Load::new(latencies.into_iter().flatten(), took))
}

async fn send_all(
    mut connection: Connection,
    requests: Vec<Vec<u8>>,
    clock: Arc<DatabaseClock>,
) -> anyhow::Result<Vec<Duration>> {
    let mut latencies = Vec::with_capacity(requests.len());
    for request in &requests {
        let sent = clock.monotonic();
        let status = connection.call(request).await?;
        latencies.push(clock.monotonic().saturating_sub(sent));
        ensure!(status == 200, "{status} {}", String::from_utf8_lossy(connection.body()));
    }
    Ok(latencies)
}
