//! What producers of transcripts send: read, checked and cut to what can be stored.
//!
//! Invariant: one bad segment costs itself and nothing else; a message that cannot be read at all
//! says why, and is never guessed at.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::speakers::SpeakerEvent;
use super::{
    LANGUAGE_CHARS_MAX, NAME_CHARS_MAX, SEGMENTS_PER_MESSAGE_MAX, TEXT_BYTES_MAX, UID_BYTES_MAX,
    millis_of,
};
use crate::Timestamp;

/// A message as it was read. The token comes first: only whoever shows a good one learns what is
/// wrong with the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub token: Option<String>,
    pub body: Result<MessageBody, RefusedMessage>,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageBody {
    SessionStart {
        uid: String,
        start: Timestamp,
    },
    Transcription {
        /// Without it the segments have no absolute times and are nobody's.
        uid: Option<String>,
        segments: Vec<ToldSegment>,
        refused: Vec<RefusedSegment>,
    },
    SessionEnd {
        uid: String,
    },
    Speaker(SpeakerEvent),
}

/// A segment as a producer tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldSegment {
    pub start_ms: i64,
    pub end_ms: i64,
    pub text: String,
    pub language: Option<String>,
    /// Only producers that know it themselves say it.
    pub speaker: Option<String>,
    pub completed: Option<bool>,
    pub segment_id: Option<String>,
}

/// A segment that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedSegment {
    /// Its place in the message, from 0.
    pub index: usize,
    pub reason: &'static str,
}

/// Why a message as a whole cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedMessage {
    #[error("the message is not valid JSON: {0}")]
    NotJson(String),
    #[error("type {0:?} is not one of session_start, transcription, session_end, speaker_activity")]
    UnknownType(String),
    /// The one refusal that is worth another delivery: see the rules for `session_start`.
    #[error("session_start needs a uid")]
    StartWithoutUid,
    #[error("{field} {problem}")]
    Field { field: &'static str, problem: &'static str },
}

impl RefusedMessage {
    /// Whether the message is left with its stream for another try, instead of being put away.
    pub fn is_left(&self) -> bool {
        *self == RefusedMessage::StartWithoutUid
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", default, borrow)]
    kind: Option<&'a RawValue>,
    #[serde(default, borrow)]
    token: Option<&'a RawValue>,
    #[serde(default, borrow, alias = "session_uid")]
    uid: Option<&'a RawValue>,
    #[serde(default, borrow)]
    start_timestamp: Option<&'a RawValue>,
    #[serde(default, borrow)]
    segments: Option<&'a RawValue>,
    /// Where `WhisperLive`'s protocol has the members of a speaker's activity.
    #[serde(default, borrow)]
    payload: Option<&'a RawValue>,
}

impl Message {
    /// Reads one message.
    pub fn read(text: &str) -> Self {
        match serde_json::from_str::<Envelope<'_>>(text) {
            Ok(envelope) => {
                let token = envelope.token.and_then(string).map(Cow::into_owned);
                let inner = envelope.payload.map(RawValue::get);
                let token = token.or_else(|| inner_token(inner?));
                Message { token, body: envelope.body(text) }
            }
            Err(error) => {
                let refused = RefusedMessage::NotJson(error.to_string());
                Message { token: None, body: Err(refused) }
            }
        }
    }
}

impl Envelope<'_> {
    fn body(&self, whole: &str) -> Result<MessageBody, RefusedMessage> {
        let kind = match self.kind {
            None => Cow::Borrowed("transcription"),
            Some(raw) => string(raw).ok_or(field("type", "must be a string"))?,
        };
        match kind.as_ref() {
            "session_start" => {
                let uid = self.uid()?.ok_or(RefusedMessage::StartWithoutUid)?;
                let start = self.start_timestamp.and_then(string);
                let start = start.ok_or(field("start_timestamp", "is missing"))?;
                let start = instant_of(&start).ok_or(field("start_timestamp", "is no time"))?;
                Ok(MessageBody::SessionStart { uid, start })
            }
            "transcription" => self.transcription(),
            "session_end" => {
                let uid = self.uid()?.ok_or(field("uid", "is missing"))?;
                Ok(MessageBody::SessionEnd { uid })
            }
            "speaker_activity" => {
                let members = self.payload.map_or(whole, RawValue::get);
                speaker(members).map(MessageBody::Speaker)
            }
            other => Err(RefusedMessage::UnknownType(other.chars().take(64).collect())),
        }
    }

    /// An empty uid is no uid: producers write one before they have it.
    fn uid(&self) -> Result<Option<String>, RefusedMessage> {
        let Some(raw) = self.uid.filter(|raw| raw.get() != "null") else { return Ok(None) };
        let uid = string(raw).ok_or(field("uid", "must be a string"))?;
        if uid.is_empty() {
            return Ok(None);
        }
        if uid.len() > UID_BYTES_MAX {
            return Err(field("uid", "is too long"));
        }
        if uid.chars().any(char::is_control) {
            return Err(field("uid", "has a control character"));
        }
        Ok(Some(uid.into_owned()))
    }

    fn transcription(&self) -> Result<MessageBody, RefusedMessage> {
        let uid = self.uid()?;
        let raw = self.segments.ok_or(field("segments", "is missing"))?;
        let items: Vec<&RawValue> =
            serde_json::from_str(raw.get()).map_err(|_| field("segments", "must be a list"))?;
        if items.len() > SEGMENTS_PER_MESSAGE_MAX {
            return Err(field("segments", "has too many items"));
        }
        let mut segments = Vec::with_capacity(items.len());
        let mut refused = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            match ToldSegment::read(item.get()) {
                Ok(segment) => segments.push(segment),
                Err(reason) => refused.push(RefusedSegment { index, reason }),
            }
        }
        Ok(MessageBody::Transcription { uid, segments, refused })
    }
}

