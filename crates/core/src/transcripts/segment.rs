//! A segment: a stretch of speech that is told many times and changes until it is stable.
//!
//! Invariants: times are whole milliseconds, so that both databases and both surfaces agree about
//! what has changed; a segment keeps the key and the start it had when it was first seen, because
//! clients know it by its absolute start.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Where a segment belongs within its meeting. Unique there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentKey {
    /// `None` for segments of a producer that did not say which session they belong to.
    pub session_uid: Option<String>,
    /// `{start:.3f}`, followed by `#` and the producer's id if it gave one.
    pub field: String,
}

impl SegmentKey {
    /// The field in the cache that others read: collision-proof, or as older consumers expect it.
    pub fn cache_field(&self, style: FieldStyle) -> String {
        match (style, &self.session_uid) {
            (FieldStyle::SessionAndStart, Some(uid)) => format!("{uid}:{}", self.field),
            _ => self.field.clone(),
        }
    }
}

/// How fields of the cache are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldStyle {
    /// `{session_uid}:{start:.3f}`: sessions cannot overwrite each other.
    #[default]
    SessionAndStart,
    /// `{start:.3f}`: for consumers that know nothing else.
    Start,
}

/// What is rendered of a segment. Two versions that agree in this are the same to everybody who
/// looks; the absolute times follow from these and the start of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentContent {
    pub text: String,
    pub speaker: Option<String>,
    pub language: Option<String>,
    pub end_ms: i64,
}

/// A segment as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub key: SegmentKey,
    /// The producer's own name for it.
    pub segment_id: Option<String>,
    /// From the start of its session.
    pub start_ms: i64,
    pub content: SegmentContent,
    pub speaker_status: SpeakerStatus,
    /// What the producer says: it will not change it any more.
    pub completed: Option<bool>,
    /// Orders what was told of it: the number of a later telling is higher.
    pub version: i64,
    pub created_at: Timestamp,
    /// When its content last changed.
    pub updated_at: Timestamp,
    /// The frame that told of its last change; 0 for rows that were never told.
    pub seq: i64,
}

impl Segment {
    /// When it was said, if the start of its session is known.
    pub fn absolute(&self, session_start: Option<Timestamp>) -> Option<(Timestamp, Timestamp)> {
        let start = session_start?;
        Some((offset(start, self.start_ms), offset(start, self.content.end_ms)))
    }
}

/// `ms` after `start`.
fn offset(start: Timestamp, ms: i64) -> Timestamp {
    let micros = start.as_micros().saturating_add(ms.saturating_mul(1000));
    Timestamp::from_micros(micros).clamp(Timestamp::EPOCH, Timestamp::MAX)
}

/// How sure it is who spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SpeakerStatus {
    Mapped,
    MultipleConcurrentSpeakers,
    /// There are events, but nobody spoke then.
    Unknown,
    NoSpeakerEvents,
    ErrorInMapping,
    /// The producer said who it was.
    ProducerLabeled,
}

impl SpeakerStatus {
    pub const ALL: [SpeakerStatus; 6] = [
        SpeakerStatus::Mapped,
        SpeakerStatus::MultipleConcurrentSpeakers,
        SpeakerStatus::Unknown,
        SpeakerStatus::NoSpeakerEvents,
        SpeakerStatus::ErrorInMapping,
        SpeakerStatus::ProducerLabeled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            SpeakerStatus::Mapped => "MAPPED",
            SpeakerStatus::MultipleConcurrentSpeakers => "MULTIPLE_CONCURRENT_SPEAKERS",
            SpeakerStatus::Unknown => "UNKNOWN",
            SpeakerStatus::NoSpeakerEvents => "NO_SPEAKER_EVENTS",
            SpeakerStatus::ErrorInMapping => "ERROR_IN_MAPPING",
            SpeakerStatus::ProducerLabeled => "PRODUCER_LABELED",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// A last look at the events may tell more.
    pub fn is_uncertain(self) -> bool {
        matches!(
            self,
            SpeakerStatus::Unknown | SpeakerStatus::NoSpeakerEvents | SpeakerStatus::ErrorInMapping
        )
    }
}

/// Seconds as clients and fields write them.
pub fn field_of(ms: i64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// Seconds as a number, as clients and the seed's tables have them.
#[expect(clippy::cast_precision_loss, reason = "a day of milliseconds is far below 2^53")]
pub fn seconds_of(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

/// Whole milliseconds of a number of seconds, rounded as `{:.3f}` rounds it. `None` if it is not
/// finite or no time within [`super::TIME_MS_MAX`].
pub fn millis_of(seconds: f64) -> Option<i64> {
    #[expect(clippy::cast_precision_loss, reason = "the limit is small")]
    let max = super::TIME_MS_MAX as f64 / 1000.0;
    // Negative zero compares as zero and must not become "-0.000".
    if !seconds.is_finite() || !(0.0..=max).contains(&seconds) {
        return None;
    }
    let text = format!("{:.3}", seconds.abs());
    let (whole, part) = text.split_once('.')?;
    Some(whole.parse::<i64>().ok()? * 1000 + part.parse::<i64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_as_fields_do() {
        let cases =
            [(0.0, 0), (-0.0, 0), (12.34, 12_340), (1.0005, 1_000), (1.0015, 1_002), (0.1, 100)];
        for (seconds, ms) in cases {
            assert_eq!(millis_of(seconds), Some(ms), "{seconds}");
            assert_eq!(field_of(ms), format!("{:.3}", seconds.abs()), "{seconds}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for seconds in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.001, 1e308, 86_400.001] {
            assert_eq!(millis_of(seconds), None, "{seconds}");
        }
    }

    #[test]
    fn statuses_are_read_as_they_are_written() {
        for status in SpeakerStatus::ALL {
            assert_eq!(SpeakerStatus::parse(status.as_str()), Some(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }

    #[test]
    fn fields_of_the_cache_have_two_styles() {
        let key = SegmentKey { session_uid: Some("s".into()), field: "1.000".into() };
        assert_eq!(key.cache_field(FieldStyle::SessionAndStart), "s:1.000");
        assert_eq!(key.cache_field(FieldStyle::Start), "1.000");
        let nobody = SegmentKey { session_uid: None, field: "1.000".into() };
        assert_eq!(nobody.cache_field(FieldStyle::SessionAndStart), "1.000");
    }
}
