//! The recording scenarios of the plan for polling, each under its name, and what it says about
//! those that fail.

use anyhow::{Context, Result, ensure};
use roundsman_testkit::daily::{Fault, FaultRule, Route, WebhookFaults};
use roundsman_testkit::eventually;
use serde_json::json;

use super::host::Host;
use super::place::{POLL, RecordingSite, metric, on_both};
use super::transcriber::Said;
use crate::site::{Node, SOON};

const HELLO: [Said; 2] = [
    Said { start: 0.5, end: 2.0, text: "Good morning everybody." },
    Said { start: 2.5, end: 4.25, text: "The budget is on the table." },
];
const SUPPRESSED: &str = "roundsman_recordings_suppressed_total";
/// Longer than any test.
const NEVER: &str = "3600";

/// The server finds the recording in Daily's list while it processes it because of its event.
#[tokio::test]
async fn scenario_1_webhook_vs_polling_race() {
    on_both(async |backend| {
        let place = RecordingSite::new(backend).await?;
        let (node, host) = place.start(place.options()).await?;
        place.transcriber.hold();
        let id = place.record(&host.room, "rec-123", &HELLO);
        place.transcriber.wait_asked("rec-123", 1).await?;
        place.wait_told(1).await?;
        place.wait_listed(2).await?;
        let lease = place.lease(&id).await?;
        ensure!(lease["ttl_secs"] == 600.0, "{lease}");
        place.transcriber.release();
        let done = place.wait_completed(&id).await?;
        ensure!(done["segments"] == 2 && done["meeting_id"] == host.meeting, "{done}");
        place.wait_listed(2).await?;
        expect_one_transcription(&place, &host).await?;

        // Both at once, again and again: whoever is first, there is one of each.
        let ids: Vec<(String, String)> = (0..5)
            .map(|n| format!("race-{n}"))
            .map(|name| (place.record(&host.room, &name, &HELLO[..1]), name))
            .collect();
        for (id, name) in &ids {
            place.wait_completed(id).await?;
            ensure!(place.transcriber.asked(name) == 1, "{name} was heard more than once");
        }
        ensure!(place.jobs("recordings.process").await?.len() == 6, "there are more jobs");
        ensure!(host.said().await?.len() == 7, "{:?}", host.said().await?);
        place.end(node, 6).await
    })
    .await;
}

#[tokio::test]
async fn scenario_2_lost_webhook_poll_backup() {
    on_both(async |backend| {
        let place = RecordingSite::new(backend).await?;
        let (node, host) = place.start(place.options()).await?;
        let faults = WebhookFaults { lose_percent: 100, ..WebhookFaults::default() };
        place.daily.set_webhook_faults(faults);
        let id = place.record(&host.room, "rec-123", &HELLO);
        let done = place.wait_completed(&id).await?;
        ensure!(place.daily.lost() == 1 && done["repeats"] == 0, "{done}");
        ensure!(place.wait_told(0).await?.is_empty(), "an event was told");
        place.wait_listed(2).await?;
        expect_one_transcription(&place, &host).await?;
        place.end(node, 1).await
    })
    .await;
}

/// Every event comes twice, before, while and after the recording is processed.
#[tokio::test]
async fn scenario_3_duplicate_webhook_delivery() {
    on_both(async |backend| {
        let place = RecordingSite::new(backend).await?;
        let (node, host) = start_without_lists(&place).await?;
        let faults = WebhookFaults { double_percent: 100, ..WebhookFaults::default() };
        place.daily.set_webhook_faults(faults);
        place.transcriber.hold();
        let id = place.record(&host.room, "rec-123", &HELLO);
        place.transcriber.wait_asked("rec-123", 1).await?;
        ensure!(place.daily.tell_recording(&id), "it is gone");
        let statuses = place.wait_told(4).await?;
        ensure!(statuses.iter().all(|status| *status == Some(200)), "{statuses:?}");
        node.wait_for_log("a recording was announced again", SOON).await?;
        place.transcriber.release();
        let done = place.wait_completed(&id).await?;
        ensure!(done["repeats"] == 3, "{done}");
        ensure!(metric(&node, SUPPRESSED).await? == 3, "duplicates are not counted");

        // After the end the record alone says that there is nothing to do.
        ensure!(place.daily.tell_recording(&id), "it is gone");
        let statuses = place.wait_told(6).await?;
        ensure!(statuses.iter().all(|status| *status == Some(200)), "{statuses:?}");
        ensure!(metric(&node, SUPPRESSED).await? == 5, "duplicates are not counted");
        let again = place.recording(&id).await?;
        ensure!(again["status"] == "completed" && again["repeats"] == 5, "{again}");
        ensure!(again["completed_at"] == done["completed_at"], "{again}");
        expect_one_transcription(&place, &host).await?;
        place.end(node, 1).await
    })
    .await;
}

