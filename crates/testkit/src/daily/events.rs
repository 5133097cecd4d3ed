//! The events that Daily tells, in its own form.

use roundsman_core::Timestamp;
use serde_json::{Value, json};

use super::rooms::Stay;

/// An event before it is sent.
pub(super) struct Event {
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) body: String,
}

pub(super) fn joined(room: &str, stay: &Stay, now: Timestamp) -> Event {
    let id = format!("ptcpt-join-{}-{}", user_id(stay), millis(now));
    event(id, "participant.joined", &person(room, stay, stay.joined_at), now)
}

pub(super) fn left(room: &str, stay: &Stay, now: Timestamp) -> Event {
    let id = format!("ptcpt-left-{}-{}", user_id(stay), millis(now));
    // Daily's two events about one person do not agree to the last digits.
    let mut payload = person(room, stay, stay.joined_at + std::time::Duration::from_millis(4));
    payload["duration"] = json!(now.since(stay.joined_at).as_secs_f64());
    event(id, "participant.left", &payload, now)
}

pub(super) fn meeting_started(room: &str, meeting: &str, now: Timestamp) -> Event {
    let payload = json!({"start_ts": seconds(now), "meeting_id": meeting, "room": room});
    event(format!("met-sta-{meeting}"), "meeting.started", &payload, now)
}

pub(super) fn meeting_ended(room: &str, last: &Stay, now: Timestamp) -> Event {
    let meeting = &last.meeting;
    let payload = json!({"start_ts": seconds(last.joined_at), "end_ts": seconds(now),
        "meeting_id": meeting, "room": room});
    event(format!("met-end-{meeting}"), "meeting.ended", &payload, now)
}

pub(super) fn recording_ready(recording: &str, payload: &Value, now: Timestamp) -> Event {
    let id = format!("rec-rtd-{recording}-{}", now.as_micros() / 1_000_000);
    event(id, "recording.ready-to-download", payload, now)
}

pub(super) fn event(id: String, kind: &'static str, payload: &Value, now: Timestamp) -> Event {
    let body = json!({"version": "1.0.0", "type": kind, "id": id, "payload": payload,
        "event_ts": seconds(now)});
    Event { id, kind, body: body.to_string() }
}

fn person(room: &str, stay: &Stay, joined_at: Timestamp) -> Value {
    let mut payload = json!({
        "room": room, "user_id": user_id(stay), "session_id": stay.session,
        "joined_at": seconds(joined_at), "will_eject_at": null, "owner": false,
        "permissions": {"hasPresence": true, "canSend": true, "canReceive": {"base": true},
            "canAdmin": false},
    });
    if let Some(name) = &stay.guest.user_name {
        payload["user_name"] = json!(name);
    }
    payload
}

/// Who has no token is known by their session.
fn user_id(stay: &Stay) -> &str {
    stay.guest.user_id.as_deref().unwrap_or(&stay.session)
}

fn seconds(at: Timestamp) -> f64 {
    (at.as_secs_f64() * 1e3).round() / 1e3
}

fn millis(at: Timestamp) -> i64 {
    at.as_micros() / 1000
}
