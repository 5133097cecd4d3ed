//! What must hold for whatever a producer sends: an input is a session's messages, one per line.

use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, MeetingTokens};
use roundsman_core::transcripts::{
    FRAME_BYTES_MAX, Known, LANGUAGE_CHARS_MAX, Line, Message, MessageBody, NAME_CHARS_MAX,
    SEGMENTS_PER_MESSAGE_MAX, SegmentKey, Speakers, TEXT_BYTES_MAX, TIME_MS_MAX, ToldSegment,
    UID_BYTES_MAX, cache_value, collect, line_body, mutable_frames, reach_of,
};

/// More of them would only make a run slower.
const MESSAGES_MAX: usize = 16;
/// What a frame has around its segments.
const FRAME_OVERHEAD_BYTES_MAX: usize = 1024;
const NOW: Timestamp = Timestamp::from_micros(1_769_860_800_000_000);

/// What is known of one session.
#[derive(Default)]
struct Session {
    known: Vec<Known>,
    speakers: Speakers,
    start: Option<Timestamp>,
}

/// Panics if something does not hold.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut sessions: BTreeMap<Option<String>, Session> = BTreeMap::new();
    for (line, version) in text.lines().take(MESSAGES_MAX).zip(1..) {
        let message = Message::read(line);
        assert_eq!(Message::read(line), message, "the same text is the same message");
        if let Some(token) = &message.token {
            let grant = MeetingTokens::new(b"the key of nobody, 24 bytes+").verify(token, NOW);
            assert!(grant.is_err(), "nobody has signed {token:?}");
        }
        match message.body {
            Err(refused) => assert!(!refused.to_string().is_empty()),
            Ok(MessageBody::SessionStart { uid, start }) => {
                check_uid(&uid);
                sessions.entry(Some(uid)).or_default().start = Some(start);
            }
            Ok(MessageBody::SessionEnd { uid }) => check_uid(&uid),
            Ok(MessageBody::Speaker(event)) => {
                check_uid(&event.session_uid);
                let uid = Some(event.session_uid.clone());
                sessions.entry(uid).or_default().speakers.events.push(event);
            }
            Ok(MessageBody::Transcription { uid, segments, refused }) => {
                if let Some(uid) = &uid {
                    check_uid(uid);
                }
                segments.iter().for_each(check_told);
                assert!(segments.len() + refused.len() <= SEGMENTS_PER_MESSAGE_MAX);
                let places: BTreeSet<usize> = refused.iter().map(|refused| refused.index).collect();
                assert_eq!(places.len(), refused.len(), "a segment is refused once");
                take(sessions.entry(uid.clone()).or_default(), uid.as_deref(), &segments, version);
            }
        }
    }
}

fn check_uid(uid: &str) {
    assert!((1..=UID_BYTES_MAX).contains(&uid.len()) && !uid.chars().any(char::is_control));
}

/// Both databases can keep it.
fn check_told(told: &ToldSegment) {
    assert!(0 <= told.start_ms && told.start_ms < told.end_ms && told.end_ms <= TIME_MS_MAX);
    assert!(told.text.len() <= TEXT_BYTES_MAX && !told.text.contains('\0'));
    let shorts = [
        (&told.language, LANGUAGE_CHARS_MAX),
        (&told.speaker, NAME_CHARS_MAX),
        (&told.segment_id, UID_BYTES_MAX),
    ];
    for (text, chars_max) in shorts.iter().filter_map(|(text, max)| Some((text.as_ref()?, max))) {
        assert!(!text.trim().is_empty() && text.chars().count() <= *chars_max);
        assert!(!text.chars().any(char::is_control));
    }
}

/// Takes a message and tells it again, which must change nothing.
fn take(session: &mut Session, uid: Option<&str>, told: &[ToldSegment], version: i64) {
    let Session { known, speakers, start } = session;
    let Some(reach) = reach_of(told) else { return };
    // A store loads no more than this, so no more may matter.
    let in_reach: Vec<Known> = known
        .iter()
        .filter(|known| {
            let segment = &known.segment;
            (reach.from_ms..=reach.to_ms).contains(&segment.start_ms)
                || segment.segment_id.as_ref().is_some_and(|id| reach.ids.contains(id))
        })
        .cloned()
        .collect();
    let changed = collect(uid, told, in_reach.clone(), speakers, version, NOW);
    let by_key = |changed: &[Known]| -> BTreeMap<SegmentKey, Known> {
        changed.iter().map(|known| (known.segment.key.clone(), known.clone())).collect()
    };
    let with_all = collect(uid, told, known.clone(), speakers, version, NOW);
    assert_eq!(by_key(&with_all), by_key(&changed), "what is out of reach matters");
    assert_eq!(by_key(&changed).len(), changed.len(), "a segment changes once");
    for change in &changed {
        let before = in_reach.iter().find(|known| known.segment.key == change.segment.key);
        let is_change = before.is_none_or(|known| known.segment.content != change.segment.content);
        assert!(is_change, "{change:?} is as it was");
        known.retain(|known| known.segment.key != change.segment.key);
        known.push(change.clone());
    }
    check_frames(&changed, uid.and(*start));
    let again = collect(uid, told, known.clone(), speakers, version + 1, NOW);
    assert_eq!(again, Vec::new(), "what is told again changes nothing");
}

fn check_frames(changed: &[Known], session_start: Option<Timestamp>) {
    let line = |known: &Known| Line { segment: known.segment.clone(), session_start, kept: false };
    let lines: Vec<Line> = changed.iter().map(line).collect();
    let mut shown = lines.iter().map(line_body);
    for frame in mutable_frames(MeetingId::new(7), &lines, NOW) {
        assert!(frame.body.as_str().len() < FRAME_BYTES_MAX + FRAME_OVERHEAD_BYTES_MAX);
        let body = frame.body.to_value();
        for segment in body["payload"]["segments"].as_array().expect("a list") {
            let shown = shown.next().expect("a frame tells of nothing else");
            for name in ["text", "speaker", "absolute_start_time", "absolute_end_time"] {
                assert_eq!(segment[name], shown[name], "frames and REST agree about {name}");
            }
        }
    }
    assert!(shown.next().is_none(), "every change is in a frame");
    for line in &lines {
        let cached: serde_json::Value = serde_json::from_str(&cache_value(line)).expect("JSON");
        assert_eq!(cached["text"], line.segment.content.text.as_str());
    }
}
