//! The server is killed at every place where a transcript could be hurt, while producers speak and
//! listeners listen (T-1 to T-4). Whoever comes after it has everything that was acknowledged, once,
//! and tells what the one before had stored and not told.
//!
//! A chain is one meeting and a number of servers, one after the other at the same port; each dies at
//! its place, the last one is left alone. Everybody else just goes on.

mod chores;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use roundsman_core::failpoint;
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{RedisServer, TestDatabase, env, eventually};
use tokio_util::sync::CancellationToken;

use self::chores::Chores;
use super::heard::{Listener, Subscriber};
use super::producer::Producer;
use super::redis_look::RedisLook;
use super::room::{Room, with_settings};
use crate::bots::place::{BotSite, was_killed};
use crate::bots::user::User;
use crate::site::{Backend, Node, SOON, Site};

/// Every place that only transcripts come by.
pub(crate) const PLACES: [&str; 15] = [
    "store.delete_dead_letter",
    "store.delete_transcript",
    "store.end_share",
    "store.frames_published",
    "store.index_transcriptions",
    "store.keep_speaker_events",
    "store.prune_transcripts",
    "store.put_dead_letters",
    "store.rename_speaker",
    "store.settle_segments",
    "store.share_transcript",
    "store.take_messages",
    "transcripts.published",
    "transcripts.settled",
    "transcripts.taken",
];

/// Where the servers of each chain die. Their own job is taken over late on PostgreSQL, so that a
/// chain can have one place of it, and has it last.
const CHAINS: [&[&str]; 4] = [
    &["store.put_dead_letters", "transcripts.taken", "store.settle_segments"],
    &["transcripts.published", "store.delete_dead_letter", "transcripts.settled"],
    &[
        "store.take_messages",
        "store.rename_speaker",
        "store.frames_published",
        "store.index_transcriptions",
    ],
    &[
        "store.keep_speaker_events",
        "store.share_transcript",
        "store.end_share",
        "store.delete_transcript",
        "store.prune_transcripts",
    ],
];

const CHAINS_AT_ONCE_MAX: usize = 2;
const ROUNDS_FULL: usize = 20;
/// A server's own job may have to wait for the lease of the one before.
const DIES_WITHIN: Duration = Duration::from_secs(90);
const LOG_LINES_SHOWN: usize = 40;
/// Messages that are acknowledged by a server that is left alone.
const MESSAGES_AFTER: usize = 6;

