//! The jobs of presence.

use super::{Hint, PresenceMeeting, write_hints};
use crate::Timestamp;
use crate::bots::MeetingId;
use crate::effects::{Effects, Transition};
use crate::jobs::{JobKey, Json, KindName, NewJob};
use crate::users::UserId;

/// Looks at one room and writes what is there; its key is the meeting's number.
pub const POLL_KIND: &str = "presence.poll";
/// Looks at all rooms and asks for a look at those that differ.
pub const RECONCILE_KIND: &str = "presence.reconcile";
/// Finds meetings that may be over.
pub const PROCESS_KIND: &str = "presence.process";
/// Decides whether one meeting is over; its key is the meeting's number.
pub const JUDGE_KIND: &str = "presence.judge";
/// Keeps the provider's events coming.
pub const SUBSCRIPTION_KIND: &str = "presence.subscription";

/// A look that an event asks for goes before those that the timer does.
const EVENT_PRIORITY: i16 = 10;

/// A wish for a look at a room, with what was heard.
pub fn poll_wish(meeting: MeetingId, hints: &[Hint], run_at: Timestamp) -> NewJob {
    let priority = if hints.is_empty() { 0 } else { EVENT_PRIORITY };
    let payload = match hints {
        [] => Json::null(),
        hints => write_hints(hints),
    };
    NewJob { payload, priority, ..wish(POLL_KIND, &meeting.to_string(), run_at) }
}

/// A wish for a decision about a meeting.
pub fn judge_wish(meeting: MeetingId, run_at: Timestamp) -> NewJob {
    wish(JUDGE_KIND, &meeting.to_string(), run_at)
}

/// What a new meeting brings with it: its log begins, and somebody looks.
pub fn opening_effects(meeting: &PresenceMeeting, now: Timestamp) -> Effects {
    let transition = Transition {
        entity: "meeting",
        entity_id: meeting.id.get(),
        from_state: None,
        to_state: meeting.status.as_str().to_owned(),
        cause: "user".to_owned(),
        detail: None,
    };
    let jobs = vec![poll_wish(meeting.id, &[], now)];
    Effects { jobs, transitions: vec![transition], ..Effects::default() }
}

/// Owned by the system, so that a user cannot cancel what keeps a promise to them.
fn wish(kind: &str, key: &str, run_at: Timestamp) -> NewJob {
    NewJob {
        user_id: UserId::SYSTEM,
        kind: KindName::new(kind).expect("a built-in kind has a valid name"),
        key: JobKey::new(key).ok(),
        payload: Json::null(),
        priority: 0,
        run_at,
        max_attempts: None,
        tenant: None,
    }
}
