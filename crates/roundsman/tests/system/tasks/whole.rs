//! A task from its wish to the document, and an alarm from its setting to the user's webhook.

use anyhow::{Context, ensure};
use roundsman_testkit::eventually;
use roundsman_testkit::executors::Ending;
use serde_json::json;

use super::place::{PROJECT, TaskSite, on_both, wish};
use crate::site::SOON;

#[tokio::test]
async fn tasks_are_done_with_nobody_connected_and_are_in_the_document() {
    on_both(async |backend| {
        let place = TaskSite::new(backend).await?;
        let node = place.site.start(place.options()).await?;
        let user = place.user().await?;
        let video = user.post("/tasks", &wish("kling_video", "n1")).await?.expect_status(201)?.body;
        ensure!(video["status"] == "processing", "it is told what became of it: {video}");
        let picture =
            user.post("/tasks", &wish("nano_banana", "n2")).await?.expect_status(201)?.body;
        ensure!(picture["status"] == "completed", "a generator that answers at once: {picture}");
        place.kling.end(&place.kling.ids()[0], Ending::Succeeded);
        let tasks = place.wait_all_over().await?;
        ensure!(tasks.iter().all(|task| task["status"] == "completed"), "{tasks:#?}");
        for task in &tasks {
            let url = task["result_url"].as_str().context("no address")?;
            let file = user.get(url).await?.expect_status(200)?;
            ensure!(!file.text.is_empty(), "{url} is empty");
        }
        let told = place.document_tasks().await?;
        for task in &tasks {
            let id = task["task_id"].as_str().context("no id")?;
            ensure!(told[id]["status"] == "completed", "{id} in {told}");
        }
        ensure!(user.get("/results/no/0").await?.status == 404);
        ensure!(place.kling.submissions_total() == 1 && place.gemini.submissions_total() == 1);
        place.end(node).await
    })
    .await;
}

#[tokio::test]
async fn what_other_services_ask_of_a_room_needs_their_token() {
    on_both(async |backend| {
        let place = TaskSite::new(backend).await?;
        let node = place.site.start(place.options()).await?;
        let (user, admin) = (place.user().await?, place.admin()?);
        let task = user.post("/tasks", &wish("kling_video", "n1")).await?.expect_status(201)?.body;
        let trigger = format!("/rooms/{PROJECT}/trigger-task-polling");
        let broadcast = format!("/rooms/{PROJECT}/broadcast-task");
        let said = json!({"task_id": task["task_id"], "result_url": "https://example.org/a.mp4"});
        ensure!(user.post(&trigger, &json!({})).await?.status == 403);
        ensure!(user.post(&broadcast, &said).await?.status == 403);
        admin.post(&trigger, &json!({})).await?.expect_status(200)?;
        let applied = admin.post(&broadcast, &said).await?.expect_status(200)?.body;
        ensure!(
            applied["is_applied"] == true && applied["task"]["status"] == "completed",
            "{applied}"
        );
        let again = admin.post(&broadcast, &said).await?.expect_status(200)?.body;
        ensure!(again["is_applied"] == false, "{again}");
        let forged = user.post("/webhooks/replicate", &json!({"id": "x"})).await?;
        ensure!(forged.status == 401, "{} {}", forged.status, forged.text);
        ensure!(user.post("/webhooks/painting", &json!({})).await?.status == 404);
        place.end(node).await
    })
    .await;
}

#[tokio::test]
async fn an_alarm_that_was_acknowledged_fires_after_a_kill() {
    on_both(async |backend| {
        let place = TaskSite::new(backend).await?;
        let mut node = place.site.start(place.options()).await?;
        let user = place.user().await?;
        let path = format!("/rooms/{PROJECT}/alarms");
        for name in ["a", "b", "c"] {
            let alarm = json!({"name": name, "after_secs": 0.5, "payload": {"name": name}});
            user.post(&path, &alarm).await?.expect_status(200)?;
        }
        node.kill_9().await?;
        place.leases_end().await?;
        let node = place.site.start(place.options()).await?;
        let fired = eventually(SOON, async || {
            place.hurry().await.ok()?;
            let left = place.admin().ok()?.get(&path).await.ok()?.body;
            left["alarms"].as_array().is_some_and(Vec::is_empty).then_some(())
        });
        fired.await.context("they have not fired")?;
        place.end(node).await
    })
    .await;
}
