//! So many audits, so many at once, at a server that was started for them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bench_support::http::{Connection, request};
use bench_support::place::{Place, Target};
use bench_support::server::Server;
use bench_support::{pause, percentile, process, spawn};
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;
use roundsman_testkit::TestSite;
use roundsman_testkit::site::Door;
use serde_json::{Value, json};

/// Between two looks at an audit that is not done yet.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const AUDIT_TIME_MAX: Duration = Duration::from_secs(60);
const WARM_UP: u32 = 8;
const MIB: f64 = 1024.0;

pub(crate) async fn measure(
    binary: &Path,
    target: &Target,
    at_once: u16,
    audits: u32,
) -> anyhow::Result<[f64; 7]> {
    let site = TestSite::start().await?;
    let place = Place::open(target, None, "audits").await?;
    let slots = at_once.to_string();
    // One host stands for all: what is polite to one would measure politeness.
    let settings = [
        ("ROUNDSMAN_EGRESS_ALLOW", "127.0.0.1/32"),
        ("ROUNDSMAN_AUDITS_AT_ONCE_MAX", slots.as_str()),
        ("ROUNDSMAN_AUDITS_HOST_CONCURRENCY_MAX", "100"),
        ("ROUNDSMAN_AUDITS_HOST_DELAY_MS", "0"),
    ];
    let server = Server::start(binary, &place, &settings)?;
    let (_, key) = server.user().await?;
    let audit = Audit {
        address: server.address().to_owned(),
        key,
        url: site.url(Door::Plain, "/"),
        clock: Arc::new(DatabaseClock::start()),
    };
    run(&audit, 1, WARM_UP).await?;
    site.forget();
    let (rest, processor) = (process::resident_kib(server.pid())?, server.processor()?);
    let began = audit.clock.monotonic();
    let mut took_ms = run(&audit, at_once, audits).await?;
    let took = audit.clock.monotonic().saturating_sub(began);
    let processor = server.processor()?.saturating_sub(processor);
    took_ms.sort_by(f64::total_cmp);
    let count = f64::from(audits);
    let requests = u32::try_from(site.requests().len()).context("too many requests")?;
    Ok([
        count / took.as_secs_f64(),
        percentile(&took_ms, 0.5),
        percentile(&took_ms, 0.99),
        f64::from(requests) / count,
        processor.as_secs_f64() * 1e3 / count,
        rest / MIB,
        process::resident_peak_kib(server.pid())? / MIB,
    ])
}

/// What is asked for, and of whom.
#[derive(Clone)]
struct Audit {
    address: String,
    key: String,
    url: String,
    clock: Arc<DatabaseClock>,
}

/// How long each took, in milliseconds.
async fn run(audit: &Audit, at_once: u16, audits: u32) -> anyhow::Result<Vec<f64>> {
    let left = Arc::new(AtomicU32::new(audits));
    let mut callers = Vec::new();
    for _ in 0..at_once {
        let (audit, left) = (audit.clone(), left.clone());
        callers.push(spawn(async move {
            let mut connection = Connection::open(&audit.address).await?;
            let mut took_ms = Vec::new();
            let take = |left: u32| left.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                took_ms.push(audit.one(&mut connection).await?);
            }
            anyhow::Ok(took_ms)
        }));
    }
    let mut took_ms = Vec::new();
    for caller in callers {
        took_ms.extend(caller.await.context("a caller")??);
    }
    ensure!(took_ms.len() == audits as usize, "{} audits were made", took_ms.len());
    Ok(took_ms)
}

impl Audit {
    /// Asks for an audit and waits until it is completed.
    async fn one(&self, connection: &mut Connection) -> anyhow::Result<f64> {
        let began = self.clock.monotonic();
        let body = json!({"url": self.url}).to_string();
        let (status, audit) = self.call(connection, "POST", "/audits", &body).await?;
        ensure!(status == 202, "POST /audits: {status} {audit}");
        let path = format!("/audits/{}", audit["id"]);
        loop {
            let (status, audit) = self.call(connection, "GET", &path, "").await?;
            ensure!(status == 200, "GET {path}: {status} {audit}");
            let took = self.clock.monotonic().saturating_sub(began);
            match audit["status"].as_str() {
                Some("completed") => return Ok(took.as_secs_f64() * 1e3),
                Some("pending" | "processing") if took < AUDIT_TIME_MAX => pause(LOOK_EVERY).await,
                _ => bail!("the audit was not completed: {audit}"),
            }
        }
    }

    async fn call(
        &self,
        connection: &mut Connection,
        method: &str,
        path: &str,
        body: &str,
    ) -> anyhow::Result<(u16, Value)> {
        let key = format!("x-api-key: {}", self.key);
        let status = connection.call(&request(method, path, &[&key], body)).await?;
        Ok((status, serde_json::from_slice(connection.body()).unwrap_or_default()))
    }
}
