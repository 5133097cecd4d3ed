//! The bot that comes with the server hears a conversation and tells it, from its first word to a
//! final transcript that says who spoke.

use anyhow::{Context, Result, ensure};
use roundsman_testkit::eventually;
use serde_json::json;

use super::heard::lines_of;
use super::room::{OVER_WITHIN, expect_final, with_settings};
use crate::bots::place::BotSite;
use crate::bots::user::native_id;
use crate::site::SOON;

const SPEAKERS: [&str; 3] = ["Ada", "Grace", "Edsger"];
/// The first lines are by all three.
const LINES: usize = 5;

#[tokio::test]
async fn what_the_reference_bot_hears_is_final_when_it_was_stopped() {
    async fn run() -> Result<()> {
        let site = BotSite::sqlite()?;
        // Nothing is final before the end.
        let options =
            with_settings(site.options()).env("ROUNDSMAN_TRANSCRIPTS_STABLE_AFTER_SECS", "1000");
        let mut node = site.site.start(options).await?;
        let user = site.user("host", 1).await?;
        let wish = json!({
            "platform": "google_meet", "native_meeting_id": native_id(1), "bot_name": "Notes",
        });
        let started = user.client.post("/bots/start", &wish).await?.expect_status(201)?;
        let id = started.body["id"].as_i64().context("no number")?;
        let path = format!("/transcripts/by-id/{id}?dedupe=false");
        let talked = eventually(SOON, async || {
            let body = user.client.get(&path).await.ok()?.body;
            (body["segments"].as_array()?.len() > LINES).then_some(())
        });
        talked.await.context("the bot says nothing")?;
        let books = site.books().await?;
        let kept = format!("SELECT count(*) FROM transcriptions WHERE meeting_id = {id}");
        ensure!(books.value(&kept).await?.as_deref() == Some("0"), "final too early");
        user.stop(id).await?;
        user.wait_for(id, "completed", OVER_WITHIN).await?;

        let body = user.client.get(&path).await?.expect_status(200)?.body;
        let lines = lines_of(&body["segments"])?;
        ensure!(lines.len() > LINES, "{body}");
        expect_final(&site, id, lines.len()).await?;
        for name in SPEAKERS {
            let said = lines.values().any(|line| line.speaker.as_deref() == Some(name));
            ensure!(said, "{name} said nothing: {body}");
        }
        let known = |speaker: &str| SPEAKERS.contains(&speaker);
        for line in lines.values() {
            ensure!(line.speaker.as_deref().is_some_and(known), "{line:?}");
            ensure!(line.start <= line.end && line.start.is_some(), "{line:?}");
        }
        let first = lines.values().next().context("no line")?;
        ensure!(first.text.starts_with("Good morning everybody"), "{first:?}");
        site.end(&mut node).await
    }
    run().await.unwrap();
}
