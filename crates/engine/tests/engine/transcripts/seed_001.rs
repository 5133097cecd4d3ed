//! What the plan for the collector asks to be tested, under its own headings: unit, integration,
//! load, failure, acceptance.

use roundsman_core::ports::TranscriptCache;
use serde_json::Value;

use super::mirror::{cached, cached_texts};
use super::{SESSION, Talk, ended, started};
use crate::backend::{Backend, on_every_database};
use crate::support::secs;

on_every_database! {
    unit_normalised_content_decides_what_has_changed
    unit_identical_payloads_are_skipped
    unit_the_lifetime_is_refreshed_with_each_write
    unit_the_start_of_a_session_is_written_to_the_cache_and_read_from_it
    integration_a_live_stream_publishes_only_changes
    integration_persistence_moves_stable_segments_and_rest_merges_them
    load_frequent_partial_updates_do_not_spam_listeners
    load_memory_of_the_cache_is_stable
    failure_a_start_missing_in_the_cache_is_found_in_the_database
    failure_the_cache_blinks
    failure_nothing_happens_twice_after_a_reconnect
    acceptance_frames_only_when_something_rendered_changes
    acceptance_live_segments_have_absolute_times
    acceptance_stable_segments_leave_the_cache
    acceptance_no_frame_is_called_finalized
    acceptance_no_key_is_left_after_the_meeting
}

fn start_key() -> String {
    format!("meeting_session:{SESSION}:start")
}

fn segments_key(talk: &Talk) -> String {
    format!("meeting:{}:segments", talk.id())
}

async fn unit_normalised_content_decides_what_has_changed(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.start_session(talk.now()).await;
    let told = async |end: &str, text: &str, language: &str, completed: bool| {
        let segment = serde_json::json!({
            "start": "1.000", "end": end, "text": text, "language": language,
            "completed": completed,
        });
        let message = serde_json::json!({
            "token": talk.token(), "uid": SESSION, "segments": [segment],
        });
        talk.ingest(&message).await.changed
    };
    assert_eq!(told("2.5", "hello", "en", false).await, 1, "new");
    assert_eq!(told("2.5004", "hello", "en", false).await, 0, "the same to three decimals");
    assert_eq!(told("2.5", "hello", "en", true).await, 0, "nobody renders that");
    assert_eq!(told("2.6", "hello", "en", false).await, 1, "end_time");
    assert_eq!(told("2.6", "hello you", "en", false).await, 1, "text");
    assert_eq!(told("2.6", "hello you", "de", false).await, 1, "language");
    talk.check().await;
}

async fn unit_identical_payloads_are_skipped(backend: Backend) {
    let talk = Talk::cached(backend).await;
    talk.start_session(talk.now()).await;
    talk.say(&[(0, 1000, "identical every time")]).await;
    let (keys, frames) = (talk.cache().keys(), talk.frames().await);
    for _ in 0..10 {
        assert_eq!(talk.say(&[(0, 1000, "identical every time")]).await.changed, 0);
    }
    assert_eq!((talk.cache().keys(), talk.frames().await), (keys, frames));
}

async fn unit_the_lifetime_is_refreshed_with_each_write(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let ttl = || talk.cache().keys()[&segments_key(&talk)].ttl_secs;
    talk.say(&[(0, 1000, "written once")]).await;
    assert_eq!(ttl(), Some(3600));
    talk.world.clock.advance(secs(100));
    talk.say(&[(0, 1000, "written once")]).await;
    assert_eq!(ttl(), Some(3500), "nothing was written");
    talk.say(&[(0, 1000, "written twice")]).await;
    assert_eq!(ttl(), Some(3600));
}

async fn unit_the_start_of_a_session_is_written_to_the_cache_and_read_from_it(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let (stream, mut consumer) = super::streams::segments(&talk, "one");
    let start = talk.now() - secs(30);
    talk.start_session(start).await;
    let stored = talk.cache().keys().remove(&start_key()).expect("it is there");
    assert_eq!(stored.ttl_secs, Some(7200));
    // Another session, whose start only the cache knows: somebody else has declared it.
    talk.cache().put_start("elsewhere", start).await.unwrap();
    let message = talk.said("elsewhere", &[(0, 1000, "when was this said")]).to_string();
    stream.add(&[("payload", &message)]);
    assert_eq!(consumer.tick().await.unwrap().taken, 1);
    let lines = talk.transcript().await.lines;
    assert_eq!(lines[0].session_start, Some(start));
    talk.ingest(&ended(&talk.token(), SESSION)).await;
    assert!(!talk.cache().keys().contains_key(&start_key()));
    talk.check().await;
}

