//! Names: of a meeting, of one bot's connection, of the thing that a launcher runs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ports::Random;

/// A meeting's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MeetingId(i64);

impl MeetingId {
    pub const fn new(value: i64) -> Self {
        MeetingId(value)
    }

    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for MeetingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A connection's name is at most this long: what a foreign bot may have chosen.
const CONNECTION_BYTES_MAX: usize = 255;

/// What a bot calls itself in its callbacks; also the `session_uid` of its session. Made with the
/// reservation, so that a bot can be told to leave before it was ever heard.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ConnectionId(String);

/// The text cannot name a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a connection id is 1 to {CONNECTION_BYTES_MAX} bytes without control characters")]
pub struct InvalidConnectionId;

impl ConnectionId {
    /// A new one: a random UUID (version 4).
    pub fn draw(random: &dyn Random) -> Self {
        ConnectionId(draw_uuid(random))
    }

    pub fn new(text: &str) -> Result<Self, InvalidConnectionId> {
        let too_long = text.len() > CONNECTION_BYTES_MAX;
        if text.is_empty() || too_long || text.chars().any(char::is_control) {
            return Err(InvalidConnectionId);
        }
        Ok(ConnectionId(text.to_owned()))
    }

    /// Takes the database's own copy.
    pub fn from_stored(text: String) -> Self {
        ConnectionId(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A random UUID (version 4) as text.
pub fn draw_uuid(random: &dyn Random) -> String {
    let mut bytes = [0u8; 16];
    random.fill(&mut bytes);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let text = hex::encode(bytes);
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

/// What a launcher runs for one attempt to attend one meeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkloadId {
    pub meeting_id: MeetingId,
    pub attempt: u32,
}

impl WorkloadId {
    /// The name the runtime knows it by: the same for every try, so that a workload whose making
    /// was not confirmed is found and not doubled. `installation` keeps apart the servers that
    /// share a runtime.
    pub fn name(self, installation: &str) -> String {
        format!("roundsman-{installation}-bot-{}-{}", self.meeting_id, self.attempt)
    }

    /// Reads a name back; `None` for one that is not ours.
    pub fn parse(name: &str, installation: &str) -> Option<Self> {
        let rest = name.strip_prefix("roundsman-")?.strip_prefix(installation)?;
        let (meeting_id, attempt) = rest.strip_prefix("-bot-")?.split_once('-')?;
        Some(WorkloadId {
            meeting_id: MeetingId(meeting_id.parse().ok()?),
            attempt: attempt.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting;

    impl Random for Counting {
        fn fill(&self, buffer: &mut [u8]) {
            for (byte, value) in buffer.iter_mut().zip(0u8..) {
                *byte = value;
            }
        }
    }

    #[test]
    fn a_connection_is_named_by_a_random_uuid() {
        let id = ConnectionId::draw(&Counting);
        assert_eq!(id.as_str(), "00010203-0405-4607-8809-0a0b0c0d0e0f");
        assert!(ConnectionId::new(id.as_str()).is_ok());
        for bad in ["", "a\0", &"x".repeat(256)] {
            assert_eq!(ConnectionId::new(bad), Err(InvalidConnectionId));
        }
    }

    #[test]
    fn a_workloads_name_reads_back_only_for_its_own_installation() {
        let id = WorkloadId { meeting_id: MeetingId::new(7), attempt: 2 };
        let name = id.name("a1b2");
        assert_eq!(name, "roundsman-a1b2-bot-7-2");
        assert_eq!(WorkloadId::parse(&name, "a1b2"), Some(id));
        for (name, installation) in [
            (name.as_str(), "a1b"),
            (name.as_str(), "c3d4"),
            ("roundsman-a1b2-bot-7", "a1b2"),
            ("roundsman-a1b2-bot-x-1", "a1b2"),
            ("somebody-else", "a1b2"),
        ] {
            assert_eq!(WorkloadId::parse(name, installation), None, "{name}");
        }
    }
}
