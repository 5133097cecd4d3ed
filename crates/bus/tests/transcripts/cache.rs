//! The cache: the suite, and what is particular to Redis.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_bus::TranscriptCacheOptions;
use roundsman_bus::conformance_cache::{CacheBench, Stored, StoredKey, event, line};
use roundsman_bus::memory::MemoryTranscriptCache;
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::TranscriptCache;
use roundsman_core::transcripts::{FieldStyle, SPEAKER_EVENTS_PER_SESSION_MAX, cache_value};
use roundsman_testkit::ManualClock;

use super::lab::Lab;

const MEETING: MeetingId = MeetingId::new(7);

struct Real(Lab);

#[async_trait]
impl CacheBench for Real {
    fn cache(&self) -> Arc<dyn TranscriptCache> {
        Arc::new(self.0.cache())
    }

    async fn keys(&self) -> BTreeMap<String, StoredKey> {
        self.0.keys().await
    }

    async fn write_field(&self, meeting: MeetingId, field: &str, value: &str) {
        let key = format!("meeting:{meeting}:segments");
        let _: () =
            self.0.run_words(&[b"HSET", key.as_bytes(), field.as_bytes(), value.as_bytes()]).await;
        let _: () = self.0.run(&format!("PERSIST {key}")).await;
    }

    async fn lose_index(&self) {
        let _: () = self.0.run("DEL active_meetings").await;
    }

    async fn wipe(&self) {
        self.0.redis.wipe().await.unwrap();
    }
}

struct Memory(Arc<MemoryTranscriptCache>);

impl Memory {
    fn new(clock: &Arc<ManualClock>) -> Self {
        let options = TranscriptCacheOptions::default();
        Memory(Arc::new(MemoryTranscriptCache::new(clock.clone(), options)))
    }
}

#[async_trait]
impl CacheBench for Memory {
    fn cache(&self) -> Arc<dyn TranscriptCache> {
        self.0.clone()
    }

    async fn keys(&self) -> BTreeMap<String, StoredKey> {
        self.0.keys()
    }

    async fn write_field(&self, meeting: MeetingId, field: &str, value: &str) {
        self.0.write_field(meeting, field, value);
    }

    async fn lose_index(&self) {
        self.0.lose_index();
    }

    async fn wipe(&self) {
        self.0.wipe();
    }
}

mod redis {
    roundsman_bus::cache_conformance_suite!(async { super::Real(super::Lab::start().await) });
}

mod memory {
    roundsman_bus::cache_conformance_suite!(std::future::ready(super::Memory::new(
        &std::sync::Arc::default()
    )));
}

#[tokio::test]
async fn in_memory_keys_expire_with_the_clock() {
    let clock = Arc::new(ManualClock::default());
    let Memory(cache) = Memory::new(&clock);
    cache.put_lines(MEETING, &[line("s", 0, "a")]).await.unwrap();
    cache.put_start("s", Timestamp::EPOCH).await.unwrap();
    clock.advance(Duration::from_secs(3600));
    let names: Vec<String> = cache.keys().into_keys().collect();
    assert_eq!(names, ["active_meetings", "meeting_session:s:start"]);
    assert_eq!(cache.repair(MEETING, &[line("s", 0, "a")]).await.unwrap(), 1);
    cache.set_available(false);
    assert!(cache.put_start("s", Timestamp::EPOCH).await.is_err());
}

