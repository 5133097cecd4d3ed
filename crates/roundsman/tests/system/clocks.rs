//! G-8: clocks that are set, and nodes whose clocks disagree. The database's clock is the one that
//! counts; when it jumps, nobody who lives loses a lease, nothing runs twice, and what waits for a time
//! comes when that clock shows it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{FinishedState, Job};
use roundsman_testkit::{JsonClient, PostgresServer, WallClock, eventually};
use serde_json::{Value, json};

use crate::load::{self, Plan, WhenLost, number};
use crate::site::{Backend, Node, PAYLOAD_CANARY, SOON, Site, Stopwatch};

const HOUR_SECS: i64 = 3600;
/// How far two nodes are apart.
const APART_SECS: i64 = 5 * 60;
/// The shortest lease that a worker may ask for.
const LEASE_SECS: u64 = 5;
/// Long enough that a lease that is not kept would have been taken away.
const HELD_FOR: Duration = Duration::from_secs(3 * LEASE_SECS);
/// Jobs that a worker holds all the time.
const HELD: usize = 20;
/// Nodes ask the database for the time every ten seconds.
const NOTICED_WITHIN: Duration = Duration::from_secs(10 + 20);
/// A sweep rests for so long after the clock was set forward. Then the silent are found.
const REST: Duration = Duration::from_secs(90);
const FIRES: u64 = 5;
const REQUESTS: i64 = 1_500;

const HELD_KIND: &str = "clocks.held";
const LATER_KIND: &str = "clocks.later";
const SILENT_KIND: &str = "clocks.silent";
const TICK_KIND: &str = "clocks.tick";

/// Embedded, the database's clock is that of the server's machine.
#[tokio::test]
async fn jumps_of_an_hour_take_no_lease_on_sqlite() {
    async fn run() -> Result<()> {
        let clock = WallClock::start().await?;
        let site = Site::sqlite()?;
        let mut options = site.options();
        for (name, value) in clock.variables() {
            options = options.env(name, value);
        }
        let node = site.start(options).await?;
        survive_jumps(&site, vec![node], &clock).await
    }
    run().await.unwrap();
}

/// Two nodes whose own clocks go on as ever, while that of the database's machine jumps.
#[tokio::test]
async fn jumps_of_an_hour_take_no_lease_on_postgres() {
    async fn run() -> Result<()> {
        let clock = WallClock::start().await?;
        let cluster = PostgresServer::start_at(&clock).await?;
        let site = Site::postgres_at(&cluster.url());
        let nodes = vec![site.start(site.options()).await?, site.start(site.options()).await?];
        survive_jumps(&site, nodes, &clock).await
    }
    run().await.unwrap();
}

async fn survive_jumps(site: &Site, mut nodes: Vec<Node>, clock: &WallClock) -> Result<()> {
    let apis: Vec<JsonClient> = nodes.iter().map(Node::admin).collect::<Result<_>>()?;
    let holder = Holder::take(&apis, HELD).await?;
    let later = enqueue_in(&apis[0], LATER_KIND, Duration::from_secs(1800)).await?;

    clock.set(HOUR_SECS)?;
    holder.keep_until(NOTICED_WITHIN, async || noticed(&nodes, "was set forward")).await?;
    holder.keep_for(HELD_FOR).await?;
    // It is time by the clock that counts, and not before.
    let (claimed, kept) = tokio::join!(claim_within(&apis[0], LATER_KIND, SOON), holder.keep());
    let claimed = kept.and(claimed)?;
    ensure!(claimed["id"] == later["id"], "{claimed}");
    complete(&apis[0], &claimed).await?;
    began_in_time(&apis[0], &claimed, &later).await?;

    clock.set(-HOUR_SECS)?;
    holder.keep_until(NOTICED_WITHIN, async || noticed(&nodes, "was set back")).await?;
    holder.keep_for(HELD_FOR).await?;

    // Whoever falls silent is found all the same.
    let silent = enqueue_in(&apis[0], SILENT_KIND, Duration::ZERO).await?;
    let zombie = claim_within(&apis[0], SILENT_KIND, SOON).await?;
    ensure!(zombie["id"] == silent["id"], "{zombie}");
    let mut heir = None;
    holder
        .keep_until(REST + HELD_FOR + SOON, async || {
            heir = claim(&apis[apis.len() - 1], SILENT_KIND, 1).await.ok().flatten();
            heir.is_some()
        })
        .await
        .context("a silent holder is never found")?;
    let heir = heir.context("nobody inherited")?;
    ensure!(heir["id"] == silent["id"] && heir["attempt"] == 2, "{heir}");
    complete(&apis[0], &heir).await?;

    holder.complete().await?;
    for node in &mut nodes {
        node.stop().await?;
    }
    ran_once(site, &holder).await
}

