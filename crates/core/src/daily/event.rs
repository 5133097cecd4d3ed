//! One delivery of Daily's webhook, read so that nothing in it can be a reason to refuse it: three
//! refusals in a row, and Daily sends nothing more at all.

#[cfg(test)]
mod tests;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::loose::{duration, instant, json, member, text};
use super::presence::user_of;
use super::{Odd, recording};
use crate::Timestamp;
use crate::presence::{Hint, HintKind, RoomName, kept_name};
use crate::recordings::Announcement;

/// Longer ids are replaced by a hash.
pub const EVENT_ID_BYTES_MAX: usize = 128;

/// The events that mean something here, as a subscription names them.
pub const SUBSCRIBED_EVENTS: [&str; 5] =
    [JOINED, LEFT, MEETING_ENDED, RECORDING_READY, "recording.error"];

const JOINED: &str = "participant.joined";
const LEFT: &str = "participant.left";
const MEETING_ENDED: &str = "meeting.ended";
const RECORDING_READY: &str = "recording.ready-to-download";

/// What was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The same when it is delivered again.
    pub id: String,
    /// As Daily calls it; `test` for a ping, and empty if nothing says it.
    pub kind: String,
    /// As it was written; it need not be a possible name.
    pub room: Option<String>,
    pub event: Event,
}

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Daily tries whether anybody is here.
    Ping,
    /// Somebody came or went.
    Participant {
        room: RoomName,
        hint: Hint,
    },
    /// Everybody has left.
    MeetingEnded {
        room: RoomName,
        hint: Hint,
    },
    RecordingReady(Announcement),
    /// Nothing that is acted on.
    Other,
    Odd {
        reason: String,
    },
}

/// Reads a delivery that was heard at `heard_at`.
pub fn read_delivery(body: &[u8], heard_at: Timestamp) -> Delivery {
    let (envelope, not_json) = match json(body) {
        Ok(envelope) => (envelope, None),
        Err(odd) => (Value::Null, Some(odd)),
    };
    let kind = kept_name(envelope.get("type").and_then(Value::as_str)).unwrap_or_default();
    let payload = envelope.get("payload").unwrap_or(&Value::Null);
    let room = kept_name(room_text(payload));
    let id = id_of(&envelope, body);
    if kind.is_empty() && envelope.get("test").is_some() {
        return Delivery { id, kind: "test".to_owned(), room, event: Event::Ping };
    }
    let event = match not_json {
        Some(odd) => Err(odd),
        None => read(&kind, &id, &envelope, heard_at),
    };
    let event = event.unwrap_or_else(|odd| Event::Odd { reason: odd.to_string() });
    Delivery { id, kind, room, event }
}

fn read(kind: &str, id: &str, envelope: &Value, heard_at: Timestamp) -> Result<Event, Odd> {
    let payload = || {
        let payload = envelope.get("payload").filter(|payload| payload.is_object());
        payload.ok_or_else(|| Odd::new("it has no payload"))
    };
    let event_at = envelope.get("event_ts").and_then(instant);
    match kind {
        "" if envelope.is_object() => Err(Odd::new("it has no type")),
        "" => Err(Odd::new("it is not an object")),
        JOINED | LEFT => participant(kind, id, payload()?, event_at, heard_at),
        MEETING_ENDED => {
            let room = room_of(payload()?)?;
            let ended_at = member(payload()?, &["end_ts"]).and_then(instant).or(event_at);
            let hint = Hint {
                what: HintKind::MeetingEnded,
                left_at: ended_at,
                ..Hint::look(id, heard_at)
            };
            Ok(Event::MeetingEnded { room, hint })
        }
        RECORDING_READY => recording::read_ready(payload()?, event_at).map(Event::RecordingReady),
        _ => Ok(Event::Other),
    }
}

fn participant(
    kind: &str,
    id: &str,
    payload: &Value,
    event_at: Option<Timestamp>,
    heard_at: Timestamp,
) -> Result<Event, Odd> {
    let room = room_of(payload)?;
    let session = member(payload, &["session_id"]).and_then(Value::as_str).unwrap_or_default();
    let told = |name| member(payload, &[name]).and_then(text);
    let joined_at = payload.get("joined_at").and_then(instant);
    let mut hint = Hint {
        what: HintKind::Joined,
        session: Some(session.to_owned()),
        user: user_of(told("user_id").as_deref(), session),
        name: told("user_name"),
        joined_at,
        ..Hint::look(id, heard_at)
    };
    if kind == LEFT {
        hint.what = HintKind::Left;
        let lasted = payload.get("duration").and_then(duration);
        // The event is sent some time after what it tells of.
        hint.left_at = joined_at.zip(lasted).map(|(at, lasted)| at + lasted).or(event_at);
    }
    Ok(Event::Participant { room, hint: hint.sound() })
}

/// Events about people say `room`, those about recordings `room_name`.
fn room_text(payload: &Value) -> Option<&str> {
    member(payload, &["room", "room_name"]).and_then(Value::as_str)
}

fn room_of(payload: &Value) -> Result<RoomName, Odd> {
    let room = room_text(payload).ok_or_else(|| Odd::new("it names no room"))?;
    RoomName::new(room).map_err(|error| Odd::new(error.to_string()))
}

/// What has no name of its own is named by what it says.
fn id_of(envelope: &Value, body: &[u8]) -> String {
    let is_id = |id: &String| {
        let fits = !id.trim().is_empty() && id.len() <= EVENT_ID_BYTES_MAX;
        fits && !id.chars().any(char::is_control)
    };
    let id = envelope.get("id").and_then(text).filter(is_id);
    id.unwrap_or_else(|| format!("sha256:{}", hex::encode(Sha256::digest(body))))
}
