//! G-2: the loss of power, when only what was synchronised is sure to be on disk.
//!
//! The server runs under `strace`, which writes down every write to the database and its log with
//! the bytes, every synchronisation of them, and every answer to a client, all with their times.
//! From that record a power loss at any instant is put together:
//!
//! - a write that a later synchronisation of the same file covers, begun after the write had
//!   returned and itself returned before the instant, is there;
//! - any other write before the instant is there, or is not, or only some of its first sectors are,
//!   by a seeded draw, each write for itself;
//! - an answer counts as given from the instant at which the server began to send it.
//!
//! Proven, for every such disk: SQLite opens it, its own check and ours find nothing wrong, and
//! whatever had been answered with 2xx is there. Two checks keep the record honest: played back
//! without loss it must equal the files byte for byte, and with `durability = relaxed`, which does
//! not synchronise every commit, the same test must find losses.
//!
//! Assumed: a sector of 512 bytes is written wholly or not at all; a synchronisation that returned
//! was carried out; names of files survive (the instants begin after the first answer, when all
//! files exist). PostgreSQL's own durability is not ours to test.
//!
//! Without further word there are 20 losses; `ROUNDSMAN_TEST_KILLS=500` makes them 200.

mod disk;
mod trace;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::join_all;
use reqwest::Method;
use roundsman_core::jobs::{FinishedState, Job};
use roundsman_core::ports::Random;
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{JsonClient, SeededRandom, env, eventually};
use serde_json::{Value, json};

use self::trace::Trace;
use crate::load::number;
use crate::site::{Node, PAYLOAD_CANARY, SOON, Site, sqlite_stored};

/// Instants at which the power fails.
const LOSSES: u64 = 20;
const CLIENTS: usize = 4;
const ROUNDS: usize = 20;
/// Makes the log long enough for checkpoints.
const PADDING_BYTES: usize = 8_000;
/// Fills the log quickly; the limit of a payload is 256 KiB.
const LARGE_PADDING_BYTES: usize = 240_000;
const FILLS_MAX: usize = 100;
/// The pauses between so many looks are together longer than any between two writes.
const QUIET_LOOKS: u32 = 7;
const KIND: &str = "power.work";

/// The calls whose record is kept.
const CALLS: &str = "pwrite64,fsync,fdatasync,ftruncate,write,writev,sendto,sendmsg";

#[tokio::test]
async fn what_was_acknowledged_survives_the_loss_of_power() {
    let recorded = Recorded::run("full").await.unwrap();
    assert!(recorded.trace.checkpoints() > 0, "the log was never copied into the database");
    assert!(recorded.trace.logs_begun() > 1, "the log was never begun anew");
    for seed in 0..losses().unwrap() {
        let lost = recorded.lose_power(seed).await.unwrap();
        assert!(lost.is_empty(), "seed {seed}: acknowledged and lost: {lost:?}");
    }
}

/// The instrument sees losses where there are some.
#[tokio::test]
async fn relaxed_durability_loses_what_it_says_it_may() {
    let recorded = Recorded::run("relaxed").await.unwrap();
    let mut lost = 0;
    for seed in 0..LOSSES {
        lost += recorded.lose_power(seed).await.unwrap().len();
    }
    assert!(lost > 0, "nothing was lost without synchronisation: this test cannot see losses");
}

/// Two for every five kills, if those were asked for.
fn losses() -> Result<u64> {
    Ok(env::kills()?.map_or(LOSSES, |kills| kills as u64 * 2 / 5))
}

/// What an answer promised.
#[derive(Debug, Clone)]
struct Promise {
    /// Finds the answer in the record.
    request: String,
    job: i64,
    /// The job's result, if the answer was to its completion.
    result: Option<Value>,
}

/// A run under load, and everything it wrote and promised.
struct Recorded {
    trace: Trace,
    promises: Vec<Promise>,
}

impl Recorded {
    async fn run(durability: &str) -> Result<Recorded> {
        let site = Site::sqlite()?;
        let folder = tempfile::tempdir()?;
        let options = traced(&site, folder.path())?
            .env("ROUNDSMAN_DATABASE_DURABILITY", durability)
            // Leases as long as a traced server may need, and no writes but the load's own.
            .env("ROUNDSMAN_JOBS_STALLED_SECS", "300")
            .env("ROUNDSMAN_JOBS_PRUNE_SECS", "3600");
        let mut node = site.start(options).await.context("is strace there? scripts/test has it")?;
        let mut promises = load(&node, "first").await?;
        promises.extend(begin_log_anew(&node).await?);
        promises.extend(load(&node, "second").await?);
        node.kill_9().await?;
        let trace = Trace::read(folder.path(), &site.data()).await?;
        trace.check_against_files()?;
        Ok(Recorded { trace, promises })
    }

    /// The promises that a loss of power breaks.
    async fn lose_power(&self, seed: u64) -> Result<Vec<Promise>> {
        let random = SeededRandom::new(seed);
        let at = self.instant(&random)?;
        let folder = tempfile::tempdir()?;
        disk::after_loss(&self.trace, at, &random, folder.path())?;
        let stored = sqlite_stored(&folder.path().join("roundsman.db")).await?;
        ensure!(stored.violations.is_empty(), "after a loss at {at}: {:?}", stored.violations);
        let made = self.promises.iter().filter(|promise| {
            self.trace.answered_at(&promise.request).is_some_and(|answered| answered < at)
        });
        Ok(made.filter(|promise| !kept(promise, &stored.jobs)).cloned().collect())
    }

