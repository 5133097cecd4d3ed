//! The cache that others read is as the database, and costs nobody anything when it is away.

use std::collections::BTreeSet;

use roundsman_bus::conformance_cache::Stored;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::TranscriptCache;
use serde_json::Value;

use super::{SESSION, Talk, ended, started};
use crate::backend::{Backend, on_every_database};
use crate::support::secs;

on_every_database! {
    live_segments_and_starts_are_mirrored
    a_cache_that_was_away_is_repaired_soon
    a_cache_that_was_emptied_is_repaired_in_turn
    what_should_not_be_there_is_cleared_away
    a_cache_that_hangs_in_failure_is_left_alone_for_a_moment
}

fn segments_key(talk: &Talk) -> String {
    format!("meeting:{}:segments", talk.id())
}

fn start_key() -> String {
    format!("meeting_session:{SESSION}:start")
}

/// The values that others read, as objects.
pub(super) fn cached(talk: &Talk) -> Vec<Value> {
    match talk.cache().keys().remove(&segments_key(talk)).map(|key| key.value) {
        Some(Stored::Hash(fields)) => {
            fields.values().map(|value| serde_json::from_str(value).unwrap()).collect()
        }
        None => Vec::new(),
        other => panic!("{other:?}"),
    }
}

pub(super) fn cached_texts(talk: &Talk) -> BTreeSet<String> {
    cached(talk).iter().map(|value| value["text"].as_str().unwrap().to_owned()).collect()
}

fn texts(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

async fn live_segments_and_starts_are_mirrored(backend: Backend) {
    let talk = Talk::cached(backend).await;
    talk.start_session(talk.now()).await;
    talk.say(&[(0, 1000, "the first line"), (2000, 3000, "the second line")]).await;
    assert_eq!(cached_texts(&talk), texts(&["the first line", "the second line"]));
    let keys = talk.cache().keys();
    assert!(keys.contains_key(&start_key()) && keys.contains_key("active_meetings"));
    talk.say(&[(0, 1000, "the first line, again")]).await;
    assert_eq!(cached_texts(&talk), texts(&["the first line, again", "the second line"]));
    talk.ingest(&ended(&talk.token(), SESSION)).await;
    assert!(!talk.cache().keys().contains_key(&start_key()));
    assert_eq!(talk.settle().await.kept, 2);
    assert_eq!(cached_texts(&talk), texts(&[]));
    assert!(!talk.cache().keys().contains_key("active_meetings"), "nothing is live");
    // What changes when it is final is nobody's live segment.
    talk.say(&[(0, 1000, "the first line, at last")]).await;
    assert_eq!(cached_texts(&talk), texts(&[]));
    talk.check().await;
}

async fn a_cache_that_was_away_is_repaired_soon(backend: Backend) {
    let talk = Talk::cached(backend).await;
    talk.say(&[(0, 1000, "while all was well")]).await;
    talk.cache().set_available(false);
    assert_eq!(talk.say(&[(2000, 3000, "while it was away")]).await.changed, 1);
    assert_eq!(talk.say(&[(0, 1000, "while all was not well")]).await.changed, 1);
    assert!(!talk.world.metrics.encode().contains("roundsman_cache_failures_total 0\n"));
    talk.transcripts.tick().await.unwrap();
    talk.cache().set_available(true);
    assert_eq!(cached_texts(&talk), texts(&["while all was well"]));
    talk.world.clock.advance(secs(2));
    talk.transcripts.tick().await.unwrap();
    assert_eq!(cached_texts(&talk), texts(&["while it was away", "while all was not well"]));
    talk.check().await;
}

async fn a_cache_that_was_emptied_is_repaired_in_turn(backend: Backend) {
    let talk = Talk::cached(backend).await;
    talk.start_session(talk.now()).await;
    talk.say(&[(0, 1000, "before the wipe")]).await;
    talk.cache().wipe();
    assert_eq!(cached(&talk), Vec::<Value>::new());
    talk.persist().await;
    assert_eq!(cached_texts(&talk), texts(&["before the wipe"]));
    let expected = talk.transcript().await.lines.remove(0);
    let expected = roundsman_core::transcripts::cache_value(&expected);
    assert_eq!(cached(&talk), [serde_json::from_str::<Value>(&expected).unwrap()]);
    assert!(talk.world.metrics.encode().contains("roundsman_cache_repairs_total 1\n"));
    // The start is in the cache again with the next message that needs it.
    let (stream, mut consumer) = super::streams::segments(&talk, "one");
    let message = talk.said(SESSION, &[(2000, 3000, "after the wipe")]).to_string();
    stream.add(&[("payload", &message)]);
    consumer.tick().await.unwrap();
    assert!(talk.cache().keys().contains_key(&start_key()));
    talk.check().await;
}

async fn what_should_not_be_there_is_cleared_away(backend: Backend) {
    let talk = Talk::cached(backend).await;
    talk.say(&[(0, 1000, "this belongs here")]).await;
    let line = talk.transcript().await.lines.remove(0);
    let gone = MeetingId::new(777);
    talk.cache().put_lines(gone, std::slice::from_ref(&line)).await.unwrap();
    talk.cache().write_field(talk.id(), "session-9:1.000", r#"{"text":"never said"}"#);
    talk.persist().await;
    assert_eq!(cached_texts(&talk), texts(&["this belongs here"]));
    assert!(!talk.cache().keys().contains_key("meeting:777:segments"));
    assert_eq!(talk.cache().active(10).await.unwrap(), [talk.id()]);
    talk.check().await;
}

async fn a_cache_that_hangs_in_failure_is_left_alone_for_a_moment(backend: Backend) {
    let talk = Talk::cached(backend).await;
    talk.cache().set_available(false);
    for start in 0..20 {
        talk.say(&[(start * 1000, start * 1000 + 900, "nobody waits for it")]).await;
    }
    let text = talk.world.metrics.encode();
    assert!(text.contains("roundsman_cache_failures_total 1\n"), "it was asked once: {text}");
    talk.world.clock.advance(secs(1));
    talk.ingest(&started(&talk.token(), SESSION, talk.now())).await;
    assert!(talk.world.metrics.encode().contains("roundsman_cache_failures_total 2\n"));
    talk.cache().set_available(true);
    talk.world.clock.advance(secs(1));
    talk.transcripts.tick().await.unwrap();
    assert_eq!(cached(&talk).len(), 0, "the second time for longer");
    talk.world.clock.advance(secs(1));
    talk.transcripts.tick().await.unwrap();
    assert_eq!(cached(&talk).len(), 20);
    talk.cache().set_available(false);
    talk.say(&[(0, 1000, "it goes again")]).await;
    talk.cache().set_available(true);
    talk.world.clock.advance(secs(1));
    talk.transcripts.tick().await.unwrap();
    assert!(cached_texts(&talk).contains("it goes again"), "and is as good as new");
    talk.check().await;
}
