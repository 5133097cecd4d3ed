//! What every cache of live segments must do, as one suite.
//!
//! An adapter provides a [`CacheBench`] and calls
//! [`cache_conformance_suite!`](crate::cache_conformance_suite), which makes one test per case.
//! Cases look at the keys themselves, because they are what others read.

#![expect(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::TranscriptCache;
use roundsman_core::transcripts::{
    Line, Segment, SegmentContent, SegmentKey, SpeakerEvent, SpeakerEventKind, SpeakerStatus,
    cache_value, field_of,
};

/// 2026-01-31T12:00:00Z.
const SESSION_START: Timestamp = Timestamp::from_micros(1_769_860_800_000_000);

const MEETING: MeetingId = MeetingId::new(7);
const OTHER: MeetingId = MeetingId::new(8);

/// More than any adapter sends at once.
const MANY: i64 = 1_250;

/// What is stored under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    Hash(BTreeMap<String, String>),
    Set(BTreeSet<String>),
    /// Scores by members.
    Sorted(BTreeMap<String, i64>),
    Text(String),
}

/// A key's content, and how long it still lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    pub value: Stored,
    pub ttl_secs: Option<u64>,
}

/// A fresh cache with default options, and what a test must be able to see and do behind its back.
#[async_trait]
pub trait CacheBench: Send + Sync {
    fn cache(&self) -> Arc<dyn TranscriptCache>;

    /// Every key there is.
    async fn keys(&self) -> BTreeMap<String, StoredKey>;

    /// Writes a field of a meeting's segments, which then live for ever.
    async fn write_field(&self, meeting: MeetingId, field: &str, value: &str);

    async fn lose_index(&self);

    async fn wipe(&self);
}

/// Makes one test of every case. `$bench` is an expression that is awaited in each.
#[macro_export]
macro_rules! cache_conformance_suite {
    ($bench:expr) => {
        $crate::cache_conformance_suite!($bench;
            writes_the_keys_that_others_know
            writes_again_what_has_changed
            the_last_removal_ends_the_meeting
            nothing_to_do_does_nothing
            repairs_what_was_lost
            repairs_only_what_differs
            repairs_the_index_and_the_lifetime
            a_repair_with_nothing_removes_everything
            keeps_sessions_and_meetings_apart
            starts_of_sessions_are_kept_until_they_end
            keeps_events_of_speakers_once
            forgets_everything_of_a_meeting
            lists_active_meetings
            takes_many_at_once
        );
    };
    ($bench:expr; $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::conformance_cache::$case($bench.await).await;
            }
        )*
    };
}

pub async fn writes_the_keys_that_others_know(bench: impl CacheBench) {
    let lines = [line("s", 12_340, "Hello"), line("s", 20_000, "you")];
    bench.cache().put_lines(MEETING, &lines).await.unwrap();

    let keys = bench.keys().await;
    let names: Vec<&str> = keys.keys().map(String::as_str).collect();
    assert_eq!(names, ["active_meetings", "meeting:7:segments"]);
    let active = &keys["active_meetings"];
    assert_eq!(active.value, Stored::Set(BTreeSet::from(["7".to_owned()])));
    assert_eq!(active.ttl_secs, None);
    assert_lives_for(&keys["meeting:7:segments"], 3600);
    let fields = hash(&keys, "meeting:7:segments");
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["s:12.340", "s:20.000"]);
    assert_eq!(fields["s:12.340"], cache_value(&lines[0]));
    let mandatory = ["session_uid", "text", "speaker", "language", "end_time", "updated_at"];
    for name in mandatory.into_iter().chain(["absolute_start_time", "absolute_end_time"]) {
        assert!(fields["s:12.340"].contains(&format!("\"{name}\":")), "{name} is missing");
    }
}

pub async fn writes_again_what_has_changed(bench: impl CacheBench) {
    let cache = bench.cache();
    cache.put_lines(MEETING, &[line("s", 0, "Hel"), line("s", 5_000, "you")]).await.unwrap();
    // The lifetime is that of the last write, whatever it was before.
    bench.write_field(MEETING, "s:5.000", "changed").await;
    cache.put_lines(MEETING, &[line("s", 0, "Hello")]).await.unwrap();
    let keys = bench.keys().await;
    let fields = hash(&keys, "meeting:7:segments");
    assert_eq!(fields["s:0.000"], cache_value(&line("s", 0, "Hello")));
    assert_eq!(fields["s:5.000"], "changed");
    assert_lives_for(&keys["meeting:7:segments"], 3600);
}

