//! Lines for the tests of this module.

use proptest::prelude::*;

use super::{Line, Segment, SegmentContent, SegmentKey, SpeakerStatus, field_of};
use crate::Timestamp;

/// 2026-01-31T12:00:00Z.
pub(super) const SESSION_START: Timestamp = Timestamp::from_micros(1_769_860_800_000_000);

/// A line of one session; nobody said it if `speaker` is empty.
pub(super) fn said(start_ms: i64, end_ms: i64, speaker: &str, text: &str) -> Line {
    let minute_later = Timestamp::from_micros(SESSION_START.as_micros() + 60_000_000);
    let segment = Segment {
        key: SegmentKey { session_uid: Some("session".to_owned()), field: field_of(start_ms) },
        segment_id: None,
        start_ms,
        content: SegmentContent {
            text: text.to_owned(),
            speaker: (!speaker.is_empty()).then(|| speaker.to_owned()),
            language: None,
            end_ms,
        },
        speaker_status: SpeakerStatus::Mapped,
        completed: None,
        version: 1,
        created_at: minute_later,
        updated_at: Timestamp::from_micros(minute_later.as_micros() + 500_000),
        seq: 0,
    };
    Line { segment, session_start: Some(SESSION_START), kept: true }
}

/// Few texts, speakers and times, so that many lines repeat each other.
pub(super) fn any_line() -> impl Strategy<Value = Line> {
    let session = prop_oneof![Just(None), Just(Some("a")), Just(Some("b"))];
    let started = proptest::option::of(0_i64..3);
    let text = prop_oneof![Just("yes"), Just(" yes"), Just("no"), Just("")];
    let speaker = prop_oneof![Just(""), Just("Ann"), Just("Bob")];
    (session, started, text, speaker, 0_i64..40, 0_i64..20).prop_map(
        |(session, started, text, speaker, start_ms, length_ms)| {
            let mut line = said(start_ms, start_ms + length_ms, speaker, text);
            line.segment.key.session_uid = session.map(str::to_owned);
            line.session_start = started.map(|ms| Timestamp::from_micros(ms * 10_000));
            line
        },
    )
}

/// Lines with any text and speaker at all.
pub(super) fn any_speech() -> impl Strategy<Value = Vec<Line>> {
    let line = (any_line(), nasty_text(), nasty_text()).prop_map(|(mut line, speaker, text)| {
        line.segment.content.speaker = Some(speaker);
        line.segment.content.text = text;
        line
    });
    proptest::collection::vec(line, 0..8)
}

/// Text in which the marks of every format are frequent.
pub(super) fn nasty_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => "[a-z]{1,4}".prop_map(String::from),
        3 => proptest::sample::select(vec![
            " ", "\n", "\r\n", "\t", "\u{0}", "\u{b}", "\u{2028}", "-->", "<v X>", "</v>", "&", "&lt;",
            "\"", "'", ",", ";", "=", "+", "-", "@", "{\\an8}", "*", "_", "#", "|", "\\", "`", "é", "İ",
            "שלום", "\u{202e}", "😀", "1", "00:00:01.000 --> 00:00:02.000", "<mark>", "</mark>",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}
