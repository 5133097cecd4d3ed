//! G-4 and G-7: PostgreSQL goes away and comes back in every way it can, under load. The servers
//! are never restarted, and nothing that was acknowledged is lost or done twice.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::postgres::StopMode;
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::proxy::Direction;
use roundsman_testkit::{FaultProxy, PostgresServer, TestDatabase, eventually};
use serde_json::json;
use tokio_postgres::NoTls;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::load::{self, Ledger, Plan, WhenLost, number};
use crate::site::{LEASE, Node, PAYLOAD_CANARY, SOON, Site, Stopwatch};

/// Enough that it never ends before the faults do: those who cause them say when it is over.
const REQUESTS_MAX: i64 = 1_000_000;
/// What is acknowledged between two faults, so that each meets a load that is under way.
const ACKED_BETWEEN: u64 = 100;
const TERMINATIONS: usize = 12;
/// What the cluster allows (100) and a few more.
const CONNECTIONS_TRIED_MAX: usize = 120;
/// How long a node takes to notice that it is cut off, with the limits that these tests set.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test]
async fn restarts_of_the_database_need_no_restart_of_the_server() {
    async fn run() -> Result<()> {
        let mut cluster = PostgresServer::start().await?;
        let site = Site::postgres_at(&cluster.url());
        let mut node = site.start(site.options()).await?;
        let ledger = load::begin(&site, &node).await?;
        let pid = node.pid()?;
        let faults = async |ledger: &Ledger| {
            for mode in [StopMode::Fast, StopMode::Immediate, StopMode::Fast] {
                ledger.wait_for_more_acked(ACKED_BETWEEN, SOON).await?;
                cluster.stop(mode).await?;
                let unready = eventually(SOON, async || (!node.is_ready().await).then_some(()));
                unready.await.context("ready without a database")?;
                cluster.start_again().await?;
                let ready = eventually(SOON, async || node.is_ready().await.then_some(()));
                ready.await.context("not ready with its database back")?;
            }
            ledger.wait_for_more_acked(ACKED_BETWEEN, SOON).await
        };
        under_load(&site, &ledger, &node, faults).await?;
        ensure!(node.pid()? == pid, "the server was restarted");
        finish(&site, &ledger, &mut node).await
    }
    run().await.unwrap();
}

#[tokio::test]
async fn terminated_backends_lose_nothing() {
    async fn run() -> Result<()> {
        let database = TestDatabase::create().await?;
        let site = Site::postgres_at(&database.url());
        let mut node = site.start(site.options()).await?;
        let ledger = load::begin(&site, &node).await?;
        let faults = async |ledger: &Ledger| {
            for _ in 0..TERMINATIONS {
                ledger.wait_for_more_acked(ACKED_BETWEEN, SOON).await?;
                let ended = database.terminate_backends().await?;
                ensure!(ended > 0, "there was nothing to terminate");
            }
            ledger.wait_for_more_acked(ACKED_BETWEEN, SOON).await
        };
        under_load(&site, &ledger, &node, faults).await?;
        finish(&site, &ledger, &mut node).await
    }
    run().await.unwrap();
}

#[tokio::test]
async fn a_database_without_free_connections_only_delays() {
    async fn run() -> Result<()> {
        let cluster = PostgresServer::start().await?;
        let site = Site::postgres_at(&cluster.url());
        let mut node = site.start(site.options()).await?;
        let ledger = load::begin(&site, &node).await?;
        let faults = async |ledger: &Ledger| {
            ledger.wait_for_more_acked(ACKED_BETWEEN, SOON).await?;
            let mut guests = take_all_connections(&cluster.url()).await?;
            // What the server holds is taken from it too, while it cannot come back for it.
            node.sigstop()?;
            let guest = guests.first().context("no connection was free")?;
            guest.execute(TERMINATE_SERVERS, &[]).await?;
            guests.extend(take_all_connections(&cluster.url()).await?);
            node.sigcont()?;
            let unready = eventually(SOON, async || (!node.is_ready().await).then_some(()));
            unready.await.context("ready without a connection")?;
            drop(guests);
            let ready = eventually(SOON, async || node.is_ready().await.then_some(()));
            ready.await.context("not ready after connections became free")?;
            ledger.wait_for_more_acked(ACKED_BETWEEN, SOON).await
        };
        under_load(&site, &ledger, &node, faults).await?;
        finish(&site, &ledger, &mut node).await
    }
    run().await.unwrap();
}

