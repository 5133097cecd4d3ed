//! All rooms at once: where what the provider says of its whole domain differs from the record, that
//! room is looked at by itself. The answer is up to a lag old and commits nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::Participant;

/// Who is in which room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DomainLook {
    pub rooms: BTreeMap<String, Vec<Participant>>,
}

impl DomainLook {
    /// Whether a room has other people in it than the record says.
    pub fn differs(&self, room: &str, open: &[String]) -> bool {
        let seen = self.rooms.get(room).map(Vec::as_slice).unwrap_or_default();
        // Most are the same, and most rooms are empty: sets are made only for the others.
        if seen.is_empty() && open.is_empty() {
            return false;
        }
        let seen: BTreeSet<&str> = seen.iter().map(|person| person.session_id.as_str()).collect();
        seen != open.iter().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presence::samples::person;

    #[test]
    fn a_room_differs_by_who_is_there() {
        let look = DomainLook {
            rooms: BTreeMap::from([("r".to_owned(), vec![person("a", 1), person("b", 2)])]),
        };
        let ids = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(!look.differs("r", &ids(&["b", "a"])));
        assert!(look.differs("r", &ids(&["a"])) && look.differs("r", &ids(&["a", "c"])));
        assert!(look.differs("r", &[]) && look.differs("other", &ids(&["a"])));
        assert!(!look.differs("other", &[]));
    }
}
