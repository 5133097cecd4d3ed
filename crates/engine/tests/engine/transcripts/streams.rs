//! Streams of messages: nothing is acknowledged before it is stored, nothing is lost, nothing blocks
//! the rest. T-12, T-13.

use std::sync::Arc;

use roundsman_bus::memory::MemoryStream;
use roundsman_core::ports::IngestStream;
use roundsman_engine::transcripts::{ConsumeOptions, Consumed, StreamConsumer};
use serde_json::{Value, json};

use super::{SESSION, Talk, ended, said, started};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::secs;

on_every_database! {
    entries_are_stored_told_and_acknowledged
    a_consumer_that_died_in_the_middle_is_replaced
    two_consumers_share_the_work
    what_can_never_be_taken_is_put_away_at_once
    a_start_without_a_name_is_put_away_after_five_tries
    poison_is_put_away_after_five_tries_and_costs_the_others_nothing
    a_database_that_is_away_puts_nothing_away
    a_stream_that_is_away_or_empty_loses_nothing_that_was_acknowledged
    a_token_that_runs_out_while_its_message_waits_was_good
    speakers_are_heard_from_their_own_stream
    a_letter_can_be_tried_again
    only_what_is_acknowledged_is_trimmed
}

pub(super) const GROUP: &str = "collector_group";

/// The stream of messages, and one consumer of it.
pub(super) fn segments(talk: &Talk, consumer: &str) -> (Arc<MemoryStream>, StreamConsumer) {
    let stream = MemoryStream::new("transcription_segments", talk.world.clock.clone());
    segments_of(talk, &stream, consumer)
}

/// One more consumer of a stream.
pub(super) fn segments_of(
    talk: &Talk,
    stream: &Arc<MemoryStream>,
    consumer: &str,
) -> (Arc<MemoryStream>, StreamConsumer) {
    let reads: Arc<dyn IngestStream> = Arc::new(stream.consumer(GROUP, consumer));
    (stream.clone(), StreamConsumer::segments(reads, &talk.transcripts, ConsumeOptions::default()))
}

fn add(stream: &MemoryStream, message: &Value) -> String {
    stream.add(&[("payload", &message.to_string())])
}

fn nothing(stream: &MemoryStream) -> bool {
    stream.pending(GROUP).is_empty()
}

fn taken(count: usize) -> Consumed {
    Consumed { taken: count, ..Consumed::default() }
}

async fn letters(talk: &Talk) -> Vec<(String, String)> {
    let letters = talk.transcripts.dead_letters(None, 100).await.unwrap().letters;
    letters.into_iter().map(|found| (found.letter.entry, found.letter.reason)).collect()
}

async fn entries_are_stored_told_and_acknowledged(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let (stream, mut consumer) = segments(&talk, "one");
    let mut reader = talk.reader().await;
    assert_eq!(consumer.tick().await.unwrap(), Consumed::default());
    add(&stream, &started(&talk.token(), SESSION, talk.now()));
    add(&stream, &talk.said(SESSION, &[(0, 1000, "by way of a stream")]));
    add(&stream, &talk.said(SESSION, &[(0, 1000, "by way of a stream")]));
    add(&stream, &ended(&talk.token(), SESSION));
    assert_eq!(consumer.tick().await.unwrap(), taken(4));
    assert!(nothing(&stream));
    reader.hear().await;
    reader.agrees(&talk).await;
    assert_eq!(talk.frames().await.len(), 1);
    assert!(talk.transcript().await.lines[0].session_start.is_some());
    let keys = talk.cache().keys();
    assert!(!keys.contains_key(&format!("meeting_session:{SESSION}:start")), "it has ended");
    assert!(keys.contains_key(&format!("meeting:{}:segments", talk.id())));
    talk.check().await;
}

