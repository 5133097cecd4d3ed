//! Recordings with a file for everybody: each is heard by itself, under the name of who speaks in
//! it, and all of them are one conversation.
//!
//! The files are where Daily puts them: in a bucket of its customer's, to which it gives no links.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_core::recordings::TrackMedium;
use roundsman_testkit::daily::{Guest, NewRecording, NewTrack};
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::{S3Account, S3Fault, S3StandIn, eventually};

use super::download::bucket;
use super::host::Host;
use super::place::{RecordingSite, on_both};
use super::transcriber::{self, Said};
use crate::site::SOON;

const ADA: [Said; 2] = [
    Said { start: 0.0, end: 1.5, text: "Shall we begin?" },
    Said { start: 4.0, end: 5.0, text: "Then let us see the numbers." },
];
const BOB: [Said; 1] = [Said { start: 0.5, end: 1.5, text: "Yes, all are here." }];
const NOBODY: [Said; 1] = [Said { start: 6.0, end: 7.0, text: "This line is bad." }];
/// How much later than the recording the tracks of Bob and of somebody without a name begin.
const BOB_AFTER: Duration = Duration::from_millis(1500);
const NOBODY_AFTER: Duration = Duration::from_millis(250);

#[tokio::test]
async fn tracks_are_heard_one_by_one_and_read_as_one_conversation() {
    on_both(async |backend| {
        let place = RecordingSite::new(backend).await?;
        let bucket = bucket().await?;
        let (node, host) = place.start(reading_tracks_from(&place, &bucket)).await?;
        // The first one breaks off.
        bucket.fail_next("GET", S3Fault::CutAfter(10));
        let recording = conversation(&place, &host, &bucket).await?;
        let id = place.daily.record(recording);
        let done = place.wait_completed(&id).await?;
        ensure!(done["type"] == "raw-tracks" && done["segments"] == 4, "{done}");
        ensure!(done["tracks"].as_array().map(Vec::len) == Some(5), "{done}");
        ensure!(done["media"].as_array().map(Vec::len) == Some(3), "{done}");
        let calls: Vec<usize> =
            ["ada", "bob", "nobody", "screen"].map(|name| place.transcriber.asked(name)).to_vec();
        ensure!(calls == [1, 1, 1, 0], "{calls:?}");
        let said = host.said().await?;
        let named = |name: &str| Some(name.to_owned());
        let expected = [
            (0.0, 1.5, named("Ada"), ADA[0].text.to_owned()),
            (2.0, 3.0, named("Bob"), BOB[0].text.to_owned()),
            (4.0, 5.0, named("Ada"), ADA[1].text.to_owned()),
            (6.25, 7.25, named("Speaker 1"), NOBODY[0].text.to_owned()),
        ];
        ensure!(said == expected, "{said:?}");
        expect_read_everywhere(&host, &id).await?;
        place.end(node, 3).await
    })
    .await;
}

/// Without a bucket it is said at once what is missing; later it is tried again.
#[tokio::test]
async fn raw_tracks_without_a_bucket_say_what_is_missing() {
    async fn run() -> Result<()> {
        let place = RecordingSite::new(crate::site::Backend::Sqlite).await?;
        let bucket = bucket().await?;
        let (mut node, host) = place.start(place.options()).await?;
        let recording = conversation(&place, &host, &bucket).await?;
        let id = place.daily.record(recording);
        let failed = place.wait_for(&id, "failed").await?;
        let error = failed["error"].as_str().context("no reason")?;
        ensure!(error.contains("bucket"), "{failed}");
        node.stop().await?;
        let node = place.site.start(reading_tracks_from(&place, &bucket)).await?;
        let retry = format!("/recordings/{id}/retry");
        host.client.post(&retry, &serde_json::json!({})).await?.expect_status(202)?;
        place.wait_completed(&id).await?;
        ensure!(host.said().await?.len() == 4, "{:?}", host.said().await?);
        place.end(node, 3).await
    }
    run().await.unwrap();
}

