//! Rooms and who is in them. Everybody's stay is remembered for a while, so that an answer can be
//! as old as Daily's are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use roundsman_core::Timestamp;
use serde_json::{Value, json};

/// Who left longer ago is in no answer.
const REMEMBERED: Duration = Duration::from_mins(10);

/// Somebody who may join.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guest {
    /// From their token.
    pub user_id: Option<String>,
    pub user_name: Option<String>,
}

impl Guest {
    pub fn named(name: &str) -> Self {
        Guest { user_id: Some(format!("user-{name}")), user_name: Some(name.to_owned()) }
    }
}

/// Somebody's time in a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    pub session: String,
    pub guest: Guest,
    pub joined_at: Timestamp,
    /// `None` while they are there.
    pub left_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub(super) struct Rooms {
    rooms: BTreeMap<String, Room>,
}

#[derive(Debug)]
pub(super) struct Room {
    pub(super) id: String,
    pub(super) created_at: Timestamp,
    pub(super) privacy: String,
    pub(super) properties: Value,
    pub(super) expires_at: Option<Timestamp>,
    /// The meeting that goes on, or the last one.
    meeting: String,
    stays: Vec<Stay>,
}

/// Somebody in a room.
#[derive(Debug, Clone)]
pub(super) struct Stay {
    pub(super) session: String,
    pub(super) guest: Guest,
    pub(super) joined_at: Timestamp,
    pub(super) left_at: Option<Timestamp>,
    pub(super) meeting: String,
}

impl Rooms {
    pub(super) fn make(&mut self, name: &str, id: String, now: Timestamp) -> &mut Room {
        self.rooms.entry(name.to_owned()).or_insert_with(|| Room {
            id,
            created_at: now,
            privacy: "public".to_owned(),
            properties: json!({}),
            expires_at: None,
            meeting: String::new(),
            stays: Vec::new(),
        })
    }

    /// Not one whose time is over.
    pub(super) fn get(&self, name: &str, now: Timestamp) -> Option<&Room> {
        self.rooms.get(name).filter(|room| !room.is_expired(now))
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Room> {
        self.rooms.get_mut(name)
    }

    pub(super) fn is_expired(&self, name: &str, now: Timestamp) -> bool {
        self.rooms.get(name).is_some_and(|room| room.is_expired(now))
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.rooms.remove(name).is_some()
    }

    /// Newest first.
    pub(super) fn list(&self, now: Timestamp) -> Vec<(&String, &Room)> {
        let mut rooms: Vec<_> =
            self.rooms.iter().filter(|(_, room)| !room.is_expired(now)).collect();
        rooms.sort_by_key(|(name, room)| (std::cmp::Reverse(room.created_at), *name));
        rooms
    }

    /// The answer about all rooms, as it was at `at`. Written by hand: there may be many.
    pub(super) fn presence(&self, at: Timestamp, now: Timestamp) -> String {
        let mut text = String::from("{");
        for (name, room) in self.rooms.iter().filter(|(_, room)| !room.is_expired(now)) {
            let mut people = room.people(at).peekable();
            if people.peek().is_none() {
                continue;
            }
            if text.len() > 1 {
                text.push(',');
            }
            let _ = write!(text, "{}:[", json!(name));
            for (number, stay) in people.enumerate() {
                if number > 0 {
                    text.push(',');
                }
                stay.write(name, at, &mut text);
            }
            text.push(']');
        }
        text.push('}');
        text
    }
}

impl Room {
    fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Somebody joins; whether they are the first.
    pub(super) fn join(&mut self, stay: Stay) -> bool {
        let is_first = self.present().next().is_none();
        if is_first {
            self.meeting.clone_from(&stay.meeting);
        }
        self.stays.push(Stay { meeting: self.meeting.clone(), ..stay });
        is_first
    }

    /// Somebody leaves; their stay, and whether they were the last.
    pub(super) fn leave(&mut self, session: &str, now: Timestamp) -> Option<(Stay, bool)> {
        self.stays.retain(|stay| stay.left_at.is_none_or(|at| now.since(at) < REMEMBERED));
        let open = self.stays.iter_mut().find(|stay| stay.session == session);
        let stay = open.filter(|stay| stay.left_at.is_none())?;
        stay.left_at = Some(now);
        let stay = stay.clone();
        Some((stay, self.present().next().is_none()))
    }

    /// Who is there now.
    pub(super) fn present(&self) -> impl Iterator<Item = &Stay> {
        self.stays.iter().filter(|stay| stay.left_at.is_none())
    }

    /// Everybody who is remembered.
    pub(super) fn visits(&self) -> impl Iterator<Item = Visit> {
        self.stays.iter().map(|stay| Visit {
            session: stay.session.clone(),
            guest: stay.guest.clone(),
            joined_at: stay.joined_at,
            left_at: stay.left_at,
        })
    }

    /// Who was there then.
    fn people(&self, at: Timestamp) -> impl Iterator<Item = &Stay> {
        self.stays
            .iter()
            .filter(move |stay| stay.joined_at <= at && stay.left_at.is_none_or(|left| left > at))
    }

    /// The answer about this room, as it was at `at`.
    pub(super) fn presence(&self, name: &str, at: Timestamp, limit: usize) -> String {
        let total = self.people(at).count();
        let mut text = format!("{{\"total_count\":{total},\"data\":[");
        for (number, stay) in self.people(at).take(limit).enumerate() {
            if number > 0 {
                text.push(',');
            }
            stay.write(name, at, &mut text);
        }
        text.push_str("]}");
        text
    }

    pub(super) fn describe(&self, name: &str, domain: &str) -> Value {
        json!({
            "id": self.id, "name": name, "api_created": true, "privacy": self.privacy,
            "url": format!("https://{domain}.daily.co/{name}"),
            "created_at": iso(self.created_at), "config": self.properties,
        })
    }
}

impl Stay {
    fn write(&self, room: &str, at: Timestamp, text: &mut String) {
        let user_id = json!(self.guest.user_id);
        let user_name = json!(self.guest.user_name);
        let _ = write!(
            text,
            "{{\"room\":{},\"id\":\"{}\",\"userId\":{user_id},\"userName\":{user_name},\
             \"mtgSessionId\":\"{}\",\"joinTime\":\"{}\",\"duration\":{}}}",
            json!(room),
            self.session,
            self.meeting,
            iso(self.joined_at),
            at.since(self.joined_at).as_secs(),
        );
    }
}

/// With milliseconds, as Daily writes it.
pub(super) fn iso(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{}Z", &text[..23])
}
