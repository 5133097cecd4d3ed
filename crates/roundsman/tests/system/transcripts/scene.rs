//! One meeting on PostgreSQL and Redis whose segments stay live, somebody who listens to it, and what
//! must be true of it after whatever was done to either.

use anyhow::{Context, Result, ensure};
use roundsman_testkit::{TestDatabase, eventually};
use tokio_util::sync::CancellationToken;

use super::heard::{Lines, Listener};
use super::producer::Producer;
use super::redis_look::RedisLook;
use super::room::{Room, with_settings};
use crate::bots::place::BotSite;
use crate::bots::user::User;
use crate::site::{Node, SOON};

/// Nothing becomes final within a test, so that the hash in Redis has everything.
const NEVER_SECS: &str = "1000";

pub(super) struct Scene {
    pub(super) site: BotSite,
    pub(super) node: Node,
    pub(super) user: User,
    pub(super) room: Room,
    pub(super) listener: Listener,
    pub(super) look: RedisLook,
}

impl Scene {
    pub(super) async fn on(database: TestDatabase, redis_url: &str) -> Result<Scene> {
        let site = BotSite::on_redis(database, redis_url)?;
        let options = with_settings(site.options())
            .env("ROUNDSMAN_TRANSCRIPTS_STABLE_AFTER_SECS", NEVER_SECS);
        let node = site.site.start(options).await?;
        let user = site.user("speaker", 1).await?;
        let room = Room::enter(&site, &user, 1).await?;
        let listener = Listener::start(&site.base_url(), &user, &room);
        Ok(Scene { site, node, user, room, listener, look: RedisLook::new(redis_url) })
    }

    /// One producer for each way to tell.
    pub(super) async fn producers(&self, redis_url: &str) -> Result<(Producer, Producer)> {
        let http = Producer::over_http(&self.room, &self.site.base_url())?;
        let stream = Producer::over_stream(&self.room, RedisLook::new(redis_url)).await?;
        Ok((http, stream))
    }

    /// Everything that was acknowledged is read and heard, and others read it in Redis.
    pub(super) async fn check(&self, producers: &[&Producer]) -> Result<Lines> {
        self.look.wait_quiet().await?;
        let (lines, seq) = self.room.read(&self.user).await?;
        for producer in producers {
            producer.check(&lines)?;
        }
        self.listener.check(&lines, seq).await?;
        rebuilt(&self.look, &self.room, &lines).await?;
        Ok(lines)
    }

    pub(super) async fn no_letters(&self) -> Result<()> {
        let page = self.site.admin()?.get("/ingest/dead-letters").await?.expect_status(200)?;
        let letters = page.body["dead_letters"].as_array().context("no list")?;
        ensure!(letters.is_empty(), "put away: {letters:?}");
        Ok(())
    }

    /// The bot leaves, if it has not, and the server ends in good order.
    pub(super) async fn end(mut self) -> Result<()> {
        self.site.wait_no_process().await?;
        self.node.stop().await
    }
}

/// Both producers speak until the faults are over.
pub(super) async fn speak_during(
    (http, stream): (&Producer, &Producer),
    faults: impl Future<Output = Result<()>>,
) -> Result<()> {
    let stop = CancellationToken::new();
    let faults = async {
        let outcome = faults.await;
        stop.cancel();
        outcome
    };
    let (faults, by_http, by_stream) = tokio::join!(faults, http.speak(&stop), stream.speak(&stop));
    faults.and(by_http).and(by_stream)
}

/// What others read in Redis is what is live.
pub(super) async fn rebuilt(look: &RedisLook, room: &Room, lines: &Lines) -> Result<()> {
    let mut said: Vec<&str> = lines.values().map(|line| &*line.text).collect();
    said.sort_unstable();
    let mut last = Vec::new();
    let rebuilt = eventually(SOON, async || {
        let hash = look.live_segments(room.id).await.ok()?;
        let mut texts: Vec<String> = hash.values().filter_map(|value| text_of(value)).collect();
        texts.sort_unstable();
        let same = texts == said && look.active_meetings().await.ok()? == [room.id];
        last = texts;
        same.then_some(())
    });
    let rebuilt = rebuilt.await;
    rebuilt.with_context(|| format!("in Redis are {} of {}", last.len(), said.len()))
}

fn text_of(value: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(value).ok()?;
    value["text"].as_str().map(str::to_owned)
}
