//! G-3: the disk of the embedded database is full, fails, or takes no more writes. Writes are refused
//! with a word that clients know and the time to come back, reads go on, the log stays readable, the
//! process does not spin, and when the disk is well again so is the server, without a restart and with
//! everything that it acknowledged.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use roundsman_testkit::disk::processor_time;
use roundsman_testkit::{FailingWrites, JsonClient, SmallDisk, eventually};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::load::{self, Ledger, Plan, WhenLost, number};
use crate::site::{
    Node, PAYLOAD_CANARY, SOON, Site, Stopwatch, Stored, copy_database, sqlite_stored,
};

const DISK_MIB: u32 = 24;
const KIND: &str = "storage.work";
const ACKED_BEFORE: u64 = 300;
const ACKED_AFTER: u64 = 200;
const REQUESTS_MAX: i64 = 1_000_000;
/// Larger than what may be left in the pages that the log has already.
const PADDING_BYTES: usize = 200_000;
/// Requests that are sent at once to a server that cannot store them, and how often.
const REFUSED_AT_ONCE: usize = 20;
/// For how long the log and the processor are watched.
const WATCHED: Duration = Duration::from_secs(4);
/// A server that tries again without a pause takes a whole processor.
const BUSY_PERCENT_MAX: u128 = 60;

#[tokio::test]
async fn a_full_disk_refuses_writes_until_there_is_room() {
    async fn run() -> Result<()> {
        let disk = SmallDisk::mount(DISK_MIB).await?;
        let site = Site::sqlite()?;
        let mut node = start_on(&disk, &site).await?;
        let ledger = load::begin(&site, &node).await?;
        let (api, pid) = (node.admin()?, node.pid()?);
        let kept = enqueue(&api, 1).await?.context("a disk with room refuses")?;
        under_load(&site, &ledger, &node, async |ledger| {
            ledger.wait_for_more_acked(ACKED_BEFORE, SOON).await?;
            disk.fill()?;
            until_refused(&api).await
        })
        .await?;
        check_outage(&node, kept).await?;
        disk.free()?;
        recovers(&site, &ledger, &node).await?;
        ensure!(node.pid()? == pid, "the server was restarted");
        let outside = disk.seen_from_outside()?.join("data");
        finish(&ledger, &mut node, &outside).await
    }
    run().await.unwrap();
}

#[tokio::test]
async fn a_disk_that_fails_refuses_writes_until_it_is_well() {
    writes_fail_with("EIO").await.unwrap();
}

/// What a file system answers once it has turned itself read-only.
#[tokio::test]
async fn a_disk_that_turns_read_only_refuses_writes_until_it_is_well() {
    writes_fail_with("EROFS").await.unwrap();
}

async fn writes_fail_with(error: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let site = Site::sqlite()?;
    let mut node = site.start(site.options()).await?;
    let ledger = load::begin(&site, &node).await?;
    let (api, pid) = (node.admin()?, node.pid()?);
    let kept = enqueue(&api, 1).await?.context("a disk that is well refuses")?;
    let files = ["roundsman.db", "roundsman.db-wal"].map(|name| site.data().join(name));
    let mut failing = None;
    under_load(&site, &ledger, &node, async |ledger| {
        ledger.wait_for_more_acked(ACKED_BEFORE, SOON).await?;
        let log = folder.path().join("strace.log");
        failing = Some(FailingWrites::begin(pid, &files, error, &log).await?);
        until_refused(&api).await
    })
    .await?;
    check_outage(&node, kept).await?;
    failing.context("nothing failed")?.end().await?;
    recovers(&site, &ledger, &node).await?;
    ensure!(node.pid()? == pid, "the server was restarted");
    finish(&ledger, &mut node, &site.data()).await
}