/// T-12: it has read, and perhaps stored, and acknowledged nothing.
async fn a_consumer_that_died_in_the_middle_is_replaced(backend: Backend) {
    let talk = Talk::new(backend).await;
    let (stream, consumer) = segments(&talk, "one");
    for start in 0..10 {
        add(&stream, &talk.said(SESSION, &[(start * 1000, start * 1000 + 900, "in the middle")]));
    }
    // It has stored the first of them.
    let dying = stream.consumer(GROUP, "one");
    let read = dying.read(5).await.unwrap();
    let first = read[0].field("payload").unwrap();
    talk.transcripts.ingest(first).await.unwrap();
    drop(consumer);
    let (_, mut other) = segments_of(&talk, &stream, "two");
    assert_eq!(other.tick().await.unwrap(), taken(5), "what nobody has read");
    assert_eq!(stream.pending(GROUP).len(), 5);
    talk.world.clock.advance(secs(59));
    assert_eq!(other.tick().await.unwrap(), taken(0), "it may still be alive");
    talk.world.clock.advance(secs(6));
    assert_eq!(other.tick().await.unwrap(), taken(5));
    assert!(nothing(&stream));
    assert_eq!(talk.texts().await.len(), 10);
    assert_eq!(talk.frames().await.len(), 10, "nobody was told twice");
    talk.check().await;
}

async fn two_consumers_share_the_work(backend: Backend) {
    let talk = Talk::new(backend).await;
    let stream = MemoryStream::new("transcription_segments", talk.world.clock.clone());
    let options = ConsumeOptions { entries_max: 3, ..ConsumeOptions::default() };
    let mut consumers: Vec<StreamConsumer> = ["one", "two"]
        .map(|name| {
            let reads = Arc::new(stream.consumer(GROUP, name));
            StreamConsumer::segments(reads, &talk.transcripts, options)
        })
        .into();
    for update in 0..60 {
        let text = format!("update {update} of sixty");
        add(&stream, &talk.said(SESSION, &[(update % 6 * 1000, update % 6 * 1000 + 900, &text)]));
    }
    let mut done = 0;
    while done < 60 {
        // The later ones first, now and then.
        let (one, two) = consumers.split_at_mut(1);
        let (first, second) = tokio::join!(one[0].tick(), two[0].tick());
        done += first.unwrap().taken + second.unwrap().taken;
    }
    assert!(nothing(&stream));
    let mut expected: Vec<String> = (54..60).map(|n| format!("update {n} of sixty")).collect();
    let mut texts = talk.texts().await;
    texts.sort();
    expected.sort();
    assert_eq!(texts, expected, "the last of each stands");
    talk.check().await;
}

async fn what_can_never_be_taken_is_put_away_at_once(backend: Backend) {
    let talk = Talk::new(backend).await;
    let (stream, mut consumer) = segments(&talk, "one");
    let good = add(&stream, &talk.said(SESSION, &[(0, 1000, "a good one first")]));
    let mut bad = vec![
        stream.add(&[("payload", "{not json")]),
        stream.add(&[("other", "field"), ("token", "secret")]),
        add(&stream, &said("a.bad.token", Some(SESSION), &[(0, 1000, "x")])),
        add(&stream, &json!({ "token": talk.token(), "type": "rumour" })),
        add(&stream, &json!({ "token": talk.token(), "segments": 7 })),
        stream.add(&[("payload", "with \0 in it")]),
    ];
    let mut nowhere = super::grant(&talk.record);
    nowhere.meeting_id = roundsman_core::bots::MeetingId::new(999);
    let token = talk.tokens.sign(&nowhere, talk.now(), talk.now() + secs(60), "j");
    bad.push(add(&stream, &said(&token, Some(SESSION), &[(0, 1000, "x")])));
    add(&stream, &talk.said(SESSION, &[(2000, 3000, "and one last")]));
    let consumed = consumer.tick().await.unwrap();
    assert_eq!(consumed, Consumed { taken: 2, refused: bad.len(), left: 0 });
    assert!(nothing(&stream));
    assert_eq!(talk.texts().await, ["a good one first", "and one last"]);
    let letters = letters(&talk).await;
    let entries: Vec<&str> = letters.iter().rev().map(|(entry, _)| entry.as_str()).collect();
    assert_eq!(entries, bad, "each with its name");
    assert!(letters.iter().all(|(_, reason)| !reason.is_empty()), "and a reason: {letters:?}");
    assert!(!entries.contains(&good.as_str()));
    let stored = talk.transcripts.dead_letters(None, 100).await.unwrap().letters;
    assert_eq!(stored.last().unwrap().letter.payload, "{not json", "and what it said");
    assert!(stored.iter().all(|found| !found.letter.payload.contains("secret")));
    let metrics = talk.world.metrics.encode();
    let counted =
        format!("roundsman_dead_letters_total{{stream=\"transcription_segments\"}} {}", bad.len());
    assert!(metrics.contains(&counted), "{metrics}");
    talk.check().await;
}

