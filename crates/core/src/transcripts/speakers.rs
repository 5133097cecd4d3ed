//! Who spoke: what bots tell of speakers, and whose words a segment therefore is.
//!
//! Invariants: the answer does not depend on the order in which events arrived, nor on how often;
//! of a speaker's event only what mapping needs is kept, so that a token sent with it goes nowhere.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::{Map, Value};

use super::{SpeakerStatus, TIME_MS_MAX};

/// The name of a session, of a participant, or a participant's id is at most this long.
const NAME_BYTES_MAX: usize = 255;

/// Events this long after a segment still show that speakers are told of in its session.
const LATE_EVENT_MS_MAX: i64 = 500;

const UID: &str = "uid";
const TIME: &str = "relative_client_timestamp_ms";
const TYPE: &str = "event_type";
const NAME: &str = "participant_name";
const ID: &str = "participant_id_meet";

/// What happened. An end sorts before a start, so that somebody who is told to have ended and
/// started at the same instant goes on speaking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SpeakerEventKind {
    End,
    Start,
}

impl SpeakerEventKind {
    pub fn as_str(self) -> &'static str {
        match self {
            SpeakerEventKind::End => "SPEAKER_END",
            SpeakerEventKind::Start => "SPEAKER_START",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [SpeakerEventKind::End, SpeakerEventKind::Start]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

/// Somebody began or ceased to speak.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpeakerEvent {
    pub session_uid: String,
    pub kind: SpeakerEventKind,
    /// Tells participants apart: the platform's id, or the name if it gave none.
    pub participant: String,
    pub name: String,
    /// From the start of the session.
    pub at_ms: i64,
}

/// A field of the event is missing or breaks its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} {rule}")]
pub struct InvalidSpeakerEvent {
    pub field: &'static str,
    pub rule: &'static str,
}

impl SpeakerEvent {
    /// Reads the flat fields of the stream.
    pub fn from_fields<'a>(
        fields: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Self, InvalidSpeakerEvent> {
        let required = |field: &'static str| {
            fields(field).ok_or(InvalidSpeakerEvent { field, rule: "is missing" })
        };
        let session_uid = id_of(UID, required(UID)?)?;
        let at_ms = time_of(required(TIME)?)?;
        let kind = SpeakerEventKind::parse(required(TYPE)?).ok_or(InvalidSpeakerEvent {
            field: TYPE,
            rule: "is neither SPEAKER_START nor SPEAKER_END",
        })?;
        let name = name_of(required(NAME)?)?;
        let participant = match fields(ID).map(str::trim).filter(|id| !id.is_empty()) {
            Some(id) => id_of(ID, id)?,
            None => name.clone(),
        };
        Ok(SpeakerEvent { session_uid, kind, participant, name, at_ms })
    }

    /// Reads the same fields of a JSON object, in which the time may be a number. Also reads what
    /// [`SpeakerEvent::to_json`] wrote.
    pub fn from_object(object: &Map<String, Value>) -> Result<Self, InvalidSpeakerEvent> {
        let time = match object.get(TIME) {
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(Value::String(text)) => Some(text.clone()),
            _ => None,
        };
        Self::from_fields(|field| match field {
            TIME => time.as_deref(),
            _ => object.get(field).and_then(Value::as_str),
        })
    }

    /// The member of `speaker_events:{uid}`, whose score is `at_ms`. The same event is always the
    /// same text: a repeat adds no member.
    pub fn to_json(&self) -> String {
        let member = Member {
            uid: &self.session_uid,
            relative_client_timestamp_ms: self.at_ms,
            event_type: self.kind.as_str(),
            participant_name: &self.name,
            participant_id_meet: (self.participant != self.name).then_some(&*self.participant),
        };
        serde_json::to_string(&member).expect("texts and numbers can be written as JSON")
    }
}

/// The order of the fields is the order of the text, whatever maps of JSON do.
#[derive(Serialize)]
struct Member<'a> {
    uid: &'a str,
    relative_client_timestamp_ms: i64,
    event_type: &'a str,
    participant_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    participant_id_meet: Option<&'a str>,
}

/// Whose words the segment is, by the events of its session. Whoever maps several segments of a
/// session makes a [`SpeakerTimeline`] once.
pub fn map_speaker(
    start_ms: i64,
    end_ms: i64,
    events: &[SpeakerEvent],
) -> (Option<String>, SpeakerStatus) {
    SpeakerTimeline::new(events).map(start_ms, end_ms)
}

/// Who spoke when within a session.
#[derive(Debug)]
pub struct SpeakerTimeline<'a> {
    first_event_ms: Option<i64>,
    /// By their start. Those of the same participant do not overlap.
    turns: Vec<Turn<'a>>,
}

