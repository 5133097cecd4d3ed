//! A meeting that somebody attends: a bot that only holds the place, and the token by which producers
//! tell what is said there.

use std::time::Duration;

use anyhow::{Context, Result};
use roundsman_testkit::eventually;
use roundsman_testkit::process::ServerOptions;
use serde_json::Value;

use super::heard::{Lines, lines_of};
use crate::bots::place::BotSite;
use crate::bots::processes::bot_config;
use crate::bots::user::{User, native_id};
use crate::site::{SOON, Stopwatch};

/// A bot's end may have to wait until the lease of a server that was killed is over.
pub(super) const OVER_WITHIN: Duration = Duration::from_secs(90);

/// What makes segments final, entries claimed and keys repaired within a test.
const SETTINGS: [(&str, &str); 7] = [
    ("ROUNDSMAN_TRANSCRIPTS_PERSIST_SECS", "0.3"),
    ("ROUNDSMAN_TRANSCRIPTS_STABLE_AFTER_SECS", "0.5"),
    ("ROUNDSMAN_TRANSCRIPTS_STREAM_BLOCK_MS", "100"),
    ("ROUNDSMAN_TRANSCRIPTS_STREAM_CLAIM_MS", "300"),
    ("ROUNDSMAN_TRANSCRIPTS_STREAM_RETENTION_SECS", "0"),
    ("ROUNDSMAN_BOTS_ACTIVE_SILENCE_SECS_MAX", "100"),
    ("ROUNDSMAN_DATABASE_POOL_MAX", "5"),
];

/// The settings of every server of these tests beside those of bots.
pub(super) fn with_settings(mut options: ServerOptions) -> ServerOptions {
    for (name, value) in SETTINGS {
        options = options.env(name, value);
    }
    options
}

/// A meeting with a bot in it that says nothing by itself.
#[derive(Debug, Clone)]
pub(super) struct Room {
    pub(super) id: i64,
    /// What producers prove themselves with.
    pub(super) token: String,
    /// The bot's own session, whose start is known.
    pub(super) session: String,
    /// Where its transcript is read.
    pub(super) path: String,
    pub(super) native_id: String,
}

impl Room {
    /// Sends a bot to the meeting of this number, and waits until it is there.
    pub(super) async fn enter(site: &BotSite, user: &User, number: u32) -> Result<Room> {
        let id = user.start("normal", number).await?;
        user.wait_for(id, "active", SOON).await?;
        let running = site.processes()?;
        let process = running.iter().find(|process| process.meeting() == Some(id));
        let config = bot_config(process.context("the bot has no process")?)?;
        let text = |name: &str| config[name].as_str().map(str::to_owned).context("not configured");
        let (token, session) = (text("token")?, text("connectionId")?);
        site.site.keep_secret(&token);
        let native_id = native_id(number);
        let path = format!("/transcripts/google_meet/{native_id}");
        Ok(Room { id, token, session, path, native_id })
    }

    /// Everything that was said, and the place of the last frame that told of it. That no segment is
    /// there twice is checked.
    pub(super) async fn read(&self, user: &User) -> Result<(Lines, i64)> {
        let path = format!("/transcripts/by-id/{}?dedupe=false", self.id);
        let body = user.client.get(&path).await?.expect_status(200)?.body;
        let seq = body["seq"].as_i64().context("no seq")?;
        Ok((lines_of(&body["segments"])?, seq))
    }

    /// The bot leaves, and what was said becomes final.
    pub(super) async fn leave(&self, user: &User) -> Result<Value> {
        user.stop(self.id).await?;
        user.wait_for(self.id, "completed", OVER_WITHIN).await
    }

    /// After the end, which is told before the work after it is done: every segment is final and
    /// there once, and nothing is live.
    pub(super) async fn expect_final(&self, site: &BotSite, lines: &Lines) -> Result<()> {
        expect_final(site, self.id, lines.len()).await
    }
}

/// Waits until so many segments of a meeting are final, and none is live.
pub(super) async fn expect_final(site: &BotSite, meeting: i64, segments: usize) -> Result<()> {
    let books = site.books().await?;
    let live = "SELECT count(*) FROM live_segments WHERE NOT dropped AND meeting_id =";
    let kept = "SELECT count(*) FROM transcriptions WHERE meeting_id =";
    let count = async |sql: &str| books.value(&format!("{sql} {meeting}")).await.ok().flatten();
    let mut seen = (None, None);
    let is_final = eventually(OVER_WITHIN, async || {
        seen = (count(live).await, count(kept).await);
        (seen == (Some("0".to_owned()), Some(segments.to_string()))).then_some(())
    });
    let is_final = is_final.await;
    is_final.with_context(|| format!("live and final are {seen:?} of {segments}"))
}

/// Lets others go on for a moment: a load that never pauses measures only the machine.
pub(super) async fn breathe(moment: Duration) {
    let watch = Stopwatch::start();
    // It cannot fail: the moment is over before the limit.
    let _ = eventually(SOON, async || (watch.elapsed() >= moment).then_some(())).await;
}
