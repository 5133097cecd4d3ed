//! Who is in a room and what they point at: known while they are there, and never stored.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use loro::awareness::EphemeralStore;

/// What the clients of a room have said of themselves lately.
#[derive(Debug)]
pub struct PresenceState {
    store: EphemeralStore,
    keep_millis: i64,
}

/// The bytes say nothing about presence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an update of presence")]
pub struct InvalidPresence;

impl PresenceState {
    /// What was said longer ago than `keep_millis` is forgotten.
    pub fn new(keep_millis: u32) -> Self {
        let keep_millis = i64::from(keep_millis);
        PresenceState { store: EphemeralStore::new(keep_millis), keep_millis }
    }

    pub fn apply(&mut self, update: &[u8]) -> Result<(), InvalidPresence> {
        let store = &self.store;
        match catch_unwind(AssertUnwindSafe(|| store.apply(update))) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(InvalidPresence),
            Err(_) => {
                self.store = EphemeralStore::new(self.keep_millis);
                Err(InvalidPresence)
            }
        }
    }

    /// All of it, for somebody who has just come; `None` if there is nothing.
    pub fn all(&self) -> Option<Bytes> {
        self.store.remove_outdated();
        if self.store.keys().is_empty() {
            return None;
        }
        Some(self.store.encode_all().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newcomer_learns_what_was_said() {
        let client = EphemeralStore::new(60_000);
        client.set("ada", "here");
        let mut room = PresenceState::new(60_000);
        assert_eq!(room.all(), None);
        room.apply(&client.encode_all()).unwrap();
        let newcomer = EphemeralStore::new(60_000);
        newcomer.apply(&room.all().unwrap()).unwrap();
        assert_eq!(newcomer.get("ada"), client.get("ada"));
        assert_eq!(room.apply(b"\xff\xff\xff"), Err(InvalidPresence));
    }
}