async fn integration_a_live_stream_publishes_only_changes(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let (stream, mut consumer) = super::streams::segments(&talk, "one");
    let mut outside = super::crash::Outside::of(&talk).await;
    let add = |message: &Value| drop(stream.add(&[("payload", &message.to_string())]));
    add(&started(&talk.token(), SESSION, talk.now()));
    // Every message tells the last ten segments again, of which one is new and one has grown.
    let mut changes = 0;
    for message in 0..30_i64 {
        let texts: Vec<(i64, String)> = (message.saturating_sub(9).max(0)..=message)
            .map(|n| (n, if n == message { "it beg".into() } else { format!("it began {n}") }))
            .collect();
        let segments: Vec<(i64, i64, &str)> =
            texts.iter().map(|(n, text)| (n * 1000, n * 1000 + 900, text.as_str())).collect();
        changes += if message == 0 { 1 } else { 2 };
        add(&talk.said(SESSION, &segments));
    }
    assert_eq!(consumer.tick().await.unwrap().taken, 31);
    outside.hear().await;
    assert_eq!(outside.seqs.len(), 30, "a frame for each message that changed something");
    let told: usize = talk
        .frames()
        .await
        .iter()
        .map(|(_, frame)| frame["payload"]["segments"].as_array().unwrap().len())
        .sum();
    assert_eq!(told, changes, "changed segments in frames / real changes = 1.0");
    let metrics = talk.world.metrics.encode();
    assert!(metrics.contains(&format!("roundsman_segments_changed_total {changes}\n")));
    assert_eq!(outside.rendered, super::reader::render(&talk.transcript().await));
    talk.check().await;
}

async fn integration_persistence_moves_stable_segments_and_rest_merges_them(backend: Backend) {
    let talk = Talk::cached(backend).await;
    talk.start_session(talk.now()).await;
    talk.say(&[(0, 1000, "stable by now"), (2000, 3000, "stable as well")]).await;
    talk.world.clock.advance(secs(25));
    talk.say(&[(4000, 5000, "still growing")]).await;
    talk.world.clock.advance(secs(10));
    assert_eq!(talk.persist().await.kept, 2);
    assert_eq!(cached_texts(&talk).into_iter().collect::<Vec<_>>(), ["still growing"]);
    assert_eq!(talk.texts().await, ["stable by now", "stable as well", "still growing"]);
    let kept: Vec<bool> = roundsman_core::transcripts::in_order(talk.transcript().await.lines)
        .iter()
        .map(|line| line.kept)
        .collect();
    assert_eq!(kept, [true, true, false]);
    talk.check().await;
}

async fn load_frequent_partial_updates_do_not_spam_listeners(backend: Backend) {
    let talk = Talk::new(backend).await;
    let mut reader = talk.reader().await;
    // 1,000 messages of 5 segments each, of which one in ten says something new.
    let mut frames = 0;
    for message in 0..1000_i64 {
        let text = format!("revision {}", message / 10);
        let segments: Vec<(i64, i64, &str)> =
            (0..5).map(|n| (n * 1000, n * 1000 + 900, text.as_str())).collect();
        frames += u32::from(talk.say(&segments).await.seq.is_some());
    }
    assert_eq!(frames, 100);
    let end = talk.transcript().await.seq;
    let mut heard = 0;
    while reader.seq < end {
        heard += reader.hear().await;
    }
    assert!(heard <= 100);
    reader.agrees(&talk).await;
}

async fn load_memory_of_the_cache_is_stable(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let mut most = 0;
    for minute in 0..30_i64 {
        for n in 0..10_i64 {
            let start = (minute * 10 + n) * 2000;
            let text = format!("segment {n} of minute {minute}");
            talk.say(&[(start, start + 1900, &text)]).await;
        }
        talk.world.clock.advance(secs(60));
        talk.persist().await;
        most = most.max(cached(&talk).len());
        assert!(talk.cache().keys().len() <= 2, "{:?}", talk.cache().keys());
    }
    assert!(most <= 10, "{most} values at once");
    assert_eq!(talk.texts().await.len(), 300);
}

async fn failure_a_start_missing_in_the_cache_is_found_in_the_database(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let (stream, mut consumer) = super::streams::segments(&talk, "one");
    let start = talk.now();
    talk.start_session(start).await;
    talk.cache().wipe();
    let message = talk.said(SESSION, &[(0, 1000, "the cache knows nothing")]).to_string();
    stream.add(&[("payload", &message)]);
    assert_eq!(consumer.tick().await.unwrap().taken, 1);
    assert_eq!(talk.transcript().await.lines[0].session_start, Some(start));
    assert!(talk.cache().keys().contains_key(&start_key()), "cached at once");
}

async fn failure_the_cache_blinks(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let mut reader = talk.reader().await;
    for second in 0..40_i64 {
        talk.cache().set_available(second % 3 != 0);
        let text = format!("said in second {second}");
        assert_eq!(talk.say(&[(second * 1000, second * 1000 + 900, &text)]).await.changed, 1);
        talk.world.clock.advance(secs(1));
        talk.transcripts.tick().await.unwrap();
    }
    talk.cache().set_available(true);
    talk.world.clock.advance(secs(2));
    talk.transcripts.tick().await.unwrap();
    assert_eq!(cached_texts(&talk), talk.texts().await.into_iter().collect());
    reader.hear_until(talk.transcript().await.seq).await;
    reader.agrees(&talk).await;
}