#[derive(Deserialize)]
struct SegmentItem<'a> {
    #[serde(default, borrow, alias = "start_time")]
    start: Option<&'a RawValue>,
    #[serde(default, borrow, alias = "end_time")]
    end: Option<&'a RawValue>,
    #[serde(default, borrow)]
    text: Option<&'a RawValue>,
    #[serde(default, borrow)]
    language: Option<&'a RawValue>,
    #[serde(default, borrow)]
    speaker: Option<&'a RawValue>,
    #[serde(default, borrow)]
    completed: Option<&'a RawValue>,
    #[serde(default, borrow)]
    segment_id: Option<&'a RawValue>,
}

impl ToldSegment {
    fn read(text: &str) -> Result<Self, &'static str> {
        let item: SegmentItem<'_> = serde_json::from_str(text).map_err(|_| "not an object")?;
        let start = item.start.ok_or("start is missing")?;
        let end = item.end.ok_or("end is missing")?;
        let start = seconds(start).ok_or("start is no time within a day")?;
        let end = seconds(end).ok_or("end is no time within a day")?;
        // Producers have been seen to swap them.
        let (start_ms, end_ms) = (start.min(end), start.max(end));
        if end_ms == start_ms {
            return Err("shorter than a millisecond");
        }
        let text = item.text.ok_or("text is missing")?;
        let text = string(text).ok_or("text is not a valid string")?;
        if text.len() > TEXT_BYTES_MAX {
            return Err("text is too long");
        }
        let language = optional(item.language, LANGUAGE_CHARS_MAX, "language is not valid")?;
        let speaker = optional(item.speaker, NAME_CHARS_MAX, "speaker is not valid")?;
        let segment_id = optional(item.segment_id, UID_BYTES_MAX, "segment_id is not valid")?;
        if text.contains('\0') {
            return Err("text has the character NUL");
        }
        Ok(ToldSegment {
            start_ms,
            end_ms,
            text: text.into_owned(),
            language,
            speaker,
            completed: item.completed.and_then(|raw| serde_json::from_str(raw.get()).ok()),
            segment_id,
        })
    }
}

/// A short text that may be missing, null or empty, which are the same.
fn optional(
    raw: Option<&RawValue>,
    chars_max: usize,
    problem: &'static str,
) -> Result<Option<String>, &'static str> {
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(None) };
    let text = string(raw).ok_or(problem)?;
    if text.chars().count() > chars_max || text.chars().any(char::is_control) {
        return Err(problem);
    }
    Ok((!text.trim().is_empty()).then(|| text.into_owned()))
}

/// A number of seconds, written as a number or, as `WhisperLive` does, as a string.
fn seconds(raw: &RawValue) -> Option<i64> {
    let text = raw.get();
    let number = match string(raw) {
        Some(text) => text.trim().parse().ok()?,
        None => text.parse().ok()?,
    };
    millis_of(number)
}

fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(text).ok().map(Cow::Owned)
}

/// With an offset, or without one, which is UTC.
fn instant_of(text: &str) -> Option<Timestamp> {
    let read = |text: &str| Timestamp::parse_rfc3339(text).ok();
    read(text).or_else(|| read(&format!("{text}Z")))
}

fn inner_token(payload: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Inner {
        token: Option<String>,
    }
    serde_json::from_str::<Inner>(payload).ok()?.token
}

fn speaker(members: &str) -> Result<SpeakerEvent, RefusedMessage> {
    let value: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(members).map_err(|_| field("payload", "must be an object"))?;
    SpeakerEvent::from_object(&value).map_err(|error| field(error.field, error.rule))
}