/// An event is durable before it is answered: nothing but the database knows of the recording, and
/// that is enough.
#[tokio::test]
async fn a_recording_whose_event_was_answered_is_processed_whatever_comes_next() {
    on_both(async |backend| {
        let place = RecordingSite::new(backend).await?;
        let (mut node, host) = start_without_lists(&place).await?;
        place.transcriber.hold();
        let id = place.record(&host.room, "rec-123", &HELLO);
        let statuses = place.wait_told(1).await?;
        node.kill_9().await?;
        ensure!(statuses == [Some(200)], "{statuses:?}");
        place.transcriber.release();
        place.leases_end().await?;
        node.start_again().await?;
        place.wait_completed(&id).await?;
        ensure!(host.texts().await? == HELLO.map(|said| said.text), "{:?}", host.said().await?);
        place.end(node, 1).await
    })
    .await;
}

#[tokio::test]
async fn failed_ones_are_tried_again_on_request_and_at_night() {
    on_both(async |backend| {
        let place = RecordingSite::new(backend).await?;
        let (node, host) = place.start(place.options()).await?;
        place.transcriber.refuse(Some(400));
        let by_hand = place.record(&host.room, "by-hand", &HELLO[..1]);
        let at_night = place.record(&host.room, "at-night", &HELLO[1..]);
        for id in [&by_hand, &at_night] {
            let failed = place.wait_for(id, "failed").await?;
            let error = failed["error"].as_str().context("no reason")?;
            ensure!(error.contains("as the test has asked"), "{failed}");
        }
        // Neither its event nor the list brings it back.
        ensure!(place.daily.tell_recording(&by_hand), "it is gone");
        place.wait_told(3).await?;
        place.wait_listed(2).await?;
        ensure!(place.recording(&by_hand).await?["status"] == "failed", "it was begun again");
        place.transcriber.refuse(None);

        let retry = format!("/recordings/{by_hand}/retry");
        host.client.post(&retry, &json!({})).await?.expect_status(202)?;
        place.wait_completed(&by_hand).await?;
        host.client.post(&retry, &json!({})).await?.expect_status(409)?;
        ensure!(host.texts().await? == [HELLO[0].text], "{:?}", host.said().await?);

        let [night] = place.jobs("recordings.retry").await?.try_into().ok().context("one night")?;
        let at = night["run_at"].as_str().unwrap_or_default();
        ensure!(at.contains("T05:00:00"), "{night}");
        ensure!(place.recording(&at_night).await?["status"] == "failed", "night came early");
        place.hurry("recordings.retry").await?;
        place.wait_completed(&at_night).await?;
        ensure!(host.texts().await? == HELLO.map(|said| said.text), "{:?}", host.said().await?);
        let nights = eventually(SOON, async || {
            let nights = place.jobs("recordings.retry").await.ok()?;
            let next = nights.iter().find(|job| job["state"] == "scheduled")?;
            next["run_at"].as_str().filter(|at| at.contains("T05:00:00")).map(drop)
        });
        nights.await.context("there is no next night")?;
        place.end(node, 2).await
    })
    .await;
}

/// Daily's list cannot be read, so that nothing but its events tells of recordings.
async fn start_without_lists(place: &RecordingSite) -> Result<(Node, Host)> {
    place.daily.add_fault(FaultRule::always(Route::Recordings, Fault::Status(500)));
    place.start(place.options().env(POLL, NEVER)).await
}

/// The recording `rec-123` was heard once, and was said once.
async fn expect_one_transcription(place: &RecordingSite, host: &Host) -> Result<()> {
    let asked = place.transcriber.asked("rec-123");
    ensure!(asked == 1, "it was heard {asked} times");
    let jobs = place.jobs("recordings.process").await?;
    ensure!(jobs.len() == 1 && jobs[0]["state"] == "completed", "{jobs:?}");
    let said: Vec<_> =
        HELLO.iter().map(|said| (said.start, said.end, None, said.text.to_owned())).collect();
    let read = host.said().await?;
    ensure!(read == said, "{read:?}");
    Ok(())
}
