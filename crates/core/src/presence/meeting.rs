//! A meeting in a video room, and what is known about looking at it.

use crate::Timestamp;
use crate::bots::MeetingId;
use crate::users::UserId;

/// The word in `meetings.platform`.
pub const DAILY: &str = "daily";

/// Longest name of a room, as Daily allows.
pub const ROOM_NAME_BYTES_MAX: usize = 128;

/// Whether a meeting goes on. The words are in `meetings.status`, where no rule about bots looks for
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PresenceStatus {
    Open,
    Completed,
}

impl PresenceStatus {
    pub const ALL: [PresenceStatus; 2] = [PresenceStatus::Open, PresenceStatus::Completed];

    pub fn as_str(self) -> &'static str {
        match self {
            PresenceStatus::Open => "open",
            PresenceStatus::Completed => "completed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        PresenceStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// Why a meeting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndReason {
    EveryoneLeft,
    /// Nobody ever came to a meeting that nobody had planned.
    NeverUsed,
    /// Its time is over, and nobody is there.
    ScheduleOver,
    /// The provider has no such room any more.
    RoomGone,
    /// Its owner ended it.
    Deactivated,
}

impl EndReason {
    pub const ALL: [EndReason; 5] = [
        EndReason::EveryoneLeft,
        EndReason::NeverUsed,
        EndReason::ScheduleOver,
        EndReason::RoomGone,
        EndReason::Deactivated,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            EndReason::EveryoneLeft => "everyone_left",
            EndReason::NeverUsed => "never_used",
            EndReason::ScheduleOver => "schedule_over",
            EndReason::RoomGone => "room_gone",
            EndReason::Deactivated => "deactivated",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        EndReason::ALL.into_iter().find(|reason| reason.as_str() == text)
    }

    /// People who are seen again show that the meeting was ended by mistake. What its owner ended
    /// stays ended.
    pub fn may_be_undone(self) -> bool {
        self != EndReason::Deactivated
    }
}

/// The text names no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a room name is 1 to {ROOM_NAME_BYTES_MAX} letters, digits, '-' and '_'")]
pub struct InvalidRoomName;

/// The name of a room at the provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoomName(String);

impl RoomName {
    pub fn new(text: &str) -> Result<Self, InvalidRoomName> {
        let fits = !text.is_empty() && text.len() <= ROOM_NAME_BYTES_MAX;
        if !fits || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
            return Err(InvalidRoomName);
        }
        Ok(RoomName(text.to_owned()))
    }

    /// Takes a name that was checked when it was stored.
    pub fn from_stored(text: String) -> Self {
        RoomName(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// When a planned meeting is to take place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    pub starts_at: Timestamp,
    pub ends_at: Timestamp,
}

/// A meeting in a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresenceMeeting {
    pub id: MeetingId,
    pub user_id: UserId,
    pub room: RoomName,
    pub room_url: Option<String>,
    /// `None` for one that nobody planned.
    pub schedule: Option<Schedule>,
    pub status: PresenceStatus,
    pub created_at: Timestamp,
    /// When the first one came.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub end_reason: Option<EndReason>,
    /// How many sessions are open: written by nobody but who writes sessions, in the same
    /// transaction.
    pub num_clients: u32,
    /// When the latest of those who left did.
    pub last_left_at: Option<Timestamp>,
    pub looks: Looks,
}

impl PresenceMeeting {
    pub fn is_active(&self) -> bool {
        self.status == PresenceStatus::Open
    }

    /// Somebody has been there.
    pub fn was_used(&self) -> bool {
        self.started_at.is_some()
    }
}

/// What the looks at a room have come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looks {
    /// The number of the last one that was written: a lease's, so it only grows.
    pub last_no: i64,
    /// When the last one that was answered began.
    pub looked_at: Option<Timestamp>,
    /// How many in a row were not answered, since when, and why the last one was not.
    pub failures: u32,
    pub failing_since: Option<Timestamp>,
    pub failure: Option<String>,
    /// Since when the room has been said to be empty, while we know of people in it.
    pub empty_since: Option<Timestamp>,
    /// Since when the provider has said that there is no such room.
    pub gone_since: Option<Timestamp>,
}

/// A meeting to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPresenceMeeting {
    pub user_id: UserId,
    pub room: RoomName,
    pub room_url: Option<String>,
    pub schedule: Option<Schedule>,
}

impl NewPresenceMeeting {
    pub fn meeting(self, id: MeetingId, now: Timestamp) -> PresenceMeeting {
        PresenceMeeting {
            id,
            user_id: self.user_id,
            room: self.room,
            room_url: self.room_url,
            schedule: self.schedule,
            status: PresenceStatus::Open,
            created_at: now,
            started_at: None,
            ended_at: None,
            end_reason: None,
            num_clients: 0,
            last_left_at: None,
            looks: Looks::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_are_named_as_the_provider_allows() {
        for good in ["a", "daily-room_7", &"r".repeat(ROOM_NAME_BYTES_MAX)] {
            assert!(RoomName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "a/b", "ä", "..", "a\0", &"r".repeat(ROOM_NAME_BYTES_MAX + 1)] {
            assert_eq!(RoomName::new(bad), Err(InvalidRoomName), "{bad:?}");
        }
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for status in PresenceStatus::ALL {
            assert_eq!(PresenceStatus::parse(status.as_str()), Some(status));
        }
        for reason in EndReason::ALL {
            assert_eq!(EndReason::parse(reason.as_str()), Some(reason));
        }
        assert_eq!((PresenceStatus::parse("active"), EndReason::parse("")), (None, None));
    }
}