    /// Half of the instants are just after an answer was sent, when the most is at stake.
    fn instant(&self, random: &SeededRandom) -> Result<u64> {
        let mut answers: Vec<u64> = self
            .promises
            .iter()
            .filter_map(|promise| self.trace.answered_at(&promise.request))
            .collect();
        ensure!(answers.len() == self.promises.len(), "an answer is not in the record");
        answers.sort_unstable();
        let (first, last) = (answers[0], answers[answers.len() - 1]);
        if random.below(2) == 0 {
            let index = random.below(answers.len() as u64);
            return Ok(answers[usize::try_from(index)?] + 1);
        }
        Ok(first + 1 + random.below(last - first))
    }
}

fn kept(promise: &Promise, jobs: &[Job]) -> bool {
    let job = jobs.iter().find(|job| job.facts().id.get() == promise.job);
    match (job, &promise.result) {
        (Some(_), None) => true,
        (Some(Job::Finished(job)), Some(promised)) => match &job.state {
            FinishedState::Completed { result } => result.to_value() == *promised,
            FinishedState::Failed { .. } | FinishedState::Cancelled { .. } => false,
        },
        (None | Some(_), _) => false,
    }
}

/// A server whose writes are recorded in `folder`. The tracer is its grandchild, so that signals
/// reach the server itself.
fn traced(site: &Site, folder: &Path) -> Result<ServerOptions> {
    let script = folder.join("traced-roundsman");
    let text = format!(
        "#!/bin/sh\nexec strace -D -ff -o '{}' --seccomp-bpf -yy -xx -s 10000000 \
         --absolute-timestamps=format:unix,precision:ns --syscall-times=ns \
         -e trace={CALLS} '{}' \"$@\"\n",
        folder.join("trace").display(),
        env!("CARGO_BIN_EXE_roundsman"),
    );
    std::fs::write(&script, text)?;
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o700))?;
    Ok(site.options_for(script))
}

async fn load(node: &Node, phase: &str) -> Result<Vec<Promise>> {
    let client = node.admin()?;
    let clients = (0..CLIENTS).map(|number| one_client(&client, format!("{phase}-{number}")));
    let promises: Result<Vec<Vec<Promise>>> = join_all(clients).await.into_iter().collect();
    Ok(promises?.concat())
}

/// Enqueues, claims and completes, one after the other.
async fn one_client(client: &JsonClient, name: String) -> Result<Vec<Promise>> {
    let mut promises = Vec::new();
    for round in 0..ROUNDS {
        promises.push(enqueue(client, format!("enqueue-{name}-{round}"), PADDING_BYTES).await?);
        let claim = json!({"worker": name, "kinds": [KIND]});
        let claimed = send(client, "/jobs/claim", "claim", &claim).await?;
        let Some(job) = claimed["jobs"].get(0) else { continue };
        let request = format!("complete-{name}-{round}");
        let result = json!({"by": job["lease_no"]});
        let body = json!({"lease_no": job["lease_no"], "result": result});
        send(client, &format!("/jobs/{}/complete", job["id"]), &request, &body).await?;
        promises.push(Promise { request, job: number(&job["id"]), result: Some(result) });
    }
    Ok(promises)
}

/// Fills the log, and lets every checkpoint finish, until one has copied all of it and the next
/// write overwrites its beginning: the one time when a lost write could hit older commits.
async fn begin_log_anew(node: &Node) -> Result<Vec<Promise>> {
    let client = node.admin()?;
    let mut promises = Vec::new();
    let before = log_header(node)?;
    for fill in 0..FILLS_MAX {
        promises.push(enqueue(&client, format!("fill-{fill}"), LARGE_PADDING_BYTES).await?);
        if log_header(node)? != before {
            return Ok(promises);
        }
        wait_until_database_is_quiet(node).await?;
    }
    bail!("the log was never begun anew")
}

/// Waits until no checkpoint writes to the database any more: it looks the same several times.
async fn wait_until_database_is_quiet(node: &Node) -> Result<()> {
    let database = node.data().join("roundsman.db");
    let (mut last, mut looks_alike) = (None, 0);
    let quiet = eventually(SOON, async || {
        let changed_at = database.metadata().and_then(|about| about.modified()).ok();
        looks_alike = if changed_at == last { looks_alike + 1 } else { 0 };
        last = changed_at;
        (looks_alike == QUIET_LOOKS).then_some(())
    });
    Ok(quiet.await?)
}

/// The first bytes of the log, which differ each time that it is begun.
fn log_header(node: &Node) -> Result<[u8; 32]> {
    let mut header = [0; 32];
    File::open(node.data().join("roundsman.db-wal"))?.read_exact(&mut header)?;
    Ok(header)
}

async fn enqueue(client: &JsonClient, request: String, padding_bytes: usize) -> Result<Promise> {
    let padding = "x".repeat(padding_bytes);
    let payload = json!({"canary": PAYLOAD_CANARY, "padding": padding});
    let made = send(client, "/jobs", &request, &json!({"kind": KIND, "payload": payload})).await?;
    Ok(Promise { request, job: number(&made["id"]), result: None })
}

async fn send(client: &JsonClient, path: &str, request: &str, body: &Value) -> Result<Value> {
    let sent = client.request(Method::POST, path).header("x-request-id", request).json(body);
    let answer = client.send(sent).await?;
    ensure!((200..300).contains(&answer.status), "{path}: {}", answer.text);
    Ok(answer.body)
}
