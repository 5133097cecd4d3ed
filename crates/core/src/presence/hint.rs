//! What the provider's events tell, and how far it is believed: they are reasons to look, and they
//! know times that a look cannot show. They never change a row by themselves.

use serde::{Deserialize, Serialize};

use super::session::{is_session_id, kept_name};
use crate::Timestamp;
use crate::jobs::Json;

/// An event about a room, as it waits in the payload of the job that looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hint {
    /// The provider's name for the event.
    pub event: String,
    pub what: HintKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "micros")]
    pub joined_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "micros")]
    pub left_at: Option<Timestamp>,
    /// When we heard it, by our clock: what is waited for is counted from here.
    #[serde(with = "micro")]
    pub heard_at: Timestamp,
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HintKind {
    Joined,
    Left,
    /// Everyone has left, says the provider.
    MeetingEnded,
    /// Somebody asks for a look, and knows nothing more.
    Look,
}

impl Hint {
    /// A hint that only asks for a look.
    pub fn look(event: &str, heard_at: Timestamp) -> Self {
        Hint {
            event: event.to_owned(),
            what: HintKind::Look,
            session: None,
            user: None,
            name: None,
            joined_at: None,
            left_at: None,
            heard_at,
        }
    }

    /// Without what could not be kept. A hint about a session that cannot be named only asks for a
    /// look.
    #[must_use]
    pub fn sound(mut self) -> Self {
        self.user = kept_name(self.user.as_deref());
        self.name = kept_name(self.name.as_deref());
        self.session = self.session.filter(|id| is_session_id(id));
        if self.session.is_none() && matches!(self.what, HintKind::Joined | HintKind::Left) {
            self.what = HintKind::Look;
        }
        self
    }
}

/// Reads the hints of a job's payload; what is none is passed over.
pub fn read_hints(payload: &serde_json::Value) -> Vec<Hint> {
    let one = |item: &serde_json::Value| Hint::deserialize(item).ok().map(Hint::sound);
    match payload {
        serde_json::Value::Array(items) => items.iter().filter_map(one).collect(),
        other => one(other).into_iter().collect(),
    }
}

/// The payload of a job that carries these.
pub fn write_hints(hints: &[Hint]) -> Json {
    serde_json::to_string(hints).map_or_else(|_| Json::null(), Json::from_stored)
}

mod micro {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::Timestamp;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    pub(super) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(at.as_micros())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(from).map(Timestamp::from_micros)
    }
}

mod micros {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::Timestamp;

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(super) fn serialize<S: Serializer>(
        at: &Option<Timestamp>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => to.serialize_some(&at.as_micros()),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        Option::<i64>::deserialize(from).map(|at| at.map(Timestamp::from_micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_travel_in_a_payload() {
        let at = |micros| Timestamp::from_micros(micros);
        let left = Hint {
            event: "ptcpt-left-1".to_owned(),
            what: HintKind::Left,
            session: Some("s1".to_owned()),
            user: None,
            name: Some("Ada".to_owned()),
            joined_at: Some(at(5)),
            left_at: Some(at(9)),
            heard_at: at(10),
        };
        let hints = [left.clone(), Hint::look("x", at(1))];
        let payload = write_hints(&hints).to_value();
        assert_eq!(read_hints(&payload), hints);
        assert_eq!(read_hints(&payload[0]), [left]);
        let odd = serde_json::json!([1, {"event": "e"}, null]);
        assert_eq!(read_hints(&odd), []);
        assert_eq!(read_hints(&serde_json::Value::Null), []);
    }

    #[test]
    fn a_session_that_cannot_be_named_is_only_a_reason_to_look() {
        let nameless = Hint {
            what: HintKind::Left,
            session: Some("s\0".to_owned()),
            name: Some(" ".to_owned()),
            ..Hint::look("e", Timestamp::EPOCH)
        };
        assert_eq!(nameless.sound(), Hint::look("e", Timestamp::EPOCH));
    }
}
