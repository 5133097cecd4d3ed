//! Redis only carries commands sooner than a heartbeat would. Without it everything still happens.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{RedisServer, TestDatabase, eventually};
use serde_json::json;

use super::place::{BotSite, HEARTBEAT, SLACK};
use super::user::{User, end_reason};
use crate::site::{SOON, Site, Stopwatch};

/// Whoever leaves within this time did not wait for a heartbeat.
const AT_ONCE: Duration = Duration::from_secs(10);

/// A signal must not be what makes a bot leave, and neither must a heartbeat if it is to be Redis.
fn only_by_command(options: ServerOptions, heartbeat_secs: &str) -> ServerOptions {
    options
        .env("ROUNDSMAN_BOTS_LEAVE_GRACE_SECS", "60")
        .env("ROUNDSMAN_BOTS_STOPPING_SECS_MAX", "120")
        .env("ROUNDSMAN_BOTS_ACTIVE_SILENCE_SECS_MAX", "100")
        .env("ROUNDSMAN_BOTS_HEARTBEAT_SECS", heartbeat_secs)
}

#[tokio::test]
async fn a_command_arrives_at_once_over_redis() {
    async fn run() -> Result<()> {
        let redis = RedisServer::start().await?;
        let site = BotSite::on_redis(TestDatabase::create().await?, &redis.url())?;
        let mut node = site.site.start(only_by_command(site.options(), "30")).await?;
        let user = site.user("quick", 1).await?;
        let id = user.start("normal", 1).await?;
        user.wait_for(id, "active", SOON).await?;
        reconfigure(&site, &user, id, AT_ONCE).await?;
        // Nothing is kept in Redis that could be missed.
        redis.wipe().await?;
        redis.drop_clients().await?;
        reconfigure(&site, &user, id, AT_ONCE).await?;
        let watch = Stopwatch::start();
        user.stop(id).await?;
        let over = user.wait_for(id, "completed", SOON).await?;
        let took = watch.elapsed();
        ensure!(took < AT_ONCE, "left only after {took:?}");
        ensure!(end_reason(&over) == "self_initiated_leave", "{over}");
        site.end(&mut node).await
    }
    run().await.unwrap();
}

#[tokio::test]
async fn a_bot_hears_by_its_heartbeat_while_redis_is_away() {
    async fn run() -> Result<()> {
        let mut redis = RedisServer::start().await?;
        let site = BotSite::on_redis(TestDatabase::create().await?, &redis.url())?;
        away(&site, &mut redis).await
    }
    run().await.unwrap();
}

/// The embedded database needs no Redis, but bots may have one.
#[tokio::test]
async fn a_bot_hears_by_its_heartbeat_on_sqlite_too() {
    async fn run() -> Result<()> {
        let mut redis = RedisServer::start().await?;
        let site = BotSite::sqlite_with(Site::sqlite()?.with_redis(&redis.url()))?;
        away(&site, &mut redis).await
    }
    run().await.unwrap();
}

/// Redis goes away in the middle of one life, is not there at the beginning of another, and comes
/// back for a third.
async fn away(site: &BotSite, redis: &mut RedisServer) -> Result<()> {
    let mut node = site.site.start(only_by_command(site.options(), "1")).await?;
    let user = site.user("patient", 1).await?;
    let id = user.start("normal", 1).await?;
    user.wait_for(id, "active", SOON).await?;
    redis.stop().await?;
    reconfigure(site, &user, id, HEARTBEAT * 2 + SLACK).await?;
    leave_by_heartbeat(&user, id).await?;

    let id = user.start("normal", 2).await?;
    user.wait_for(id, "active", SOON).await?;
    leave_by_heartbeat(&user, id).await?;

    redis.restart().await?;
    let id = user.start("normal", 3).await?;
    user.wait_for(id, "active", SOON).await?;
    leave_by_heartbeat(&user, id).await?;
    site.end(&mut node).await
}

async fn leave_by_heartbeat(user: &User, id: i64) -> Result<()> {
    let watch = Stopwatch::start();
    user.stop(id).await?;
    let over = user.wait_for(id, "completed", SOON).await?;
    let took = watch.elapsed();
    ensure!(took < HEARTBEAT * 2 + SLACK, "left only after {took:?}");
    ensure!(end_reason(&over) == "self_initiated_leave", "{over}");
    Ok(())
}

/// Asks for another configuration and waits until the bot has taken it.
async fn reconfigure(site: &BotSite, user: &User, id: i64, limit: Duration) -> Result<()> {
    let wish = json!({"meeting_id": id, "language": "de"});
    let wished = user.client.put("/bots/config", &wish).await?.expect_status(202)?;
    let version = wished.body["config_version"].as_u64().context("no version")?;
    let books = site.books().await?;
    let sql = format!("SELECT config_applied FROM bots WHERE meeting_id = {id}");
    let applied = eventually(limit, async || {
        let applied = books.value(&sql).await.ok()??;
        (applied == version.to_string()).then_some(())
    });
    applied.await.context("the bot does not know of its configuration")
}
