//! The server is killed at every place that a task comes by: around the commit that makes it, before
//! and after it is sent, before and after what came of that is stored, while it is looked at, while its
//! files are kept, and around the commit that ends it. Whoever comes after it brings every task to its
//! end, and nobody has paid twice.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_core::failpoint;
use serde_json::Value;

use super::place::{TaskSite, on_both, wish};
use crate::bots::place::was_killed;

/// Every place that only tasks and alarms come by and that one task can be brought to.
const PLACES: [&str; 10] = [
    "store.task_change",
    "store.task_create",
    "tasks.changed",
    "tasks.created",
    "tasks.ending",
    "tasks.kept",
    "tasks.polled",
    "tasks.round",
    "tasks.sending",
    "tasks.sent",
];
const DIES_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn every_place_exists() {
    let missing: Vec<_> = PLACES.iter().filter(|place| !failpoint::ALL.contains(place)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[tokio::test]
async fn nobody_pays_twice_wherever_the_server_is_killed() {
    on_both(async |backend| {
        let place = TaskSite::new(backend).await?;
        let mut node = place.site.start(place.options()).await?;
        let user = place.user().await?;
        node.stop().await?;
        let mut acknowledged = Vec::new();
        for death in PLACES {
            let mut node = place.site.spawn(place.options().env("ROUNDSMAN_FAILPOINTS", death))?;
            // What others have left may kill it before it is ready.
            let _ = node.wait_ready().await;
            // Whether it is answered depends on where it dies.
            for (kind, name) in [("kling_video", "a"), ("replicate", "b"), ("nano_banana", "c")] {
                let answer = user.post("/tasks", &wish(kind, name)).await;
                if let Ok(answer) = answer
                    && answer.status == 201
                {
                    acknowledged.push(answer.body["task_id"].clone());
                }
            }
            place.end_all();
            let status = node.wait_exit(DIES_WITHIN).await;
            let status = status.with_context(|| format!("never reached: {death}"))?;
            ensure!(was_killed(status), "{death}: {status}");
            place.leases_end().await?;
        }
        let node = place.site.start(place.options()).await?;
        let tasks = place.wait_all_over().await?;
        let is_known = |id: &Value| tasks.iter().any(|task| task["task_id"] == *id);
        ensure!(acknowledged.iter().all(is_known), "what was acknowledged is there");
        check_ends(&place, &tasks).await?;
        place.end(node).await
    })
    .await;
}

/// Every task was taken once at most; those that nobody can be asked about say so.
async fn check_ends(place: &TaskSite, tasks: &[Value]) -> Result<()> {
    let of = |service: &str| -> Vec<&Value> {
        tasks.iter().filter(|task| task["external_service"] == service).collect()
    };
    for (service, generator) in
        [("kling", &place.kling), ("replicate", &place.replicate), ("gemini", &place.gemini)]
    {
        let paid = usize::try_from(generator.submissions_total())?;
        let sent = of(service).len();
        ensure!(paid <= sent, "{service}: {paid} were paid for {sent} tasks");
    }
    for task in tasks {
        let (status, code) = (&task["status"], &task["error"]["code"]);
        let is_sound = status == "completed" || (status == "failed" && code == "submit_unknown");
        ensure!(is_sound, "{task:#}");
        ensure!(code != "submit_unknown" || task["external_service"] != "kling", "{task:#}");
    }
    let told = place.document_tasks().await?;
    for task in tasks {
        let id = task["task_id"].as_str().context("no id")?;
        ensure!(told[id]["status"] == task["status"], "{id}: {} in {told}", task["status"]);
    }
    Ok(())
}
