//! Two nodes on one database: any of them takes a wish, any of them looks after it, and what one leaves
//! the other takes over.

use anyhow::{Context, Result, ensure};
use roundsman_testkit::{JsonClient, eventually};
use serde_json::Value;

use super::place::{PROJECT, TaskSite, wish};
use crate::site::{Backend, SOON};

#[tokio::test]
async fn two_nodes_do_every_task_once() {
    async fn run() -> Result<()> {
        let place = TaskSite::new(Backend::Postgres).await?;
        let mut first = place.site.start(place.options()).await?;
        let mut second = place.site.start(place.options_beside()).await?;
        let user = place.user().await?;
        for number in 0..20 {
            let made = user.post("/tasks", &wish("kling_video", &format!("n{number}"))).await?;
            made.expect_status(201)?;
        }
        // The first one dies while all of them are under way.
        first.kill_9().await?;
        place.leases_end().await?;
        let admin = second.admin()?;
        let over = eventually(SOON, async || {
            place.end_all();
            let tasks = tasks(&admin).await.ok()?;
            let done = |task: &Value| task["status"] == "completed";
            tasks.iter().all(done).then_some(tasks.len())
        });
        ensure!(over.await.context("not all are done")? == 20);
        ensure!(place.kling.submissions_total() == 20, "each was paid once");
        second.stop().await?;
        let stored = place.site.stored().await?;
        ensure!(stored.violations.is_empty(), "the store: {:?}", stored.violations);
        Ok(())
    }
    run().await.unwrap();
}

async fn tasks(admin: &JsonClient) -> Result<Vec<Value>> {
    let page = admin.get(&format!("/projects/{PROJECT}/tasks?limit=200")).await?;
    Ok(page.expect_status(200)?.body["tasks"].as_array().context("no list")?.clone())
}