/// One of two nodes is cut off from the database, at once or silently. It says that it is not
/// ready and takes no writes; its worker's job goes to somebody else through the other node, which
/// answers everybody all the time.
#[tokio::test]
async fn a_node_that_is_cut_off_is_not_missed() {
    async fn run() -> Result<()> {
        let cluster = PostgresServer::start().await?;
        let proxy = FaultProxy::start(([127, 0, 0, 1], cluster.port()).into()).await?;
        let site = Site::postgres_at(&cluster.url());
        let behind = Site::postgres_at(&proxy.url(&cluster.url()));
        let mut other = site.start(site.options()).await?;
        let mut cut_off = behind.start(impatient(behind.options())).await?;
        let ledger = load::begin(&site, &other).await?;
        let stop = CancellationToken::new();
        let urls = [other.base_url()];
        let plan = Plan::of_requests(REQUESTS_MAX, WhenLost::Complain, 7);
        let loaded = load::run_until(&site, &ledger, &urls, plan, &stop);
        let faults = async {
            let result = cut_off_twice(&proxy, &cut_off, &other).await;
            stop.cancel();
            result
        };
        let (loaded, faulty) = tokio::join!(loaded, faults);
        faulty.and(loaded)?;
        cut_off.stop().await?;
        finish(&site, &ledger, &mut other).await
    }
    run().await.unwrap();
}

async fn cut_off_twice(proxy: &FaultProxy, cut_off: &Node, other: &Node) -> Result<()> {
    for silent in [false, true] {
        let (there, here) = (cut_off.admin()?, other.admin()?);
        let wish = json!({"kind": "cut.off", "payload": {"canary": PAYLOAD_CANARY}});
        let made = there.post("/jobs", &wish).await?.expect_status(201)?;
        let claim = json!({"worker": "there", "kinds": ["cut.off"]});
        let claimed = there.post("/jobs/claim", &claim).await?.expect_status(200)?;
        let lease_no = &claimed.body["jobs"][0]["lease_no"];
        ensure!(claimed.body["jobs"][0]["id"] == made.body["id"], "{}", claimed.text);
        if silent {
            proxy.blackhole(Direction::Both);
        } else {
            proxy.partition().await?;
        }
        let watch = Stopwatch::start();
        let refused = there.post("/jobs", &wish).await?;
        ensure!(refused.status == 503, "cut off, it answered {}", refused.status);
        ensure!(watch.elapsed() <= NOTICED_WITHIN, "refused after {:?}", watch.elapsed());
        let unready =
            eventually(NOTICED_WITHIN, async || (!cut_off.is_ready().await).then_some(()));
        unready.await.context("ready, though cut off")?;

        let watch = Stopwatch::start();
        let claim = json!({"worker": "here", "kinds": ["cut.off"], "wait_secs": 20});
        let taken = here.post("/jobs/claim", &claim).await?.expect_status(200)?;
        let heir = &taken.body["jobs"][0];
        ensure!(heir["id"] == made.body["id"], "{}", taken.text);
        ensure!(watch.elapsed() <= LEASE + NOTICED_WITHIN, "taken after {:?}", watch.elapsed());
        let done = json!({"lease_no": heir["lease_no"], "result": "here"});
        let path = format!("/jobs/{}/complete", number(&heir["id"]));
        here.post(&path, &done).await?.expect_status(200)?;

        proxy.heal().await?;
        let ready = eventually(SOON, async || cut_off.is_ready().await.then_some(()));
        ready.await.context("not ready after the network was healed")?;
        let late = json!({"lease_no": lease_no, "result": "there"});
        let late = there.post(&path, &late).await?.expect_status(409)?;
        ensure!(late.body["code"] == "lease_lost", "{}", late.text);
    }
    Ok(())
}

/// Runs the load, which waits whenever an answer is lost, until the faults are over.
async fn under_load(
    site: &Site,
    ledger: &Arc<Ledger>,
    node: &Node,
    faults: impl AsyncFnOnce(&Ledger) -> Result<()>,
) -> Result<()> {
    let stop = CancellationToken::new();
    let urls = [node.base_url()];
    let plan = Plan::of_requests(REQUESTS_MAX, WhenLost::Wait, 4);
    let loaded = load::run_until(site, ledger, &urls, plan, &stop);
    let faults = async {
        let result = faults(ledger).await;
        stop.cancel();
        result
    };
    let (loaded, faulty) = tokio::join!(loaded, faults);
    faulty.and(loaded)
}

async fn finish(site: &Site, ledger: &Arc<Ledger>, node: &mut Node) -> Result<()> {
    load::drain(ledger, &node.base_url()).await?;
    load::verify_access(ledger, node).await?;
    node.stop().await?;
    load::verify_drained(ledger, &site.stored().await?)
}

/// Limits that make a node notice a silent database within seconds.
fn impatient(options: ServerOptions) -> ServerOptions {
    options
        .env("ROUNDSMAN_SERVER_REQUEST_SECS_MAX", "3")
        .env("ROUNDSMAN_DATABASE_CONNECT_SECS_MAX", "1")
        .env("ROUNDSMAN_DATABASE_STATEMENT_SECS_MAX", "1")
}

const TERMINATE_SERVERS: &str = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
     WHERE application_name LIKE 'roundsman%'";

/// Connects until the server refuses.
async fn take_all_connections(url: &str) -> Result<Vec<tokio_postgres::Client>> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS_TRIED_MAX {
        let Ok((client, connection)) = tokio_postgres::connect(url, NoTls).await else {
            return Ok(clients);
        };
        // Ends by itself when the client is dropped.
        TaskTracker::new().spawn(connection);
        clients.push(client);
    }
    anyhow::bail!("the server takes more than {CONNECTIONS_TRIED_MAX} connections")
}