/// The seed's NACK.
async fn a_start_without_a_name_is_put_away_after_five_tries(backend: Backend) {
    let talk = Talk::new(backend).await;
    let (stream, mut consumer) = segments(&talk, "one");
    let start = json!({ "type": "session_start", "token": talk.token(),
                        "start_timestamp": talk.now().to_string() });
    let entry = add(&stream, &start);
    for delivery in 1..=5 {
        let consumed = consumer.tick().await.unwrap();
        if delivery < 5 {
            assert_eq!(consumed, Consumed { left: 1, ..Consumed::default() }, "{delivery}");
            assert_eq!(stream.pending(GROUP), [entry.as_str()]);
        } else {
            assert_eq!(consumed, Consumed { refused: 1, ..Consumed::default() });
        }
        assert_eq!(consumer.tick().await.unwrap(), Consumed::default(), "not at once");
        talk.world.clock.advance(secs(61));
    }
    assert!(nothing(&stream));
    let letters = talk.transcripts.dead_letters(None, 10).await.unwrap().letters;
    assert_eq!((letters.len(), letters[0].letter.deliveries), (1, 5));
    assert_eq!(letters[0].letter.payload, start.to_string());
    talk.check().await;
}

/// T-12.
async fn poison_is_put_away_after_five_tries_and_costs_the_others_nothing(backend: Backend) {
    let talk = Talk::new(backend).await;
    let (stream, mut consumer) = segments(&talk, "one");
    talk.world.store.set("take_messages", Fault::RefusesMentionOf("poison"));
    for text in ["before it", "the poison", "after it"] {
        let start = i64::try_from(text.len()).unwrap() * 1000;
        add(&stream, &talk.said(SESSION, &[(start, start + 900, text)]));
    }
    let consumed = consumer.tick().await.unwrap();
    assert_eq!(consumed, Consumed { taken: 2, refused: 0, left: 1 });
    for _ in 2..5 {
        talk.world.clock.advance(secs(61));
        let again = consumer.tick().await.unwrap();
        assert_eq!(again, Consumed { left: 1, ..Consumed::default() });
    }
    talk.world.clock.advance(secs(61));
    let last = consumer.tick().await.unwrap();
    assert_eq!(last, Consumed { refused: 1, ..Consumed::default() });
    assert!(nothing(&stream));
    assert_eq!(letters(&talk).await.len(), 1);
    talk.world.store.mend();
    assert_eq!(talk.texts().await.len(), 2);
    talk.check().await;
}

