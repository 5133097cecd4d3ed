//! G-5: somebody leaves a transaction open on the PostgreSQL that the nodes use, so that no dead row
//! can be removed, and four others read all that there is, again and again. Jobs go on, nothing is
//! lost, a server ends in time, and the doctor says who it is.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use roundsman_testkit::{PostgresServer, WallClock, eventually};
use serde_json::Value;
use tokio::process::Command;
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::load::{self, Ledger, Plan, WhenLost};
use crate::site::{ADMIN_TOKEN, Node, SOON, Site, with_postgres_canary};

const READERS: usize = 4;
const REQUESTS_MAX: i64 = 1_000_000;
/// What is acknowledged before somebody leaves a transaction open, and while it is.
const ACKED_BEFORE: u64 = 300;
const ACKED_MEANWHILE: u64 = 1_500;
/// The promise is about a server as it is set up by default; here it has less grace.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
/// The doctor speaks of a transaction when it is older than five minutes.
const LATER_SECS: i64 = 6 * 60;

#[tokio::test]
async fn an_open_transaction_and_readers_stop_nothing() {
    async fn run() -> Result<()> {
        let clock = WallClock::start().await?;
        let cluster = PostgresServer::start_at(&clock).await?;
        let site = Site::postgres_at(&cluster.url());
        let mut node = site.start(site.options()).await?;
        let ledger = load::begin(&site, &node).await?;
        loaded(&site, &ledger, &node, async |ledger| {
            ledger.wait_for_more_acked(ACKED_BEFORE, SOON).await
        })
        .await?;

        let idler = Idler::open(&cluster.url()).await?;
        let (stop, readers) = (CancellationToken::new(), TaskTracker::new());
        let reads: Vec<_> = (0..READERS)
            .map(|_| readers.spawn(read_everything(cluster.url(), stop.clone())))
            .collect();
        let done_before = completed(&ledger);
        loaded(&site, &ledger, &node, async |ledger| {
            ledger.wait_for_more_acked(ACKED_MEANWHILE, SOON * 2).await
        })
        .await?;
        ensure!(completed(&ledger) > done_before, "nothing was completed meanwhile");
        idler.still_pins().await?;
        ends_under_load(&site, &ledger, &mut node).await?;
        load::verify(&ledger, &site.stored().await?)?;

        // A start meets them too, and works everything off.
        let mut node = site.start(site.options()).await?;
        load::drain(&ledger, &node.base_url()).await?;
        idler.still_pins().await?;
        stop.cancel();
        for rounds in join_all(reads).await {
            ensure!(rounds?? > 0, "a reader has read nothing");
        }
        node.stop().await?;
        load::verify_drained(&ledger, &site.stored().await?)?;

        clock.set(LATER_SECS)?;
        idler.has_become_old(&cluster.url()).await?;
        doctor_names(&cluster.url(), idler.pid).await
    }
    run().await.unwrap();
}

/// Runs the load, none of whose requests may be lost, until `meanwhile` is over.
async fn loaded(
    site: &Site,
    ledger: &Arc<Ledger>,
    node: &Node,
    meanwhile: impl AsyncFnOnce(&Ledger) -> Result<()>,
) -> Result<()> {
    let stop = CancellationToken::new();
    let urls = [node.base_url()];
    let plan = Plan::of_requests(REQUESTS_MAX, WhenLost::Complain, 6);
    let load = load::run_until(site, ledger, &urls, plan, &stop);
    let meanwhile = async {
        let result = meanwhile(ledger).await;
        stop.cancel();
        result
    };
    let (loaded, result) = tokio::join!(load, meanwhile);
    result.and(loaded)
}

async fn ends_under_load(site: &Site, ledger: &Arc<Ledger>, node: &mut Node) -> Result<()> {
    let urls = [node.base_url()];
    let end = async {
        ledger.wait_for_more_acked(ACKED_BEFORE, SOON).await?;
        node.sigterm()?;
        let status = node.wait_exit(ENDS_WITHIN).await?;
        ensure!(status.success(), "ended with {status}");
        anyhow::Ok(())
    };
    let load = load::run(site, ledger, &urls, Plan::until_death(7));
    let (loaded, ended) = tokio::join!(load, end);
    loaded.and(ended)
}

