//! Makes few frames of many, for a listener that is behind.
//!
//! Invariants: whoever applies the result has what they would have if they had applied the frames
//! one by one; every frame that is left may be the last that a listener gets before it resumes, so
//! its place is that of the last one it stands for.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use roundsman_core::bots::MeetingId;
use roundsman_core::transcripts::FRAME_BYTES_MAX;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::ring::RingFrame;

#[derive(Deserialize)]
struct Told<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    payload: Payload<'a>,
    #[serde(borrow)]
    ts: &'a RawValue,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    segments: Vec<&'a RawValue>,
}

/// What tells segments of a meeting apart, as it is written.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Name<'a> {
    #[serde(borrow)]
    session_uid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    segment_id: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "as_written")]
    start: &'a str,
}

fn as_written<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<&'de str, D::Error> {
    <&RawValue>::deserialize(deserializer).map(RawValue::get)
}

/// Joins runs of frames about segments, each with the latest of every segment; other frames stay as
/// they are and end a run.
pub(super) fn coalesce(meeting: MeetingId, frames: Vec<RingFrame>) -> Vec<RingFrame> {
    let mut left = Vec::new();
    let mut run: Vec<RingFrame> = Vec::new();
    let mut run_bytes = 0;
    for frame in frames {
        let joins = is_mutable(&frame);
        if !joins || run_bytes + frame.text.len() > FRAME_BYTES_MAX {
            left.extend(join(meeting, std::mem::take(&mut run)));
            run_bytes = 0;
        }
        if joins {
            run_bytes += frame.text.len();
            run.push(frame);
        } else {
            left.push(frame);
        }
    }
    left.extend(join(meeting, run));
    left
}

fn is_mutable(frame: &RingFrame) -> bool {
    read(frame).is_some_and(|told| told.kind == "transcript.mutable")
}

fn read(frame: &RingFrame) -> Option<Told<'_>> {
    serde_json::from_slice(&frame.text).ok()
}

/// One frame for all of these, or these if they cannot be joined.
fn join(meeting: MeetingId, run: Vec<RingFrame>) -> Vec<RingFrame> {
    if run.len() < 2 {
        return run;
    }
    match joined(meeting, &run) {
        Some(frame) => vec![frame],
        None => run,
    }
}

fn joined(meeting: MeetingId, run: &[RingFrame]) -> Option<RingFrame> {
    let told: Vec<Told<'_>> = run.iter().map(read).collect::<Option<_>>()?;
    let (seq, ts) = (run.last()?.seq, told.last()?.ts.get());
    let mut seen: BTreeSet<Name<'_>> = BTreeSet::new();
    let mut segments: Vec<&str> = Vec::new();
    // From the end: what is seen first is the latest.
    for segment in told.iter().rev().flat_map(|told| told.payload.segments.iter().rev()) {
        if seen.insert(serde_json::from_str(segment.get()).ok()?) {
            segments.push(segment.get());
        }
    }
    segments.reverse();
    let segments = segments.join(",");
    let text = format!(
        r#"{{"seq":{seq},"type":"transcript.mutable","meeting":{{"id":{meeting}}},"payload":{{"segments":[{segments}]}},"ts":{ts}}}"#
    );
    Some(RingFrame { seq, text: Bytes::from(text) })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn frame(seq: i64, body: &Value) -> RingFrame {
        let text = roundsman_core::effects::with_seq(&body.to_string(), seq);
        RingFrame { seq, text: Bytes::from(text) }
    }

    fn mutable(seq: i64, segments: &Value) -> RingFrame {
        let body = json!({
            "type": "transcript.mutable", "meeting": { "id": 7 },
            "payload": { "segments": segments }, "ts": format!("t{seq}"),
        });
        frame(seq, &body)
    }

    fn segment(session: Option<&str>, start: f64, id: Option<&str>, text: &str) -> Value {
        json!({ "session_uid": session, "start": start, "segment_id": id, "text": text })
    }

    fn values(frames: &[RingFrame]) -> Vec<Value> {
        frames.iter().map(|frame| serde_json::from_slice(&frame.text).unwrap()).collect()
    }

    #[test]
    fn the_latest_of_every_segment_is_left() {
        let frames = vec![
            mutable(1, &json!([segment(Some("a"), 1.0, None, "h"), segment(None, 1.0, None, "x")])),
            mutable(2, &json!([segment(Some("a"), 1.0, None, "he")])),
            mutable(3, &json!([segment(Some("a"), 1.0, Some("i"), "other")])),
            mutable(4, &json!([segment(Some("a"), 1.0, None, "hello")])),
        ];
        let left = coalesce(MeetingId::new(7), frames);
        let segments = json!([
            segment(None, 1.0, None, "x"),
            segment(Some("a"), 1.0, Some("i"), "other"),
            segment(Some("a"), 1.0, None, "hello"),
        ]);
        assert_eq!(values(&left), values(&[mutable(4, &segments)]));
        assert_eq!(left[0].seq, 4);
    }

    #[test]
    fn other_frames_stay_where_they_were() {
        let status =
            frame(3, &json!({ "type": "meeting.status", "payload": { "status": "active" } }));
        let retracted = frame(
            6,
            &json!({ "type": "transcript.retracted", "payload": { "segments": [] }, "ts": "x" }),
        );
        let told = |seq: i64| mutable(seq, &json!([segment(None, 1.0, None, &seq.to_string())]));
        let frames =
            vec![told(1), told(2), status.clone(), told(4), told(5), retracted.clone(), told(7)];
        let left = coalesce(MeetingId::new(7), frames);
        assert_eq!(values(&left), values(&[told(2), status, told(5), retracted, told(7)]));
        assert_eq!(left.iter().map(|frame| frame.seq).collect::<Vec<_>>(), [2, 3, 5, 6, 7]);
    }

    #[test]
    fn a_joined_frame_is_not_larger_than_frames_are() {
        let long = "y".repeat(FRAME_BYTES_MAX / 4);
        let frames: Vec<_> = (0..20u8)
            .map(|n| mutable(i64::from(n) + 1, &json!([segment(None, f64::from(n), None, &long)])))
            .collect();
        let left = coalesce(MeetingId::new(7), frames);
        assert!(left.iter().all(|frame| frame.text.len() <= FRAME_BYTES_MAX));
        assert_eq!(
            left.iter().map(|frame| frame.seq).collect::<Vec<_>>(),
            [3, 6, 9, 12, 15, 18, 20]
        );
    }
}
