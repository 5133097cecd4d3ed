//! G-10 for those who read streams: a server that is asked to end stores and acknowledges what it has
//! read, and what it cannot store in time is given to the next.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::{RedisServer, TestDatabase, eventually};
use tokio_util::sync::CancellationToken;

use super::heard::Listener;
use super::producer::Producer;
use super::redis_look::{GroupState, RedisLook};
use super::room::{Room, with_settings};
use crate::bots::place::BotSite;
use crate::site::SOON;

const ENDS: usize = 3;
const MESSAGES_BETWEEN: usize = 15;
const MESSAGES_STUCK: usize = 5;
/// Longer than a test: whatever is left unacknowledged stays so.
const NEVER_MS: &str = "600000";
/// The end comes at most this long after the grace.
const AFTER_GRACE_MAX: Duration = Duration::from_secs(10);

#[tokio::test]
async fn what_was_read_when_a_server_is_asked_to_end_is_stored_and_acknowledged() {
    async fn run() -> Result<()> {
        let redis = RedisServer::start().await?;
        let site = BotSite::on_redis(TestDatabase::create().await?, &redis.url())?;
        let options = || {
            // Many reads, and nobody who would clear up behind them.
            with_settings(site.options())
                .env("ROUNDSMAN_TRANSCRIPTS_STREAM_READ_MAX", "2")
                .env("ROUNDSMAN_TRANSCRIPTS_STREAM_CLAIM_MS", NEVER_MS)
        };
        let mut node = site.site.start(options()).await?;
        let user = site.user("speaker", 1).await?;
        let room = Room::enter(&site, &user, 1).await?;
        let listener = Listener::start(&site.base_url(), &user, &room);
        let look = RedisLook::new(&redis.url());
        let producer = Producer::over_stream(&room, RedisLook::new(&redis.url())).await?;
        let stop = CancellationToken::new();
        let ends = async {
            let ended = async {
                for _ in 0..ENDS {
                    producer.wait_for_more(MESSAGES_BETWEEN).await?;
                    node.stop().await?;
                    let GroupState { pending, .. } = look.group().await?;
                    ensure!(pending == 0, "{pending} entries were read and not acknowledged");
                    node = site.site.start(options()).await?;
                }
                anyhow::Ok(())
            };
            let ended = ended.await;
            stop.cancel();
            ended
        };
        let (ended, spoken) = tokio::join!(ends, producer.speak(&stop));
        ended.and(spoken)?;
        look.wait_quiet().await?;
        let (lines, seq) = room.read(&user).await?;
        producer.check(&lines)?;
        listener.check(&lines, seq).await?;
        room.leave(&user).await?;
        site.wait_no_process().await?;
        node.stop().await
    }
    run().await.unwrap();
}

/// Somebody holds a lock on the table, so that what was read cannot be stored before the end.
#[tokio::test]
async fn what_cannot_be_stored_in_time_is_taken_over() {
    async fn run() -> Result<()> {
        let redis = RedisServer::start().await?;
        let site = BotSite::on_redis(TestDatabase::create().await?, &redis.url())?;
        let grace = Duration::from_millis(300);
        let hasty = with_settings(site.options())
            .env("ROUNDSMAN_SERVER_SHUTDOWN_GRACE_SECS", grace.as_secs_f64().to_string());
        let mut node = site.site.start(hasty).await?;
        let user = site.user("speaker", 1).await?;
        let room = Room::enter(&site, &user, 1).await?;
        let look = RedisLook::new(&redis.url());
        let producer = Producer::over_stream(&room, RedisLook::new(&redis.url())).await?;
        look.wait_quiet().await?;
        let holder = site.database()?.connect().await?;
        let lock = "BEGIN; LOCK TABLE roundsman.live_segments IN ACCESS EXCLUSIVE MODE";
        holder.batch_execute(lock).await?;
        for _ in 0..MESSAGES_STUCK {
            producer.say().await?;
        }
        let stuck = eventually(SOON, async || {
            let waits = "SELECT 1 FROM pg_locks WHERE NOT granted LIMIT 1";
            let waits = holder.query_opt(waits, &[]).await.ok()??;
            let group = look.group().await.ok()?;
            (group.pending > 0 && !waits.is_empty()).then_some(())
        });
        stuck.await.context("nothing is stuck")?;
        node.sigterm()?;
        let status = node.wait_exit(grace + AFTER_GRACE_MAX).await?;
        ensure!(status.success(), "ended with {status}");
        holder.batch_execute("ROLLBACK").await?;
        let GroupState { pending, lag, .. } = look.group().await?;
        let open = usize::try_from(pending + lag)?;
        ensure!(open == MESSAGES_STUCK, "{pending} pending and {lag} unread of {MESSAGES_STUCK}");

        let mut heir = site.site.start(with_settings(site.options())).await?;
        look.wait_quiet().await?;
        let (lines, _) = room.read(&user).await?;
        producer.check(&lines)?;
        room.leave(&user).await?;
        site.wait_no_process().await?;
        heir.stop().await
    }
    run().await.unwrap();
}
