//! Two nodes on one PostgreSQL and one Redis: what is told at one is heard at the other, and when one
//! is killed the other has what it left.

use anyhow::{Context, Result, ensure};
use roundsman_testkit::{JsonClient, RedisServer, TestDatabase, eventually};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::heard::Listener;
use super::producer::{Producer, Way};
use super::redis_look::RedisLook;
use super::room::{Room, with_settings};
use crate::bots::place::{BotSite, was_killed};
use crate::site::SOON;

const MESSAGES: usize = 20;
/// An entry is put away when it was given out this often.
const DELIVERIES_MAX: u64 = 5;

#[tokio::test]
async fn a_listener_at_another_node_hears_every_frame_in_order() {
    async fn run() -> Result<()> {
        let redis = RedisServer::start().await?;
        let site = BotSite::on_redis(TestDatabase::create().await?, &redis.url())?;
        let mut first = site.site.start(with_settings(site.options())).await?;
        let mut second = site.site.start(with_settings(site.options_beside())).await?;
        let user = site.user("speaker", 1).await?;
        let room = Room::enter(&site, &user, 1).await?;
        let there = user.at(&second.base_url())?;
        let listener = Listener::start(&second.base_url(), &there, &room);
        let producer = Producer::over_http(&room, &first.base_url())?;
        let stop = CancellationToken::new();
        let kill = async {
            let killed = async {
                producer.wait_for_more(MESSAGES).await?;
                first.kill_9().await?;
                producer.go_by(Way::Http(JsonClient::new(second.base_url())?));
                producer.wait_for_more(MESSAGES).await
            }
            .await;
            stop.cancel();
            killed
        };
        let (killed, spoken) = tokio::join!(kill, producer.speak(&stop));
        killed.and(spoken)?;
        let (lines, seq) = room.read(&there).await?;
        producer.check(&lines)?;
        // What was spoken last may become final at this moment, which changes no word.
        listener.check(&lines, seq).await?;
        listener.expect_every_frame()?;
        first.start_again().await?;
        room.leave(&user).await?;
        let (lines, seq) = room.read(&there).await?;
        listener.check(&lines, seq).await?;
        listener.expect_every_frame()?;
        room.expect_final(&site, &lines).await?;
        site.wait_no_process().await?;
        first.stop().await?;
        second.stop().await
    }
    run().await.unwrap();
}

/// T-12: both nodes read the stream under names of their own; what the one that died had is taken
/// over; what nobody can take is put away.
#[tokio::test]
async fn entries_of_a_node_that_died_are_taken_over() {
    async fn run() -> Result<()> {
        let redis = RedisServer::start().await?;
        let site = BotSite::on_redis(TestDatabase::create().await?, &redis.url())?;
        let mut stays = site.site.start(with_settings(site.options())).await?;
        let user = site.user("speaker", 1).await?;
        let room = Room::enter(&site, &user, 1).await?;
        // Stored, but not acknowledged.
        let dies =
            with_settings(site.options_beside()).env("ROUNDSMAN_FAILPOINTS", "transcripts.taken=2");
        let mut dies = site.site.start(dies).await?;
        let look = RedisLook::new(&redis.url());
        let producer = Producer::over_stream(&room, RedisLook::new(&redis.url())).await?;
        let stop = CancellationToken::new();
        let death = async {
            let status = dies.wait_exit(SOON).await;
            let more = producer.wait_for_more(MESSAGES).await;
            stop.cancel();
            more.and(status)
        };
        let (status, spoken) = tokio::join!(death, producer.speak(&stop));
        spoken?;
        ensure!(was_killed(status?), "the node did not die");
        look.wait_quiet().await?;
        let (lines, _) = room.read(&user).await?;
        producer.check(&lines)?;
        let consumers = look.group().await?.consumers;
        ensure!(consumers == 2, "{consumers} names for two nodes");

        let poison = json!({"type": "session_start", "token": room.token}).to_string();
        let entry = look.add_message(&poison).await?;
        let letter = eventually(SOON, async || {
            let page = site.admin().ok()?.get("/ingest/dead-letters").await.ok()?;
            page.body["dead_letters"].as_array()?.first().cloned()
        });
        let letter = letter.await.context("it was never put away")?;
        ensure!(letter["entry"] == entry && letter["payload"] == poison, "{letter}");
        ensure!(letter["deliveries"] == DELIVERIES_MAX, "{letter}");
        look.wait_quiet().await?;
        room.leave(&user).await?;
        site.wait_no_process().await?;
        stays.stop().await
    }
    run().await.unwrap();
}
