//! The ways in which a bot hears that it should leave or change.

use std::time::Duration;

use anyhow::Result;
use redis::AsyncCommands;
use roundsman_testkit::{RedisServer, env, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::process::{BotOptions, BotProcess, bot_after};
use crate::server::Server;

const LIMIT: Duration = Duration::from_secs(30);
const LEFT: [&str; 5] = ["started", "joining", "joined", "stopping", "exited"];

/// Publishes until somebody is listening, and returns how many were.
async fn publish(redis_url: &str, channel: &str, message: &Value) -> Result<i64> {
    let client = redis::Client::open(redis_url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let heard = eventually(LIMIT, async || {
        let heard: i64 = connection.publish(channel, message.to_string()).await.ok()?;
        (heard > 0).then_some(heard)
    });
    Ok(heard.await?)
}

/// A bot in a meeting of its own, which hears commands over this Redis.
async fn bot_on_redis(meeting: i64, redis_url: &str, server: &Server) -> Result<BotProcess> {
    let options = BotOptions::scenario("normal", &server.url()).set("meeting_id", json!(meeting));
    let options = options.set("connectionId", json!(format!("c-{meeting}")));
    let bot = options.set("redisUrl", json!(redis_url)).start()?;
    server.wait_for("joined").await?;
    Ok(bot)
}

#[tokio::test]
async fn leave_by_redis_on_either_channel() -> Result<()> {
    let redis_url = env::redis_url()?;
    for (meeting, channel) in [(901, "bot_commands:c-901"), (902, "bot_commands:meeting:902")] {
        let server = Server::start().await?;
        let mut bot = bot_on_redis(meeting, &redis_url, &server).await?;
        let leave = json!({"action": "leave", "meeting_id": meeting});
        publish(&redis_url, channel, &leave).await?;
        assert_eq!(bot.exit_code().await?, 0);
        assert_eq!(server.life(), LEFT);
        let exited = server.wait_for("exited").await?.body;
        assert_eq!(exited["reason"], "self_initiated_leave");
        assert_eq!(exited["completion_reason"], "stopped");
    }
    Ok(())
}

#[tokio::test]
async fn leave_by_answer() -> Result<()> {
    let server = Server::start().await?;
    let mut bot = bot_after("normal", &server, "heartbeat").await?;
    server.wait_for("joined").await?;
    server.want_leave();
    assert_eq!(bot.exit_code().await?, 0);
    assert_eq!(server.life(), LEFT);
    assert_eq!(server.wait_for("exited").await?.body["reason"], "self_initiated_leave");
    Ok(())
}

#[tokio::test]
async fn leave_by_signal() -> Result<()> {
    for (signal, reason) in [(Signal::TERM, "signal_sigterm"), (Signal::INT, "signal_sigint")] {
        let server = Server::start().await?;
        let mut bot = bot_after("normal", &server, "joined").await?;
        bot.signal(signal)?;
        assert_eq!(bot.exit_code().await?, 0);
        assert_eq!(server.life(), LEFT);
        let exited = server.wait_for("exited").await?.body;
        assert_eq!((&exited["exit_code"], &exited["reason"]), (&json!(0), &json!(reason)));
    }
    Ok(())
}

#[tokio::test]
async fn leave_heard_in_all_three_ways_at_once_is_one_leave() -> Result<()> {
    let redis_url = env::redis_url()?;
    let orders: [[usize; 3]; 6] =
        [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for (order, meeting) in orders.into_iter().zip(910..) {
        let server = Server::start().await?;
        let mut bot = bot_on_redis(meeting, &redis_url, &server).await?;
        let client = redis::Client::open(redis_url.as_str())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        for way in order {
            match way {
                0 => {
                    let leave = json!({"action": "leave", "meeting_id": meeting}).to_string();
                    let channel = format!("bot_commands:c-{meeting}");
                    let _: i64 = connection.publish(channel, leave).await?;
                }
                1 => server.want_leave(),
                // The bot may have heard the others and be gone already.
                _ => drop(bot.signal(Signal::TERM)),
            }
        }
        assert_eq!(bot.exit_code().await?, 0, "{order:?}");
        assert_eq!(server.life(), LEFT, "{order:?}");
    }
    Ok(())
}

#[tokio::test]
async fn leave_before_joining() -> Result<()> {
    // By the very first answer.
    let server = Server::start().await?;
    server.want_leave();
    let mut bot = BotOptions::scenario("normal", &server.url()).start()?;
    assert_eq!(bot.exit_code().await?, 0);
    assert_eq!(server.life(), ["started", "stopping", "exited"]);
    let exited = server.wait_for("exited").await?.body;
    assert_eq!(exited["reason"], "stop_requested_pre_admission");

    // By a signal while it waits to be let in.
    let server = Server::start().await?;
    let options = BotOptions::scenario("lobby_timeout", &server.url());
    let mut bot = options.set("automaticLeave", json!({})).start()?;
    server.wait_for("awaiting_admission").await?;
    bot.signal(Signal::TERM)?;
    assert_eq!(bot.exit_code().await?, 0);
    let life = ["started", "joining", "awaiting_admission", "stopping", "exited"];
    assert_eq!(server.life(), life);
    assert_eq!(server.wait_for("exited").await?.body["reason"], "signal_sigterm");
    Ok(())
}

#[tokio::test]
async fn commands_for_others_are_not_followed() -> Result<()> {
    let redis_url = env::redis_url()?;
    let server = Server::start().await?;
    let mut bot = bot_on_redis(920, &redis_url, &server).await?;
    let channel = "bot_commands:c-920";
    publish(&redis_url, channel, &json!({"action": "leave", "meeting_id": 921})).await?;
    publish(&redis_url, channel, &json!({"action": "speak", "meeting_id": 920})).await?;
    publish(&redis_url, channel, &json!("nonsense")).await?;
    // What came after them was heard, so they were heard too.
    let reconfigure = json!({"action": "reconfigure", "meeting_id": 920, "config_version": 1});
    publish(&redis_url, channel, &reconfigure).await?;
    server.wait_until("version 1", |report| report.body["config_version"] == 1).await?;
    assert!(bot.is_running()?);
    assert_eq!(server.life(), ["started", "joining", "joined"]);
    Ok(())
}

#[tokio::test]
async fn the_highest_version_is_applied_by_redis_or_by_answer() -> Result<()> {
    let redis_url = env::redis_url()?;
    let server = Server::start().await?;
    let _bot = bot_on_redis(930, &redis_url, &server).await?;
    for version in [2, 5, 4, 5, 3] {
        let message = json!({"action": "reconfigure", "meeting_id": 930, "language": "de",
            "task": null, "config_version": version});
        publish(&redis_url, "bot_commands:meeting:930", &message).await?;
    }
    server.wait_until("version 5", |report| report.body["config_version"] == 5).await?;
    server.want_config(4, json!({"language": "fr", "task": "transcribe"}));
    server.wait_for_heartbeats(2).await?;
    server.want_config(6, json!({"language": "fr", "task": "transcribe"}));
    server.wait_until("version 6", |report| report.body["config_version"] == 6).await?;
    let reports = server.reports();
    let versions = reports.iter().filter_map(|report| report.body["config_version"].as_u64());
    let versions: Vec<u64> = versions.collect();
    assert!(versions.is_sorted(), "{versions:?}");
    Ok(())
}

#[tokio::test]
async fn redis_may_be_away_at_first_and_in_between() -> Result<()> {
    let mut redis = RedisServer::start().await?;
    redis.stop().await?;
    let server = Server::start().await?;
    let mut bot = bot_on_redis(940, &redis.url(), &server).await?;
    redis.restart().await?;
    let channel = "bot_commands:c-940";
    let reconfigure = json!({"action": "reconfigure", "meeting_id": 940, "config_version": 1});
    publish(&redis.url(), channel, &reconfigure).await?;
    server.wait_until("version 1", |report| report.body["config_version"] == 1).await?;
    redis.kill_9().await?;
    server.wait_for_heartbeats(1).await?;
    redis.restart().await?;
    publish(&redis.url(), channel, &json!({"action": "leave", "meeting_id": 940})).await?;
    assert_eq!(bot.exit_code().await?, 0);
    assert_eq!(server.life(), LEFT);
    Ok(())
}

#[tokio::test]
async fn a_redis_that_hangs_holds_up_nothing() -> Result<()> {
    let redis = RedisServer::start().await?;
    redis.pause()?;
    let server = Server::start().await?;
    let mut bot = bot_on_redis(950, &redis.url(), &server).await?;
    server.want_leave();
    assert_eq!(bot.exit_code().await?, 0);
    assert_eq!(server.life(), LEFT);
    Ok(())
}