fn field(field: &'static str, problem: &'static str) -> RefusedMessage {
    RefusedMessage::Field { field, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Result<MessageBody, RefusedMessage> {
        Message::read(text).body
    }

    fn segments(items: &str) -> (Vec<ToldSegment>, Vec<&'static str>) {
        let text = format!(r#"{{"uid":"u","segments":[{items}]}}"#);
        let Ok(MessageBody::Transcription { segments, refused, .. }) = body(&text) else {
            panic!("{text} is no transcription")
        };
        (segments, refused.into_iter().map(|refused| refused.reason).collect())
    }

    #[test]
    fn a_transcription_is_read_as_whisperlive_writes_it() {
        let message = Message::read(
            r#"{"type":"transcription","token":"t","platform":"google_meet","meeting_id":"x",
                "uid":"u-1","segments":[{"start":"12.340","end":"15.100","text":" Hi","completed":false},
                {"start":1,"end":2.5,"text":"a\"b","language":"en","segment_id":"s-1","speaker":"Ann"}]}"#,
        );
        assert_eq!(message.token.as_deref(), Some("t"));
        let Ok(MessageBody::Transcription { uid, segments, refused }) = message.body else {
            panic!()
        };
        assert_eq!((uid.as_deref(), refused.len()), (Some("u-1"), 0));
        assert_eq!((segments[0].start_ms, segments[0].end_ms), (12_340, 15_100));
        assert_eq!((segments[0].text.as_str(), segments[0].completed), (" Hi", Some(false)));
        assert_eq!(segments[1].text, "a\"b");
        assert_eq!(segments[1].segment_id.as_deref(), Some("s-1"));
        assert_eq!(segments[1].speaker.as_deref(), Some("Ann"));
    }

    #[test]
    fn a_bad_segment_costs_only_itself() {
        let good = r#"{"start":3,"end":4,"text":"good"}"#;
        let long = format!(r#"{{"start":1,"end":2,"text":"{}"}}"#, "x".repeat(16 * 1024 + 1));
        let language =
            format!(r#"{{"start":1,"end":2,"text":"x","language":"{}"}}"#, "xx".repeat(1000));
        let bad = [
            r#"{"start":"NaN","end":1,"text":"x"}"#,
            r#"{"start":"inf","end":1,"text":"x"}"#,
            r#"{"start":-1,"end":1,"text":"x"}"#,
            r#"{"start":1e308,"end":1,"text":"x"}"#,
            r#"{"start":1e999,"end":1,"text":"x"}"#,
            r#"{"start":86400.1,"end":1,"text":"x"}"#,
            r#"{"end":1,"text":"x"}"#,
            r#"{"start":1,"text":"x"}"#,
            r#"{"start":1,"end":2}"#,
            r#"{"start":1,"end":1.0004,"text":"x"}"#,
            r#"{"start":null,"end":1,"text":"x"}"#,
            r#"{"start":1,"end":2,"text":"\ud800"}"#,
            r#"{"start":1,"end":2,"text":"a\u0000b"}"#,
            r#"{"start":1,"end":2,"text":7}"#,
            r#"{"start":1,"end":2,"text":"x","speaker":{}}"#,
            "7",
            "null",
            &long,
            &language,
        ];
        for item in bad {
            let (taken, refused) = segments(&format!("{item},{good}"));
            assert_eq!((taken.len(), refused.len()), (1, 1), "{item:.80}");
            assert_eq!(taken[0].text, "good");
        }
    }

    #[test]
    fn odd_but_meant_is_taken() {
        let (taken, refused) = segments(
            r#"{"start":"1.5","end":"1.0","text":"swapped"},
               {"start":-0.0,"end":1,"text":"","speaker":null,"language":""}"#,
        );
        assert!(refused.is_empty());
        assert_eq!((taken[0].start_ms, taken[0].end_ms), (1000, 1500));
        assert_eq!((taken[1].start_ms, &taken[1].language), (0, &None));
    }

    #[test]
    fn a_session_starts_with_a_uid_and_a_time() {
        let start = body(
            r#"{"type":"session_start","uid":"u","start_timestamp":"2026-01-02T03:04:05.5Z"}"#,
        );
        let naive =
            body(r#"{"type":"session_start","uid":"u","start_timestamp":"2026-01-02T03:04:05.5"}"#);
        assert_eq!(start, naive);
        assert!(matches!(start, Ok(MessageBody::SessionStart { .. })));
        for uid in ["", r#""uid":null,"#, r#""uid":"","#] {
            let text = format!(
                r#"{{"type":"session_start",{uid}"start_timestamp":"2026-01-02T03:04:05Z"}}"#
            );
            let refused = body(&text).unwrap_err();
            assert!(refused.is_left(), "{text}");
        }
        let refused = body(r#"{"type":"session_start","uid":"u","start_timestamp":"soon"}"#);
        assert!(!refused.unwrap_err().is_left());
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for text in
            ["", "7", "[1]", "{", r#"{"type":"other"}"#, r#"{"type":7}"#, r#"{"segments":7}"#, "{}"]
        {
            let refused = body(text).unwrap_err();
            assert!(!refused.is_left(), "{text}");
            assert!(!refused.to_string().is_empty());
        }
        let nobody = body(r#"{"segments":[]}"#);
        assert!(matches!(nobody, Ok(MessageBody::Transcription { uid: None, .. })));
    }

    #[test]
    fn a_speakers_activity_is_read_from_its_payload() {
        let message = Message::read(
            r#"{"type":"speaker_activity","payload":{"event_type":"SPEAKER_START","token":"t",
                "participant_name":"Ann","uid":"u","relative_client_timestamp_ms":1500}}"#,
        );
        assert_eq!(message.token.as_deref(), Some("t"));
        let Ok(MessageBody::Speaker(event)) = message.body else { panic!("{message:?}") };
        assert_eq!((event.name.as_str(), event.at_ms), ("Ann", 1500));
    }
}