#[tokio::test]
async fn names_and_lifetimes_are_settings() {
    let lab = Lab::start().await;
    let cache = lab.cache_with(TranscriptCacheOptions {
        segment_ttl_secs: 100,
        session_start_ttl_secs: 200,
        speaker_event_ttl_secs: 300,
        speaker_event_prefix: "who".to_owned(),
        field_style: FieldStyle::Start,
    });
    cache.put_lines(MEETING, &[line("s", 12_340, "a")]).await.unwrap();
    cache.put_start("s", Timestamp::EPOCH).await.unwrap();
    cache.put_speaker_events(&[event("s", 0)]).await.unwrap();
    let keys = lab.keys().await;
    let lifetimes = [("meeting:7:segments", 100), ("meeting_session:s:start", 200), ("who:s", 300)];
    for (key, secs) in lifetimes {
        let ttl_secs = keys[key].ttl_secs.unwrap();
        assert!((secs - 60..=secs).contains(&ttl_secs), "{key} lives for {ttl_secs} s");
    }
    let Stored::Hash(fields) = &keys["meeting:7:segments"].value else { panic!() };
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["12.340"]);
    cache.forget(MEETING, &["s".to_owned()]).await.unwrap();
    assert_eq!(lab.keys().await, BTreeMap::new());
}

#[tokio::test]
async fn shared_fields_belong_to_the_segment_that_changed_last() {
    let lab = Lab::start().await;
    let options = TranscriptCacheOptions {
        field_style: FieldStyle::Start,
        ..TranscriptCacheOptions::default()
    };
    let cache = lab.cache_with(options);
    let mut newer = line("t", 0, "newer");
    newer.segment.updated_at = newer.segment.updated_at + Duration::from_secs(1);
    let lines = [newer.clone(), line("s", 0, "older")];
    assert_eq!(cache.repair(MEETING, &lines).await.unwrap(), 1);
    let keys = lab.keys().await;
    let Stored::Hash(fields) = &keys["meeting:7:segments"].value else { panic!() };
    assert_eq!(fields["0.000"], cache_value(&newer));
    assert_eq!(cache.repair(MEETING, &lines).await.unwrap(), 0);
}

#[tokio::test]
async fn starts_are_read_as_others_write_them() {
    let lab = Lab::start().await;
    let cache = lab.cache();
    let texts = [
        ("z", "2026-01-31T12:00:00Z"),
        ("offset", "2026-01-31T12:00:00.000000+00:00"),
        ("naive", "2026-01-31T12:00:00"),
        ("trash", "soon"),
    ];
    for (session, text) in texts {
        let _: () = lab.run(&format!("SET meeting_session:{session}:start {text}")).await;
    }
    let _: () = lab.run("SADD meeting_session:set:start x").await;
    let sessions = ["z", "offset", "naive", "trash", "set"].map(String::from);
    let noon = Timestamp::parse_rfc3339("2026-01-31T12:00:00Z").ok();
    assert_eq!(cache.starts(&sessions).await.unwrap(), [noon, noon, noon, None, None]);
    cache.put_start("set", noon.unwrap()).await.unwrap();
    assert_eq!(cache.starts(&sessions[4..]).await.unwrap(), [noon]);
}

#[tokio::test]
async fn keys_of_the_wrong_type_are_written_anew() {
    const KEYS: [&str; 3] = ["meeting:7:segments", "active_meetings", "speaker_events:s"];
    let lab = Lab::start().await;
    let cache = lab.cache();
    let lines = [line("s", 0, "a"), line("s", 1_000, "b")];
    let sessions = ["s".to_owned()];
    let mut foreign = 0;
    for spoil in [&KEYS[..], &KEYS[..1], &KEYS[1..2]] {
        for operation in 0..7 {
            lab.redis.wipe().await.unwrap();
            for key in spoil {
                let _: () = lab.run(&format!("SET {key} nonsense")).await;
            }
            match operation {
                0 => cache.put_lines(MEETING, &lines).await.unwrap(),
                1 => cache.remove(MEETING, &[lines[0].segment.key.clone()]).await.unwrap(),
                2 => drop(cache.repair(MEETING, &lines).await.unwrap()),
                3 => drop(cache.repair(MEETING, &[]).await.unwrap()),
                4 => cache.forget(MEETING, &sessions).await.unwrap(),
                5 => assert_eq!(cache.active(10).await.unwrap(), []),
                _ => cache.put_speaker_events(&[event("s", 1)]).await.unwrap(),
            }
            // Whatever came first has cleared the way for the rest, and left it whole.
            cache.repair(MEETING, &lines).await.unwrap();
            cache.put_speaker_events(&[event("s", 1)]).await.unwrap();
            let keys = lab.keys().await;
            let Stored::Hash(fields) = &keys["meeting:7:segments"].value else { panic!() };
            assert_eq!(fields.len(), 2, "operation {operation}");
            assert!(keys["meeting:7:segments"].ttl_secs.is_some());
            assert_eq!(cache.active(10).await.unwrap(), [MEETING]);
            // What is forgotten is deleted whatever it is.
            let forgotten = operation == 4 && spoil == &KEYS[..1];
            assert_eq!(cache.foreign_keys() > foreign, !forgotten, "operation {operation}");
            foreign = cache.foreign_keys();
        }
    }
    cache.forget(MEETING, &sessions).await.unwrap();
    assert_eq!(lab.keys().await, BTreeMap::new());
}

