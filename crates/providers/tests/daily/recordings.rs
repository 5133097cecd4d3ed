//! What was recorded: lists, links and deletions.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::ports::{
    Clock, MediaError, MediaFetcher, RecordingsPage, RoomsError, VideoRecordings,
};
use roundsman_core::recordings::{RecordingId, RecordingKind, Track, TrackMedium, Via};
use roundsman_providers::daily::{DailyClient, InvalidDailyOptions};
use roundsman_providers::media::{FetchLimits, HttpMediaFetcher, InvalidS3Options, S3Options};
use roundsman_testkit::daily::{NewRecording, NewTrack};
use roundsman_testkit::{ManualClock, S3Account, S3Fault, S3StandIn};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Pair, secs, unlimited};

const SESSION: &str = "0c0d2dda-5d1f-4b3c-9f21-2d1c0a3b9f10";

/// All pages, one after the other.
async fn pages(pair: &Pair) -> Vec<RecordingsPage> {
    let mut pages: Vec<RecordingsPage> = Vec::new();
    loop {
        let after = pages.last().and_then(|page| page.next_after.clone());
        if after.is_none() && !pages.is_empty() {
            return pages;
        }
        pages.push(pair.client.recordings_page(after.as_deref()).await.unwrap());
        assert!(pages.len() < 10, "it never ends");
    }
}

#[tokio::test]
async fn the_list_is_read_to_its_end() {
    for count in [0, 1, 99, 100, 101, 250] {
        let pair = Pair::new().await;
        let now = pair.clock.now();
        let made: BTreeSet<String> = (0..count)
            .map(|_| pair.daily.record(NewRecording::cloud("room", now, vec![1])))
            .collect();
        let pages = pages(&pair).await;
        let all = pages.iter().flat_map(|page| &page.finished);
        let read: BTreeSet<String> = all.map(|found| found.id.as_str().to_owned()).collect();
        assert_eq!((read, pages.iter().map(|page| page.odd).sum::<u32>()), (made, 0), "{count}");
    }
}

#[tokio::test]
async fn entries_stand_for_themselves() {
    let pair = Pair::new().await;
    let now = pair.clock.now();
    let start_ts = now.as_micros() / 1_000_000;
    let good = pair.daily.record(NewRecording::cloud("room", now, vec![1]));
    let unfinished = pair.daily.begin_recording(NewRecording::cloud("room", now, vec![1]));
    let audio = json!({"id": "audio", "room_name": "room", "start_ts": start_ts, "status": "finished",
        "duration": 3.5, "tracks": null, "type": "cloud-audio-only"});
    for entry in [
        json!({"id": "canceled", "room_name": "room", "start_ts": start_ts, "status": "canceled"}),
        audio,
        json!({"room_name": "room", "status": "finished", "duration": 1}),
        json!(null),
        json!("odd"),
        json!({"id": "new", "room_name": "room", "start_ts": start_ts, "status": "something new"}),
    ] {
        pair.daily.add_recording_entry(entry);
    }
    let page = pair.client.recordings_page(None).await.unwrap();
    let found: Vec<_> =
        page.finished.iter().map(|r| (r.id.as_str(), r.kind, r.duration_ms, r.via)).collect();
    let expected = [
        ("audio", RecordingKind::CloudAudioOnly, 3500, Via::Poll),
        (good.as_str(), RecordingKind::Cloud, 60_000, Via::Poll),
    ];
    assert_eq!(found, expected);
    assert_eq!((page.unfinished, page.odd, page.next_after), (vec![unfinished.clone()], 4, None));
    assert!(pair.daily.finish_recording(&unfinished, secs(9)));
    let page = pair.client.recordings_page(None).await.unwrap();
    assert_eq!((page.finished.len(), page.unfinished.len()), (3, 0));
}

#[tokio::test]
async fn a_page_that_does_not_go_on_is_odd() {
    let pair = Pair::new().await;
    // Without a name, nothing after these could be asked for.
    for _ in 0..120 {
        pair.daily.add_recording_entry(json!({"status": "finished"}));
    }
    let error = pair.client.recordings_page(None).await.unwrap_err();
    assert!(matches!(error, RoomsError::Odd(_)), "{error}");
    let unknown = pair.client.recordings_page(Some("deleted meanwhile")).await.unwrap_err();
    assert!(matches!(unknown, RoomsError::Refused(_)), "{unknown}");
}