/// A participant spoke without a break.
#[derive(Debug)]
struct Turn<'a> {
    participant: &'a str,
    name: &'a str,
    start_ms: i64,
    /// `i64::MAX` as long as no end is known.
    end_ms: i64,
}

/// What a participant has of a segment.
struct Share<'a> {
    name: &'a str,
    overlap_ms: i64,
    first_start_ms: i64,
}

impl<'a> SpeakerTimeline<'a> {
    /// Takes the events of one session in any order. Somebody who starts while speaking goes on,
    /// and an end without a start tells nothing: its start is not known.
    pub fn new(events: &'a [SpeakerEvent]) -> Self {
        let mut sorted: Vec<&SpeakerEvent> = events.iter().collect();
        sorted.sort_by_key(|event| (event.at_ms, event.kind, &event.participant, &event.name));
        let mut turns: Vec<Turn<'a>> = Vec::new();
        let mut speaking: HashMap<&str, usize> = HashMap::new();
        for event in &sorted {
            match event.kind {
                SpeakerEventKind::Start => {
                    speaking.entry(&event.participant).or_insert_with(|| {
                        turns.push(Turn {
                            participant: &event.participant,
                            name: &event.name,
                            start_ms: event.at_ms,
                            end_ms: i64::MAX,
                        });
                        turns.len() - 1
                    });
                }
                SpeakerEventKind::End => {
                    if let Some(turn) = speaking.remove(event.participant.as_str()) {
                        turns[turn].end_ms = event.at_ms;
                    }
                }
            }
        }
        SpeakerTimeline { first_event_ms: sorted.first().map(|event| event.at_ms), turns }
    }

    /// Whoever spoke longest within the segment, then who started first. Somebody who has not
    /// ended yet spoke to the segment's end, however long ago the start was.
    pub fn map(&self, start_ms: i64, end_ms: i64) -> (Option<String>, SpeakerStatus) {
        let last_ms = end_ms.saturating_add(LATE_EVENT_MS_MAX);
        if self.first_event_ms.is_none_or(|first| first > last_ms) {
            return (None, SpeakerStatus::NoSpeakerEvents);
        }
        let shares = self.shares(start_ms, end_ms);
        let status = match shares.len() {
            0 => SpeakerStatus::Unknown,
            1 => SpeakerStatus::Mapped,
            _ => SpeakerStatus::MultipleConcurrentSpeakers,
        };
        let longest = shares.iter().min_by_key(|(participant, share)| {
            (Reverse(share.overlap_ms), share.first_start_ms, **participant)
        });
        (longest.map(|(_, share)| share.name.to_owned()), status)
    }

    fn shares(&self, start_ms: i64, end_ms: i64) -> BTreeMap<&'a str, Share<'a>> {
        let mut shares: BTreeMap<&str, Share<'_>> = BTreeMap::new();
        for turn in self.turns.iter().take_while(|turn| turn.start_ms < end_ms) {
            let from = turn.start_ms.max(start_ms);
            let overlap_ms = turn.end_ms.min(end_ms).saturating_sub(from);
            if overlap_ms <= 0 {
                continue;
            }
            let share = shares.entry(turn.participant).or_insert(Share {
                name: turn.name,
                overlap_ms: 0,
                first_start_ms: turn.start_ms,
            });
            share.overlap_ms = share.overlap_ms.saturating_add(overlap_ms);
        }
        shares
    }
}

fn id_of(field: &'static str, text: &str) -> Result<String, InvalidSpeakerEvent> {
    let length_fits = (1..=NAME_BYTES_MAX).contains(&text.len());
    if !length_fits || text.chars().any(char::is_control) {
        let rule = "is not 1 to 255 bytes without control characters";
        return Err(InvalidSpeakerEvent { field, rule });
    }
    Ok(text.to_owned())
}

/// A name is somebody's own: anything but what a database cannot keep.
fn name_of(text: &str) -> Result<String, InvalidSpeakerEvent> {
    let name = text.trim();
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) || name.contains('\0') {
        let rule = "is not 1 to 255 bytes without NUL";
        return Err(InvalidSpeakerEvent { field: NAME, rule });
    }
    Ok(name.to_owned())
}

/// Bots count in fractions of a millisecond.
fn time_of(text: &str) -> Result<i64, InvalidSpeakerEvent> {
    let time: f64 = text.trim().parse().unwrap_or(f64::NAN);
    #[expect(clippy::cast_precision_loss, reason = "a day of milliseconds is far below 2^53")]
    let max = TIME_MS_MAX as f64;
    if !(0.0..=max).contains(&time) {
        let rule = "is no number of milliseconds within a day";
        return Err(InvalidSpeakerEvent { field: TIME, rule });
    }
    #[expect(clippy::cast_possible_truncation, reason = "it was found to be within a day")]
    let whole = time.round() as i64;
    Ok(whole)
}

#[cfg(test)]
mod tests;