#[tokio::test]
async fn foreign_members_and_fields_are_removed() {
    let lab = Lab::start().await;
    let cache = lab.cache();
    let _: () = lab.run_words(&[b"SADD", b"active_meetings", b"7", b"x", b"\xff", b"007"]).await;
    assert_eq!(cache.active(10).await.unwrap(), [MEETING]);
    assert_eq!(lab.run::<u32>("SCARD active_meetings").await, 1);
    let _: () = lab.run_words(&[b"HSET", b"meeting:7:segments", b"\xff", b"\xfe"]).await;
    assert_eq!(cache.repair(MEETING, &[line("s", 0, "a")]).await.unwrap(), 2);
    assert_eq!(lab.run::<u32>("HLEN meeting:7:segments").await, 1);
    // A meeting whose segments have expired is in the index until it is looked at.
    let _: () = lab.run("DEL meeting:7:segments").await;
    assert_eq!(cache.active(10).await.unwrap(), [MEETING]);
    assert_eq!(cache.repair(MEETING, &[]).await.unwrap(), 0);
    assert_eq!(lab.keys().await, BTreeMap::new());
}

#[tokio::test]
async fn events_of_a_session_are_limited() {
    let lab = Lab::start().await;
    let cache = lab.cache();
    let count = i64::from(SPEAKER_EVENTS_PER_SESSION_MAX) + 100;
    let events: Vec<_> = (0..count).map(|at_ms| event("s", at_ms)).collect();
    cache.put_speaker_events(&events).await.unwrap();
    assert_eq!(
        lab.run::<u32>("ZCARD speaker_events:s").await,
        SPEAKER_EVENTS_PER_SESSION_MAX,
        "the latest stay"
    );
    assert_eq!(lab.run::<u32>("ZCOUNT speaker_events:s -inf 99").await, 0);
}

/// A segment that is written while another is removed finds its meeting in the index.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_and_removers_agree_about_the_index() {
    let lab = Lab::start().await;
    let cache = lab.cache();
    let lines = [line("s", 0, "a"), line("s", 1_000, "b")];
    for round in 0..300 {
        let both = [lines[0].segment.key.clone(), lines[1].segment.key.clone()];
        let (put, removed, repaired) = tokio::join!(
            cache.put_lines(MEETING, &lines[..1]),
            cache.remove(MEETING, &both),
            cache.repair(MEETING, if round % 2 == 0 { &[] } else { &lines[1..] }),
        );
        put.unwrap();
        removed.unwrap();
        repaired.unwrap();
        let has_segments: bool = lab.run("EXISTS meeting:7:segments").await;
        let is_active: bool = lab.run("SISMEMBER active_meetings 7").await;
        assert_eq!(has_segments, is_active, "round {round}");
        let ttl_secs: i64 = lab.run("TTL meeting:7:segments").await;
        assert_ne!(ttl_secs, -1, "segments that live for ever");
    }
}