/// One node's clock is five minutes ahead. Both agree on what is due, who is silent and when a schedule
/// fires, and a load over both loses nothing.
#[tokio::test]
async fn nodes_that_are_five_minutes_apart_agree() {
    async fn run() -> Result<()> {
        let ahead = WallClock::start().await?;
        ahead.set(APART_SECS)?;
        let site = Site::new(Backend::Postgres).await?;
        let mut options = site.options();
        for (name, value) in ahead.variables() {
            options = options.env(name, value);
        }
        let mut nodes = vec![site.start(site.options()).await?, site.start(options).await?];
        let apis: Vec<JsonClient> = nodes.iter().map(Node::admin).collect::<Result<_>>()?;

        // Whichever node tells of a lease, the other one's sweep lets it be.
        let holder = Holder::take(&apis, HELD).await?;
        let schedule = json!({"name": "tick", "every_secs": 1, "missed": "all",
            "job": {"kind": TICK_KIND, "payload": {"canary": PAYLOAD_CANARY}}});
        let made = apis[1].post("/schedules", &schedule).await?.expect_status(201)?.body;
        holder.keep_for(HELD_FOR).await?;
        holder.complete().await?;
        fires_once_each(&apis, number(&made["id"])).await?;
        for api in &apis {
            let later = enqueue_in(api, LATER_KIND, Duration::from_secs(3)).await?;
            for other in &apis {
                ensure!(claim(other, LATER_KIND, 0).await?.is_none(), "claimed too early");
            }
            let claimed = claim_within(&apis[0], LATER_KIND, SOON).await?;
            complete(api, &claimed).await?;
            began_in_time(api, &claimed, &later).await?;
        }

        let ledger = load::begin(&site, &nodes[0]).await?;
        let urls = [nodes[0].base_url(), nodes[1].base_url()];
        let plan = Plan::of_requests(REQUESTS, WhenLost::Complain, 5);
        load::run(&site, &ledger, &urls, plan).await?;
        load::drain(&ledger, &urls[1]).await?;
        for node in &mut nodes {
            node.stop().await?;
        }
        load::verify_drained(&ledger, &site.stored().await?)?;
        ran_once(&site, &holder).await
    }
    run().await.unwrap();
}

/// A worker that lives: it holds jobs, and sends heartbeats through one node after the other.
struct Holder<'a> {
    apis: &'a [JsonClient],
    jobs: Vec<Value>,
}

