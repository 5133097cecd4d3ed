//! What became of tasks reaches whoever is connected, through the document: clients of the protocol and
//! of the raw mode, at the node that polls and at the others.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use roundsman_engine::clock::DatabaseClock;
use roundsman_testkit::executors::{Ending, GeneratorStandIn, Provider};
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{JsonClient, eventually};
use serde_json::{Value, json};

use super::npm::NpmClient;
use super::place::{Owner, PROJECT, RoomSite, on_both, socket_url};
use super::wire::RawClient;
use crate::site::{ADMIN_TOKEN, Backend, SOON};

const TOLD_URL: &str = "https://example.org/dog.mp4";

/// A server that knows one generator, and looks at it often.
fn configured(options: ServerOptions, generator: &GeneratorStandIn) -> ServerOptions {
    let account = generator.account();
    options
        .env("ROUNDSMAN_TASKS_POLL_SECS", "0.2")
        .env("ROUNDSMAN_TASKS_SUBMIT_WAIT_SECS", "5")
        .env("ROUNDSMAN_EGRESS_ALLOW", "127.0.0.0/8")
        .env("ROUNDSMAN_EXECUTORS_KLING_PRESET", "kling")
        .env("ROUNDSMAN_EXECUTORS_KLING_BASE_URL", generator.url())
        .env("ROUNDSMAN_EXECUTORS_KLING_ACCESS_KEY", &account.access_key)
        .env("ROUNDSMAN_EXECUTORS_KLING_SECRET_KEY", &account.secret_key)
}

/// Asks for a video for a node, and lets the generator end it.
async fn video(
    owner: &Owner,
    generator: &GeneratorStandIn,
    node: &str,
    ending: Ending,
) -> Result<String> {
    let known = generator.ids();
    let wish = json!({"project_id": PROJECT, "task_type": "kling_video", "node_id": node,
                      "params": {"prompt": "a cat"}});
    let task = owner.client.post("/tasks", &wish).await?.expect_status(201)?.body;
    let id = task["task_id"].as_str().context("no id")?.to_owned();
    let begun =
        eventually(SOON, async || generator.ids().into_iter().find(|id| !known.contains(id)));
    generator.end(&begun.await.context("it was never sent")?, ending);
    Ok(id)
}

/// Asks for a video for a node, and says at a node what became of it.
async fn tell(owner: &Owner, base_url: &str, node: &str) -> Result<String> {
    let wish = json!({"project_id": PROJECT, "task_type": "kling_video", "node_id": node,
                      "params": {"prompt": "a dog"}});
    let task = owner.client.post("/tasks", &wish).await?.expect_status(201)?.body;
    let id = task["task_id"].as_str().context("no id")?.to_owned();
    let service = JsonClient::new(base_url)?.with_header("x-admin-api-key", ADMIN_TOKEN)?;
    let said = json!({"task_id": id, "result_url": TOLD_URL});
    let path = format!("/rooms/{PROJECT}/broadcast-task");
    service.post(&path, &said).await?.expect_status(200)?;
    Ok(id)
}

#[tokio::test]
async fn results_of_tasks_reach_whoever_is_connected() {
    on_both(async |backend| {
        let place = RoomSite::new(backend).await?;
        let clock = Arc::new(DatabaseClock::start());
        let generator = GeneratorStandIn::start(Provider::Kling, clock).await?;
        place.site.keep_secret(&generator.account().secret_key);
        let mut node = place.site.start(configured(place.options(), &generator)).await?;
        let mut beside = match backend {
            Backend::Sqlite => None,
            Backend::Postgres => {
                Some(place.site.start(configured(place.options_beside(), &generator)).await?)
            }
        };
        let owner = place.owner("ada@example.org").await?;
        let there = beside.as_ref().map_or_else(|| place.base_url(), |node| node.base_url());
        let mut one = NpmClient::connect(&place.socket_url()).await?;
        let mut two = NpmClient::connect(&socket_url(&there)).await?;
        for client in [&mut one, &mut two] {
            client.join(PROJECT, &owner.key).await?;
        }
        let waiting = json!({"data": {"status": "generating", "prompt": "a cat"}});
        for key in ["good", "bad", "told"] {
            one.set(PROJECT, key, &waiting).await?;
            two.wait(PROJECT, key, &waiting).await?;
        }
        let mut raw = RawClient::connect(&there, PROJECT, &owner.key, 77).await?;

        let good = video(&owner, &generator, "good", Ending::Succeeded).await?;
        let failed = Ending::Failed { code: "1".to_owned(), message: "no cat".to_owned() };
        let bad = video(&owner, &generator, "bad", failed).await?;
        for client in [&mut one, &mut two] {
            client.wait_status(&good, "good", "completed").await?;
            client.wait_status(&bad, "bad", "failed").await?;
        }
        raw.wait(&format!("/tasks/{good}/status"), &json!("completed")).await?;
        raw.wait("/nodes/good/data/status", &json!("completed")).await?;
        raw.wait(&format!("/tasks/{bad}/status"), &json!("failed")).await?;
        let document = owner.document().await?;
        let src = &document["nodes"]["good"]["data"]["src"];
        ensure!(src.is_string() && *src == document["tasks"][&good]["result_url"], "{document}");
        ensure!(document["nodes"]["bad"]["data"]["error"].is_string(), "{document}");

        // The same for what another service says of a task.
        let told = tell(&owner, &there, "told").await?;
        for client in [&mut one, &mut two] {
            client.wait_status(&told, "told", "completed").await?;
        }
        raw.wait("/nodes/told/data/src", &json!(TOLD_URL)).await?;

        // The raw mode writes, too.
        raw.set("raw", &json!(1)).await?;
        one.wait(PROJECT, "raw", &json!(1)).await?;
        two.wait(PROJECT, "raw", &json!(1)).await?;
        if let Some(beside) = &mut beside {
            beside.stop().await?;
        }
        node.stop().await
    })
    .await;
}

impl NpmClient {
    /// Waits until a task and its node are told to have ended like this.
    async fn wait_status(&mut self, task: &str, node: &str, status: &str) -> Result<Value> {
        let task = json!({"room": PROJECT, "path": ["tasks", task, "status"], "value": status});
        self.call("wait_at", task).await?;
        let node = json!({"room": PROJECT, "path": ["nodes", node, "data", "status"],
                          "value": status});
        self.call("wait_at", node).await
    }
}