#[tokio::test]
async fn sqlite_has_every_word_wherever_it_is_killed() {
    kill_everywhere(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn postgres_has_every_word_wherever_a_server_is_killed() {
    kill_everywhere(Backend::Postgres).await.unwrap();
}

#[test]
fn every_place_exists_and_is_visited() {
    let missing: Vec<_> = PLACES.iter().filter(|place| !failpoint::ALL.contains(place)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let mut visited = CHAINS.concat();
    visited.sort_unstable();
    assert_eq!(visited, PLACES);
}

async fn kill_everywhere(backend: Backend) -> Result<()> {
    let rounds = if env::full() { ROUNDS_FULL } else { 1 };
    let plans = (0..rounds).flat_map(|round| CHAINS.map(|chain| (round, chain)));
    let outlived = stream::iter(plans).map(async |(round, chain)| {
        let outlived = Chain::begin(backend, chain).await?.run(chain, round).await;
        outlived.with_context(|| format!("killed at {chain:?} in round {round}"))
    });
    outlived.buffer_unordered(CHAINS_AT_ONCE_MAX).try_collect().await
}

/// How often a place is reached before it kills.
fn visits(place: &str, round: usize) -> usize {
    match place {
        "store.take_messages" | "transcripts.published" | "transcripts.taken" => 5 + 3 * round,
        "store.settle_segments" | "transcripts.settled" => 1 + round % 4,
        _ => 1,
    }
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}

/// One meeting and those who speak and listen there.
struct Chain {
    site: BotSite,
    /// Only held, so that it lives as long as the chain.
    redis: Option<RedisServer>,
    user: User,
    room: Room,
    producers: Vec<Producer>,
    chores: Chores,
    listener: Listener,
    subscriber: Option<Subscriber>,
}

impl Chain {
    /// Everybody is there. The server that let them in is killed from outside.
    async fn begin(backend: Backend, chain: &[&str]) -> Result<Chain> {
        let has_letters = chain.iter().any(|place| place.contains("dead_letter"));
        let redis = match backend {
            // An embedded database is used without Redis, unless there is something to put away.
            Backend::Sqlite if !has_letters => None,
            _ => Some(RedisServer::start().await?),
        };
        let site = match (backend, &redis) {
            (Backend::Sqlite, None) => BotSite::sqlite()?,
            (Backend::Sqlite, Some(redis)) => {
                BotSite::sqlite_with(Site::sqlite()?.with_redis(&redis.url()))?
            }
            (Backend::Postgres, redis) => {
                let redis = redis.as_ref().context("PostgreSQL comes with Redis")?;
                BotSite::on_redis(TestDatabase::create().await?, &redis.url())?
            }
        };
        let mut node = site.site.start(with_settings(site.options())).await?;
        let user = site.user("speaker", 2).await?;
        let room = Room::enter(&site, &user, 1).await?;
        let other = Room::enter(&site, &user, 2).await?;
        let listener = Listener::start(&site.base_url(), &user, &room);
        let mut producers = vec![Producer::over_http(&room, &site.base_url())?];
        let mut subscriber = None;
        if let Some(redis) = &redis {
            subscriber = Some(Subscriber::start(&redis.url(), &room).await?);
            producers.push(Producer::over_stream(&room, RedisLook::new(&redis.url())).await?);
        }
        let look = redis.as_ref().map(|redis| RedisLook::new(&redis.url()));
        let chores = Chores::new(&site, &user, &room, other, look)?;
        node.kill_9().await?;
        Ok(Chain { site, redis, user, room, producers, chores, listener, subscriber })
    }

    async fn run(self, chain: &[&str], round: usize) -> Result<()> {
        let stop = CancellationToken::new();
        let deaths = async {
            let last = self.die(chain, round).await?;
            stop.cancel();
            Ok(last)
        };
        let speaking = self.producers.iter().map(|producer| producer.speak(&stop));
        let speaking = try_join_all(speaking);
        let chores = self.chores.run(&self.site, &stop);
        // Without a server nobody is acknowledged: the first failure ends all.
        let (mut node, _, ()) = tokio::try_join!(deaths, speaking, chores)?;
        self.end(&mut node).await
    }

    /// One server after the other; returns the last one.
    async fn die(&self, chain: &[&str], round: usize) -> Result<Node> {
        for place in chain {
            let death = format!("{place}={}", visits(place, round));
            let options = self.options().env("ROUNDSMAN_FAILPOINTS", death);
            let mut node = self.site.site.spawn(options)?;
            let status = node.wait_exit(DIES_WITHIN).await;
            let log = || node.stderr().map(|log| last_lines(&log)).unwrap_or_default();
            let status = status.with_context(|| format!("never reached: {place}\n{}", log()))?;
            ensure!(was_killed(status), "{place}: {status}\n{}", node.stderr()?);
        }
        let node = self.site.site.start(self.options()).await?;
        for producer in &self.producers {
            producer.wait_for_more(MESSAGES_AFTER).await?;
        }
        Ok(node)
    }

    fn options(&self) -> ServerOptions {
        with_settings(self.site.options())
    }

    async fn end(self, node: &mut Node) -> Result<()> {
        self.check().await.context("before the end")?;
        self.room.leave(&self.user).await?;
        self.chores.end(&self.user).await?;
        self.check().await.context("after the end")?;
        let (lines, _) = self.room.read(&self.user).await?;
        self.room.expect_final(&self.site, &lines).await?;
        self.site.wait_no_process().await?;
        node.stop().await?;
        drop(self.redis);
        let stored = self.site.site.stored().await?;
        ensure!(stored.violations.is_empty(), "the store: {:?}", stored.violations);
        Ok(())
    }

    /// Readers and listeners know everything that was acknowledged. Segments become final meanwhile,
    /// which may tell who has spoken, so that it takes more than one look.
    async fn check(&self) -> Result<()> {
        if let Some(redis) = &self.redis {
            RedisLook::new(&redis.url()).wait_quiet().await?;
        }
        let mut last = None;
        let same = eventually(SOON, async || match self.compare().await {
            Ok(()) => Some(()),
            Err(error) => {
                last = Some(error);
                None
            }
        });
        let same = same.await;
        same.with_context(|| format!("{last:?}"))
    }

    async fn compare(&self) -> Result<()> {
        let (lines, seq) = self.room.read(&self.user).await?;
        for producer in &self.producers {
            producer.check(&lines)?;
        }
        self.chores.check(&lines)?;
        self.listener.check(&lines, seq).await.context("the listener")?;
        if let Some(subscriber) = &self.subscriber {
            subscriber.check(&lines).await.context("the subscriber")?;
        }
        Ok(())
    }
}
