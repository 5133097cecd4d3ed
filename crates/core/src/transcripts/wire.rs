//! How segments look to whoever listens: frames, and values of the cache that others read.
//!
//! Invariant: an instant is written by [`super::instant`] here as in REST, so that it is the same
//! string everywhere.

use serde::Serialize;

use super::{Line, instant, seconds_of};
use crate::Timestamp;
use crate::bots::{MeetingId, stream_of};
use crate::effects::NewFrame;
use crate::jobs::Json;

/// A frame is cut into several before it gets larger than this.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;

#[derive(Serialize)]
struct FrameSegment<'a> {
    start: f64,
    end_time: f64,
    text: &'a str,
    language: Option<&'a str>,
    speaker: Option<&'a str>,
    session_uid: Option<&'a str>,
    speaker_mapping_status: &'static str,
    absolute_start_time: Option<String>,
    absolute_end_time: Option<String>,
    updated_at: String,
    completed: Option<bool>,
    segment_id: Option<&'a str>,
}

impl<'a> FrameSegment<'a> {
    fn of(line: &'a Line) -> Self {
        let segment = &line.segment;
        let absolute = segment.absolute(line.session_start);
        FrameSegment {
            start: seconds_of(segment.start_ms),
            end_time: seconds_of(segment.content.end_ms),
            text: &segment.content.text,
            language: segment.content.language.as_deref(),
            speaker: segment.content.speaker.as_deref(),
            session_uid: segment.key.session_uid.as_deref(),
            speaker_mapping_status: segment.speaker_status.as_str(),
            absolute_start_time: absolute.map(|(start, _)| instant(start)),
            absolute_end_time: absolute.map(|(_, end)| instant(end)),
            updated_at: instant(segment.updated_at),
            completed: segment.completed,
            segment_id: segment.segment_id.as_deref(),
        }
    }
}

/// Tells of segments that have changed. One frame, or more if one would be too large.
pub fn mutable_frames(meeting: MeetingId, lines: &[Line], now: Timestamp) -> Vec<NewFrame> {
    let items = lines.iter().map(|line| to_json(&FrameSegment::of(line)));
    frames(meeting, "transcript.mutable", items, now)
}

#[derive(Serialize)]
struct Retracted<'a> {
    session_uid: Option<&'a str>,
    start: f64,
    absolute_start_time: Option<String>,
    segment_id: Option<&'a str>,
}

/// Tells of segments that are no longer there.
pub fn retracted_frames(meeting: MeetingId, lines: &[Line], now: Timestamp) -> Vec<NewFrame> {
    let items = lines.iter().map(|line| to_json(&retracted(line)));
    frames(meeting, "transcript.retracted", items, now)
}

/// A segment that is no longer there, as REST shows it.
pub fn retracted_body(line: &Line) -> serde_json::Value {
    serde_json::to_value(retracted(line)).expect("plain text and numbers")
}

fn retracted(line: &Line) -> Retracted<'_> {
    let segment = &line.segment;
    Retracted {
        session_uid: segment.key.session_uid.as_deref(),
        start: seconds_of(segment.start_ms),
        absolute_start_time: segment.absolute(line.session_start).map(|(start, _)| instant(start)),
        segment_id: segment.segment_id.as_deref(),
    }
}

/// The whole of what is live and kept at `seq`, for a listener that has missed too much.
pub fn reset_frame(meeting: MeetingId, lines: &[Line], seq: i64, now: Timestamp) -> String {
    let items: Vec<String> = lines.iter().map(|line| to_json(&FrameSegment::of(line))).collect();
    let body = body(meeting, "transcript.reset", &items.join(","), now);
    crate::effects::with_seq(&body, seq)
}

fn frames(
    meeting: MeetingId,
    kind: &str,
    items: impl Iterator<Item = String>,
    now: Timestamp,
) -> Vec<NewFrame> {
    let mut frames = Vec::new();
    let mut joined = String::new();
    for item in items {
        if !joined.is_empty() && joined.len() + item.len() > FRAME_BYTES_MAX {
            frames.push(frame(meeting, kind, &joined, now));
            joined.clear();
        }
        if !joined.is_empty() {
            joined.push(',');
        }
        joined.push_str(&item);
    }
    if !joined.is_empty() {
        frames.push(frame(meeting, kind, &joined, now));
    }
    frames
}

fn frame(meeting: MeetingId, kind: &str, items: &str, now: Timestamp) -> NewFrame {
    NewFrame {
        stream: stream_of(meeting),
        body: Json::from_stored(body(meeting, kind, items, now)),
    }
}

fn body(meeting: MeetingId, kind: &str, items: &str, now: Timestamp) -> String {
    format!(
        r#"{{"type":"{kind}","meeting":{{"id":{meeting}}},"payload":{{"segments":[{items}]}},"ts":"{}"}}"#,
        instant(now)
    )
}

