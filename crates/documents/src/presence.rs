//! Who is in a room and what they point at: known while they are there, or kept if they ask for it.

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

/// Why what is kept cannot be made to say more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeptError {
    /// What is kept cannot be read, and must be left as it is.
    #[error("what is kept of presence cannot be read")]
    Unreadable,
    #[error(transparent)]
    Invalid(#[from] InvalidPresence),
}

/// What is kept of presence when this was said, too: of everything the newest, without what was said
/// longer ago than `keep_millis`. `None` if it stays as it is.
pub fn keep_presence(
    kept: &[u8],
    said: &[Bytes],
    keep_millis: u32,
) -> Result<Option<Bytes>, KeptError> {
    let mut state = PresenceState::new(keep_millis);
    if !kept.is_empty() {
        state.apply(kept).map_err(|InvalidPresence| KeptError::Unreadable)?;
    }
    // Where nothing is added the order is the same, too.
    let before = state.store.encode_all();
    for update in said {
        state.apply(update)?;
    }
    let after = state.store.encode_all();
    Ok((after != before).then(|| after.into()))
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

    #[test]
    fn of_what_is_kept_the_newest_counts_and_nothing_new_changes_nothing() {
        const KEEP_MILLIS: u32 = 60_000;
        let (ada, bob) = (EphemeralStore::new(60_000), EphemeralStore::new(60_000));
        ada.set("ada", 1);
        let old: Bytes = ada.encode_all().into();
        bob.set("bob", "here");
        let said = [old.clone(), bob.encode_all().into()];
        let kept = keep_presence(&[], &said, KEEP_MILLIS).unwrap().expect("something is new");
        assert_eq!(keep_presence(&kept, &said, KEEP_MILLIS), Ok(None));
        assert_eq!(keep_presence(&kept, &[Bytes::from_static(&[0])], KEEP_MILLIS), Ok(None));
        // Times are milliseconds: the next word is newer only when one has passed.
        while ada.encode_all() == old {
            ada.set("ada", 1);
        }
        ada.delete("ada");
        let kept = keep_presence(&kept, &[ada.encode_all().into()], KEEP_MILLIS).unwrap().unwrap();
        let later = keep_presence(&kept, &[old], KEEP_MILLIS);
        assert_eq!(later, Ok(None), "what is deleted does not come back");
        let newcomer = EphemeralStore::new(60_000);
        newcomer.apply(&kept).unwrap();
        assert_eq!(newcomer.keys(), ["bob"]);
        let invalid = Err(KeptError::Invalid(InvalidPresence));
        assert_eq!(keep_presence(&kept, &["garbage".into()], KEEP_MILLIS), invalid);
        let unreadable = keep_presence(b"\xff\xff\xff", &[], KEEP_MILLIS);
        assert_eq!(unreadable, Err(KeptError::Unreadable));
    }
}
