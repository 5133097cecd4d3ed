//! What is told of a change: a step in the log, and a frame for whoever listens.

use serde_json::{Value, json};

use super::{Draft, Drafted};
use crate::bots::stream_of;
use crate::effects::{Effects, NewFrame, Transition};
use crate::jobs::Json;
use crate::presence::{DAILY, EndReason, PresenceSession, PresenceStatus};

/// A frame names at most this many who came and as many who left; the numbers count all.
const NAMED_MAX: usize = 100;

pub(super) fn of(draft: &Draft) -> Effects {
    let mut effects = Effects::default();
    let reopened: Vec<&Drafted> = draft.sessions.values().filter(|d| was_reopened(d)).collect();
    if !reopened.is_empty() {
        let ids = reopened.iter().take(NAMED_MAX).map(|d| d.session.session_id.as_str());
        let detail = json!({ "sessions": ids.collect::<Vec<_>>(), "count": reopened.len() });
        // Before a step that heals the meeting: at that time it was still taken for over.
        effects.transitions.push(step(draft, draft.before.status, "session_reopened", &detail));
    }
    if draft.before.status != draft.meeting.status {
        let cause = draft.meeting.end_reason.map_or("seen_again", |reason| reason.as_str());
        let detail = json!({ "num_clients": draft.meeting.num_clients });
        effects.transitions.push(step(draft, draft.meeting.status, cause, &detail));
    }
    let changed = draft.sessions.values().any(|d| d.before.as_ref() != Some(&d.session));
    if changed || draft.before.status != draft.meeting.status {
        effects.frames.push(frame(draft));
    }
    effects
}

fn was_reopened(drafted: &Drafted) -> bool {
    drafted.session.is_open() && drafted.before.as_ref().is_some_and(|before| !before.is_open())
}

fn step(draft: &Draft, to: PresenceStatus, cause: &str, detail: &Value) -> Transition {
    Transition {
        entity: "meeting",
        entity_id: draft.meeting.id.get(),
        from_state: Some(draft.before.status.as_str().to_owned()),
        to_state: to.as_str().to_owned(),
        cause: cause.to_owned(),
        detail: Json::from_value(detail).ok(),
    }
}

fn frame(draft: &Draft) -> NewFrame {
    let was_open = |d: &Drafted| d.before.as_ref().is_some_and(PresenceSession::is_open);
    let sessions = || draft.sessions.values();
    let joined = sessions().filter(|d| d.session.is_open() && !was_open(d));
    let left = sessions().filter(|d| !d.session.is_open() && (was_open(d) || d.before.is_none()));
    let person = |d: &Drafted| {
        let session = &d.session;
        json!({
            "session_id": session.session_id,
            "user_id": session.user_id,
            "user_name": session.user_name,
            "joined_at": session.joined_at.to_string(),
            "left_at": session.closed.map(|closed| closed.at.to_string()),
        })
    };
    let meeting = &draft.meeting;
    let body = json!({
        "type": "presence.changed",
        "meeting": { "id": meeting.id.get(), "platform": DAILY, "native_id": meeting.room.as_str() },
        "payload": {
            "num_clients": meeting.num_clients,
            "is_active": meeting.is_active(),
            "end_reason": meeting.end_reason.map(EndReason::as_str),
            "joined": joined.take(NAMED_MAX).map(person).collect::<Vec<_>>(),
            "left": left.take(NAMED_MAX).map(person).collect::<Vec<_>>(),
        },
        "ts": draft.now.to_string(),
    });
    NewFrame { stream: stream_of(meeting.id), body: Json::from_stored(body.to_string()) }
}
