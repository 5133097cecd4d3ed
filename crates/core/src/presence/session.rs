//! One person's stay in a room, as the provider numbers it: every time somebody joins.

use crate::Timestamp;

/// Longest id that is taken from the provider; a longer one is not looked at.
pub const SESSION_ID_BYTES_MAX: usize = 128;
/// Names and user ids are cut here.
pub const NAME_BYTES_MAX: usize = 512;

/// What showed that a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClosedBy {
    /// The provider said so, and a look agreed: it stays closed.
    Event,
    /// A look did not show it. One that shows it again opens it again.
    Poll,
    /// There is no room any more.
    RoomGone,
    /// The meeting's owner ended it.
    Deactivated,
}

impl ClosedBy {
    pub const ALL: [ClosedBy; 4] =
        [ClosedBy::Event, ClosedBy::Poll, ClosedBy::RoomGone, ClosedBy::Deactivated];

    pub fn as_str(self) -> &'static str {
        match self {
            ClosedBy::Event => "event",
            ClosedBy::Poll => "poll",
            ClosedBy::RoomGone => "room_gone",
            ClosedBy::Deactivated => "deactivated",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        ClosedBy::ALL.into_iter().find(|by| by.as_str() == text)
    }

    /// Whether a look that shows the session again is believed.
    pub fn may_be_undone(self) -> bool {
        self != ClosedBy::Event
    }
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    pub at: Timestamp,
    pub by: ClosedBy,
}

/// A stay in a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresenceSession {
    pub session_id: String,
    /// The provider's, or the one its token gave; `None` for somebody without a token.
    pub user_id: Option<String>,
    pub user_name: Option<String>,
    pub joined_at: Timestamp,
    pub closed: Option<Closed>,
}

impl PresenceSession {
    pub fn is_open(&self) -> bool {
        self.closed.is_none()
    }

    /// Never before it began, whatever the clocks of others say.
    pub fn close(&mut self, at: Timestamp, by: ClosedBy) {
        self.closed = Some(Closed { at: at.max(self.joined_at), by });
    }
}

/// Somebody whom a look has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    pub session_id: String,
    pub user_id: Option<String>,
    pub user_name: Option<String>,
    pub joined_at: Timestamp,
}

/// A name that may be kept: nothing if it is empty, without what databases cannot hold, and cut at
/// [`NAME_BYTES_MAX`].
pub fn kept_name(text: Option<&str>) -> Option<String> {
    let text = text?.trim();
    let mut kept = String::with_capacity(text.len().min(NAME_BYTES_MAX));
    for c in text.chars().filter(|c| !c.is_control()) {
        if kept.len() + c.len_utf8() > NAME_BYTES_MAX {
            break;
        }
        kept.push(c);
    }
    (!kept.is_empty()).then_some(kept)
}

/// Whether an id can be kept as it is. It is never changed: two might become one.
pub fn is_session_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= SESSION_ID_BYTES_MAX && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_without_what_cannot_be() {
        assert_eq!(kept_name(Some("  Ada\0 ")), Some("Ada".to_owned()));
        assert_eq!(kept_name(Some("אדה 🙂")), Some("אדה 🙂".to_owned()));
        for nothing in [None, Some(""), Some(" \n "), Some("\0")] {
            assert_eq!(kept_name(nothing), None, "{nothing:?}");
        }
        let long = kept_name(Some(&"🙂".repeat(3000))).unwrap();
        assert_eq!(long.len(), NAME_BYTES_MAX / 4 * 4);
    }

    #[test]
    fn ids_are_kept_whole_or_not_at_all() {
        assert!(is_session_id("0c0d2dda-5d1f-4b3c-9f21-2d1c0a3b9f10"));
        for bad in ["", "a\0", &"x".repeat(SESSION_ID_BYTES_MAX + 1)] {
            assert!(!is_session_id(bad), "{bad:?}");
        }
    }

    #[test]
    fn nobody_leaves_before_they_came() {
        let at = |secs| Timestamp::EPOCH + std::time::Duration::from_secs(secs);
        let mut session = PresenceSession {
            session_id: "s".to_owned(),
            user_id: None,
            user_name: None,
            joined_at: at(10),
            closed: None,
        };
        session.close(at(5), ClosedBy::Event);
        assert_eq!(session.closed, Some(Closed { at: at(10), by: ClosedBy::Event }));
    }
}