#[tokio::test]
async fn links_lead_to_what_was_recorded() {
    let pair = Pair::with(|options| {
        options.limits = unlimited();
        options.has_track_links = true;
    })
    .await;
    let now = pair.clock.now();
    let cloud = pair.daily.record(NewRecording::cloud("room", now, b"all of it".to_vec()));
    let speech = NewTrack::speech("room", SESSION, now, secs(1), b"a voice".to_vec());
    let key = speech.key.clone();
    let raw = pair.daily.record(NewRecording::raw_tracks("room", now, vec![speech]));
    let read = async |link: String| {
        let client = roundsman_testkit::JsonClient::new(link).unwrap();
        client.get("").await.unwrap().expect_status(200).unwrap().text
    };
    let (cloud, raw) = (RecordingId::new(&cloud).unwrap(), RecordingId::new(&raw).unwrap());
    assert_eq!(read(pair.client.access_link(&cloud, None).await.unwrap()).await, "all of it");
    let track = Track { medium: TrackMedium::Audio, key, bytes: None };
    assert_eq!(read(pair.client.access_link(&raw, Some(&track)).await.unwrap()).await, "a voice");
    let unknown = Track { key: "other".to_owned(), ..track.clone() };
    assert_eq!(pair.client.access_link(&raw, Some(&unknown)).await, Err(RoomsError::NotFound));
    assert_eq!(pair.client.access_link(&raw, None).await, Err(RoomsError::NotFound));

    let listed = pair.client.recordings_page(None).await.unwrap().finished;
    assert_eq!(listed[0].kind, RecordingKind::RawTracks);
    assert_eq!(listed[0].tracks, [Track { bytes: Some(7), ..track.clone() }]);

    assert_eq!(pair.client.delete_recording(&cloud).await, Ok(true));
    assert_eq!(pair.client.delete_recording(&cloud).await, Ok(false));
    for odd in [".", ".."] {
        let odd = RecordingId::new(odd).unwrap();
        assert_eq!(pair.client.delete_recording(&odd).await, Ok(false), "nothing else is deleted");
    }
    assert_eq!(pair.client.recordings_page(None).await.unwrap().finished.len(), 1);

    // Daily itself would answer for the whole recording.
    let plain = Pair::new().await;
    for refused in [
        plain.client.access_link(&raw, Some(&track)).await.map(drop),
        plain.client.delete_tracks(std::slice::from_ref(&track)).await,
    ] {
        let Err(RoomsError::Refused(said)) = refused else { panic!("{refused:?}") };
        assert!(said.contains("bucket"), "{said}");
    }
    assert_eq!(plain.client.delete_tracks(&[]).await, Ok(()));
    assert_eq!(plain.daily.requests_total(), 0);
}

#[tokio::test]
async fn raw_tracks_are_read_and_deleted_in_the_bucket_of_the_domain() {
    let bucket_clock = Arc::new(ManualClock::default());
    let bucket = S3StandIn::start(S3Account::default(), bucket_clock.clone()).await.unwrap();
    let pair = Pair::with(|options| {
        options.limits = unlimited();
        options.tracks = Some(bucket_options(&bucket));
    })
    .await;
    let speech = NewTrack::speech("room", SESSION, pair.clock.now(), secs(1), noise());
    bucket.put(&speech.key, speech.bytes.clone());
    let id = RecordingId::new("rec-1").unwrap();
    let track = Track { medium: TrackMedium::Audio, key: speech.key.clone(), bytes: None };
    let link = pair.client.access_link(&id, Some(&track)).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("track");
    let fetcher = HttpMediaFetcher::new(FetchLimits::default(), None).unwrap();
    bucket.fail_next("GET", S3Fault::CutAfter(70_000));
    let fetched = fetcher.download(&link, &to).await.unwrap();
    assert_eq!(fetched.bytes, speech.bytes.len() as u64);
    assert_eq!(fetched.sha256, hex::encode(Sha256::digest(&speech.bytes)));
    assert!(std::fs::read(&to).unwrap() == speech.bytes);
    assert_eq!(bucket.requests(), ["GET", "GET"], "it went on where it broke off");

    // A link is good for what it names, and for a while.
    let other = link.replace("cam-audio", "cam-video");
    let denied = fetcher.download(&other, &folder.path().join("other")).await;
    assert!(matches!(denied, Err(MediaError::Failed(_))), "{denied:?}");
    bucket_clock.advance(secs(3601));
    let over = fetcher.download(&link, &folder.path().join("late")).await;
    assert!(matches!(over, Err(MediaError::Failed(_))), "{over:?}");
    bucket_clock.set_wall(pair.clock.now());

    bucket.fail_next("DELETE", S3Fault::Status(500));
    let tracks = [track];
    let failed = pair.client.delete_tracks(&tracks).await;
    assert!(matches!(failed, Err(RoomsError::Unavailable(_))), "{failed:?}");
    for _ in 0..2 {
        assert_eq!(pair.client.delete_tracks(&tracks).await, Ok(()), "also if they are gone");
    }
    assert_eq!(bucket.objects(), Vec::<String>::new());
    assert_eq!(pair.daily.requests_total(), 0, "Daily knows nothing of it");

    // Names that nobody here knows any more are asked for.
    bucket.put(&speech.key, b"again".to_vec());
    let raw = NewRecording::raw_tracks("room", pair.clock.now(), vec![speech]);
    let raw = RecordingId::new(&pair.daily.record(raw)).unwrap();
    assert_eq!(pair.client.delete_recording(&raw).await, Ok(true));
    assert_eq!(bucket.objects(), Vec::<String>::new());
    assert_eq!(pair.client.delete_recording(&raw).await, Ok(false));
}

#[test]
fn the_bucket_of_raw_tracks_is_checked() {
    let mut options = super::options_of("https://api.daily.co/v1", "key");
    let [endpoint, region, bucket, key, secret] =
        ["https://s3", "region", "a/b", "key", "secret"].map(str::to_owned);
    options.tracks = Some(S3Options::new(endpoint, region, bucket, key, secret.into()));
    let made = DailyClient::new(&options, Arc::new(ManualClock::default()));
    assert_eq!(made.err(), Some(InvalidDailyOptions::Tracks(InvalidS3Options::Bucket)));
}

fn bucket_options(bucket: &S3StandIn) -> S3Options {
    let S3Account { access_key, secret_key, region, bucket: name, .. } = bucket.account().clone();
    S3Options::new(bucket.url(), region, name, access_key, secret_key.into())
}

/// More than one piece.
fn noise() -> Vec<u8> {
    (0..200_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}