/// A server that dies on a full disk finds everything again. One that is started on it, or on a file
/// system that is mounted read-only, cannot even read: it says what is wrong and changes nothing.
#[tokio::test]
async fn a_server_that_is_killed_on_a_full_disk_has_lost_nothing() {
    async fn run() -> Result<()> {
        let disk = SmallDisk::mount(DISK_MIB).await?;
        let site = Site::sqlite()?;
        let mut node = start_on(&disk, &site).await?;
        let ledger = load::begin(&site, &node).await?;
        let api = node.admin()?;
        under_load(&site, &ledger, &node, async |ledger| {
            ledger.wait_for_more_acked(ACKED_BEFORE, SOON).await?;
            disk.fill()?;
            until_refused(&api).await
        })
        .await?;
        node.kill_9().await?;
        let outside = disk.seen_from_outside()?.join("data");
        load::verify(&ledger, &stored(&outside).await?)?;

        cannot_start(&disk, &site, "full").await?;
        disk.free()?;
        disk.set_read_only(true).await?;
        cannot_start(&disk, &site, "Read-only file system").await?;
        disk.set_read_only(false).await?;
        load::verify(&ledger, &stored(&outside).await?)?;
        let mut node = start_on(&disk, &site).await?;
        finish(&ledger, &mut node, &outside).await
    }
    run().await.unwrap();
}

fn options_on(disk: &SmallDisk, site: &Site) -> Result<roundsman_testkit::process::ServerOptions> {
    let program = disk.program(env!("CARGO_BIN_EXE_roundsman"))?;
    Ok(site.options_for(program).data(disk.path().join("data")))
}

async fn cannot_start(disk: &SmallDisk, site: &Site, reason: &str) -> Result<()> {
    let mut doomed = site.spawn(options_on(disk, site)?)?;
    let status = doomed.wait_exit(SOON).await?;
    let says = doomed.stderr()?;
    ensure!(status.code() == Some(1), "it ended with {status}: {says}");
    let last = says.lines().last().unwrap_or_default();
    ensure!(last.contains(reason), "it does not say why: {says}");
    Ok(())
}

async fn start_on(disk: &SmallDisk, site: &Site) -> Result<Node> {
    site.start(options_on(disk, site)?).await
}

/// Loads the server until `meanwhile` is over. Whoever is refused waits until the server says that it
/// takes writes again.
async fn under_load(
    site: &Site,
    ledger: &Arc<Ledger>,
    node: &Node,
    meanwhile: impl AsyncFnOnce(&Ledger) -> Result<()>,
) -> Result<()> {
    let stop = CancellationToken::new();
    let urls = [node.base_url()];
    let plan = Plan::of_requests(REQUESTS_MAX, WhenLost::WaitUntilReady, 3);
    let loaded = load::run_until(site, ledger, &urls, plan, &stop);
    let meanwhile = async {
        let result = meanwhile(ledger).await;
        stop.cancel();
        result
    };
    let (loaded, result) = tokio::join!(loaded, meanwhile);
    result.and(loaded)
}

/// Waits until nothing can be stored. What did not fit may leave pages in the log that something small
/// still fits into; the smallest of all is what the server writes to see whether it is ready.
async fn until_refused(api: &JsonClient) -> Result<()> {
    let refused = eventually(SOON, async || {
        let all = async {
            let large = enqueue(api, PADDING_BYTES).await?.is_none();
            let small = enqueue(api, 1).await?.is_none();
            anyhow::Ok(large && small && !takes_writes(api).await?)
        };
        all.await.map(|refused| refused.then_some(())).transpose()
    });
    refused.await.context("it goes on storing")?
}

/// Whether `/readyz` says so of the database.
async fn takes_writes(api: &JsonClient) -> Result<bool> {
    let ready: Value = api.get("/readyz").await?.body;
    let checks = ready["checks"].as_array().context("no checks")?;
    let database = checks.iter().find(|check| check["name"] == "database");
    Ok(database.context("the database is not among the checks")?["ok"] == true)
}

/// The number of a new job; none if it was refused as it must be.
async fn enqueue(api: &JsonClient, padding_bytes: usize) -> Result<Option<i64>> {
    let payload = json!({"canary": PAYLOAD_CANARY, "padding": "x".repeat(padding_bytes)});
    let answer = api.post("/jobs", &json!({"kind": KIND, "payload": payload})).await?;
    if answer.status == 201 {
        return Ok(Some(number(&answer.body["id"])));
    }
    let code = &answer.body["code"];
    ensure!(answer.status == 503 && code == "storage_unavailable", "{}", answer.text);
    let wait = answer.header("retry-after").and_then(|secs| secs.parse::<u64>().ok());
    ensure!(wait.is_some_and(|secs| secs > 0), "refused without a time to come back");
    Ok(None)
}