/// T-13: the database is away for hours, and entries change hands meanwhile.
async fn a_database_that_is_away_puts_nothing_away(backend: Backend) {
    let talk = Talk::new(backend).await;
    let (stream, mut consumer) = segments(&talk, "one");
    let (_, mut other) = segments_of(&talk, &stream, "two");
    for start in 0..5 {
        add(&stream, &talk.said(SESSION, &[(start * 1000, start * 1000 + 900, "in bad times")]));
    }
    add(&stream, &said("bad", Some(SESSION), &[(0, 900, "x")]));
    for call in ["take_messages", "put_dead_letters"] {
        talk.world.store.set(call, Fault::Down);
    }
    for _ in 0..20 {
        assert!(consumer.tick().await.is_err());
        talk.world.clock.advance(secs(400));
        assert!(other.tick().await.is_err());
        talk.world.clock.advance(secs(400));
    }
    assert_eq!(stream.pending(GROUP).len(), 6);
    talk.world.store.mend();
    assert_eq!(letters(&talk).await, []);
    assert_eq!(consumer.tick().await.unwrap().taken, 5, "at once, from its own hands");
    assert!(other.tick().await.is_ok());
    assert!(nothing(&stream));
    assert_eq!(talk.texts().await.len(), 5);
    assert_eq!(talk.frames().await.len(), 5);
    assert_eq!(letters(&talk).await.len(), 1);
    // What cannot be put away is not acknowledged either.
    talk.world.store.set("put_dead_letters", Fault::Down);
    add(&stream, &said("bad too", Some(SESSION), &[(0, 900, "x")]));
    assert!(consumer.tick().await.is_err());
    assert_eq!(stream.pending(GROUP).len(), 1);
    talk.world.store.mend();
    assert_eq!(consumer.tick().await.unwrap().refused, 1);
    assert_eq!(letters(&talk).await.len(), 2);
    // The answer is lost after the work is done: nothing is done twice.
    add(&stream, &talk.said(SESSION, &[(9000, 9900, "was it heard")]));
    talk.world.store.set("take_messages", Fault::AnswerLost);
    assert!(consumer.tick().await.is_err());
    talk.world.store.mend();
    assert_eq!(consumer.tick().await.unwrap(), taken(1));
    assert_eq!(talk.frames().await.len(), 6);
    talk.check().await;
}

/// T-13: Redis is away, restarted, emptied.
async fn a_stream_that_is_away_or_empty_loses_nothing_that_was_acknowledged(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let (stream, mut consumer) = segments(&talk, "one");
    add(&stream, &talk.said(SESSION, &[(0, 1000, "acknowledged before")]));
    assert_eq!(consumer.tick().await.unwrap(), taken(1));
    stream.set_available(false);
    talk.cache().set_available(false);
    assert!(consumer.tick().await.is_err());
    // Without Redis there is still HTTP.
    assert_eq!(talk.say(&[(2000, 3000, "by another way")]).await.changed, 1);
    stream.set_available(true);
    stream.wipe();
    talk.cache().set_available(true);
    talk.cache().wipe();
    assert_eq!(consumer.tick().await.unwrap(), Consumed::default());
    add(&stream, &talk.said(SESSION, &[(4000, 5000, "and afterwards")]));
    assert_eq!(consumer.tick().await.unwrap(), taken(1));
    let said = ["acknowledged before", "by another way", "and afterwards"];
    assert_eq!(talk.texts().await, said);
    talk.world.clock.advance(secs(2));
    talk.persist().await;
    let cached = super::mirror::cached_texts(&talk);
    assert_eq!(cached, said.map(str::to_owned).into(), "the cache is as before");
    talk.settle().await;
    assert_eq!(talk.texts().await, said);
    talk.check().await;
}

async fn a_token_that_runs_out_while_its_message_waits_was_good(backend: Backend) {
    let talk = Talk::new(backend).await;
    let (stream, mut consumer) = segments(&talk, "one");
    add(&stream, &talk.said(SESSION, &[(0, 1000, "waited for three hours")]));
    let late = talk.said(SESSION, &[(2000, 3000, "written too late")]);
    talk.world.clock.advance(secs(3 * 3600));
    add(&stream, &late);
    let consumed = consumer.tick().await.unwrap();
    assert_eq!(consumed, Consumed { taken: 1, refused: 1, left: 0 });
    assert_eq!(talk.texts().await, ["waited for three hours"]);
    talk.check().await;
}

