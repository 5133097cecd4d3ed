//! T-13: one of the two that a stream needs is away or forgets what it had.

use anyhow::{Context, Result, ensure};
use roundsman_testkit::postgres::StopMode;
use roundsman_testkit::{PostgresServer, RedisServer, TestDatabase, eventually};

use super::producer::Producer;
use super::redis_look::{GroupState, RedisLook};
use super::room::Room;
use super::scene::{Scene, speak_during};
use crate::bots::user::User;
use crate::site::SOON;

const MESSAGES_BEFORE: usize = 6;
const MESSAGES_MEANWHILE: usize = 20;

/// PostgreSQL is away while producers go on, and what Redis keeps for a while is over meanwhile. Nothing
/// is acknowledged that is not stored, and everything is stored when the database is back.
#[tokio::test]
async fn entries_wait_for_a_database_that_is_away() {
    async fn run() -> Result<()> {
        let mut cluster = PostgresServer::start().await?;
        let redis = RedisServer::start().await?;
        let database = TestDatabase::create_on(&cluster.url()).await?;
        let scene = Scene::on(database, &redis.url()).await?;
        let Scene { node, look, .. } = &scene;
        let producer = Producer::over_stream(&scene.room, RedisLook::new(&redis.url())).await?;
        for mode in [StopMode::Immediate, StopMode::Fast] {
            for _ in 0..MESSAGES_BEFORE {
                producer.say().await?;
            }
            look.wait_quiet().await?;
            cluster.stop(mode).await?;
            for _ in 0..MESSAGES_MEANWHILE {
                producer.say().await?;
            }
            let read = async || look.group().await.ok().filter(|group| group.pending > 0);
            eventually(SOON, read).await.context("nothing was read")?;
            let expired = look.expire("meeting*").await?;
            ensure!(expired >= 2, "{expired} keys: the segments' and the sessions'");
            let GroupState { pending, lag, .. } = look.group().await?;
            let open = usize::try_from(pending + lag)?;
            ensure!(open == MESSAGES_MEANWHILE, "{pending} pending and {lag} unread");
            let unready = eventually(SOON, async || (!node.is_ready().await).then_some(()));
            unready.await.context("ready without a database")?;
            cluster.start_again().await?;
            scene.check(&[&producer]).await.with_context(|| format!("after {mode:?}"))?;
            let ready = eventually(SOON, async || node.is_ready().await.then_some(()));
            ready.await.context("not ready with its database back")?;
        }
        scene.no_letters().await?;
        scene.room.leave(&scene.user).await?;
        scene.end().await
    }
    run().await.unwrap();
}

/// Redis throws away its keys, streams and groups included, or comes back with none of them.
#[tokio::test]
async fn a_redis_that_forgets_everything_costs_nothing_that_was_stored() {
    async fn run() -> Result<()> {
        let mut redis = RedisServer::start().await?;
        let scene = Scene::on(TestDatabase::create().await?, &redis.url()).await?;
        let (http, stream) = scene.producers(&redis.url()).await?;
        let faults = forget(&mut redis, &scene.user, &scene.room, &http, &stream);
        Box::pin(speak_during((&http, &stream), faults)).await?;
        scene.check(&[&http, &stream]).await?;
        ensure!(scene.node.is_ready().await, "not ready after Redis came back");
        scene.no_letters().await?;
        scene.room.leave(&scene.user).await?;
        scene.end().await
    }
    run().await.unwrap();
}

async fn forget(
    redis: &mut RedisServer,
    user: &User,
    room: &Room,
    http: &Producer,
    stream: &Producer,
) -> Result<()> {
    for restarts in [false, true, false] {
        http.wait_for_more(MESSAGES_BEFORE).await?;
        stream.wait_for_more(MESSAGES_BEFORE).await?;
        let before = stream.interrupted(async {
            let (before, _) = room.read(user).await?;
            if restarts {
                redis.kill_9().await?;
                redis.restart().await?;
            } else {
                RedisLook::new(&redis.url()).evict_everything().await?;
            }
            Ok(before)
        });
        let before = before.await?;
        http.wait_for_more(MESSAGES_BEFORE).await?;
        stream.wait_for_more(MESSAGES_BEFORE).await.context("the stream is not read any more")?;
        let (after, _) = room.read(user).await?;
        let lost: Vec<_> = before.keys().filter(|key| !after.contains_key(*key)).collect();
        ensure!(lost.is_empty(), "were there, and are gone: {lost:?}");
    }
    Ok(())
}
