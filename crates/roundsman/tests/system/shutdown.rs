//! G-10: a server that is asked to end does so in time, answers whom it owes an answer, and hands
//! back what it does not finish.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_core::jobs::{Job, RunOutcome};
use roundsman_testkit::{TestDatabase, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::load::{self, Plan};
use crate::site::{ADMIN_TOKEN, Backend, HeldUp, Node, SOON, Site, Stopwatch};

const GRACE: Duration = Duration::from_secs(5);
/// The promise: the end comes at most this long after the grace.
const AFTER_GRACE_MAX: Duration = Duration::from_secs(5);
/// Without anything to do, a server is gone this soon.
const IDLE_MAX: Duration = Duration::from_millis(1500);
const KIND: &str = "shutdown.work";
const REQUESTS_BEFORE: u64 = 200;
/// Longer than any test waits: only the end of the server ends such a wait.
const LONG_WAIT_SECS: u64 = 30;

#[tokio::test]
async fn under_load_nothing_acknowledged_is_lost_on_sqlite() {
    under_load_nothing_acknowledged_is_lost(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn under_load_nothing_acknowledged_is_lost_on_postgres() {
    under_load_nothing_acknowledged_is_lost(Backend::Postgres).await.unwrap();
}

async fn under_load_nothing_acknowledged_is_lost(backend: Backend) -> Result<()> {
    let site = Site::new(backend).await?;
    let mut node = site.start(site.options()).await?;
    let ledger = load::begin(&site, &node).await?;
    for round in 0..3 {
        let urls = [node.base_url()];
        let end = async {
            ledger.wait_for_more_acked(REQUESTS_BEFORE, SOON).await?;
            node.sigterm()?;
            let status = node.wait_exit(GRACE + AFTER_GRACE_MAX).await?;
            ensure!(status.success(), "ended with {status}");
            anyhow::Ok(())
        };
        let loaded = load::run(&site, &ledger, &urls, Plan::until_death(round));
        let (loaded, ended) = tokio::join!(loaded, end);
        loaded.and(ended)?;
        load::verify(&ledger, &site.stored().await?)?;
        node = site.start(site.options()).await?;
    }
    load::drain(&ledger, &node.base_url()).await?;
    load::verify_access(&ledger, &node).await?;
    node.stop().await?;
    load::verify_drained(&ledger, &site.stored().await?)
}

#[tokio::test]
async fn an_idle_server_ends_at_once_on_sqlite() {
    an_idle_server_ends_at_once(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn an_idle_server_ends_at_once_on_postgres() {
    an_idle_server_ends_at_once(Backend::Postgres).await.unwrap();
}

/// Idle connections and workers that wait for work do not hold it up; the workers are answered.
async fn an_idle_server_ends_at_once(backend: Backend) -> Result<()> {
    let site = Site::new(backend).await?;
    let mut node = site.start(site.options()).await?;
    let _idle = TcpStream::connect(("127.0.0.1", node.port())).await?;
    let wish = json!({"worker": "w", "kinds": [KIND], "wait_secs": LONG_WAIT_SECS});
    let mut waiting = HalfSent::begin(&node, "/jobs/claim", &wish).await?;
    waiting.send_rest().await?;
    let watch = Stopwatch::start();
    node.sigterm()?;
    let status = node.wait_exit(SOON).await?;
    ensure!(watch.elapsed() <= IDLE_MAX, "took {:?}", watch.elapsed());
    ensure!(status.success(), "ended with {status}");
    let answer = waiting.answer().await?;
    ensure!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"jobs\":[]"), "{answer}");
    Ok(())
}

/// Somebody's request is half sent. The first signal waits for the rest; the second does not.
#[tokio::test]
async fn a_second_signal_ends_the_server_now() {
    async fn run() -> Result<()> {
        let site = Site::sqlite()?;
        let options = site.options().env("ROUNDSMAN_SERVER_SHUTDOWN_GRACE_SECS", "60");
        let mut node = site.start(options).await?;
        let _half = HalfSent::begin(&node, "/jobs", &json!({"kind": KIND})).await?;
        node.sigterm()?;
        eventually(SOON, async || refuses(&node).await.then_some(())).await?;
        let early = node.wait_exit(IDLE_MAX).await;
        ensure!(early.is_err(), "it did not wait for a request in flight");
        let watch = Stopwatch::start();
        node.sigint()?;
        node.wait_exit(SOON).await?;
        ensure!(watch.elapsed() <= IDLE_MAX, "took {:?}", watch.elapsed());
        Ok(())
    }
    run().await.unwrap();
}

/// A request in flight is finished after the signal, and what it did is there.
#[tokio::test]
async fn a_request_in_flight_is_answered() {
    async fn run() -> Result<()> {
        let site = Site::sqlite()?;
        let mut node = site.start(site.options()).await?;
        let mut half = HalfSent::begin(&node, "/jobs", &json!({"kind": KIND})).await?;
        node.sigterm()?;
        eventually(SOON, async || refuses(&node).await.then_some(())).await?;
        half.send_rest().await?;
        let answer = half.answer().await?;
        ensure!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        let status = node.wait_exit(GRACE + AFTER_GRACE_MAX).await?;
        ensure!(status.success(), "ended with {status}");
        let stored = site.stored().await?;
        let kinds: Vec<&str> = stored.jobs.iter().map(|job| job.facts().kind.as_str()).collect();
        ensure!(kinds.contains(&KIND), "{kinds:?}");
        Ok(())
    }
    run().await.unwrap();
}

/// The server's own job cannot finish within the grace: it is handed back as if it had not begun.
#[tokio::test]
async fn what_is_handed_back_has_used_no_attempt() {
    async fn run() -> Result<()> {
        let database = TestDatabase::create().await?;
        let site = Site::postgres_at(&database.url());
        let options = site.options().env("ROUNDSMAN_SERVER_SHUTDOWN_GRACE_SECS", "0.3");
        let mut node = site.start(options).await?;
        let lock = HeldUp::housekeeping(&database).await?;
        node.sigterm()?;
        let status = node.wait_exit(GRACE + AFTER_GRACE_MAX).await?;
        ensure!(status.success(), "ended with {status}");
        lock.release().await?;
        let stored = site.stored().await?;
        let job = stored.jobs.iter().find(|job| job.facts().kind.as_str() == "jobs.prune");
        let job = job.context("housekeeping is gone")?;
        ensure!(matches!(job, Job::Waiting(_)), "{job:?}");
        let last = job.facts().runs.runs.last().map(|run| run.outcome);
        ensure!(last == Some(RunOutcome::Released), "{job:?}");
        ensure!(job.facts().attempt == 0, "an attempt was used: {job:?}");
        Ok(())
    }
    run().await.unwrap();
}

/// A request of which the last byte is still missing.
struct HalfSent {
    stream: TcpStream,
    last: [u8; 1],
}

impl HalfSent {
    /// Sends all but the last byte, and sees to it that the request has reached its handler.
    async fn begin(node: &Node, path: &str, body: &Value) -> Result<HalfSent> {
        let mut stream = TcpStream::connect(("127.0.0.1", node.port())).await?;
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: test\r\nx-admin-api-key: {ADMIN_TOKEN}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\
             expect: 100-continue\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        // Only who reads the body sends this invitation.
        let mut invitation = [0; INVITATION.len()];
        stream.read_exact(&mut invitation).await?;
        ensure!(invitation == *INVITATION, "{}", String::from_utf8_lossy(&invitation));
        let (first, last) = body.as_bytes().split_at(body.len() - 1);
        stream.write_all(first).await?;
        Ok(HalfSent { stream, last: [last[0]] })
    }

    async fn send_rest(&mut self) -> Result<()> {
        Ok(self.stream.write_all(&self.last).await?)
    }

    /// All that the server says before it closes the connection.
    async fn answer(mut self) -> Result<String> {
        let mut answer = Vec::new();
        self.stream.read_to_end(&mut answer).await?;
        Ok(String::from_utf8(answer)?)
    }
}

const INVITATION: &[u8; 25] = b"HTTP/1.1 100 Continue\r\n\r\n";

async fn refuses(node: &Node) -> bool {
    TcpStream::connect(("127.0.0.1", node.port())).await.is_err()
}