#[derive(Serialize)]
struct CacheValue<'a> {
    session_uid: Option<&'a str>,
    text: &'a str,
    speaker: Option<&'a str>,
    language: Option<&'a str>,
    start_time: f64,
    end_time: f64,
    updated_at: String,
    absolute_start_time: Option<String>,
    absolute_end_time: Option<String>,
    speaker_mapping_status: &'static str,
    completed: Option<bool>,
    segment_id: Option<&'a str>,
}

/// A segment's value in the cache that others read.
pub fn cache_value(line: &Line) -> String {
    let segment = &line.segment;
    let absolute = segment.absolute(line.session_start);
    to_json(&CacheValue {
        session_uid: segment.key.session_uid.as_deref(),
        text: &segment.content.text,
        speaker: segment.content.speaker.as_deref(),
        language: segment.content.language.as_deref(),
        start_time: seconds_of(segment.start_ms),
        end_time: seconds_of(segment.content.end_ms),
        updated_at: instant(segment.updated_at),
        absolute_start_time: absolute.map(|(start, _)| instant(start)),
        absolute_end_time: absolute.map(|(_, end)| instant(end)),
        speaker_mapping_status: segment.speaker_status.as_str(),
        completed: segment.completed,
        segment_id: segment.segment_id.as_deref(),
    })
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain text and numbers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcripts::{Segment, SegmentContent, SegmentKey, SpeakerStatus, line_body};

    fn line(text: &str, session_start: Option<Timestamp>) -> Line {
        let segment = Segment {
            key: SegmentKey { session_uid: Some("u".to_owned()), field: "1.500".to_owned() },
            segment_id: None,
            start_ms: 1500,
            content: SegmentContent {
                text: text.to_owned(),
                speaker: Some("Ann".to_owned()),
                language: None,
                end_ms: 2000,
            },
            speaker_status: SpeakerStatus::Mapped,
            completed: Some(true),
            version: 1,
            created_at: Timestamp::EPOCH,
            updated_at: Timestamp::EPOCH,
            seq: 1,
        };
        Line { segment, session_start, kept: false }
    }

    fn only(frames: &[NewFrame]) -> serde_json::Value {
        assert_eq!(frames.len(), 1);
        frames[0].body.to_value()
    }

    #[test]
    fn a_frame_is_what_clients_of_vexa_know_and_agrees_with_rest() {
        let start = Timestamp::parse_rfc3339("2026-01-02T03:04:05Z").unwrap();
        let line = line("hi \"there\"", Some(start));
        let frame = only(&mutable_frames(MeetingId::new(7), std::slice::from_ref(&line), start));
        assert_eq!(frame["type"], "transcript.mutable");
        assert_eq!(frame["meeting"]["id"], 7);
        let told = &frame["payload"]["segments"][0];
        assert_eq!(told["start"], 1.5);
        assert_eq!(told["end_time"], 2.0);
        assert_eq!(told["text"], "hi \"there\"");
        assert_eq!(told["absolute_start_time"], "2026-01-02T03:04:06.500000+00:00");
        let shown = line_body(&line);
        for name in ["absolute_start_time", "absolute_end_time", "text", "speaker", "language"] {
            assert_eq!(told[name], shown[name], "{name}");
        }
        let cached: serde_json::Value = serde_json::from_str(&cache_value(&line)).unwrap();
        for name in ["absolute_start_time", "absolute_end_time", "updated_at"] {
            assert_eq!(told[name], cached[name], "{name}");
        }
    }

    #[test]
    fn a_large_frame_is_cut_and_nothing_is_lost() {
        let lines: Vec<Line> = (0..40).map(|_| line(&"x".repeat(16_000), None)).collect();
        let frames = mutable_frames(MeetingId::new(7), &lines, Timestamp::EPOCH);
        assert!(frames.len() > 1);
        let told: usize = frames
            .iter()
            .map(|frame| frame.body.to_value()["payload"]["segments"].as_array().unwrap().len())
            .sum();
        assert_eq!(told, lines.len());
        assert!(frames.iter().all(|frame| frame.body.as_str().len() < FRAME_BYTES_MAX + 1024));
    }

    #[test]
    fn a_reset_has_the_place_it_stands_for() {
        let text = reset_frame(MeetingId::new(7), &[line("x", None)], 9, Timestamp::EPOCH);
        let frame: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&frame["seq"], &frame["type"]), (&9.into(), &"transcript.reset".into()));
        let gone = only(&retracted_frames(MeetingId::new(7), &[line("x", None)], Timestamp::EPOCH));
        assert_eq!(gone["payload"]["segments"][0]["start"], 1.5);
    }
}
