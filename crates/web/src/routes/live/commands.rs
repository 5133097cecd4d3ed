//! What a client may say on `/ws`, and how it is told that it said something else.
//!
//! Invariant: whatever arrives is answered; nothing a client sends ends the connection but the
//! breaking of a limit.

use roundsman_core::bots::MeetingId;
use serde_json::{Map, Value};

use super::authorise::Named;
use super::frames::{error, error_details};

/// Each item costs a look at the database; a list is at most this long.
const ITEMS_MAX: usize = 100;

/// What a client wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    Subscribe(Items),
    Unsubscribe(Items),
    Ping,
}

/// The meetings of a command, and what is wrong with those that are none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Items {
    /// With their places in the list.
    pub(super) named: Vec<(usize, Wanted)>,
    pub(super) problems: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) named: Named,
    /// The place after which to go on.
    pub(super) since: Option<i64>,
}

/// Reads a command. Otherwise, the frame that says what is wrong with it.
pub(super) fn read(text: &str) -> Result<Command, String> {
    let Ok(Value::Object(members)) = serde_json::from_str(text) else {
        return Err(error("invalid_json"));
    };
    match members.get("action").and_then(Value::as_str) {
        Some("subscribe") => subscribe(&members),
        Some("unsubscribe") => unsubscribe(&members),
        Some("ping") => Ok(Command::Ping),
        _ => Err(error("unknown_action")),
    }
}

fn subscribe(members: &Map<String, Value>) -> Result<Command, String> {
    let refused = |details: &str| Err(error_details("invalid_subscribe_payload", details));
    let list = match members.get("meetings") {
        Some(Value::Array(list)) if list.is_empty() => {
            return refused("'meetings' list cannot be empty");
        }
        Some(Value::Array(list)) => list,
        _ => return refused("'meetings' must be a non-empty list"),
    };
    let items = items(list);
    if items.named.is_empty() {
        return refused("no valid meeting objects");
    }
    Ok(Command::Subscribe(items))
}

fn unsubscribe(members: &Map<String, Value>) -> Result<Command, String> {
    let Some(Value::Array(list)) = members.get("meetings") else {
        let details = "'meetings' must be a list";
        return Err(error_details("invalid_unsubscribe_payload", details));
    };
    Ok(Command::Unsubscribe(items(list)))
}

fn items(list: &[Value]) -> Items {
    let mut items = Items::default();
    for (index, value) in list.iter().enumerate().take(ITEMS_MAX) {
        match item(value) {
            Ok(wanted) => items.named.push((index, wanted)),
            Err(problem) => items.problems.push(format!("meetings[{index}] {problem}")),
        }
    }
    if list.len() > ITEMS_MAX {
        items.problems.push(format!("meetings[{ITEMS_MAX}] and those after it are too many"));
    }
    items
}

fn item(value: &Value) -> Result<Wanted, &'static str> {
    let Value::Object(members) = value else { return Err("must be an object") };
    let since = match members.get("since") {
        None | Some(Value::Null) => None,
        Some(value) => match value.as_i64() {
            Some(seq) if seq >= 0 => Some(seq),
            _ => return Err("'since' must be a whole number from 0 on"),
        },
    };
    if let Some(id) = members.get("meeting_id").filter(|id| !id.is_null()) {
        let id = id.as_i64().ok_or("'meeting_id' must be a whole number")?;
        return Ok(Wanted { named: Named::Meeting(MeetingId::new(id)), since });
    }
    let text = |name: &str| members.get(name).and_then(plain).filter(|text| !text.is_empty());
    let native_id = text("native_id").or_else(|| text("native_meeting_id"));
    match (text("platform"), native_id) {
        (Some(platform), Some(native_id)) => {
            Ok(Wanted { named: Named::Address { platform, native_id }, since })
        }
        _ => Err("missing 'platform' or 'native_id'"),
    }
}

/// Ids that consist of digits are often sent as numbers.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Value {
        serde_json::from_str(&read(text).unwrap_err()).unwrap()
    }

    fn details(text: &str, word: &str) -> String {
        let frame = frame(text);
        assert_eq!((&frame["type"], &frame["error"]), (&"error".into(), &word.into()), "{text}");
        frame["details"].as_str().unwrap().to_owned()
    }

    #[test]
    fn what_is_no_command_is_told_so() {
        for text in ["", "{", "7", "[1]", "null", "\"x\"", "{\"action\""] {
            assert_eq!(frame(text)["error"], "invalid_json", "{text}");
        }
        for text in ["{}", r#"{"action":7}"#, r#"{"action":"dance"}"#] {
            assert_eq!(frame(text)["error"], "unknown_action", "{text}");
        }
        assert_eq!(read(r#"{"action":"ping","x":1}"#), Ok(Command::Ping));
    }

    #[test]
    fn a_wish_without_meetings_is_refused_in_the_known_words() {
        let subscribe = |meetings: &str| format!(r#"{{"action":"subscribe"{meetings}}}"#);
        let word = "invalid_subscribe_payload";
        for meetings in ["", r#","meetings":{}"#, r#","meetings":"x""#] {
            assert_eq!(details(&subscribe(meetings), word), "'meetings' must be a non-empty list");
        }
        assert_eq!(
            details(&subscribe(r#","meetings":[]"#), word),
            "'meetings' list cannot be empty"
        );
        let none = r#","meetings":[1,{},{"platform":"zoom"},{"native_id":" "}]"#;
        assert_eq!(details(&subscribe(none), word), "no valid meeting objects");
        let word = "invalid_unsubscribe_payload";
        assert_eq!(details(r#"{"action":"unsubscribe"}"#, word), "'meetings' must be a list");
    }

    #[test]
    fn meetings_are_named_by_address_or_number() {
        let text = r#"{"action":"subscribe","meetings":[
            {"platform":" google_meet ","native_id":"abc-defg-hij"},
            {"platform":"zoom","native_meeting_id":1234567890,"since":7},
            {"meeting_id":5,"since":0},
            "x", {"platform":"zoom"}, {"meeting_id":"5"}, {"meeting_id":5,"since":-1}]}"#;
        let Ok(Command::Subscribe(items)) = read(text) else { panic!("{:?}", read(text)) };
        let address = |platform: &str, native_id: &str| Named::Address {
            platform: platform.to_owned(),
            native_id: native_id.to_owned(),
        };
        let named = [
            (0, Wanted { named: address("google_meet", "abc-defg-hij"), since: None }),
            (1, Wanted { named: address("zoom", "1234567890"), since: Some(7) }),
            (2, Wanted { named: Named::Meeting(MeetingId::new(5)), since: Some(0) }),
        ];
        assert_eq!(items.named, named);
        assert_eq!(
            items.problems,
            [
                "meetings[3] must be an object",
                "meetings[4] missing 'platform' or 'native_id'",
                "meetings[5] 'meeting_id' must be a whole number",
                "meetings[6] 'since' must be a whole number from 0 on",
            ]
        );
    }

    #[test]
    fn a_list_is_not_endless() {
        let list = vec![r#"{"meeting_id":1}"#; 150].join(",");
        let text = format!(r#"{{"action":"unsubscribe","meetings":[{list}]}}"#);
        let Ok(Command::Unsubscribe(items)) = read(&text) else { panic!() };
        assert_eq!((items.named.len(), items.problems.len()), (ITEMS_MAX, 1));
    }
}
