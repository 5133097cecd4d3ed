//! What a kind can ask for beyond being run, on the real program that is killed meanwhile: every time of
//! a schedule comes once, a batch calls back once, limits hold across nodes and restarts.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_core::Timestamp;
use roundsman_core::failpoint;
use roundsman_testkit::{JsonClient, eventually};
use serde_json::{Value, json};

use crate::bots::place::was_killed;
use crate::site::{Backend, Node, SOON, Site};

/// Places that nobody comes by who only enqueues and claims: see `kill`.
pub(crate) const PLACES: [&str; 12] = [
    "store.change_gate",
    "store.change_schedule",
    "store.claim_gated",
    "store.create_batch",
    "store.create_schedule",
    "store.delete_job",
    "store.delete_schedule",
    "store.enqueue_after",
    "store.fire_schedule",
    "store.prune_batches",
    "store.prune_dead",
    "store.reprioritise",
];
const TICK: &str = "orders.tick";
/// A process that was killed holds its leases until it is found to be gone.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn every_place_exists() {
    let missing: Vec<_> = PLACES.iter().filter(|place| !failpoint::ALL.contains(place)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

async fn on_both(run: impl AsyncFn(Backend) -> Result<()>) {
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    sqlite.context("on SQLite").and(postgres.context("on PostgreSQL")).unwrap();
}

/// Makes a schedule that comes every second and leaves nothing out. Returns where it is.
async fn every_second(api: &JsonClient) -> Result<String> {
    let wish = json!({"every_secs": 1, "missed": "all", "job": {"kind": TICK}});
    let made = api.post("/schedules", &wish).await?.expect_status(201)?;
    Ok(made.header("location").context("no location")?.to_owned())
}

async fn fired(api: &JsonClient, place: &str) -> Result<u64> {
    let shown = api.get(place).await?.expect_status(200)?;
    shown.body["fired_total"].as_u64().with_context(|| shown.text.clone())
}

/// Waits until the schedule has come this often.
async fn wait_fired(api: &JsonClient, place: &str, times: u64) -> Result<()> {
    let often = async || fired(api, place).await.ok().filter(|fired| *fired >= times);
    eventually(TAKEN_OVER_WITHIN, often).await.with_context(|| format!("{times} times"))?;
    Ok(())
}

/// Stops the schedule and sees to it that every second had one job and none had two.
async fn check_ticks(api: &JsonClient, place: &str) -> Result<()> {
    let paused = api.patch(place, &json!({"paused": true})).await?.expect_status(200)?.body;
    let jobs = api.get(&format!("/jobs?kind={TICK}&limit=200")).await?.expect_status(200)?.body;
    let jobs = jobs["jobs"].as_array().context("no jobs")?;
    ensure!(paused["fired_total"] == jobs.len(), "{} jobs, and {paused}", jobs.len());
    ensure!(paused["missed_total"] == 0, "{paused}");
    let mut times = Vec::new();
    for job in jobs {
        times.push(serde_json::from_value::<Timestamp>(job["run_at"].clone())?);
    }
    times.sort();
    for pair in times.windows(2) {
        let apart = pair[1].since(pair[0]);
        ensure!(apart == Duration::from_secs(1), "{apart:?} between {pair:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_schedule_survives_kills_and_comes_once_each_time() {
    on_both(async |backend| {
        let site = Site::new(backend).await?;
        let mut node = site.start(site.options()).await?;
        let place = every_second(&node.admin()?).await?;
        wait_fired(&node.admin()?, &place, 1).await?;
        node.kill_9().await?;

        // What it has written it tells nobody: it dies between the two.
        let dying = site.options().env("ROUNDSMAN_FAILPOINTS", "store.fire_schedule=2");
        let mut node = site.start(dying).await?;
        let status = node.wait_exit(TAKEN_OVER_WITHIN).await.context("it does not fire")?;
        ensure!(was_killed(status), "{status}");

        let mut node = site.start(site.options()).await?;
        let api = node.admin()?;
        let before = fired(&api, &place).await?;
        wait_fired(&api, &place, before + 2).await?;
        check_ticks(&api, &place).await?;
        node.stop().await
    })
    .await;
}

#[tokio::test]
async fn two_nodes_do_not_double_a_schedule() {
    async fn run() -> Result<()> {
        let site = Site::new(Backend::Postgres).await?;
        let mut one = site.start(site.options()).await?;
        let mut other = site.start(site.options()).await?;
        let place = every_second(&one.admin()?).await?;
        let api = other.admin()?;
        wait_fired(&api, &place, 4).await?;
        one.kill_9().await?;
        let before = fired(&api, &place).await?;
        wait_fired(&api, &place, before + 3).await?;
        one.start_again().await?;
        wait_fired(&api, &place, before + 5).await?;
        check_ticks(&api, &place).await?;
        one.stop().await?;
        other.stop().await
    }
    run().await.unwrap();
}

async fn claim(api: &JsonClient, kind: &str) -> Result<Vec<Value>> {
    let wish = json!({"worker": "w", "kinds": [kind], "max": 100, "lease_secs": 600});
    let claimed = api.post("/jobs/claim", &wish).await?.expect_status(200)?;
    Ok(claimed.body["jobs"].as_array().context("no jobs")?.clone())
}

/// Completes a job. Whether it is answered is for the caller to judge.
async fn complete(api: &JsonClient, job: &Value) -> Result<u16> {
    let path = format!("/jobs/{}/complete", job["id"]);
    Ok(api.post(&path, &json!({"lease_no": job["lease_no"]})).await?.status)
}

#[tokio::test]
async fn a_batch_calls_back_once_across_kills() {
    on_both(async |backend| {
        let site = Site::new(backend).await?;
        let mut node = site.start(site.options()).await?;
        let api = node.admin()?;
        let work = json!({"kind": "orders.work"});
        let wish = json!({"jobs": [work, work, work], "callback": {"kind": "orders.called"}});
        let made = api.post("/batches", &wish).await?.expect_status(201)?;
        let place = made.header("location").context("no location")?.to_owned();
        let numbers = &made.body["jobs"];
        let after = json!({"kind": "orders.after", "after": numbers, "on_failure": "cancel"});
        api.post("/jobs", &after).await?.expect_status(201)?;
        let jobs = claim(&api, "orders.work").await?;
        ensure!(jobs.len() == 3, "{jobs:?}");
        ensure!(complete(&api, &jobs[0]).await? == 200, "the first is done");
        node.kill_9().await?;

        let mut node = site.start(site.options()).await?;
        let api = node.admin()?;
        ensure!(complete(&api, &jobs[1]).await? == 200, "its lease outlives the server");
        let shown = api.get(&place).await?.expect_status(200)?.body;
        ensure!(shown["counts"]["completed"] == 2 && shown["finished_at"].is_null(), "{shown}");
        ensure!(claim(&api, "orders.called").await?.is_empty(), "it called back early");
        ensure!(claim(&api, "orders.after").await?.is_empty(), "it did not wait");
        node.stop().await?;

        // The last one ends, and the server with it, before anybody is told.
        let dying = site.options().env("ROUNDSMAN_FAILPOINTS", "outside.settled=1");
        let mut node = site.start(dying).await?;
        ensure!(complete(&node.admin()?, &jobs[2]).await.is_err(), "it was answered");
        let status = node.wait_exit(SOON).await?;
        ensure!(was_killed(status), "{status}");

        let mut node = site.start(site.options()).await?;
        let api = node.admin()?;
        ensure!(complete(&api, &jobs[2]).await? != 200, "it ended twice");
        let shown = api.get(&place).await?.expect_status(200)?.body;
        ensure!(shown["counts"]["completed"] == 3 && !shown["finished_at"].is_null(), "{shown}");
        let called = claim(&api, "orders.called").await?;
        ensure!(
            called.len() == 1 && called[0]["id"] == shown["callback_job"],
            "{called:?}, {shown}"
        );
        ensure!(claim(&api, "orders.after").await?.len() == 1, "nothing followed");
        for kind in ["orders.called", "orders.after"] {
            let all = api.get(&format!("/jobs?kind={kind}")).await?.expect_status(200)?.body;
            ensure!(all["jobs"].as_array().is_some_and(|jobs| jobs.len() == 1), "{all}");
        }
        node.stop().await
    })
    .await;
}

#[tokio::test]
async fn failed_jobs_are_counted_for_alerts_found_and_replayed() {
    on_both(async |backend| {
        let site = Site::new(backend).await?;
        let mut node = site.start(site.options()).await?;
        let api = node.admin()?;
        api.post("/jobs", &json!({"kind": "orders.dead"})).await?.expect_status(201)?;
        let job = claim(&api, "orders.dead").await?.pop().context("nothing to claim")?;
        let error = json!({"code": "timeout", "message": "no answer from example.org"});
        let body = json!({"lease_no": job["lease_no"], "error": error, "fatal": true});
        api.post(&format!("/jobs/{}/fail", job["id"]), &body).await?.expect_status(200)?;
        let kept = "roundsman_jobs_dead_kept{kind=\"orders.dead\"} 1";
        let metrics =
            async || api.get("/metrics").await.map(|shown| shown.text).unwrap_or_default();
        let seen = async || metrics().await.contains(kept).then_some(());
        eventually(SOON, seen).await.context("it is not counted as kept")?;
        ensure!(metrics().await.contains("roundsman_jobs_dead_total{kind=\"orders.dead\"} 1"));

        let found = api.get("/jobs?state=failed&error=no%20answer").await?.expect_status(200)?;
        ensure!(found.body["jobs"][0]["id"] == job["id"], "{}", found.text);
        let filter = json!({"state": "failed", "error": "no answer"});
        let replay = json!({"action": "retry", "filter": filter});
        let replayed = api.post("/jobs/bulk", &replay).await?.expect_status(200)?;
        ensure!(replayed.body["changed"] == 1, "{}", replayed.text);
        ensure!(claim(&api, "orders.dead").await?.len() == 1, "it is not tried again");
        let gone = async || (!metrics().await.contains(kept)).then_some(());
        eventually(SOON, gone).await.context("it is still counted as kept")?;
        node.stop().await
    })
    .await;
}

#[tokio::test]
async fn limits_hold_for_all_nodes_and_after_a_kill() {
    async fn run() -> Result<()> {
        let site = Site::new(Backend::Postgres).await?;
        let mut one = site.start(site.options()).await?;
        let mut other = site.start(site.options()).await?;
        let token = user(&one).await?;
        let here = one.client()?.with_header("x-api-key", &token)?;
        let there = other.client()?.with_header("x-api-key", &token)?;
        let limits = json!({"concurrency": 5, "tenant_concurrency": 2});
        here.put("/kinds/orders.render/limits", &limits).await?.expect_status(200)?;
        let wish = |tenant: &str| json!({"kind": "orders.render", "tenant": tenant});
        let wishes: Vec<Value> =
            ["a", "b", "c"].iter().flat_map(|one| vec![wish(one); 4]).collect();
        there.post("/jobs", &json!({"jobs": wishes})).await?.expect_status(201)?;

        let kind = "orders.render";
        let (first, second) = tokio::join!(claim(&here, kind), claim(&there, kind));
        let running = [first?, second?].concat();
        check_limits(&running)?;
        one.kill_9().await?;
        ensure!(claim(&there, kind).await?.is_empty(), "a kill made room");
        one.start_again().await?;
        ensure!(claim(&here, kind).await?.is_empty(), "a start made room");
        ensure!(complete(&here, &running[0]).await? == 200, "it can be completed");
        let next = claim(&there, kind).await?;
        ensure!(next.len() == 1, "{next:?}");
        check_limits(&[&running[1..], &next].concat())?;
        here.delete("/kinds/orders.render/limits").await?.expect_status(200)?;
        ensure!(claim(&there, kind).await?.len() == 6, "nothing is kept back any more");
        one.stop().await?;
        other.stop().await
    }
    run().await.unwrap();
}

/// What a server is asked for so that it comes by a place, and what must be true when it was asked again.
/// A place that comes round by itself is asked for nothing.
async fn ask(api: &JsonClient, place: &str, scene: &Scene) -> Result<()> {
    let Scene { schedule, parent } = scene;
    let answer = match place {
        "store.change_gate" => {
            api.put("/kinds/orders.gated/limits", &json!({"concurrency": 3})).await?
        }
        "store.change_schedule" => api.patch(schedule, &json!({"name": "changed"})).await?,
        "store.claim_gated" => {
            let wish = json!({"worker": "w", "kinds": ["orders.gated"]});
            api.post("/jobs/claim", &wish).await?
        }
        "store.create_batch" => {
            let named = api.with_header("idempotency-key", "once")?;
            let wish = json!({"jobs": [{"kind": "orders.batched"}, {"kind": "orders.batched"}]});
            named.post("/batches", &wish).await?
        }
        "store.create_schedule" => {
            let wish = json!({"every_secs": 3600, "job": {"kind": "orders.made"}});
            api.post("/schedules", &wish).await?
        }
        "store.delete_job" => {
            let filter = json!({"kind": "orders.over"});
            api.post("/jobs/bulk", &json!({"action": "delete", "filter": filter})).await?
        }
        "store.delete_schedule" => {
            let answer = api.delete(schedule).await?;
            ensure!(matches!(answer.status, 204 | 404), "{}", answer.text);
            return Ok(());
        }
        "store.enqueue_after" => {
            let wish = json!({"kind": "orders.after", "key": "k", "after": [parent]});
            let answer = api.post("/jobs", &wish).await?;
            ensure!(matches!(answer.status, 201 | 409), "{}", answer.text);
            return Ok(());
        }
        "store.reprioritise" => {
            let filter = json!({"kind": "orders.parent"});
            let wish = json!({"action": "reprioritise", "priority": 7, "filter": filter});
            api.post("/jobs/bulk", &wish).await?
        }
        "store.fire_schedule" | "store.prune_batches" | "store.prune_dead" => return Ok(()),
        other => anyhow::bail!("nobody knows how to come by {other}"),
    };
    ensure!(answer.status < 300, "{place}: {}", answer.text);
    Ok(())
}

/// What the kills below find.
struct Scene {
    /// Where it is.
    schedule: String,
    parent: Value,
}

impl Scene {
    async fn new(api: &JsonClient) -> Result<Scene> {
        let limits = json!({"concurrency": 2});
        api.put("/kinds/orders.gated/limits", &limits).await?.expect_status(200)?;
        let mut parent = Value::Null;
        for kind in ["orders.gated", "orders.over", "orders.parent"] {
            let made = api.post("/jobs", &json!({"kind": kind})).await?.expect_status(201)?;
            parent = made.body["id"].clone();
        }
        let job = claim(api, "orders.over").await?.pop().context("nothing to claim")?;
        ensure!(complete(api, &job).await? == 200, "it can be completed");
        let schedule = every_second(api).await?;
        Ok(Scene { schedule, parent })
    }

    /// After every kill, and with everything asked for again by a server that lives.
    async fn check(&self, api: &JsonClient) -> Result<()> {
        let gate = api.get("/kinds/orders.gated").await?.expect_status(200)?.body;
        ensure!(gate["limits"]["concurrency"] == 3, "{gate}");
        api.get(&self.schedule).await?.expect_status(404)?;
        for (kind, jobs) in [("batched", 2), ("after", 1), ("parent", 1), ("gated", 1), ("over", 0)]
        {
            let page = api.get(&format!("/jobs?kind=orders.{kind}")).await?.expect_status(200)?;
            let found = page.body["jobs"].as_array().context("no jobs")?;
            ensure!(found.len() == jobs, "{kind}: {}", page.text);
            ensure!(kind != "parent" || found[0]["priority"] == 7, "{}", page.text);
            ensure!(kind != "after" || found[0]["state"] == "scheduled", "{}", page.text);
        }
        Ok(())
    }
}

#[tokio::test]
async fn wherever_it_is_killed_what_is_asked_for_again_happens_once() {
    on_both(async |backend| {
        let site = Site::new(backend).await?;
        let mut node = site.start(site.options()).await?;
        let scene = Scene::new(&node.admin()?).await?;
        node.stop().await?;
        // What takes the schedule away comes last.
        let (first, last): (Vec<&str>, Vec<&str>) =
            PLACES.iter().partition(|place| **place != "store.delete_schedule");
        for place in first.into_iter().chain(last) {
            if backend == Backend::Sqlite && place == "store.claim_gated" {
                // There a claim passes gates in the one transaction that every claim is.
                continue;
            }
            let dying = site.options().env("ROUNDSMAN_FAILPOINTS", format!("{place}=1"));
            let mut node = site.spawn(dying)?;
            if node.wait_ready().await.is_ok() {
                // It may die at its own work before it is asked, or while.
                let _ = ask(&node.admin()?, place, &scene).await;
            }
            let status = node.wait_exit(TAKEN_OVER_WITHIN).await;
            let status = status.with_context(|| format!("{place} was never reached"))?;
            ensure!(was_killed(status), "{place}: {status}");
            let violations = site.stored().await?.violations;
            ensure!(violations.is_empty(), "killed at {place}: {violations:?}");

            let mut node = site.start(site.options()).await?;
            ask(&node.admin()?, place, &scene).await?;
            node.stop().await?;
        }
        let mut node = site.start(site.options()).await?;
        scene.check(&node.admin()?).await?;
        node.stop().await
    })
    .await;
}

fn check_limits(running: &[Value]) -> Result<()> {
    ensure!(running.len() == 5, "{} run at once", running.len());
    for tenant in ["a", "b", "c"] {
        let of_tenant = running.iter().filter(|job| job["tenant"] == tenant).count();
        ensure!((1..=2).contains(&of_tenant), "{of_tenant} of {tenant}");
    }
    Ok(())
}

/// Makes a user and returns their token.
pub(crate) async fn user(node: &Node) -> Result<String> {
    let admin = node.admin()?;
    let user = admin.post("/admin/users", &json!({"email": "ada@example.org"})).await?;
    let made = admin.post(&format!("/admin/users/{}/tokens", user.body["id"]), &json!({})).await?;
    let token = made.body["token"].as_str();
    Ok(token.with_context(|| format!("no token: {}", made.text))?.to_owned())
}
