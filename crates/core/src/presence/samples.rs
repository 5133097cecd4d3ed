//! What the tests of these rules begin with.

use std::time::Duration;

use super::{NewPresenceMeeting, Participant, PresenceMeeting, PresenceSession, RoomName};
use crate::Timestamp;
use crate::bots::MeetingId;
use crate::users::UserId;

pub(super) fn at(secs: u64) -> Timestamp {
    Timestamp::EPOCH + Duration::from_secs(secs)
}

/// An unplanned meeting, made at 0.
pub(super) fn meeting() -> PresenceMeeting {
    let wish = NewPresenceMeeting {
        user_id: UserId::new(1),
        room: RoomName::new("room").unwrap(),
        room_url: None,
        schedule: None,
    };
    wish.meeting(MeetingId::new(7), at(0))
}

pub(super) fn person(id: &str, joined: u64) -> Participant {
    Participant {
        session_id: id.to_owned(),
        user_id: None,
        user_name: Some(id.to_uppercase()),
        joined_at: at(joined),
    }
}

pub(super) fn session(id: &str, joined: u64) -> PresenceSession {
    PresenceSession {
        session_id: id.to_owned(),
        user_id: None,
        user_name: Some(id.to_uppercase()),
        joined_at: at(joined),
        closed: None,
    }
}
