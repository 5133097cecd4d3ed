//! Audits with the real program against a real site: killed, ended and shared while they are made, and
//! made from the command line.

mod command;
mod kill;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::site::{Door, RobotsRule, SiteRequest};
use roundsman_testkit::{JsonClient, TestSite, eventually};
use serde_json::{Value, json};

use crate::site::{Backend, Node, SOON, Site};

/// A server that may look at this machine, and for which everything comes soon.
fn options(site: &Site) -> ServerOptions {
    site.options()
        .env("ROUNDSMAN_EGRESS_ALLOW", "127.0.0.0/8")
        .env("ROUNDSMAN_AUDITS_STALLED_SECS", "1")
        .env("ROUNDSMAN_AUDITS_HEARTBEAT_SECS", "0.3")
        .env("ROUNDSMAN_AUDITS_BACKOFF_BASE_SECS", "0.05")
        .env("ROUNDSMAN_AUDITS_HOST_CONCURRENCY_MAX", "8")
        .env("ROUNDSMAN_AUDITS_HOST_DELAY_MS", "0")
        .env("ROUNDSMAN_AUDITS_BROWSER", "false")
}

async fn user(node: &Node) -> Result<JsonClient> {
    let admin = node.admin()?;
    let user = admin.post("/admin/users", &json!({"email": "ada@example.org"})).await?;
    let id = user.body["id"].as_i64().context("a user without a number")?;
    let token = admin.post(&format!("/admin/users/{id}/tokens"), &json!({})).await?;
    let token = token.body["token"].as_str().context("no token")?.to_owned();
    node.client()?.with_header("x-api-key", &token)
}

async fn ask(client: &JsonClient, url: &str) -> Result<i64> {
    let made = client.post("/audits", &json!({"url": url})).await?.expect_status(202)?;
    made.body["id"].as_i64().context("an audit without a number")
}

async fn audit(client: &JsonClient, id: i64) -> Result<Value> {
    Ok(client.get(&format!("/audits/{id}")).await?.expect_status(200)?.body)
}

/// Waits for a state and returns the audit in it.
async fn until(client: &JsonClient, id: i64, status: &str) -> Result<Value> {
    let reached = async || audit(client, id).await.ok().filter(|shown| shown["status"] == status);
    match eventually(SOON, reached).await {
        Ok(shown) => Ok(shown),
        Err(late) => Err(late).with_context(|| format!("audit {id} never was {status}")),
    }
}

/// Waits until the site was asked for this so often.
async fn asked(site: &TestSite, path: &str, count: usize) -> Result<()> {
    let reached = async || (site.count(path) >= count).then_some(());
    eventually(SOON, reached).await.with_context(|| format!("{path} was not asked for"))?;
    Ok(())
}

#[tokio::test]
async fn a_worker_that_is_killed_while_it_audits_on_sqlite() {
    a_worker_that_is_killed_while_it_audits(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn a_worker_that_is_killed_while_it_audits_on_postgres() {
    a_worker_that_is_killed_while_it_audits(Backend::Postgres).await.unwrap();
}

async fn a_worker_that_is_killed_while_it_audits(backend: Backend) -> Result<()> {
    let (site, web) = (Site::new(backend).await?, TestSite::start().await?);
    let mut node = site.start(options(&site)).await?;
    let ada = user(&node).await?;
    web.set_robots(RobotsRule::Hangs);
    let id = ask(&ada, &web.url(Door::Plain, "/")).await?;
    asked(&web, "/robots.txt", 1).await?;
    let shown = until(&ada, id, "processing").await?;
    ensure!(shown["retry_count"] == 0 && shown["processing_worker_id"].is_string(), "{shown}");
    node.kill_9().await?;
    web.set_robots(RobotsRule::Friendly);
    node.start_again().await?;
    let shown = until(&ada, id, "completed").await?;
    ensure!(shown["retry_count"] == 1, "{shown}");
    ensure!(shown["errors"][0]["code"] == "crashed", "{shown}");
    ensure!(shown["result"]["attempt"] == 2, "{shown}");
    let events = ada.get("/audits").await?.body;
    ensure!(events["audits"].as_array().map(Vec::len) == Some(1), "one audit: {events}");
    let html = ada.get(&format!("/audits/{id}/report.html")).await?.expect_status(200)?;
    ensure!(html.text.contains("</html>"), "a whole page");
    node.stop().await?;
    let stored = site.stored().await?;
    ensure!(stored.violations.is_empty(), "{:?}", stored.violations);
    Ok(())
}

#[tokio::test]
async fn a_server_that_ends_hands_back_what_it_audits() {
    hands_back().await.unwrap();
}

async fn hands_back() -> Result<()> {
    let (site, web) = (Site::sqlite()?, TestSite::start().await?);
    let short = || options(&site).env("ROUNDSMAN_SERVER_SHUTDOWN_GRACE_SECS", "0.2");
    let mut node = site.start(short()).await?;
    let ada = user(&node).await?;
    web.set_robots(RobotsRule::Hangs);
    let id = ask(&ada, &web.url(Door::Plain, "/")).await?;
    asked(&web, "/robots.txt", 1).await?;
    node.sigterm()?;
    let status = node.wait_exit(SOON).await?;
    ensure!(status.success(), "{status}");
    web.set_robots(RobotsRule::Friendly);
    node.start_again().await?;
    let shown = until(&ada, id, "completed").await?;
    ensure!(shown["retry_count"] == 0, "no attempt was used: {shown}");
    ensure!(shown["errors"][0]["outcome"] == "released", "{shown}");
    node.stop().await
}

#[tokio::test]
async fn two_nodes_make_each_audit_once() {
    shared().await.unwrap();
}

async fn shared() -> Result<()> {
    let (site, web) = (Site::new(Backend::Postgres).await?, TestSite::start().await?);
    let mut nodes = [site.start(options(&site)).await?, site.start(options(&site)).await?];
    let ada = user(&nodes[0]).await?;
    let mut audits = Vec::new();
    for number in 0..12 {
        let path = format!("/?n={number}");
        audits.push((ask(&ada, &web.url(Door::Plain, &path)).await?, path));
    }
    for (id, path) in &audits {
        let shown = until(&ada, *id, "completed").await?;
        ensure!(shown["retry_count"] == 0, "{shown}");
        // Each look asks once more in the name of a stranger.
        let is_look = |request: &&SiteRequest| {
            request.path_and_query == *path && request.header("origin").is_none()
        };
        let looks = web.requests().iter().filter(is_look).count();
        ensure!(looks == 1, "{path} was looked at {looks} times");
    }
    for node in &mut nodes {
        node.stop().await?;
    }
    let stored = site.stored().await?;
    ensure!(stored.violations.is_empty(), "{:?}", stored.violations);
    Ok(())
}

#[tokio::test]
async fn inside_addresses_are_refused_unless_the_operator_allows_them() {
    refused().await.unwrap();
}

async fn refused() -> Result<()> {
    let (site, web) = (Site::sqlite()?, TestSite::start().await?);
    let mut node = site.start(options(&site).env("ROUNDSMAN_EGRESS_ALLOW", "")).await?;
    let ada = user(&node).await?;
    let id = ask(&ada, &web.url(Door::Plain, "/")).await?;
    let shown = until(&ada, id, "failed").await?;
    ensure!(shown["error_code"] == "blocked_target" && shown["retry_count"] == 0, "{shown}");
    ensure!(web.connections() == 0, "nothing was connected to");
    node.stop().await
}

/// What a command may take.
const COMMAND_MAX: Duration = Duration::from_secs(60);
