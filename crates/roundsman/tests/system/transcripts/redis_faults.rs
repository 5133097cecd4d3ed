//! Redis is never the truth: emptied, restarted and stopped in the middle of what is said, it costs
//! nothing that was acknowledged, and what others read there is there again. (T-12 to T-14)

use anyhow::{Context, Result, ensure};
use redis::cmd;
use roundsman_testkit::redis::Persistence;
use roundsman_testkit::{RedisServer, TestDatabase, eventually};

use super::producer::Producer;
use super::redis_look::{RedisLook, STREAM};
use super::room::Room;
use super::scene::{Scene, rebuilt, speak_during};
use crate::bots::user::User;
use crate::site::SOON;

/// An entry's name and its fields.
type Entry = (String, Vec<String>);

/// Messages of each producer between two faults.
const MESSAGES_BETWEEN: usize = 8;
/// Messages by HTTP while Redis stands still.
const MESSAGES_MEANWHILE: usize = 4;

#[tokio::test]
async fn whatever_happens_to_redis_every_word_is_there() {
    async fn run() -> Result<()> {
        let mut redis = RedisServer::start_with(Persistence::EveryWrite).await?;
        let scene = Scene::on(TestDatabase::create().await?, &redis.url()).await?;
        let Scene { site, user, room, listener, look, .. } = &scene;
        let (http, stream) = scene.producers(&redis.url()).await?;
        let faults = torment(&mut redis, user, room, &http, &stream);
        Box::pin(speak_during((&http, &stream), faults)).await?;

        let lines = scene.check(&[&http, &stream]).await?;
        redis.wipe().await?;
        rebuilt(look, room, &lines).await.context("after it was emptied")?;
        trimmed(look, &stream).await?;

        let (lines, _) = room.read(user).await?;
        room.leave(user).await?;
        room.expect_final(site, &lines).await?;
        let (after, seq) = room.read(user).await?;
        ensure!(after == lines, "the end changed what was said");
        listener.check(&after, seq).await?;
        let clear = eventually(SOON, async || {
            look.keys_of_meetings().await.ok().filter(Vec::is_empty).map(drop)
        });
        clear.await.context("keys are left")?;
        scene.end().await
    }
    run().await.unwrap();
}

/// Every fault in turn, each while both producers speak.
async fn torment(
    redis: &mut RedisServer,
    user: &User,
    room: &Room,
    http: &Producer,
    stream: &Producer,
) -> Result<()> {
    let spoken = async || -> Result<()> {
        http.wait_for_more(MESSAGES_BETWEEN).await?;
        stream.wait_for_more(MESSAGES_BETWEEN).await
    };
    spoken().await?;
    let before = stream
        .interrupted(async {
            let before = room.read(user).await?;
            redis.wipe().await?;
            Ok(before)
        })
        .await?;
    spoken().await.context("after it was emptied")?;
    let (after, _) = room.read(user).await?;
    let lost: Vec<_> = before.0.keys().filter(|key| !after.contains_key(*key)).collect();
    ensure!(lost.is_empty(), "were there, and are gone: {lost:?}");

    redis.pause()?;
    http.wait_for_more(MESSAGES_MEANWHILE).await.context("while Redis stands still")?;
    redis.resume()?;
    spoken().await.context("after it stood still")?;
    redis.kill_9().await?;
    http.wait_for_more(MESSAGES_MEANWHILE).await.context("while Redis is gone")?;
    redis.restart().await?;
    spoken().await.context("after it came back")?;
    redis.drop_clients().await?;
    spoken().await.context("after connections were lost")
}

/// Somebody else reads the stream too, and has not acknowledged what they read last: nothing from
/// there on is trimmed, and everything before it is.
async fn trimmed(look: &RedisLook, stream: &Producer) -> Result<()> {
    for _ in 0..MESSAGES_BETWEEN {
        stream.say().await?;
    }
    let create = cmd("XGROUP").arg("CREATE").arg(STREAM).arg("others").arg("0").clone();
    look.query::<()>(&create).await?;
    let mut read = cmd("XREADGROUP");
    read.arg("GROUP").arg("others").arg("one").arg("COUNT").arg(4);
    read.arg("STREAMS").arg(STREAM).arg(">");
    let read: Vec<(String, Vec<Entry>)> = look.query(&read).await?;
    let mut names: Vec<String> =
        read.into_iter().flat_map(|(_, entries)| entries).map(|(name, _)| name).collect();
    let open = names.pop().context("nothing was read")?;
    look.query::<()>(cmd("XACK").arg(STREAM).arg("others").arg(&names)).await?;
    let mut after = cmd("XRANGE");
    after.arg(STREAM).arg(&open).arg("+");
    let expected: Vec<Entry> = look.query(&after).await?;
    let trimmed = eventually(SOON, async || {
        (look.first_entry().await.ok()?.as_ref() == Some(&open)).then_some(())
    });
    trimmed.await.context("nothing was trimmed, or too much")?;
    let left = look.entries().await?;
    ensure!(left == expected.len() as u64, "{left} entries of {}", expected.len());
    look.wait_quiet().await
}
