//! A bot that was not written for Roundsman: it knows `BOT_CONFIG`, one address for callbacks, and
//! the channel of its meeting. It sends no heartbeats, and is alive while its launcher sees it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::{env, eventually};

use super::place::{BotSite, SILENCE_MAX};
use super::python;
use super::user::{User, end_reason};
use crate::site::{Backend, SOON, Stopwatch};

#[tokio::test]
async fn a_stock_bot_lives_and_leaves() {
    async fn run() -> Result<()> {
        let site = BotSite::new(Backend::Postgres).await?;
        let interpreter = env::clients_python()?;
        let command =
            format!("{},{}", interpreter.display(), python::script("stock_bot.py").display());
        // It hears of a stop over Redis alone: a signal must not come first.
        let options = site
            .options()
            .env("ROUNDSMAN_LAUNCHER_PROCESS_COMMAND", command)
            .env("ROUNDSMAN_BOTS_LEAVE_GRACE_SECS", "20");
        let mut node = site.site.start(options).await?;
        let user = site.user("stock", 2).await?;

        let leaves = user.start("leaves", 1).await?;
        let crashes = user.start("fails", 2).await?;
        let active = user.wait_for(leaves, "active", SOON).await?;
        ensure!(active["start_time"].is_string(), "{active}");
        let over = user.wait_for(crashes, "failed", SOON).await?;
        ensure!(over["failure_stage"] == "joining", "{over}");
        ensure!(end_reason(&over) == "join_meeting_error", "{over}");
        ensure!(over["data"]["last_error"]["exit_code"] == 1, "{over}");

        outlives_the_silence(&user, leaves).await?;
        user.stop(leaves).await?;
        let over = user.wait_for(leaves, "completed", SOON).await?;
        ensure!(end_reason(&over) == "self_initiated_leave", "{over}");
        let steps: Vec<String> =
            site.books().await?.steps(leaves).await?.into_iter().map(|step| step.to).collect();
        let expected = ["reserved", "starting", "active", "stopping", "completed"];
        ensure!(steps == expected, "{steps:?}");
        site.end(&mut node).await
    }
    run().await.unwrap();
}

/// Watches for longer than a bot with heartbeats may be silent.
async fn outlives_the_silence(user: &User, id: i64) -> Result<()> {
    let watch = Stopwatch::start();
    let limit = SILENCE_MAX + Duration::from_secs(2);
    let ended = eventually(SOON, async || {
        let meeting = user.meeting(id).await.ok()?;
        let over = meeting["state"] != "active";
        (over || watch.elapsed() > limit).then_some(meeting)
    });
    let meeting = ended.await.context("nobody answers")?;
    ensure!(meeting["state"] == "active", "given up though it runs: {meeting}");
    Ok(())
}
