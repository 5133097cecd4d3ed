//! J-10 and J-12: what a bad job or a bad result can do, which is nothing to anybody else.

use anyhow::{Context, Result, ensure};
use roundsman_core::jobs::{FinishedState, Job};
use roundsman_testkit::{JsonClient, eventually};
use serde_json::{Value, json};

use crate::load::number;
use crate::site::{Backend, PAYLOAD_CANARY, SOON, Site};

const POISON: &str = "poison.work";
const OTHER: &str = "other.work";
const ATTEMPTS: u32 = 3;
const OTHERS: usize = 20;
/// Small, so that a result can be too large for it and still fit into a body.
const RESULT_BYTES_MAX: &str = "1000";

#[tokio::test]
async fn a_job_that_kills_its_workers_is_given_up_on_sqlite() {
    a_job_that_kills_its_workers_is_given_up(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn a_job_that_kills_its_workers_is_given_up_on_postgres() {
    a_job_that_kills_its_workers_is_given_up(Backend::Postgres).await.unwrap();
}

/// Every worker that takes the job is never heard of again.
async fn a_job_that_kills_its_workers_is_given_up(backend: Backend) -> Result<()> {
    let site = Site::new(backend).await?;
    let mut node = site.start(site.options()).await?;
    let api = node.admin()?;
    let poison = enqueue(&api, POISON).await?;
    for _ in 0..OTHERS {
        enqueue(&api, OTHER).await?;
    }
    for attempt in 1..=ATTEMPTS {
        let victim = claim(&api, POISON).await?;
        ensure!(number(&victim["id"]) == poison && victim["attempt"] == attempt, "{victim}");
    }
    for _ in 0..OTHERS {
        let job = claim(&api, OTHER).await?;
        let done = json!({"lease_no": job["lease_no"]});
        api.post(&format!("/jobs/{}/complete", job["id"]), &done).await?.expect_status(200)?;
    }
    let given_up = eventually(SOON, async || {
        let job = api.get(&format!("/jobs/{poison}")).await.ok()?;
        (job.body["state"] == "failed").then_some(job.body)
    });
    let job = given_up.await.context("the poison job was not given up")?;
    ensure!(job["error"]["code"] == "crashed" && job["attempt"] == ATTEMPTS, "{job}");
    node.stop().await?;
    let stored = site.stored().await?;
    ensure!(stored.violations.is_empty(), "{:?}", stored.violations);
    Ok(())
}

#[tokio::test]
async fn a_result_that_cannot_be_kept_loses_no_job_on_sqlite() {
    a_result_that_cannot_be_kept_loses_no_job(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn a_result_that_cannot_be_kept_loses_no_job_on_postgres() {
    a_result_that_cannot_be_kept_loses_no_job(Backend::Postgres).await.unwrap();
}

/// A refused result changes nothing: its worker still has the job and may send one that fits.
async fn a_result_that_cannot_be_kept_loses_no_job(backend: Backend) -> Result<()> {
    let site = Site::new(backend).await?;
    let options = || {
        let options = site.options().env("ROUNDSMAN_JOBS_RESULT_BYTES_MAX", RESULT_BYTES_MAX);
        options.env("ROUNDSMAN_JOBS_STALLED_SECS", "60")
    };
    let mut node = site.start(options()).await?;
    let api = node.admin()?;
    let id = enqueue(&api, OTHER).await?;
    let job = claim(&api, OTHER).await?;
    let complete = format!("/jobs/{id}/complete");
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    for (result, status) in [(json!("x".repeat(2_000)), 413), (json!("a\0b"), 422), (deep, 422)] {
        let body = json!({"lease_no": job["lease_no"], "result": result});
        let refused = api.post(&complete, &body).await?.expect_status(status)?;
        ensure!(refused.body["code"].is_string(), "{}", refused.text);
    }
    let fits = json!({"lease_no": job["lease_no"], "result": "ü✓"});
    api.post(&complete, &fits).await?.expect_status(200)?;
    node.stop().await?;
    let stored = site.stored().await?;
    ensure!(stored.violations.is_empty(), "{:?}", stored.violations);
    let kept = stored.jobs.iter().find(|job| job.facts().id.get() == id).context("it is gone")?;
    let Job::Finished(kept) = kept else { anyhow::bail!("not finished: {kept:?}") };
    let FinishedState::Completed { result } = &kept.state else { anyhow::bail!("{kept:?}") };
    ensure!(result.to_value() == "ü✓", "{result:?}");
    Ok(())
}

async fn enqueue(api: &JsonClient, kind: &str) -> Result<i64> {
    let wish =
        json!({"kind": kind, "max_attempts": ATTEMPTS, "payload": {"canary": PAYLOAD_CANARY}});
    let made = api.post("/jobs", &wish).await?.expect_status(201)?;
    Ok(number(&made.body["id"]))
}

async fn claim(api: &JsonClient, kind: &str) -> Result<Value> {
    let wish = json!({"worker": "worker", "kinds": [kind], "wait_secs": 20});
    let claimed = api.post("/jobs/claim", &wish).await?.expect_status(200)?;
    let job = claimed.body["jobs"].get(0).cloned();
    job.with_context(|| format!("nothing to claim of {kind}"))
}