pub async fn the_last_removal_ends_the_meeting(bench: impl CacheBench) {
    let cache = bench.cache();
    let lines = [line("s", 0, "a"), line("s", 1_000, "b")];
    cache.put_lines(MEETING, &lines).await.unwrap();
    cache.put_lines(OTHER, &lines).await.unwrap();
    cache.remove(MEETING, &[key_of(&lines[0])]).await.unwrap();
    assert_eq!(hash(&bench.keys().await, "meeting:7:segments").len(), 1);
    assert_eq!(active(&bench).await, [7, 8]);

    cache.remove(MEETING, &[key_of(&lines[0]), key_of(&lines[1])]).await.unwrap();
    assert_eq!(active(&bench).await, [8]);
    let names: Vec<String> = bench.keys().await.into_keys().collect();
    assert_eq!(names, ["active_meetings", "meeting:8:segments"]);
    cache.remove(OTHER, &[key_of(&lines[0]), key_of(&lines[1])]).await.unwrap();
    assert_eq!(bench.keys().await, BTreeMap::new());
}

pub async fn nothing_to_do_does_nothing(bench: impl CacheBench) {
    let cache = bench.cache();
    cache.put_lines(MEETING, &[]).await.unwrap();
    cache.remove(MEETING, &[]).await.unwrap();
    cache.remove(MEETING, &[key_of(&line("s", 0, "a"))]).await.unwrap();
    assert_eq!(cache.repair(MEETING, &[]).await.unwrap(), 0);
    cache.forget(MEETING, &[]).await.unwrap();
    cache.end_session("s").await.unwrap();
    cache.put_speaker_events(&[]).await.unwrap();
    assert_eq!(cache.starts(&[]).await.unwrap(), []);
    assert_eq!(cache.active(10).await.unwrap(), []);
    assert_eq!(bench.keys().await, BTreeMap::new());
}

pub async fn repairs_what_was_lost(bench: impl CacheBench) {
    let cache = bench.cache();
    let lines = [line("s", 0, "a"), line("s", 1_000, "b"), line("t", 0, "c")];
    cache.put_lines(MEETING, &lines).await.unwrap();
    let before = bench.keys().await;
    bench.wipe().await;
    assert_eq!(cache.repair(MEETING, &lines).await.unwrap(), 3);
    let after = bench.keys().await;
    assert_eq!(hash(&after, "meeting:7:segments"), hash(&before, "meeting:7:segments"));
    assert_lives_for(&after["meeting:7:segments"], 3600);
    assert_eq!(active(&bench).await, [7]);
    assert_eq!(cache.repair(MEETING, &lines).await.unwrap(), 0);
}

pub async fn repairs_only_what_differs(bench: impl CacheBench) {
    let cache = bench.cache();
    let lines = [line("s", 0, "a"), line("s", 1_000, "b"), line("s", 2_000, "c")];
    cache.put_lines(MEETING, &lines[..2]).await.unwrap();
    bench.write_field(MEETING, "s:1.000", "something else").await;
    bench.write_field(MEETING, "3.000", "").await;
    bench.write_field(MEETING, "s:9.000", "of a removed segment").await;
    assert_eq!(cache.repair(MEETING, &lines).await.unwrap(), 4);
    let keys = bench.keys().await;
    let expected = lines.iter().map(|line| (format!("s:{}", line.segment.key.field), line));
    let expected: BTreeMap<String, String> =
        expected.map(|(field, line)| (field, cache_value(line))).collect();
    assert_eq!(*hash(&keys, "meeting:7:segments"), expected);
    assert_lives_for(&keys["meeting:7:segments"], 3600);
    assert_eq!(cache.repair(MEETING, &lines).await.unwrap(), 0);
}

pub async fn repairs_the_index_and_the_lifetime(bench: impl CacheBench) {
    let cache = bench.cache();
    let lines = [line("s", 0, "a")];
    cache.put_lines(MEETING, &lines).await.unwrap();
    bench.write_field(MEETING, "s:0.000", &cache_value(&lines[0])).await;
    bench.lose_index().await;
    assert_eq!(bench.keys().await["meeting:7:segments"].ttl_secs, None);
    assert_eq!(cache.repair(MEETING, &lines).await.unwrap(), 0, "the values were right");
    assert_lives_for(&bench.keys().await["meeting:7:segments"], 3600);
    assert_eq!(active(&bench).await, [7]);
}

