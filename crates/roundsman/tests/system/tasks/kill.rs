//! The server is killed at every place that a task comes by: around the commit that makes it, before
//! and after it is sent, before and after what came of that is stored, while it is looked at, while its
//! files are kept, and around the commit that ends it; and while alarms are set and taken back. Whoever
//! comes after it brings every task to its end, nobody has paid twice, and every alarm is as it was said.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use roundsman_core::failpoint;
use roundsman_testkit::{JsonClient, env};
use serde_json::{Value, json};

use super::place::{PROJECT, TaskSite, on_both, wish};
use crate::bots::place::was_killed;

/// Every place that only tasks and alarms come by, but the one where a document is told later: it has to
/// be damaged for that. A place after which a number stands is passed so often before it kills, so that
/// each commit of a task's way is the last one once: that it is being sent, that it was taken (with its
/// alarm), that it is done, and its end.
const DEATHS: [&str; 22] = [
    "store.task_prune",
    "store.task_rearm",
    "store.task_create",
    "tasks.created",
    "tasks.sending",
    "tasks.sent",
    "tasks.sent=2",
    "store.task_change",
    "store.task_change=2",
    "store.task_change=3",
    "store.task_change=5",
    "tasks.changed",
    "tasks.changed=2",
    "tasks.changed=4",
    "tasks.polled",
    "tasks.round",
    "tasks.kept",
    "tasks.ending",
    "tasks.told",
    "store.task_hint",
    "store.alarm_set",
    "store.alarm_cancel",
];
const DIES_WITHIN: Duration = Duration::from_secs(30);
const KILLS_FULL: usize = 500;

#[test]
fn every_place_exists() {
    let tried: BTreeSet<&str> = DEATHS.iter().filter_map(|death| death.split('=').next()).collect();
    let ours = ["tasks.", "store.task_", "store.alarm_"];
    let is_ours = |place: &&str| ours.iter().any(|prefix| place.starts_with(prefix));
    let mut all: BTreeSet<&str> = failpoint::ALL.iter().copied().filter(is_ours).collect();
    all.remove("store.task_tell");
    assert_eq!(tried, all, "every place is tried");
}

/// What was acknowledged by servers that are dead.
#[derive(Default)]
struct Acknowledged {
    tasks: Vec<Value>,
    /// Alarms that are set, and those that were taken back.
    set: Vec<String>,
    taken_back: Vec<String>,
}

/// L-2, L-3, and the alarms of users.
#[tokio::test]
async fn nobody_pays_twice_wherever_the_server_is_killed() {
    on_both(async |backend| {
        let place = TaskSite::new(backend).await?;
        let mut node = place.site.start(place.options()).await?;
        let user = place.user().await?;
        node.stop().await?;
        let mut acknowledged = Acknowledged::default();
        let usual = if env::full() { KILLS_FULL } else { DEATHS.len() };
        let kills = env::kills()?.unwrap_or(usual);
        for (number, death) in DEATHS.into_iter().cycle().take(kills).enumerate() {
            // Answered when it is stored, so that much is acknowledged before the end.
            let options = place.options().env("ROUNDSMAN_TASKS_SUBMIT_WAIT_SECS", "0");
            let mut node = place.site.spawn(options.env("ROUNDSMAN_FAILPOINTS", death))?;
            // What others have left may kill it before it is ready.
            let _ = node.wait_ready().await;
            ask_everything(&place, &user, number, &mut acknowledged).await;
            place.end_all();
            let status = node.wait_exit(DIES_WITHIN).await;
            let status = status.with_context(|| format!("never reached: {death}"))?;
            ensure!(was_killed(status), "{death}: {status}");
            place.leases_end().await?;
        }
        let node = place.site.start(place.options()).await?;
        let tasks = place.wait_all_over().await?;
        let is_known = |id: &Value| tasks.iter().any(|task| task["task_id"] == *id);
        ensure!(acknowledged.tasks.iter().all(is_known), "what was acknowledged is there");
        let count = acknowledged.tasks.len();
        ensure!(count >= kills, "hardly anything was acknowledged: {count}");
        check_ends(&place, &tasks).await?;
        check_alarms(&place, &acknowledged, kills / 2).await?;
        place.end(node).await
    })
    .await;
}

/// Whether anything is answered depends on where the server dies.
async fn ask_everything(
    place: &TaskSite,
    user: &JsonClient,
    number: usize,
    acknowledged: &mut Acknowledged,
) {
    let Acknowledged { tasks, set, taken_back } = acknowledged;
    tokio::join!(ask_tasks(place, user, tasks), ask_alarms(user, number, set, taken_back));
}

async fn ask_tasks(place: &TaskSite, user: &JsonClient, tasks: &mut Vec<Value>) {
    for (kind, name) in [("kling_video", "a"), ("replicate", "b"), ("nano_banana", "c")] {
        let answer = user.post("/tasks", &wish(kind, name)).await;
        if let Ok(answer) = answer
            && answer.status == 201
        {
            tasks.push(answer.body["task_id"].clone());
        }
    }
    if let Some(callback) = place.replicate.ids().pop().and_then(|id| place.replicate.callback(&id))
    {
        let mut request = user.request(Method::POST, "/webhooks/replicate").body(callback.body);
        for (name, value) in &callback.headers {
            request = request.header(name, value);
        }
        let _ = user.send(request).await;
    }
}

async fn ask_alarms(
    user: &JsonClient,
    number: usize,
    set: &mut Vec<String>,
    taken_back: &mut Vec<String>,
) {
    let path = format!("/rooms/{PROJECT}/alarms");
    let asked = async |name: &str| {
        let alarm = json!({"name": name, "after_secs": 86_400, "payload": number});
        user.post(&path, &alarm).await.is_ok_and(|answer| answer.status == 200)
    };
    let (stays, goes) = (format!("stays-{number}"), format!("goes-{number}"));
    if asked(&stays).await {
        set.push(stays);
    }
    // One that was not acknowledged may be set all the same, or not.
    asked(&goes).await;
    let request = user.request(Method::DELETE, &format!("{path}/{goes}"));
    if user.send(request).await.is_ok_and(|answer| answer.status == 204) {
        taken_back.push(goes);
    }
}

/// Alarms that are set are set, and those that were taken back are not.
async fn check_alarms(
    place: &TaskSite,
    acknowledged: &Acknowledged,
    count_min: usize,
) -> Result<()> {
    let path = format!("/rooms/{PROJECT}/alarms");
    let shown = place.admin()?.get(&path).await?.expect_status(200)?.body;
    let names: Vec<&str> = shown["alarms"]
        .as_array()
        .context("no list")?
        .iter()
        .filter_map(|a| a["name"].as_str())
        .collect();
    let lost: Vec<_> =
        acknowledged.set.iter().filter(|name| !names.contains(&name.as_str())).collect();
    ensure!(lost.is_empty(), "set and lost: {lost:?}");
    let left: Vec<_> =
        acknowledged.taken_back.iter().filter(|name| names.contains(&name.as_str())).collect();
    ensure!(left.is_empty(), "taken back and still set: {left:?}");
    let count = acknowledged.set.len();
    ensure!(count >= count_min, "hardly any was acknowledged: {count}");
    Ok(())
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
