//! Keys in addresses, secrets of links and tokens of producers are in no log, whatever becomes of the
//! request that carries them.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::heard::{connect, next, subscribe};
use super::producer::Producer;
use super::room::{Room, with_settings};
use crate::bots::place::BotSite;
use crate::site::PAYLOAD_CANARY;

/// Somebody's mistake: a key of another server.
const STRANGE_KEY: &str = "canary-strange-key-51ac";
const STRANGE_SHARE: &str = "canary-strange-share-9d02";

#[tokio::test]
async fn no_secret_of_a_transcript_is_logged() {
    async fn run() -> Result<()> {
        let site = BotSite::sqlite()?;
        let options = with_settings(site.options()).env("ROUNDSMAN_LOG_LEVEL", "trace");
        let mut node = site.site.start(options).await?;
        for secret in [STRANGE_KEY, STRANGE_SHARE] {
            site.site.keep_secret(secret);
        }
        let user = site.user("careful", 1).await?;
        let room = Room::enter(&site, &user, 1).await?;
        Producer::over_http(&room, &site.base_url())?.say().await?;
        let said = json!([{"start": 9, "end": 10, "text": PAYLOAD_CANARY}]);
        let message = json!({"uid": room.session, "token": room.token, "segments": said});
        node.client()?.post("/ingest/transcription", &message).await?.expect_status(200)?;
        let refused = json!({"uid": room.session, "token": room.token, "segments": "none"});
        node.client()?.post("/ingest/transcription", &refused).await?.expect_status(422)?;

        let url = site.base_url().replacen("http", "ws", 1) + "/ws?api_key=";
        let mut socket = connect(&format!("{url}{}", user.key), None).await?;
        subscribe(&mut socket, room.id, Some(0)).await?;
        ensure!(next(&mut socket).await?["type"] == "subscribed");
        // Whatever it is told, it is not let in.
        if let Ok(mut stranger) = connect(&format!("{url}{STRANGE_KEY}"), None).await {
            let told = loop {
                match next(&mut stranger).await {
                    Ok(_) => {}
                    Err(end) => break end,
                }
            };
            ensure!(format!("{told:#}").contains("4401"), "{told:#}");
        }

        let share = user.client.post(&format!("{}/share", room.path), &json!({})).await?;
        let share = share.expect_status(200)?;
        let secret = share.body["share_id"].as_str().context("no secret")?;
        site.site.keep_secret(secret);
        for (secret, ending, status) in
            [(secret, "txt", 200), (secret, "srt", 200), (STRANGE_SHARE, "txt", 404)]
        {
            let path = format!("/public/transcripts/{secret}.{ending}");
            node.client()?.get(&path).await?.expect_status(status)?;
        }
        let end = format!("/transcripts/shares/{}", share.body["id"]);
        user.client.delete(&end).await?.expect_status(204)?;
        let path = format!("/public/transcripts/{secret}.txt");
        node.client()?.get(&path).await?.expect_status(404)?;
        room.leave(&user).await?;
        node.check_logs()?;
        ensure!(node.stderr()?.len() + node.stdout()?.len() > 1000, "nothing was logged at all");
        site.wait_no_process().await?;
        node.stop().await
    }
    run().await.unwrap();
}
