//! A server that refuses, fails, loses answers or goes away.

use anyhow::Result;
use roundsman_testkit::FaultProxy;
use roundsman_testkit::proxy::Direction;
use rustix::process::Signal;

use crate::process::{BotOptions, bot_after};
use crate::server::Server;

#[tokio::test]
async fn a_bot_whose_row_is_over_ends_at_once_and_says_nothing_more() -> Result<()> {
    for told_at in ["started", "joining", "joined", "heartbeat"] {
        let server = Server::start().await?;
        server.refuse(told_at, None, 410);
        let mut bot = BotOptions::scenario("normal", &server.url()).start()?;
        assert_eq!(bot.exit_code().await?, 0, "told at {told_at}");
        let life = server.life();
        let unwanted = ["stopping", "exited"];
        assert!(!life.iter().any(|what| unwanted.contains(&what.as_str())), "{told_at}: {life:?}");
        assert_eq!(server.count(told_at), 1, "told at {told_at}");
    }
    Ok(())
}

#[tokio::test]
async fn a_bot_in_a_meeting_is_told_by_its_heartbeat() -> Result<()> {
    let server = Server::start().await?;
    let mut bot = bot_after("normal", &server, "heartbeat").await?;
    server.wait_for("joined").await?;
    server.refuse("heartbeat", None, 410);
    assert_eq!(bot.exit_code().await?, 0);
    assert_eq!(server.life(), ["started", "joining", "joined"]);
    Ok(())
}

#[tokio::test]
async fn a_bot_that_is_refused_gives_up() -> Result<()> {
    for status in [401, 403, 404] {
        let server = Server::start().await?;
        server.refuse("started", None, status);
        let mut bot = BotOptions::scenario("normal", &server.url()).start()?;
        assert_eq!(bot.exit_code().await?, 1);
        assert_eq!(server.life(), ["started"]);
    }
    Ok(())
}

#[tokio::test]
async fn failures_are_tried_again() -> Result<()> {
    let server = Server::start().await?;
    for (what, status) in [("started", 503), ("joined", 500), ("stopping", 429), ("exited", 502)] {
        server.refuse(what, Some(1), status);
    }
    server.refuse("heartbeat", Some(1), 503);
    let mut bot = bot_after("normal", &server, "joined").await?;
    server.wait_for_heartbeats(2).await?;
    bot.signal(Signal::TERM)?;
    assert_eq!(bot.exit_code().await?, 0);
    let expected = [
        "started", "started", "joining", "joined", "joined", "stopping", "stopping", "exited",
        "exited",
    ];
    assert_eq!(server.life(), expected);
    Ok(())
}

#[tokio::test]
async fn a_report_whose_answer_was_lost_is_repeated() -> Result<()> {
    let server = Server::start().await?;
    let proxy = FaultProxy::start(server.address).await?;
    proxy.blackhole(Direction::ToClient);
    let options = BotOptions::scenario("normal", &format!("http://{}", proxy.addr()));
    let mut bot = options.start()?;
    server.wait_for("started").await?;
    proxy.cut().await?;
    proxy.heal().await?;
    server.wait_for("joined").await?;
    // By the second heartbeat the answer to what was reported before the first has arrived.
    server.wait_for_heartbeats(2).await?;
    proxy.blackhole(Direction::ToClient);
    bot.signal(Signal::TERM)?;
    server.wait_for("stopping").await?;
    proxy.cut().await?;
    proxy.heal().await?;
    assert_eq!(bot.exit_code().await?, 0);
    let expected = ["started", "started", "joining", "joined", "stopping", "stopping", "exited"];
    assert_eq!(server.life(), expected);
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_away_is_told_everything_when_it_is_back() -> Result<()> {
    let server = Server::start().await?;
    let proxy = FaultProxy::start(server.address).await?;
    proxy.refuse().await?;
    let options = BotOptions::scenario("normal", &format!("http://{}", proxy.addr()));
    let mut bot = options.start()?;
    proxy.heal().await?;
    server.wait_for("joined").await?;
    proxy.partition().await?;
    bot.signal(Signal::TERM)?;
    proxy.heal().await?;
    assert_eq!(bot.exit_code().await?, 0);
    assert_eq!(server.life(), ["started", "joining", "joined", "stopping", "exited"]);
    Ok(())
}
