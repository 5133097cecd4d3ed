//! How soon a worker that waits hears of work.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::site::{Node, PAYLOAD_CANARY, Stopwatch};

const KIND: &str = "pickup.work";
/// A worker that has heard nothing for this long has looked, found nothing, and waits.
const SURELY_WAITING: Duration = Duration::from_millis(300);

/// Has a worker wait at one node, enqueues a job at another, and measures how long it takes from
/// there until the worker has it.
pub(crate) async fn pick_up(enqueue_at: &Node, wait_at: &Node) -> Result<Duration> {
    let (here, there) = (enqueue_at.admin()?, wait_at.admin()?);
    let body = json!({"worker": "waiting", "kinds": [KIND], "wait_secs": 30});
    let claim = there.post("/jobs/claim", &body);
    tokio::pin!(claim);
    let early = tokio::time::timeout(SURELY_WAITING, &mut claim).await;
    ensure!(early.is_err(), "there is no work, and yet the worker was answered");
    let watch = Stopwatch::start();
    let wish = json!({"kind": KIND, "payload": {"canary": PAYLOAD_CANARY}});
    here.post("/jobs", &wish).await?.expect_status(201)?;
    let claimed = claim.await?.expect_status(200)?;
    let took = watch.elapsed();
    let job = claimed.body["jobs"].get(0).context("the worker got no job")?;
    let path = format!("/jobs/{}/complete", job["id"]);
    there.post(&path, &json!({"lease_no": job["lease_no"]})).await?.expect_status(200)?;
    Ok(took)
}
