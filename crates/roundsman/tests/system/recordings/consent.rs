//! Somebody does not agree to being recorded: the media go, here and at the provider, and it is
//! said that they are gone when they are.

use anyhow::{Context, Result, ensure};
use roundsman_testkit::daily::{Fault, FaultRule, Route};
use roundsman_testkit::eventually;
use serde_json::{Value, json};

use super::download::bucket;
use super::host::Host;
use super::place::{RecordingSite, on_both};
use super::tracks::{conversation, reading_tracks_from};
use super::transcriber::Said;
use crate::site::SOON;

const SAID: [Said; 1] = [Said { start: 0.0, end: 1.0, text: "Off the record." }];

#[tokio::test]
async fn a_denial_deletes_media_and_says_so() {
    on_both(async |backend| {
        let place = RecordingSite::new(backend).await?;
        let bucket = bucket().await?;
        let (node, host) = place.start(reading_tracks_from(&place, &bucket)).await?;
        let done = place.record(&host.room, "done", &SAID);
        let raw = place.daily.record(conversation(&place, &host, &bucket).await?);
        for id in [&done, &raw] {
            place.wait_completed(id).await?;
        }
        let kept = place.media_files()?.len();
        ensure!(kept == 4 && bucket.objects().len() == 5, "{kept} {:?}", bucket.objects());
        // One is being heard while it is denied, and the provider does not delete at first.
        place.transcriber.hold();
        let under_way = place.record(&host.room, "under-way", &SAID);
        place.transcriber.wait_asked("under-way", 1).await?;
        place.daily.add_fault(FaultRule::times(Route::Recording, Fault::Status(500), 1));
        say(&host, "ada", true).await?;
        say(&host, "bob", false).await?;
        let told = wait_until(&place, &done, |r| !r["erase_error"].is_null()).await?;
        ensure!(told["erased_at"].is_null(), "said to be gone: {told}");
        for id in [&done, &raw] {
            let gone = wait_erased(&place, id).await?;
            ensure!(gone["status"] == "completed" && gone["erase_error"].is_null(), "{gone}");
        }
        ensure!(bucket.objects().is_empty(), "raw tracks are left: {:?}", bucket.objects());
        let processing = place.recording(&under_way).await?;
        ensure!(processing["erased_at"].is_null(), "it is being heard: {processing}");
        place.transcriber.release();
        wait_erased(&place, &under_way).await?;
        let consents = format!("/presence/meetings/{}/consents", host.meeting);
        let consents = host.client.get(&consents).await?.expect_status(200)?.body;
        ensure!(consents["is_denied"] == true, "{consents}");
        // What was said may be read; only who was heard saying it is gone.
        ensure!(host.texts().await?.len() == 6, "{:?}", host.said().await?);
        // A recording of this meeting that comes later is heard and deleted, too.
        let later = place.record(&host.room, "later", &SAID);
        wait_erased(&place, &later).await?;
        // Nothing of them is left at the provider.
        let listed = roundsman_testkit::JsonClient::new(place.daily.api_url())?;
        let listed = listed.with_token(place.daily.api_key())?.get("/recordings").await?;
        ensure!(listed.body["total_count"] == 0, "{}", listed.text);
        place.end(node, 0).await
    })
    .await;
}

/// Waits until the media of a recording are said to be deleted.
pub(super) async fn wait_erased(place: &RecordingSite, id: &str) -> Result<Value> {
    let hurried = eventually(SOON, async || {
        place.hurry("recordings.erase").await.ok()?;
        let recording = place.recording(id).await.ok()?;
        (!recording["erased_at"].is_null()).then_some(recording)
    });
    hurried.await.with_context(|| format!("the media of {id} are not deleted"))
}

async fn say(host: &Host, person: &str, given: bool) -> Result<()> {
    let path = format!("/presence/meetings/{}/consent", host.meeting);
    let said = json!({"person": person, "given": given});
    host.client.post(&path, &said).await?.expect_status(200).map(drop)
}

async fn wait_until(
    place: &RecordingSite,
    id: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let reached =
        eventually(SOON, async || place.recording(id).await.ok().filter(|found| is_so(found)));
    reached.await.with_context(|| format!("{id} does not come to it"))
}
