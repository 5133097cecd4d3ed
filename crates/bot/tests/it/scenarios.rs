//! Every scenario of the scripted bot, from its first report to the end of its process.

use std::os::unix::process::ExitStatusExt;

use anyhow::Result;
use rustix::process::Signal;
use serde_json::json;

use crate::process::{BotOptions, BotProcess, bot_after};
use crate::server::Server;

const JOINED: [&str; 3] = ["started", "joining", "joined"];

#[tokio::test]
async fn normal_attends_and_completes() -> Result<()> {
    let server = Server::start().await?;
    let options = BotOptions::scenario("normal", &server.url());
    let mut bot = options.env("ROUNDSMAN_BOT_ATTEND_SECS", "1").start()?;
    assert_eq!(bot.exit_code().await?, 0);
    assert_eq!(server.life(), ["started", "joining", "joined", "exited"]);
    let started = server.wait_for("started").await?;
    assert_eq!(started.body, json!({"connection_id": "c-1", "meeting_id": 7}));
    let exited = server.wait_for("exited").await?;
    let expected = json!({"connection_id": "c-1", "exit_code": 0, "reason": "normal_completion"});
    assert_eq!(exited.body, expected);
    Ok(())
}

#[tokio::test]
async fn slow_join_joins_in_the_end() -> Result<()> {
    let server = Server::start().await?;
    let mut bot = bot_after("slow_join", &server, "joined").await?;
    server.want_leave();
    assert_eq!(bot.exit_code().await?, 0);
    assert_eq!(server.life(), ["started", "joining", "joined", "stopping", "exited"]);
    Ok(())
}

#[tokio::test]
async fn the_lobby_can_end_badly() -> Result<()> {
    for (scenario, reason, completion) in [
        ("lobby_timeout", "admission_timeout", "awaiting_admission_timeout"),
        ("rejected", "admission_rejected_by_admin", "awaiting_admission_rejected"),
    ] {
        let server = Server::start().await?;
        let mut bot = BotOptions::scenario(scenario, &server.url()).start()?;
        assert_eq!(bot.exit_code().await?, 0);
        assert_eq!(server.life(), ["started", "joining", "awaiting_admission", "exited"]);
        let exited = server.wait_for("exited").await?.body;
        let expected = json!({"connection_id": "c-1", "exit_code": 0, "reason": reason,
            "completion_reason": completion});
        assert_eq!(exited, expected);
    }
    Ok(())
}

#[tokio::test]
async fn crash_says_nothing() -> Result<()> {
    let server = Server::start().await?;
    let mut bot = BotOptions::scenario("crash", &server.url()).start()?;
    assert_eq!(bot.exit_code().await?, 1);
    assert_eq!(server.life(), JOINED);
    Ok(())
}

#[tokio::test]
async fn hang_falls_silent_and_must_be_killed() -> Result<()> {
    let server = Server::start().await?;
    let mut bot = bot_after("hang", &server, "joined").await?;
    bot.signal(Signal::TERM)?;
    server.want_leave();
    // A bot that heard any of it would be gone by the time another bot has lived its whole life.
    let other = Server::start().await?;
    let options = BotOptions::scenario("normal", &other.url());
    options.env("ROUNDSMAN_BOT_ATTEND_SECS", "2").start()?.exit_code().await?;
    assert!(other.count("heartbeat") >= 2);
    assert!(bot.is_running()?);
    // One may have been under way when it fell silent.
    assert!(server.count("heartbeat") <= 1);
    bot.signal(Signal::KILL)?;
    assert_eq!(bot.wait().await?.signal(), Some(9));
    assert_eq!(server.life(), JOINED);
    Ok(())
}

#[tokio::test]
async fn deaf_beats_on_and_must_be_killed() -> Result<()> {
    let server = Server::start().await?;
    let mut bot = bot_after("deaf", &server, "joined").await?;
    server.want_leave();
    bot.signal(Signal::TERM)?;
    bot.signal(Signal::INT)?;
    server.wait_for_heartbeats(2).await?;
    assert!(bot.is_running()?);
    bot.signal(Signal::KILL)?;
    assert_eq!(bot.wait().await?.signal(), Some(9));
    assert_eq!(server.life(), JOINED);
    Ok(())
}

#[tokio::test]
async fn dies_leaving_gets_as_far_as_saying_so() -> Result<()> {
    let server = Server::start().await?;
    let mut bot = bot_after("dies_leaving", &server, "joined").await?;
    server.want_leave();
    assert_eq!(bot.exit_code().await?, 1);
    assert_eq!(server.life(), ["started", "joining", "joined", "stopping"]);
    Ok(())
}

#[tokio::test]
async fn other_exits_are_reported_as_they_are() -> Result<()> {
    let server = Server::start().await?;
    let mut bot = BotOptions::scenario("exit_137", &server.url()).start()?;
    assert_eq!(bot.exit_code().await?, 137);
    assert_eq!(server.life(), ["started", "joining", "joined", "exited"]);
    assert_eq!(server.wait_for("exited").await?.body["exit_code"], 137);

    let server = Server::start().await?;
    let mut bot = BotOptions::scenario("early_exit", &server.url()).start()?;
    assert_eq!(bot.exit_code().await?, 0);
    assert_eq!(server.life(), ["started", "joining", "exited"]);
    Ok(())
}

#[tokio::test]
async fn media_progress_grows_while_the_bot_attends() -> Result<()> {
    let server = Server::start().await?;
    let _bot = bot_after("normal", &server, "joined").await?;
    let heard = |report: &crate::server::Report| report.body["media_progress"].as_u64();
    let first = server.wait_until("media", |report| heard(report).is_some()).await?;
    let more = server.wait_until("more media", |report| heard(report) > heard(&first)).await?;
    assert!(heard(&more) > Some(500), "{more:?}");
    Ok(())
}

#[tokio::test]
async fn a_bot_that_cannot_begin_says_why() -> Result<()> {
    let scenario = |name: &str| vec![("ROUNDSMAN_BOT_SCENARIO".to_owned(), name.to_owned())];
    let usable = r#"{"meeting_id":7,"connectionId":"c","roundsman":
        {"callbackUrl":"http://127.0.0.1:1","callbackToken":"t"}}"#;
    let tls = usable.replace("http:", "https:");
    let redis =
        usable.replace("\"roundsman\"", "\"redisUrl\":\"http://me:hunter2@x\",\"roundsman\"");
    for (config, variables, named) in [
        (None, vec![], "BOT_CONFIG is not set"),
        (Some("{"), vec![], "BOT_CONFIG cannot be used"),
        (Some(r#"{"meeting_id":7}"#), vec![], "connectionId"),
        (Some(usable), scenario("dance"), "dance"),
        (Some(&tls), vec![], "without TLS"),
        (Some(&redis), vec![], "redisUrl"),
    ] {
        let mut bot = BotProcess::spawn(config, &variables)?;
        assert_eq!(bot.exit_code().await?, 2);
        let log = bot.stderr();
        assert!(log.contains(named) && !log.contains("hunter2"), "{named}: {log}");
    }
    Ok(())
}
