//! Answers about who is where.
//!
//! An answer counts only if everybody in it can be told apart: somebody who cannot be named would
//! be taken for gone. What is odd about a person beside that is left out, and the person kept.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Odd;
use super::loose::{self, duration, instant, json, text};
use crate::Timestamp;
use crate::presence::{DomainLook, Participant, is_session_id, kept_name};

/// The answer to `GET /rooms/:name/presence`, which was asked for at `asked_at`.
pub fn read_room_presence(body: &[u8], asked_at: Timestamp) -> Result<Vec<Participant>, Odd> {
    let answer = json(body)?;
    let total = answer.get("total_count").and_then(Value::as_u64);
    let total = total.ok_or_else(|| Odd::new("it does not say how many there are"))?;
    let data = answer.get("data").and_then(Value::as_array);
    let data = data.ok_or_else(|| Odd::new("it has no list"))?;
    let people = people(data, asked_at)?;
    // A page of several, or a person twice in the place of another: in both somebody is missing.
    if u64::try_from(people.len()).is_ok_and(|told| told < total) {
        return Err(Odd::new(format!("it tells {} of {total} people", people.len())));
    }
    Ok(people)
}

/// The answer to `GET /presence`. A room with somebody in it who cannot be named is left out.
pub fn read_domain_presence(body: &[u8], asked_at: Timestamp) -> Result<DomainLook, Odd> {
    let Value::Object(listed) = json(body)? else { return Err(Odd::new("it is not an object")) };
    let mut rooms = BTreeMap::new();
    for (room, data) in listed {
        let Value::Array(data) = data else {
            // An error that came as a success has members like this, and is no list of rooms.
            return Err(Odd::new(format!("{room:?} has no list of people")));
        };
        if let Ok(people) = people(&data, asked_at)
            && people.len() == data.len()
        {
            rooms.insert(room, people);
        }
    }
    Ok(DomainLook { rooms })
}

/// Each once.
fn people(data: &[Value], asked_at: Timestamp) -> Result<Vec<Participant>, Odd> {
    let mut seen = BTreeSet::new();
    let mut people = Vec::with_capacity(data.len());
    for item in data {
        let participant = person(item, asked_at)?;
        if seen.insert(participant.session_id.clone()) {
            people.push(participant);
        }
    }
    Ok(people)
}

fn person(item: &Value, asked_at: Timestamp) -> Result<Participant, Odd> {
    let id = item.get("id").and_then(Value::as_str).filter(|id| is_session_id(id));
    let id = id.ok_or_else(|| Odd::new("somebody has no id"))?;
    let name = |key| loose::member(item, &[key]).and_then(text);
    let lasts = item.get("duration").and_then(duration);
    let joined_at = item.get("joinTime").and_then(instant);
    Ok(Participant {
        session_id: id.to_owned(),
        user_id: user_of(name("userId").as_deref(), id),
        user_name: kept_name(name("userName").as_deref()),
        joined_at: joined_at.unwrap_or_else(|| asked_at - lasts.unwrap_or_default()),
    })
}

/// Somebody without a token has their session's id as a user's.
pub(super) fn user_of(user: Option<&str>, session: &str) -> Option<String> {
    kept_name(user).filter(|user| user != session)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AT: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    fn room(answer: &Value) -> Result<Vec<Participant>, Odd> {
        read_room_presence(answer.to_string().as_bytes(), AT)
    }

    fn person(id: &str) -> Value {
        json!({"room": "r", "id": id, "userId": "u", "userName": "Ada", "mtgSessionId": "m",
            "joinTime": "2023-01-01T20:53:19.000Z", "duration": 2312})
    }

    #[test]
    fn the_documented_answer_is_read() {
        let told = room(&json!({"total_count": 1, "data": [person("s")]})).unwrap();
        let ada = Participant {
            session_id: "s".to_owned(),
            user_id: Some("u".to_owned()),
            user_name: Some("Ada".to_owned()),
            joined_at: Timestamp::parse_rfc3339("2023-01-01T20:53:19Z").unwrap(),
        };
        assert_eq!(told, [ada]);
        assert_eq!(room(&json!({"total_count": 0, "data": []})), Ok(vec![]));
    }

    #[test]
    fn an_odd_person_is_kept_by_their_id() {
        let odd = [
            json!({"id": "a", "userId": null, "userName": null, "joinTime": null}),
            json!({"id": "b", "userName": "", "userId": "b", "joinTime": "soon", "duration": 60}),
            json!({"id": "c", "userName": ["x"], "userId": 7, "extra": {"more": 1}}),
        ];
        let told = room(&json!({"total_count": 3, "data": odd, "more": true})).unwrap();
        let brief: Vec<_> =
            told.iter().map(|p| (p.session_id.as_str(), p.user_id.as_deref())).collect();
        assert_eq!(brief, [("a", None), ("b", None), ("c", Some("7"))]);
        assert!(told.iter().all(|p| p.user_name.is_none()));
        assert_eq!(told[1].joined_at, AT - std::time::Duration::from_secs(60));
        assert_eq!(told[2].joined_at, AT);
    }

    #[test]
    fn what_is_not_whole_is_never_an_empty_room() {
        let whole = json!({"total_count": 1, "data": [person("s")]}).to_string();
        for cut in 0..whole.len() {
            assert!(read_room_presence(&whole.as_bytes()[..cut], AT).is_err(), "{cut}");
        }
        for odd in [
            json!({}),
            json!([]),
            json!(null),
            json!(0),
            json!("<html>"),
            json!({"data": []}),
            json!({"total_count": 0}),
            json!({"total_count": 0, "data": null}),
            json!({"total_count": 0, "data": {}}),
            json!({"total_count": "0", "data": []}),
            json!({"total_count": -1, "data": []}),
            json!({"total_count": 0.5, "data": []}),
            json!({"total_count": 1, "data": []}),
            json!({"total_count": 2, "data": [person("s")]}),
            json!({"total_count": 2, "data": [person("s"), person("s")]}),
            json!({"total_count": 1, "data": [{"userName": "Ada"}]}),
            json!({"total_count": 1, "data": [null]}),
            json!({"total_count": 1, "data": [person("")]}),
            json!({"total_count": 2, "data": [person("s"), person("a\u{0}")]}),
            json!({"total_count": 1, "data": [person(&"x".repeat(200))]}),
            json!({"error": "server-error", "info": "x"}),
        ] {
            assert!(room(&odd).is_err(), "{odd}");
        }
        let twice = json!({"total_count": 1, "data": [person("s"), person("s")]});
        assert_eq!(room(&twice).unwrap().len(), 1, "nobody is missing");
    }

    #[test]
    fn of_a_domain_only_odd_rooms_are_left_out() {
        let answer = json!({
            "full": [person("a"), person("b")],
            "empty": [],
            "nameless": [person("a"), {"userName": "x"}],
            "twice": [person("a"), person("a")],
        });
        let look = read_domain_presence(answer.to_string().as_bytes(), AT).unwrap();
        assert_eq!(look.rooms.keys().collect::<Vec<_>>(), ["empty", "full"]);
        assert_eq!(look.rooms["full"].len(), 2);
        assert_eq!(read_domain_presence(b"{}", AT), Ok(DomainLook::default()));
        for odd in
            ["", "[]", "null", "{\"error\":\"server-error\"}", "{\"r\":{}}", "{\"r\":[]", "<"]
        {
            assert!(read_domain_presence(odd.as_bytes(), AT).is_err(), "{odd}");
        }
    }
}
