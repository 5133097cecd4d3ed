//! What may be asked of presence, and why it is refused.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{NewRoom, NewRoomToken, RoomsError, StoreError};
use roundsman_core::presence::{NAME_BYTES_MAX, NewPresenceMeeting, RoomName, Schedule};
use roundsman_core::users::UserId;

use crate::FieldError;

const ROOM_URL_BYTES_MAX: usize = 2048;
const RECORDING_BYTES_MAX: usize = 64;
const CONNECTION_BYTES_MAX: usize = 128;

/// A meeting as asked for. Nothing in it has been checked.
#[derive(Debug, Clone, Default)]
pub struct MeetingWish {
    /// May be left out if the provider is to make the room and to name it.
    pub room: Option<String>,
    pub room_url: Option<String>,
    pub starts_at: Option<Timestamp>,
    pub ends_at: Option<Timestamp>,
    /// The provider is asked to make the room first.
    pub create_room: Option<RoomWish>,
}

/// A room as asked for.
#[derive(Debug, Clone, Default)]
pub struct RoomWish {
    pub is_private: bool,
    pub expires_at: Option<Timestamp>,
    pub recording: Option<String>,
}

/// A token for a meeting as asked for.
#[derive(Debug, Clone, Default)]
pub struct TokenWish {
    pub user_id: Option<String>,
    pub user_name: Option<String>,
    pub is_owner: bool,
    pub expires_at: Option<Timestamp>,
}

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub enum PresenceError {
    #[error("the request is not valid")]
    Invalid(Vec<FieldError>),
    #[error("no such meeting")]
    NotFound,
    #[error("no such user")]
    NoSuchUser,
    #[error("meeting {meeting} is open in this room")]
    RoomTaken { meeting: MeetingId },
    #[error("the meeting is over")]
    Over,
    #[error(transparent)]
    Provider(#[from] RoomsError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A meeting that may be made, once its room is known.
pub(super) struct CheckedMeeting {
    pub(super) room: Option<RoomName>,
    pub(super) room_url: Option<String>,
    pub(super) schedule: Option<Schedule>,
    pub(super) create_room: Option<NewRoom>,
}

impl CheckedMeeting {
    pub(super) fn meeting(&self, user_id: UserId, room: RoomName) -> NewPresenceMeeting {
        let (room_url, schedule) = (self.room_url.clone(), self.schedule);
        NewPresenceMeeting { user_id, room, room_url, schedule }
    }
}

impl MeetingWish {
    /// The meeting to be made, or everything that is wrong with the wish.
    pub(super) fn check(self, now: Timestamp) -> Result<CheckedMeeting, Vec<FieldError>> {
        let mut problems = Vec::new();
        let room = self.room.filter(|room| !room.is_empty());
        let room = room.and_then(|room| {
            RoomName::new(&room).map_err(|error| problem(&mut problems, "room", &error)).ok()
        });
        if room.is_none() && problems.is_empty() && self.create_room.is_none() {
            problem(&mut problems, "room", &"is needed, unless the provider is to make one");
        }
        let room_url = self.room_url.filter(|url| !url.is_empty());
        if room_url.as_deref().is_some_and(|url| !is_url(url)) {
            let reason =
                format!("must be an http or https address of at most {ROOM_URL_BYTES_MAX} bytes");
            problem(&mut problems, "room_url", &reason);
        }
        let schedule = match (self.starts_at, self.ends_at) {
            (Some(starts_at), Some(ends_at)) if starts_at < ends_at => {
                Some(Schedule { starts_at, ends_at })
            }
            (None, None) => None,
            (Some(_), Some(_)) => {
                problem(&mut problems, "ends_at", &"must be after starts_at");
                None
            }
            _ => {
                problem(&mut problems, "ends_at", &"starts_at and ends_at go together");
                None
            }
        };
        let create_room = self.create_room.map(|wish| wish.check(room.clone(), now, &mut problems));
        if problems.is_empty() {
            Ok(CheckedMeeting { room, room_url, schedule, create_room })
        } else {
            Err(problems)
        }
    }
}

impl RoomWish {
    fn check(
        self,
        name: Option<RoomName>,
        now: Timestamp,
        problems: &mut Vec<FieldError>,
    ) -> NewRoom {
        let RoomWish { is_private, expires_at, recording } = self;
        if expires_at.is_some_and(|at| at <= now) {
            problem(problems, "create_room.expires_at", &"must be in the future");
        }
        let recording = recording.filter(|recording| !recording.is_empty());
        let fits = |recording: &str| {
            recording.len() <= RECORDING_BYTES_MAX
                && recording.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if recording.as_deref().is_some_and(|recording| !fits(recording)) {
            let reason = "must be a word such as cloud or raw-tracks";
            problem(problems, "create_room.recording", &reason);
        }
        NewRoom { name, is_private, expires_at, recording }
    }
}

impl TokenWish {
    /// The token to be made, or everything that is wrong with the wish.
    pub(super) fn check(
        self,
        room: RoomName,
        now: Timestamp,
    ) -> Result<NewRoomToken, Vec<FieldError>> {
        let mut problems = Vec::new();
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (user_id, user_name) = (filled(self.user_id), filled(self.user_name));
        for (field, text) in [("user_id", &user_id), ("user_name", &user_name)] {
            let fits =
                |text: &String| text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control);
            if !text.as_ref().is_none_or(fits) {
                let reason =
                    format!("must be at most {NAME_BYTES_MAX} bytes without control characters");
                problem(&mut problems, field, &reason);
            }
        }
        if self.expires_at.is_some_and(|at| at <= now) {
            problem(&mut problems, "expires_at", &"must be in the future");
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let TokenWish { is_owner, expires_at, .. } = self;
        Ok(NewRoomToken { room, user_id, user_name, is_owner, expires_at })
    }
}

/// The name of a connection, as whoever is on their way has chosen it.
pub(super) fn check_connection(text: &str) -> Result<String, PresenceError> {
    let fits = !text.is_empty()
        && text.len() <= CONNECTION_BYTES_MAX
        && !text.chars().any(char::is_control);
    if fits {
        return Ok(text.to_owned());
    }
    let reason = format!("must be 1 to {CONNECTION_BYTES_MAX} bytes without control characters");
    Err(PresenceError::Invalid(vec![FieldError::new("connection_id", reason)]))
}

fn problem(problems: &mut Vec<FieldError>, field: &str, reason: &dyn std::fmt::Display) {
    problems.push(FieldError::new(field, reason.to_string()));
}

fn is_url(text: &str) -> bool {
    let has_scheme = text.starts_with("https://") || text.starts_with("http://");
    has_scheme && text.len() <= ROOM_URL_BYTES_MAX && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(wish: MeetingWish) -> Vec<String> {
        match wish.check(Timestamp::from_micros(100)) {
            Ok(_) => vec![],
            Err(problems) => problems.into_iter().map(|problem| problem.field).collect(),
        }
    }

    #[test]
    fn every_problem_is_told() {
        let at = |micros| Some(Timestamp::from_micros(micros));
        assert_eq!(fields(MeetingWish::default()), ["room"]);
        let bad = MeetingWish {
            room: Some("a b".to_owned()),
            room_url: Some("javascript:alert(1)".to_owned()),
            starts_at: at(5),
            ends_at: at(5),
            create_room: Some(RoomWish {
                is_private: true,
                expires_at: at(100),
                recording: Some("cloud; rm".to_owned()),
            }),
        };
        assert_eq!(
            fields(bad),
            ["room", "room_url", "ends_at", "create_room.expires_at", "create_room.recording"]
        );
        let half = MeetingWish { room: Some("r".to_owned()), ends_at: at(5), ..Default::default() };
        assert_eq!(fields(half), ["ends_at"]);
    }

    #[test]
    fn the_provider_may_choose_the_room() {
        let wish = MeetingWish { create_room: Some(RoomWish::default()), ..Default::default() };
        let checked = wish.check(Timestamp::EPOCH).unwrap();
        assert!(checked.room.is_none() && checked.create_room.unwrap().name.is_none());
    }

    #[test]
    fn connections_and_tokens_are_checked() {
        assert!(check_connection("c-1").is_ok());
        for bad in ["", "a\0", &"c".repeat(CONNECTION_BYTES_MAX + 1)] {
            assert!(matches!(check_connection(bad), Err(PresenceError::Invalid(_))), "{bad:?}");
        }
        let room = RoomName::new("r").unwrap();
        let bad = TokenWish {
            user_id: Some("u\0".to_owned()),
            user_name: Some("n".repeat(NAME_BYTES_MAX + 1)),
            is_owner: false,
            expires_at: Some(Timestamp::EPOCH),
        };
        assert_eq!(bad.check(room.clone(), Timestamp::EPOCH).unwrap_err().len(), 3);
        let token = TokenWish::default().check(room, Timestamp::EPOCH).unwrap();
        assert_eq!(token.user_id, None);
    }
}