pub async fn a_repair_with_nothing_removes_everything(bench: impl CacheBench) {
    let cache = bench.cache();
    cache.put_lines(MEETING, &[line("s", 0, "a"), line("s", 1_000, "b")]).await.unwrap();
    assert_eq!(cache.repair(MEETING, &[]).await.unwrap(), 2);
    assert_eq!(bench.keys().await, BTreeMap::new());
}

pub async fn keeps_sessions_and_meetings_apart(bench: impl CacheBench) {
    let cache = bench.cache();
    let lines = [line("s", 0, "a"), line("t", 0, "b"), named(line("s", 0, "c"), "x")];
    cache.put_lines(MEETING, &lines).await.unwrap();
    cache.put_lines(OTHER, &lines[..1]).await.unwrap();
    let keys = bench.keys().await;
    let fields: Vec<&String> = hash(&keys, "meeting:7:segments").keys().collect();
    assert_eq!(fields, ["s:0.000", "s:0.000#x", "t:0.000"]);
    cache.remove(MEETING, &[key_of(&lines[0])]).await.unwrap();
    let keys = bench.keys().await;
    assert_eq!(hash(&keys, "meeting:7:segments").len(), 2);
    assert_eq!(hash(&keys, "meeting:8:segments").len(), 1);
}

pub async fn starts_of_sessions_are_kept_until_they_end(bench: impl CacheBench) {
    let cache = bench.cache();
    let later = Timestamp::from_micros(SESSION_START.as_micros() + 1_500_000);
    cache.put_start("s", SESSION_START).await.unwrap();
    cache.put_start("t", later).await.unwrap();
    cache.put_start("t", later).await.unwrap();
    let keys = bench.keys().await;
    let start = &keys["meeting_session:s:start"];
    assert_eq!(start.value, Stored::Text("2026-01-31T12:00:00.000000+00:00".to_owned()));
    assert_lives_for(start, 7200);

    let sessions = ["t", "unknown", "s", "t"].map(String::from);
    let starts = cache.starts(&sessions).await.unwrap();
    assert_eq!(starts, [Some(later), None, Some(SESSION_START), Some(later)]);
    cache.put_speaker_events(&[event("t", 5)]).await.unwrap();
    cache.end_session("t").await.unwrap();
    assert_eq!(cache.starts(&sessions[..1]).await.unwrap(), [None]);
    assert_eq!(bench.keys().await.into_keys().collect::<Vec<_>>(), ["meeting_session:s:start"]);
}

pub async fn keeps_events_of_speakers_once(bench: impl CacheBench) {
    let cache = bench.cache();
    let events = [event("s", 1_500), event("s", 20), event("t", 0)];
    for _ in 0..2 {
        cache.put_speaker_events(&events).await.unwrap();
    }
    let keys = bench.keys().await;
    let members = |events: &[SpeakerEvent]| {
        Stored::Sorted(events.iter().map(|event| (event.to_json(), event.at_ms)).collect())
    };
    assert_eq!(keys["speaker_events:s"].value, members(&events[..2]));
    assert_eq!(keys["speaker_events:t"].value, members(&events[2..]));
    assert_lives_for(&keys["speaker_events:s"], 86_400);
    assert_eq!(keys.len(), 2, "no other key");
}

pub async fn forgets_everything_of_a_meeting(bench: impl CacheBench) {
    let cache = bench.cache();
    for (meeting, session) in [(MEETING, "s"), (MEETING, "t"), (OTHER, "u")] {
        cache.put_lines(meeting, &[line(session, 0, "a")]).await.unwrap();
        cache.put_start(session, SESSION_START).await.unwrap();
        cache.put_speaker_events(&[event(session, 0)]).await.unwrap();
    }
    cache.forget(MEETING, &["s", "t", "unknown"].map(String::from)).await.unwrap();
    let names: Vec<String> = bench.keys().await.into_keys().collect();
    let others =
        ["active_meetings", "meeting:8:segments", "meeting_session:u:start", "speaker_events:u"];
    assert_eq!(names, others);
    assert_eq!(active(&bench).await, [8]);
    cache.forget(OTHER, &["u".to_owned()]).await.unwrap();
    assert_eq!(bench.keys().await, BTreeMap::new());
}

