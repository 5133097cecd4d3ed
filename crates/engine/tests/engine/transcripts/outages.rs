//! One of the two is away for longer than the other keeps what it has, or for longer than a message
//! is good: T-13, T-14. And what could not be taken is kept as it came.

use std::sync::Arc;

use roundsman_bus::memory::MemoryStream;
use roundsman_core::transcripts::TEXT_BYTES_MAX;
use roundsman_engine::transcripts::{ConsumeOptions, Consumed, StreamConsumer};
use serde_json::Value;

use super::streams::{GROUP, segments};
use super::{SESSION, Talk, started};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::secs;

on_every_database! {
    keys_that_expire_while_the_database_is_away_lose_nothing
    what_nobody_has_read_is_seen_as_lag
    a_letter_keeps_all_that_a_message_may_be
}

/// Every call that any part of transcripts makes while things go on.
const CALLS: [&str; 6] = [
    "frames_published",
    "keep_speaker_events",
    "live_lines",
    "live_meetings",
    "put_dead_letters",
    "take_messages",
];

fn add(stream: &MemoryStream, message: &Value) {
    stream.add(&[("payload", &message.to_string())]);
}

/// T-13: the database is away for six hours. The keys of live segments last one hour, those of starts
/// two, tokens two; entries of streams last until they are stored.
async fn keys_that_expire_while_the_database_is_away_lose_nothing(backend: Backend) {
    let talk = Talk::cached(backend).await;
    let (stream, mut consumer) = segments(&talk, "one");
    add(&stream, &started(&talk.token(), SESSION, talk.now()));
    add(&stream, &talk.said(SESSION, &[(0, 1000, "stored before"), (2000, 3000, "this too")]));
    assert_eq!(consumer.tick().await.unwrap().taken, 2);
    assert_eq!(super::mirror::cached_texts(&talk).len(), 2);
    for call in CALLS {
        talk.world.store.set(call, Fault::Down);
    }
    let waiting = ["waits for hours", "and so does this", "never forgotten"];
    for (text, start) in waiting.iter().zip([4000, 6000, 8000]) {
        add(&stream, &talk.said(SESSION, &[(start, start + 900, text)]));
    }
    for _ in 0..24 {
        assert!(consumer.tick().await.is_err());
        assert!(talk.persister().tick(None).await.is_err());
        talk.world.clock.advance(secs(900));
    }
    let keys = talk.cache().keys();
    let left: Vec<&String> = keys.keys().filter(|key| *key != "active_meetings").collect();
    assert!(left.is_empty(), "nothing is kept for so long: {left:?}");
    assert_eq!((stream.pending(GROUP).len(), stream.ids().len()), (3, 5));

    talk.world.store.mend();
    assert_eq!(consumer.tick().await.unwrap(), Consumed { taken: 3, ..Consumed::default() });
    assert!(stream.pending(GROUP).is_empty());
    let said = [&["stored before", "this too"], &waiting[..]].concat();
    assert_eq!(talk.texts().await, said);
    let lines = talk.transcript().await.lines;
    assert!(lines.iter().all(|line| line.session_start.is_some()), "the start is remembered");
    // What is old becomes final; what is live is read in the cache again.
    talk.world.clock.advance(secs(2));
    talk.persist().await;
    assert_eq!(super::mirror::cached_texts(&talk), waiting.map(str::to_owned).into());
    talk.settle().await;
    assert_eq!(talk.texts().await, said);
    assert!(talk.transcripts.dead_letters(None, 10).await.unwrap().letters.is_empty());
    talk.check().await;
}

/// T-14: how far behind the readers are is there for an alarm.
async fn what_nobody_has_read_is_seen_as_lag(backend: Backend) {
    let talk = Talk::new(backend).await;
    let stream = MemoryStream::new("transcription_segments", talk.world.clock.clone());
    let options = ConsumeOptions { entries_max: 4, ..ConsumeOptions::default() };
    let reads = Arc::new(stream.consumer(GROUP, "slow"));
    let mut consumer = StreamConsumer::segments(reads, &talk.transcripts, options);
    for start in 0..10 {
        add(&stream, &talk.said(SESSION, &[(start * 1000, start * 1000 + 900, "more and more")]));
    }
    for (taken, lag) in [(4, 6), (4, 2), (2, 0)] {
        assert_eq!(consumer.tick().await.unwrap().taken, taken);
        let metrics = talk.world.metrics.encode();
        let line = format!("roundsman_stream_lag{{stream=\"transcription_segments\"}} {lag}\n");
        assert!(metrics.contains(&line), "{line} in {metrics}");
        talk.world.clock.advance(options.trim_every);
    }
    assert!(stream.ids().len() == 10, "nothing is trimmed before its time");
    talk.check().await;
}

async fn a_letter_keeps_all_that_a_message_may_be(backend: Backend) {
    let talk = Talk::new(backend).await;
    let (stream, mut consumer) = segments(&talk, "one");
    let long = "a bug of ours ".repeat(TEXT_BYTES_MAX / 14);
    let segments: Vec<(i64, i64, &str)> =
        (0..60).map(|n| (n * 1000, n * 1000 + 900, &*long)).collect();
    let message = talk.said(SESSION, &segments);
    let text = message.to_string();
    assert!((900_000..talk.limits.message_bytes_max).contains(&text.len()));
    talk.world.store.set("take_messages", Fault::RefusesMentionOf("bug of ours"));
    add(&stream, &message);
    for _ in 0..5 {
        consumer.tick().await.unwrap();
        talk.world.clock.advance(secs(61));
    }
    let letters = talk.transcripts.dead_letters(None, 10).await.unwrap().letters;
    assert_eq!(letters.len(), 1);
    assert!(letters[0].letter.payload == text, "it was cut");
    talk.world.store.mend();
    let told = talk.transcripts.replay_dead_letter(letters[0].id).await.unwrap().unwrap();
    assert_eq!(told.changed, 60);
    assert_eq!(talk.texts().await.len(), 60);
    talk.check().await;
}