/// A server that finds raw tracks in a bucket.
pub(super) fn reading_tracks_from(place: &RecordingSite, bucket: &S3StandIn) -> ServerOptions {
    let S3Account { access_key, secret_key, region, bucket: name, .. } = bucket.account();
    place.site.keep_secret(secret_key);
    place
        .options()
        .env("ROUNDSMAN_DAILY_TRACKS_BUCKET", format!("s3://{name}"))
        .env("ROUNDSMAN_DAILY_TRACKS_S3_ENDPOINT", bucket.url())
        .env("ROUNDSMAN_DAILY_TRACKS_S3_REGION", region)
        .env("ROUNDSMAN_DAILY_TRACKS_S3_ACCESS_KEY", access_key)
        .env("ROUNDSMAN_DAILY_TRACKS_S3_SECRET_KEY", secret_key)
}

/// Three people speak, one shows a film; the files are in the bucket.
pub(super) async fn conversation(
    place: &RecordingSite,
    host: &Host,
    bucket: &S3StandIn,
) -> Result<NewRecording> {
    let (room, began) = (host.room.as_str(), place.now());
    let guests = [Guest::named("Ada"), Guest::named("Bob"), Guest::default()];
    let [ada, bob, nobody] = guests.map(|guest| place.daily.join(room, guest));
    wait_inside(host, 3).await?;
    let speech = |session: &str, after, name: &str, said: &[Said]| {
        NewTrack::speech(room, session, began, after, transcriber::file(name, said, 0))
    };
    let screen = speech(&ada, Duration::ZERO, "screen", &BOB);
    let screen = NewTrack { key: screen.key.replace("cam-audio", "screen-audio"), ..screen };
    let video = NewTrack {
        medium: TrackMedium::Video,
        key: screen.key.replace("screen-audio", "cam-video"),
        bytes: b"a picture".to_vec(),
    };
    let tracks = vec![
        speech(&bob, BOB_AFTER, "bob", &BOB),
        video,
        speech(&ada, Duration::ZERO, "ada", &ADA),
        screen,
        speech(&nobody, NOBODY_AFTER, "nobody", &NOBODY),
    ];
    for track in &tracks {
        bucket.put(&track.key, track.bytes.clone());
    }
    Ok(NewRecording::raw_tracks(room, began, tracks))
}

/// Waits until it is known that so many people are in the meeting.
pub(super) async fn wait_inside(host: &Host, people: u64) -> Result<()> {
    let path = format!("/presence/meetings/{}", host.meeting);
    let inside = eventually(SOON, async || {
        let meeting = host.client.get(&path).await.ok()?.body;
        (meeting["num_clients"] == people).then_some(())
    });
    inside.await.with_context(|| format!("there are not {people} people"))
}

/// Exports and the search know what was said, and by whom.
async fn expect_read_everywhere(host: &Host, id: &str) -> Result<()> {
    let at = format!("/transcripts/daily/{}", host.room);
    for format in ["txt", "srt", "vtt", "json", "csv", "md"] {
        let file = host.client.get(&format!("{at}/export?format={format}")).await?;
        let text = file.expect_status(200)?.text;
        for words in ["Bob", "Yes, all are here.", "Ada", "Then let us see the numbers."] {
            ensure!(text.contains(words), "{format} without {words:?}: {text}");
        }
    }
    // Words become findable when their rows are indexed, shortly after.
    let found = eventually(SOON, async || {
        let answer = host.client.get("/transcripts/search?q=numbers").await.ok()?;
        answer.body["results"].as_array().filter(|results| !results.is_empty()).cloned()
    });
    let found = found.await.context("nothing is found")?;
    ensure!(found.len() == 1 && found[0]["platform"] == "daily", "{found:?}");
    let read = host.client.get(&at).await?.expect_status(200)?.body;
    let uid = format!("recording:{id}");
    let segments = read["segments"].as_array().context("no segments")?;
    ensure!(segments.iter().all(|segment| segment["session_uid"] == *uid), "{read}");
    ensure!(segments.iter().all(|segment| !segment["absolute_start_time"].is_null()), "{read}");
    ensure!(read["status"] == "active", "{read}");
    Ok(())
}