pub async fn lists_active_meetings(bench: impl CacheBench) {
    let cache = bench.cache();
    for meeting in 1..=20 {
        cache.put_lines(MeetingId::new(meeting), &[line("s", 0, "a")]).await.unwrap();
    }
    assert_eq!(active(&bench).await, (1..=20).collect::<Vec<_>>());
    let some = cache.active(5).await.unwrap();
    assert_eq!(some.iter().collect::<BTreeSet<_>>().len(), 5, "{some:?}");
    assert_eq!(cache.active(0).await.unwrap(), []);
}

pub async fn takes_many_at_once(bench: impl CacheBench) {
    let cache = bench.cache();
    let lines: Vec<Line> = (0..MANY).map(|number| line("s", number * 1000, "a")).collect();
    let keys: Vec<SegmentKey> = lines.iter().map(key_of).collect();
    let sessions: Vec<String> = (0..MANY).map(|number| number.to_string()).collect();
    let events: Vec<SpeakerEvent> = sessions.iter().map(|session| event(session, 1)).collect();
    let many = usize::try_from(MANY).unwrap();

    cache.put_lines(MEETING, &lines).await.unwrap();
    assert_eq!(hash(&bench.keys().await, "meeting:7:segments").len(), many);
    cache.remove(MEETING, &keys).await.unwrap();
    assert_eq!(bench.keys().await, BTreeMap::new());
    assert_eq!(cache.repair(MEETING, &lines).await.unwrap(), many as u64);
    cache.put_speaker_events(&events).await.unwrap();
    assert_eq!(bench.keys().await.len(), many + 2);
    assert_eq!(cache.starts(&sessions).await.unwrap(), vec![None; many]);
    cache.forget(MEETING, &sessions).await.unwrap();
    assert_eq!(bench.keys().await, BTreeMap::new());
}

/// A live segment of a second's length.
pub fn line(session: &str, start_ms: i64, text: &str) -> Line {
    let segment = Segment {
        key: SegmentKey { session_uid: Some(session.to_owned()), field: field_of(start_ms) },
        segment_id: None,
        start_ms,
        content: SegmentContent {
            text: text.to_owned(),
            speaker: Some("Ann".to_owned()),
            language: None,
            end_ms: start_ms + 1000,
        },
        speaker_status: SpeakerStatus::Mapped,
        completed: None,
        version: 1,
        created_at: SESSION_START,
        updated_at: SESSION_START,
        seq: 1,
    };
    Line { segment, session_start: Some(SESSION_START), kept: false }
}

/// Ann begins to speak.
pub fn event(session: &str, at_ms: i64) -> SpeakerEvent {
    SpeakerEvent {
        session_uid: session.to_owned(),
        kind: SpeakerEventKind::Start,
        participant: "ann".to_owned(),
        name: "Ann".to_owned(),
        at_ms,
    }
}

fn named(mut line: Line, id: &str) -> Line {
    line.segment.segment_id = Some(id.to_owned());
    line.segment.key.field = format!("{}#{id}", line.segment.key.field);
    line
}

fn key_of(line: &Line) -> SegmentKey {
    line.segment.key.clone()
}

async fn active(bench: &impl CacheBench) -> Vec<i64> {
    let meetings = bench.cache().active(1000).await.unwrap();
    let mut numbers: Vec<i64> = meetings.into_iter().map(MeetingId::get).collect();
    numbers.sort_unstable();
    numbers
}

fn hash<'a>(keys: &'a BTreeMap<String, StoredKey>, name: &str) -> &'a BTreeMap<String, String> {
    match keys.get(name).map(|key| &key.value) {
        Some(Stored::Hash(fields)) => fields,
        other => panic!("{name} is {other:?}"),
    }
}

/// A busy machine may look up to a minute later.
fn assert_lives_for(key: &StoredKey, secs: u64) {
    let ttl_secs = key.ttl_secs.expect("it has a lifetime");
    assert!((secs - 60..=secs).contains(&ttl_secs), "lives for {ttl_secs} s");
}
