//! Why a live connection ends, and what its client is told.

use std::fmt::Write as _;

use super::frames::{self, Heard};
use crate::socket::{Broken, Goodbye, Socket};

/// The end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    MissingKey,
    InvalidKey,
    /// Whether the key is valid cannot be told.
    KeyUnknown,
    /// The key has as many connections as it may.
    TooMany,
    TooManyCommands,
    /// The client was asked whether it is there, and said nothing.
    Silent,
    /// The process ends.
    Stopping,
    Client(Broken),
}

impl From<Broken> for Ending {
    fn from(broken: Broken) -> Self {
        Ending::Client(broken)
    }
}

impl Ending {
    /// Tells the client, and leaves.
    pub(super) async fn tell<'a>(self, mut socket: Socket, heard: impl Iterator<Item = &'a Heard>) {
        if self == Ending::Client(Broken::Gone) {
            return;
        }
        let goodbye = Goodbye::new(self.code(), self.reason(heard));
        if let Some(word) = self.word()
            && socket.send(vec![frames::error(word).into()]).await.is_err()
        {
            return;
        }
        socket.close(goodbye).await;
    }

    /// Goes ahead in a frame, for clients that do not look at the code.
    fn word(self) -> Option<&'static str> {
        match self {
            Ending::MissingKey => Some("missing_api_key"),
            Ending::InvalidKey => Some("invalid_api_key"),
            Ending::KeyUnknown => Some("auth_unavailable"),
            Ending::TooMany => Some("too_many_connections"),
            Ending::TooManyCommands => Some("too_many_commands"),
            Ending::Silent | Ending::Stopping | Ending::Client(_) => None,
        }
    }

    fn code(self) -> u16 {
        match self {
            Ending::MissingKey | Ending::InvalidKey => 4401,
            Ending::KeyUnknown => 4503,
            Ending::TooMany => 4429,
            Ending::TooManyCommands => 1008,
            // Come back, with your place.
            Ending::Silent | Ending::Client(Broken::TooSlow) => 1013,
            Ending::Stopping => 1012,
            Ending::Client(Broken::TooLarge) => 1009,
            Ending::Client(Broken::NoProtocol) => 1002,
            Ending::Client(Broken::Gone) => 1000,
        }
    }

    fn reason<'a>(self, heard: impl Iterator<Item = &'a Heard>) -> String {
        match self {
            Ending::Silent => places("no answer to a ping", heard),
            Ending::Client(Broken::TooSlow) => places("too slow", heard),
            Ending::Stopping => "the server is stopping".to_owned(),
            Ending::Client(Broken::TooLarge) => "the message is too large".to_owned(),
            other => other.word().unwrap_or_default().to_owned(),
        }
    }
}

/// What was heard of each meeting, as `7@1234`, as far as a reason can hold it.
fn places<'a>(words: &str, heard: impl Iterator<Item = &'a Heard>) -> String {
    let mut reason = format!("{words}; last seq");
    for one in heard {
        let before = reason.len();
        let _ = write!(reason, " {}@{}", one.meeting_id, one.seq);
        if reason.len() > 120 {
            reason.truncate(before);
            break;
        }
    }
    reason
}

#[cfg(test)]
mod tests {
    use roundsman_core::bots::MeetingId;

    use super::*;

    fn heard(id: i64, seq: i64) -> Heard {
        let meeting_id = MeetingId::new(id);
        Heard { platform: "zoom".to_owned(), native_id: None, meeting_id, seq }
    }

    #[test]
    fn a_slow_client_is_told_how_far_it_came() {
        let slow = Ending::Client(Broken::TooSlow);
        assert_eq!(slow.reason([heard(7, 1234)].iter()), "too slow; last seq 7@1234");
        let many: Vec<Heard> = (0..100).map(|id| heard(id, 1_000_000)).collect();
        let reason = slow.reason(many.iter());
        assert!(reason.len() <= 120 && reason.ends_with("@1000000"), "{reason}");
    }
}