impl<'a> Holder<'a> {
    async fn take(apis: &'a [JsonClient], count: usize) -> Result<Holder<'a>> {
        for _ in 0..count {
            enqueue_in(&apis[0], HELD_KIND, Duration::ZERO).await?;
        }
        let wish = json!({"worker": "alive", "kinds": [HELD_KIND], "max": count,
            "lease_secs": LEASE_SECS});
        let claimed = apis[0].post("/jobs/claim", &wish).await?.expect_status(200)?;
        let jobs = claimed.body["jobs"].as_array().cloned().unwrap_or_default();
        ensure!(jobs.len() == count, "{} of {count} were claimed", jobs.len());
        Ok(Holder { apis, jobs })
    }

    /// One sign of life for each: every one of them must be heard.
    async fn keep(&self) -> Result<()> {
        let beats = self.jobs.iter().enumerate().map(async |(index, job)| {
            let api = &self.apis[index % self.apis.len()];
            let body = json!({"lease_no": job["lease_no"]});
            let answer = api.post(&format!("/jobs/{}/heartbeat", job["id"]), &body).await?;
            ensure!(answer.status == 200, "a living holder lost its lease: {}", answer.text);
            anyhow::Ok(())
        });
        join_all(beats).await.into_iter().collect()
    }

    /// Goes on until something is so.
    async fn keep_until(&self, limit: Duration, mut so: impl AsyncFnMut() -> bool) -> Result<()> {
        let kept = eventually(limit, async || match self.keep().await {
            Ok(()) => so().await.then_some(Ok(())),
            Err(error) => Some(Err(error)),
        });
        kept.await?
    }

    async fn keep_for(&self, time: Duration) -> Result<()> {
        let watch = Stopwatch::start();
        self.keep_until(time + SOON, async || watch.elapsed() >= time).await
    }

    async fn complete(&self) -> Result<()> {
        for job in &self.jobs {
            complete(&self.apis[0], job).await?;
        }
        Ok(())
    }
}

/// Whether every node says so in its log.
fn noticed(nodes: &[Node], words: &str) -> bool {
    nodes.iter().all(|node| node.stderr().is_ok_and(|log| log.contains(words)))
}

/// A job that is due so long after now, as the database's clock has it.
async fn enqueue_in(api: &JsonClient, kind: &str, wait: Duration) -> Result<Value> {
    let payload = json!({"canary": PAYLOAD_CANARY});
    if wait.is_zero() {
        let made = api.post("/jobs", &json!({"kind": kind, "payload": payload})).await?;
        return Ok(made.expect_status(201)?.body["job"].clone());
    }
    // What the server thinks the time is, is on whatever it makes.
    let probe = api.post("/jobs", &json!({"kind": "clocks.probe", "payload": payload})).await?;
    let now = instant(&probe.expect_status(201)?.body["job"]["created_at"])?;
    let run_at = (now + wait).to_string();
    let wish = json!({"kind": kind, "payload": payload, "run_at": run_at});
    Ok(api.post("/jobs", &wish).await?.expect_status(201)?.body["job"].clone())
}

async fn claim(api: &JsonClient, kind: &str, wait_secs: u64) -> Result<Option<Value>> {
    let wish = json!({"worker": "w", "kinds": [kind], "lease_secs": LEASE_SECS,
        "wait_secs": wait_secs});
    let claimed = api.post("/jobs/claim", &wish).await?.expect_status(200)?;
    Ok(claimed.body["jobs"].get(0).cloned())
}

async fn claim_within(api: &JsonClient, kind: &str, limit: Duration) -> Result<Value> {
    let claimed = eventually(limit, async || claim(api, kind, 1).await.transpose());
    claimed.await.with_context(|| format!("there is no job of kind {kind}"))?
}

async fn complete(api: &JsonClient, job: &Value) -> Result<()> {
    let body = json!({"lease_no": job["lease_no"], "result": {"by": job["lease_no"]}});
    api.post(&format!("/jobs/{}/complete", job["id"]), &body).await?.expect_status(200)?;
    Ok(())
}

/// The first run of a job began when it was due, or later.
async fn began_in_time(api: &JsonClient, claimed: &Value, wished: &Value) -> Result<()> {
    let job = api.get(&format!("/jobs/{}", claimed["id"])).await?.expect_status(200)?.body;
    let began = instant(&job["attempts"][0]["started_at"])?;
    ensure!(began >= instant(&wished["run_at"])?, "it began too early: {job}");
    Ok(())
}

/// Every time of the schedule had one job, none before its time.
async fn fires_once_each(apis: &[JsonClient], schedule: i64) -> Result<()> {
    let path = format!("/schedules/{schedule}");
    let fired = eventually(SOON, async || {
        let seen = apis[0].get(&path).await.ok()?.body;
        (seen["fired_total"].as_u64() >= Some(FIRES)).then_some(())
    });
    fired.await.context("the schedule does not fire")?;
    let paused = apis[1].patch(&path, &json!({"paused": true})).await?.expect_status(200)?.body;
    let jobs = apis[0].get(&format!("/jobs?kind={TICK_KIND}&limit=200")).await?;
    let jobs = jobs.body["jobs"].as_array().cloned().context("no jobs")?;
    let times: BTreeSet<Timestamp> =
        jobs.iter().map(|job| instant(&job["run_at"])).collect::<Result<_>>()?;
    ensure!(times.len() == jobs.len(), "a time was fired twice: {jobs:?}");
    ensure!(paused["fired_total"] == jobs.len(), "{paused}, {} jobs", jobs.len());
    ensure!(paused["missed_total"] == 0, "{paused}");
    for job in &jobs {
        ensure!(instant(&job["created_at"])? >= instant(&job["run_at"])?, "too early: {job}");
    }
    Ok(())
}

/// What the holder held has one run and one result.
async fn ran_once(site: &Site, holder: &Holder<'_>) -> Result<()> {
    let stored = site.stored().await?;
    ensure!(stored.violations.is_empty(), "{:?}", stored.violations);
    for held in &holder.jobs {
        let id = number(&held["id"]);
        let job = stored.jobs.iter().find(|job| job.facts().id.get() == id);
        let Some(Job::Finished(job)) = job else { anyhow::bail!("{id} has not ended: {job:?}") };
        let FinishedState::Completed { result } = &job.state else {
            anyhow::bail!("{id} is not completed: {job:?}")
        };
        ensure!(result.to_value() == json!({"by": held["lease_no"]}), "{job:?}");
        ensure!((job.facts.attempt, job.facts.runs.total) == (1, 1), "it ran twice: {job:?}");
    }
    Ok(())
}

fn instant(value: &Value) -> Result<Timestamp> {
    let text = value.as_str().with_context(|| format!("{value} is no time"))?;
    Ok(Timestamp::parse_rfc3339(text)?)
}
