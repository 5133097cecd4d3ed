//! The server is killed at every place that a recording comes by: after it was announced,
//! while its files are got and kept, after it was heard, around the moment in which its transcript
//! is saved, and while its media are deleted. Whoever comes after it brings every recording to its
//! end: one transcript, one file, nothing left over.
//!
//! One site sees all deaths, one after the other at the same port; each server finds what the ones
//! before it have left and gets a recording of its own.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_core::failpoint;
use serde_json::json;

use super::consent::wait_erased;
use super::host::Host;
use super::place::{RecordingSite, breathe, on_both};
use super::transcriber::Said;
use crate::bots::place::was_killed;
use crate::site::Node;

/// Every place that only recordings come by.
const PLACES: [&str; 15] = [
    "recordings.announced",
    "recordings.downloaded",
    "recordings.erased",
    "recordings.heard",
    "recordings.kept",
    "recordings.saved",
    "store.recording_announce",
    "store.recording_begin",
    "store.recording_consent",
    "store.recording_cursor",
    "store.recording_erased",
    "store.recording_fail",
    "store.recording_finish",
    "store.recording_media",
    "store.recording_retry",
];

/// What a recording comes by until it has a transcript, in order.
const WHILE_HEARD: [&str; 10] = [
    "store.recording_announce",
    "recordings.announced",
    "store.recording_cursor",
    "store.recording_begin",
    "recordings.downloaded",
    "recordings.kept",
    "store.recording_media",
    "recordings.heard",
    "store.recording_finish",
    "recordings.saved",
];
/// What one comes by that cannot be heard.
const WHILE_REFUSED: [&str; 2] = ["store.recording_fail", "store.recording_retry"];
/// What they come by when somebody does not agree.
const WHILE_DENIED: [&str; 3] =
    ["store.recording_consent", "recordings.erased", "store.recording_erased"];

const DIES_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOG_LINES_SHOWN: usize = 40;

#[test]
fn every_place_exists_and_is_visited() {
    let missing: Vec<_> = PLACES.iter().filter(|place| !failpoint::ALL.contains(place)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let mut visited = [&WHILE_HEARD[..], &WHILE_REFUSED, &WHILE_DENIED].concat();
    visited.sort_unstable();
    assert_eq!(visited, PLACES);
}

#[tokio::test]
async fn a_recording_has_one_transcript_wherever_the_server_is_killed() {
    on_both(async |backend| {
        let place = RecordingSite::new(backend).await?;
        let (mut node, host) = place.start(place.options()).await?;
        node.kill_9().await?;
        let mut made = Vec::new();
        for death in WHILE_HEARD {
            let mut node = begin_to_die(&place, death).await?;
            made.push(record(&place, &host, death));
            expect_death(&place, &mut node, death).await?;
        }
        place.transcriber.refuse(Some(400));
        for death in WHILE_REFUSED {
            made.push(die_of_refusal(&place, &host, death).await?);
        }
        place.transcriber.refuse(None);
        let node = place.site.start(place.options()).await?;
        expect_all_heard(&place, &host, &made).await?;
        place.end(node, made.len()).await?;

        for death in WHILE_DENIED {
            let mut node = begin_to_die(&place, death).await?;
            deny(&host).await;
            expect_death(&place, &mut node, death).await?;
        }
        let node = place.site.start(place.options()).await?;
        deny(&host).await;
        for (id, _) in &made {
            let gone = wait_erased(&place, id).await?;
            ensure!(gone["segments"] == 1, "{gone}");
        }
        ensure!(host.said().await?.len() == made.len(), "{:?}", host.said().await?);
        place.end(node, 0).await
    })
    .await;
}

/// A recording in which one thing is said, and what that is.
type Made = (String, &'static str);

fn record(place: &RecordingSite, host: &Host, text: &'static str) -> Made {
    (place.record(&host.room, text, &[Said { start: 0.0, end: 1.0, text }]), text)
}

/// A server that will die at a place, as far as it comes.
async fn begin_to_die(place: &RecordingSite, death: &str) -> Result<Node> {
    let mut node = place.site.spawn(place.options().env("ROUNDSMAN_FAILPOINTS", death))?;
    // What others have left may kill it before it is ready.
    let _ = node.wait_ready().await;
    Ok(node)
}

async fn expect_death(place: &RecordingSite, node: &mut Node, death: &str) -> Result<()> {
    // A job whose holder has died would wait a while.
    let hurrying = async {
        loop {
            let _ = place.hurry("recordings.erase").await;
            breathe(LOOK_EVERY).await;
        }
    };
    let status = tokio::select! {
        status = node.wait_exit(DIES_WITHIN) => status,
        () = hurrying => unreachable!("it never ends"),
    };
    let log = || node.stderr().map(|log| last_lines(&log)).unwrap_or_default();
    let status = status.with_context(|| format!("never reached: {death}\n{}", log()))?;
    ensure!(was_killed(status), "{death}: {status}\n{}", log());
    place.leases_end().await
}

/// One that fails, and is to be tried again.
async fn die_of_refusal(place: &RecordingSite, host: &Host, death: &'static str) -> Result<Made> {
    let mut node = begin_to_die(place, death).await?;
    let made = record(place, host, death);
    if death == "store.recording_retry" {
        place.wait_for(&made.0, "failed").await?;
        // The answer is lost with the server.
        let _ = host.client.post(&format!("/recordings/{}/retry", made.0), &json!({})).await;
    }
    expect_death(place, &mut node, death).await?;
    Ok(made)
}

async fn expect_all_heard(place: &RecordingSite, host: &Host, made: &[Made]) -> Result<()> {
    for (id, text) in made {
        let recording = place.recording_soon(id).await?;
        if recording["status"] == "failed" {
            // Whether trying again was noted before the death is not known to whoever asked.
            host.client.post(&format!("/recordings/{id}/retry"), &json!({})).await?;
        }
        let done = place.wait_completed(id).await.with_context(|| (*text).to_owned())?;
        let media = done["media"].as_array().map(Vec::len);
        ensure!(done["segments"] == 1 && media == Some(1), "{text}: {done}");
    }
    place.wait_idle().await?;
    let mut texts = host.texts().await?;
    texts.sort();
    let mut expected: Vec<&str> = made.iter().map(|(_, text)| *text).collect();
    expected.sort_unstable();
    ensure!(texts == expected, "{texts:?}");
    Ok(())
}

/// Somebody does not agree; the answer may be lost.
async fn deny(host: &Host) {
    let path = format!("/presence/meetings/{}/consent", host.meeting);
    let _ = host.client.post(&path, &json!({"person": "ada", "given": false})).await;
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}