/// While nothing can be written: reads are answered, everybody is told the same, and neither the log
/// nor the processor is busy with it.
async fn check_outage(node: &Node, kept: i64) -> Result<()> {
    let api = node.admin()?;
    let (pid, watch) = (node.pid()?, Stopwatch::start());
    let complaints_before = complaints(node)?.len();
    let mut refused = 0;
    while watch.elapsed() < WATCHED {
        let wishes = (0..REFUSED_AT_ONCE).map(|_| enqueue(&api, PADDING_BYTES));
        for answer in join_all(wishes).await {
            refused += usize::from(answer?.is_none());
        }
        check_reads(&api, kept).await?;
    }
    let seconds = usize::try_from(watch.elapsed().as_secs())?;
    let all = complaints(node)?;
    let new = &all[complaints_before..];
    // One more for the second that had begun.
    ensure!(
        new.len() <= seconds + 1,
        "{refused} refusals in {seconds} s left {} lines:\n{}",
        new.len(),
        new.join("\n")
    );
    ensure!(refused >= REFUSED_AT_ONCE, "only {refused} requests were refused");

    let (watch, used_before) = (Stopwatch::start(), processor_time(pid)?);
    eventually(WATCHED * 2, async || (watch.elapsed() >= WATCHED).then_some(())).await?;
    let used = processor_time(pid)?.saturating_sub(used_before);
    let percent = used.as_millis() * 100 / watch.elapsed().as_millis().max(1);
    ensure!(percent <= BUSY_PERCENT_MAX, "left alone, it takes {percent} % of a processor");
    ensure!(!complaints(node)?.is_empty(), "an operator would not know");
    Ok(())
}

async fn check_reads(api: &JsonClient, kept: i64) -> Result<()> {
    let job = api.get(&format!("/jobs/{kept}")).await?.expect_status(200)?;
    ensure!(job.body["state"] == "pending", "{}", job.text);
    let list = api.get(&format!("/jobs?kind={KIND}&limit=5")).await?.expect_status(200)?;
    ensure!(list.body["jobs"].as_array().is_some_and(|jobs| !jobs.is_empty()), "{}", list.text);
    for path in ["/healthz", "/leases", "/metrics"] {
        api.get(path).await?.expect_status(200)?;
    }
    api.get("/readyz").await?.expect_status(503)?;
    ensure!(!takes_writes(api).await?, "it says that the database takes writes");
    Ok(())
}

/// The lines of the log that an operator would be woken by.
fn complaints(node: &Node) -> Result<Vec<String>> {
    let log = node.stderr()?;
    let serious = |line: &&str| line.contains(" WARN ") || line.contains("ERROR ");
    Ok(log.lines().filter(serious).map(str::to_owned).collect())
}

/// The disk is well again: so is the server, and it goes on under load.
async fn recovers(site: &Site, ledger: &Arc<Ledger>, node: &Node) -> Result<()> {
    let ready = eventually(SOON, async || node.is_ready().await.then_some(()));
    ready.await.context("not ready with its disk back")?;
    let api = node.admin()?;
    enqueue(&api, 1).await?.context("refused with its disk back")?;
    under_load(site, ledger, node, async |ledger| {
        ledger.wait_for_more_acked(ACKED_AFTER, SOON).await
    })
    .await
}

async fn finish(ledger: &Arc<Ledger>, node: &mut Node, data: &Path) -> Result<()> {
    load::drain(ledger, &node.base_url()).await?;
    load::verify_access(ledger, node).await?;
    node.stop().await?;
    load::verify_drained(ledger, &stored(data).await?)
}

async fn stored(data: &Path) -> Result<Stored> {
    let copy = tempfile::tempdir()?;
    copy_database(data, copy.path())?;
    sqlite_stored(&copy.path().join("roundsman.db")).await
}
