//! What was heard in a recording, as segments of a transcript.

use roundsman_core::Timestamp;
use roundsman_core::recordings::SpokenSegment;
use roundsman_core::transcripts::{
    LANGUAGE_CHARS_MAX, NAME_CHARS_MAX, Segment, SegmentContent, SegmentKey, SpeakerStatus,
    TEXT_BYTES_MAX, field_of,
};

pub(super) fn segment(uid: &str, number: usize, spoken: SpokenSegment, now: Timestamp) -> Segment {
    let SpokenSegment { start_ms, end_ms, text, speaker, language } = spoken;
    let field = format!("{}#{number}", field_of(start_ms));
    let labeled = speaker.is_some();
    Segment {
        key: SegmentKey { session_uid: Some(uid.to_owned()), field },
        segment_id: Some(number.to_string()),
        start_ms,
        content: SegmentContent { text, speaker, language, end_ms },
        speaker_status: if labeled {
            SpeakerStatus::ProducerLabeled
        } else {
            SpeakerStatus::NoSpeakerEvents
        },
        completed: Some(true),
        version: 1,
        created_at: now,
        updated_at: now,
        seq: 0,
    }
}

/// Without what some databases have no place for, cut, and in pieces if it is long.
pub(super) fn storable(spoken: SpokenSegment) -> Vec<SpokenSegment> {
    let cut = |text: String, chars_max: usize| -> String {
        text.replace('\0', "").chars().take(chars_max).collect()
    };
    let text = spoken.text.replace('\0', "");
    let speaker = spoken.speaker.map(|name| cut(name, NAME_CHARS_MAX));
    let language = spoken.language.map(|code| cut(code, LANGUAGE_CHARS_MAX));
    let start_ms = spoken.start_ms.max(0);
    let end_ms = spoken.end_ms.max(start_ms);
    let pieces = pieces(&text);
    let begin = |place: usize| {
        let of = |count: usize| i64::try_from(count).expect("a test says little");
        start_ms + (end_ms - start_ms) * of(place) / of(pieces.len())
    };
    let piece = |(place, text): (usize, &&str)| SpokenSegment {
        start_ms: begin(place),
        end_ms: begin(place + 1),
        text: (*text).to_owned(),
        speaker: speaker.clone(),
        language: language.clone(),
    };
    pieces.iter().enumerate().map(piece).collect()
}

/// Pieces end with a word, where there are any.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while rest.len() > TEXT_BYTES_MAX {
        let most = rest.floor_char_boundary(TEXT_BYTES_MAX);
        let end = rest[..most].rfind(char::is_whitespace).unwrap_or(most);
        pieces.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    pieces.push(rest);
    pieces
}