fn completed(ledger: &Ledger) -> usize {
    ledger.entries().jobs.values().filter(|known| known.done.is_some()).count()
}

/// Somebody who began a transaction, looked, wrote, and went to lunch.
struct Idler {
    pid: i32,
    /// Its transaction is open for as long as this is.
    _client: Client,
    observer: Client,
}

impl Idler {
    async fn open(url: &str) -> Result<Idler> {
        let (client, observer) = (connect(url).await?, connect(url).await?);
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        let seen = client.query_one("SELECT count(*) FROM roundsman.jobs", &[]).await?;
        ensure!(seen.get::<_, i64>(0) > 0, "there is nothing to see yet");
        let asked = "SELECT pg_backend_pid(), pg_current_xact_id()::text";
        let pid = client.query_one(asked, &[]).await?.get(0);
        Ok(Idler { pid, _client: client, observer })
    }

    /// What died since it began must be kept for it.
    async fn still_pins(&self) -> Result<()> {
        let asked = "SELECT state = 'idle in transaction' AND backend_xmin IS NOT NULL \
                     FROM pg_stat_activity WHERE pid = $1";
        let row = self.observer.query_opt(asked, &[&self.pid]).await?;
        ensure!(row.is_some_and(|row| row.get(0)), "the open transaction was ended");
        Ok(())
    }

    /// Waits until new connections see how late it is.
    async fn has_become_old(&self, url: &str) -> Result<()> {
        let asked = "SELECT clock_timestamp() - xact_start > interval '5 minutes' \
                     FROM pg_stat_activity WHERE pid = $1";
        let old = eventually(SOON, async || {
            let row = connect(url).await.ok()?.query_one(asked, &[&self.pid]).await.ok()?;
            row.get::<_, bool>(0).then_some(())
        });
        old.await.context("the server's clock was not set")
    }
}

/// Reads everything, in one transaction each time, until told to stop. Returns how often.
async fn read_everything(url: String, stop: CancellationToken) -> Result<u64> {
    const READ: &str = "SELECT kind, state, count(*), max(length(payload::text)) \
                        FROM roundsman.jobs GROUP BY kind, state ORDER BY count(*) DESC";
    const JOIN: &str = "SELECT count(*) FROM roundsman.jobs a JOIN roundsman.jobs b \
                        ON a.kind = b.kind AND a.id < b.id AND b.id < a.id + 50";
    let client = connect(&url).await?;
    let mut rounds = 0;
    while !stop.is_cancelled() {
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        client.query(READ, &[]).await?;
        client.query(JOIN, &[]).await?;
        client.batch_execute("COMMIT").await?;
        rounds += 1;
    }
    Ok(rounds)
}

/// The doctor calls it wrong, says which process it is, and what to do.
async fn doctor_names(url: &str, pid: i32) -> Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundsman"));
    command.args(["doctor", "--json"]).kill_on_drop(true);
    command.env("ROUNDSMAN_ADMIN_TOKEN", ADMIN_TOKEN);
    command.env("ROUNDSMAN_DATABASE_URL", with_postgres_canary(url));
    let output = command.output().await?;
    let seen: Value = serde_json::from_slice(&output.stdout).context("no JSON")?;
    let findings = seen["findings"].as_array().context("no findings")?;
    let named = format!("process {pid} ");
    let finding = findings
        .iter()
        .find(|finding| finding["found"].as_str().is_some_and(|found| found.contains(&named)));
    let finding = finding.with_context(|| format!("{named}is not named: {seen}"))?;
    ensure!(finding["grade"] == "wrong", "{finding}");
    ensure!(finding["found"].to_string().contains("idle in transaction"), "{finding}");
    ensure!(finding["todo"].to_string().contains("pg_terminate_backend"), "{finding}");
    ensure!(!output.status.success(), "the doctor's exit code says that all is well");
    Ok(())
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Ends by itself when the client is dropped.
    TaskTracker::new().spawn(connection);
    Ok(client)
}