async fn failure_nothing_happens_twice_after_a_reconnect(backend: Backend) {
    let mut talk = Talk::cached(backend).await;
    talk.start_session(talk.now()).await;
    let segments = [(0, 1000, "sent before"), (2000, 3000, "and again after")];
    talk.say(&segments).await;
    let (frames, keys) = (talk.frames().await, talk.cache().keys());
    talk.restart();
    // The producer sends everything again, on a new connection to a new process.
    talk.start_session(talk.now()).await;
    assert_eq!(talk.say(&segments).await.changed, 0);
    assert_eq!(talk.frames().await, frames);
    assert_eq!(talk.cache().keys(), keys);
    talk.settle().await;
    assert_eq!(talk.say(&segments).await.changed, 0, "nor when it is final");
    assert_eq!(talk.texts().await, ["sent before", "and again after"]);
    talk.check().await;
}

async fn acceptance_frames_only_when_something_rendered_changes(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.start_session(talk.now()).await;
    for _ in 0..5 {
        talk.say(&[(0, 1000, "a"), (2000, 3000, "b"), (4000, 5000, "c")]).await;
    }
    talk.say(&[(0, 1000, "a"), (2000, 3000, "B"), (4000, 5000, "c")]).await;
    let frames = talk.frames().await;
    let told: Vec<usize> = frames
        .iter()
        .map(|(_, frame)| frame["payload"]["segments"].as_array().unwrap().len())
        .collect();
    assert_eq!(told, [3, 1]);
    // The absolute times are rendered too: when they change, all three are told.
    talk.world.clock.advance(secs(5));
    assert_eq!(talk.start_session(talk.now()).await.changed, 3);
}

async fn acceptance_live_segments_have_absolute_times(backend: Backend) {
    let talk = Talk::cached(backend).await;
    talk.start_session(talk.now()).await;
    talk.say(&[(500, 1000, "with times"), (2000, 3250, "each of them")]).await;
    for value in cached(&talk) {
        for field in ["session_uid", "text", "language", "end_time", "updated_at"] {
            assert!(!value[field].is_null(), "{field} of {value}");
        }
        for field in ["absolute_start_time", "absolute_end_time"] {
            assert!(value[field].as_str().unwrap().ends_with("+00:00"), "{value}");
        }
    }
    for (_, frame) in talk.frames().await {
        for segment in frame["payload"]["segments"].as_array().unwrap() {
            assert!(segment["absolute_start_time"].is_string(), "{segment}");
            assert!(segment["absolute_end_time"].is_string(), "{segment}");
        }
    }
    let first = &roundsman_core::transcripts::in_order(talk.transcript().await.lines)[0];
    let row = roundsman_core::transcripts::line_body(first);
    let told = &talk.frames().await[0].1["payload"]["segments"][0];
    assert_eq!(row["absolute_start_time"], told["absolute_start_time"], "the same string");
}

async fn acceptance_stable_segments_leave_the_cache(backend: Backend) {
    let talk = Talk::cached(backend).await;
    talk.say(&[(0, 1000, "stable in a while")]).await;
    assert_eq!(cached(&talk).len(), 1);
    assert_eq!(talk.settle().await.kept, 1);
    assert!(talk.cache().keys().is_empty(), "{:?}", talk.cache().keys());
    assert!(talk.transcript().await.lines[0].kept);
}

async fn acceptance_no_frame_is_called_finalized(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.start_session(talk.now()).await;
    talk.say(&[(0, 1000, "from its first telling"), (2000, 2500, "hm")]).await;
    talk.settle().await;
    talk.say(&[(0, 1100, "to its last one")]).await;
    let kinds: Vec<String> = talk
        .frames()
        .await
        .iter()
        .map(|(_, frame)| frame["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["transcript.mutable", "transcript.retracted", "transcript.mutable"]);
}

/// The other half, with the job at the meeting's end, is in `finish`.
async fn acceptance_no_key_is_left_after_the_meeting(backend: Backend) {
    let talk = Talk::cached(backend).await;
    talk.start_session(talk.now()).await;
    talk.ingest(&serde_json::json!({
        "type": "speaker_activity", "token": talk.token(),
        "payload": { "uid": SESSION, "relative_client_timestamp_ms": 0,
                     "event_type": "SPEAKER_START", "participant_name": "Ann" },
    }))
    .await;
    talk.say(&[(0, 1000, "said by somebody")]).await;
    assert_eq!(talk.cache().keys().len(), 4, "{:?}", talk.cache().keys());
    talk.ingest(&ended(&talk.token(), SESSION)).await;
    talk.settle().await;
    assert!(talk.cache().keys().is_empty(), "{:?}", talk.cache().keys());
}