async fn speakers_are_heard_from_their_own_stream(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let stream = MemoryStream::new("speaker_events_relative", talk.world.clock.clone());
    let reads = Arc::new(stream.consumer("collector_speaker_group", "one"));
    let mut consumer =
        StreamConsumer::speakers(reads, &talk.transcripts, ConsumeOptions::default());
    let event = |kind: &str, at_ms: &str| {
        stream.add(&[
            ("uid", SESSION),
            ("relative_client_timestamp_ms", at_ms),
            ("event_type", kind),
            ("participant_name", "Ann"),
            ("token", "secret"),
        ]);
    };
    event("SPEAKER_START", "0");
    event("SPEAKER_END", "5000");
    event("SPEAKER_SINGS", "1");
    let consumed = consumer.tick().await.unwrap();
    assert_eq!(consumed, Consumed { taken: 2, refused: 1, left: 0 });
    assert!(stream.pending("collector_speaker_group").is_empty());
    talk.say(&[(100, 2000, "who says this")]).await;
    let line = &talk.transcript().await.lines[0];
    assert_eq!(line.segment.content.speaker.as_deref(), Some("Ann"));
    assert!(talk.cache().keys().contains_key(&format!("speaker_events:{SESSION}")));
    let letters = talk.transcripts.dead_letters(None, 10).await.unwrap().letters;
    assert_eq!(letters.len(), 1);
    assert!(!letters[0].letter.payload.contains("secret"), "{letters:?}");
    talk.check().await;
}

async fn a_letter_can_be_tried_again(backend: Backend) {
    let talk = Talk::new(backend).await;
    let (stream, mut consumer) = segments(&talk, "one");
    talk.world.store.set("take_messages", Fault::RefusesMentionOf("bug of ours"));
    add(&stream, &talk.said(SESSION, &[(0, 1000, "a bug of ours")]));
    for _ in 0..5 {
        consumer.tick().await.unwrap();
        talk.world.clock.advance(secs(61));
    }
    add(&stream, &said("bad", Some(SESSION), &[(0, 900, "x")]));
    consumer.tick().await.unwrap();
    let found = talk.transcripts.dead_letters(None, 10).await.unwrap().letters;
    let (bad, ours) = (found[0].id, found[1].id);
    assert!(talk.transcripts.replay_dead_letter(ours).await.is_err(), "not yet mended");
    talk.world.store.mend();
    // The token has run out, but it was good when the message came.
    talk.world.clock.advance(secs(24 * 3600));
    let told = talk.transcripts.replay_dead_letter(ours).await.unwrap().unwrap();
    assert_eq!(told.changed, 1);
    assert_eq!(talk.texts().await, ["a bug of ours"]);
    assert!(talk.transcripts.replay_dead_letter(bad).await.is_err(), "still bad");
    assert!(talk.transcripts.replay_dead_letter(ours).await.unwrap().is_none(), "it is gone");
    assert!(talk.transcripts.delete_dead_letter(bad).await.unwrap());
    assert!(!talk.transcripts.delete_dead_letter(bad).await.unwrap());
    assert_eq!(letters(&talk).await, []);
    talk.check().await;
}

/// T-14.
async fn only_what_is_acknowledged_is_trimmed(backend: Backend) {
    let talk = Talk::new(backend).await;
    let (stream, mut consumer) = segments(&talk, "one");
    add(&stream, &talk.said(SESSION, &[(0, 1000, "old and acknowledged")]));
    let kept = add(&stream, &json!({ "type": "session_start", "token": talk.token() }));
    consumer.tick().await.unwrap();
    talk.world.clock.advance(secs(3 * 3600));
    talk.world.store.set("take_messages", Fault::Down);
    let new = add(&stream, &talk.said(SESSION, &[(2000, 3000, "not yet stored")]));
    assert!(consumer.tick().await.is_err());
    talk.world.store.mend();
    consumer.tick().await.unwrap();
    assert_eq!(stream.ids(), [kept, new], "one waits for another try, the other is new");
    let metrics = talk.world.metrics.encode();
    assert!(metrics.contains("roundsman_stream_pending{stream=\"transcription_segments\"} 1"));
    talk.check().await;
}
