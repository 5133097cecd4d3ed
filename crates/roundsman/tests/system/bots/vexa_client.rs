//! The published client of Vexa drives a whole life of a bot, and is told of its mistakes in the
//! words it knows.

use anyhow::{Result, ensure};
use serde_json::json;

use super::place::BotSite;
use super::python;
use super::receiver::Receiver;
use crate::site::{ADMIN_TOKEN, Backend};

#[tokio::test]
async fn the_published_client_works_on_sqlite() {
    run(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn the_published_client_works_on_postgres() {
    run(Backend::Postgres).await.unwrap();
}

async fn run(backend: Backend) -> Result<()> {
    let site = BotSite::new(backend).await?;
    let mut node = site.start().await?;
    let receiver = Receiver::start().await?;
    let input = json!({
        "base_url": node.base_url(),
        "admin_key": ADMIN_TOKEN,
        "webhook_url": receiver.url(),
    });
    let said = python::run("vexa_life.py", &input).await?;
    ensure!(said.trim() == "a whole life", "{said}");
    ensure!(!receiver.received().is_empty(), "the webhook was not told of anything");
    site.end(&mut node).await
}
