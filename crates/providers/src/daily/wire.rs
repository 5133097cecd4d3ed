//! What is written to Daily, and its answers about single things.

use roundsman_core::Timestamp;
use roundsman_core::ports::{
    CreatedRoom, NewRoom, NewRoomToken, NewSubscription, RoomsError, Subscription,
};
use roundsman_core::presence::RoomName;
use serde_json::{Map, Value, json};
use url::Url;

/// Tried again for each event, and never switched off for all.
const RETRY_TYPE: &str = "exponential";

pub(super) fn new_room(room: &NewRoom) -> Value {
    let mut properties = Map::new();
    properties.extend(room.expires_at.map(|at| ("exp".to_owned(), json!(seconds(at)))));
    let recording = room.recording.as_ref();
    properties.extend(recording.map(|sort| ("enable_recording".to_owned(), json!(sort))));
    let mut body = Map::new();
    body.extend(room.name.as_ref().map(|name| ("name".to_owned(), json!(name.as_str()))));
    let privacy = if room.is_private { "private" } else { "public" };
    body.insert("privacy".to_owned(), json!(privacy));
    body.insert("properties".to_owned(), Value::Object(properties));
    Value::Object(body)
}

pub(super) fn new_token(token: &NewRoomToken) -> Value {
    let mut properties = Map::new();
    properties.insert("room_name".to_owned(), json!(token.room.as_str()));
    properties.insert("is_owner".to_owned(), json!(token.is_owner));
    for (name, text) in [("user_id", &token.user_id), ("user_name", &token.user_name)] {
        properties.extend(text.as_ref().map(|text| (name.to_owned(), json!(text))));
    }
    properties.extend(token.expires_at.map(|at| ("exp".to_owned(), json!(seconds(at)))));
    json!({ "properties": properties })
}

pub(super) fn new_subscription(wish: &NewSubscription) -> Value {
    json!({
        "url": wish.url, "hmac": wish.secret, "eventTypes": wish.event_types,
        "retryType": RETRY_TYPE,
    })
}

pub(super) fn object(body: &[u8]) -> Result<Value, RoomsError> {
    let value: Value = serde_json::from_slice(body).map_err(|error| odd(&error.to_string()))?;
    if value.is_object() { Ok(value) } else { Err(odd("it is not an object")) }
}

pub(super) fn created_room(body: &[u8]) -> Result<CreatedRoom, RoomsError> {
    let room = object(body)?;
    let name = RoomName::new(text(&room, "name")?).map_err(|error| odd(&error.to_string()))?;
    Ok(CreatedRoom { name, url: text(&room, "url")?.to_owned() })
}

pub(super) fn token(body: &[u8]) -> Result<String, RoomsError> {
    Ok(text(&object(body)?, "token")?.to_owned())
}

pub(super) fn subscription(value: &Value) -> Result<Subscription, RoomsError> {
    let types = value.get("eventTypes").and_then(Value::as_array);
    let types = types.into_iter().flatten().filter_map(Value::as_str);
    Ok(Subscription {
        id: text(value, "uuid")?.to_owned(),
        url: text(value, "url")?.to_owned(),
        state: value.get("state").and_then(Value::as_str).unwrap_or_default().to_owned(),
        event_types: types.map(str::to_owned).collect(),
    })
}

pub(super) fn subscriptions(body: &[u8]) -> Result<Vec<Subscription>, RoomsError> {
    let listed: Value = serde_json::from_slice(body).map_err(|error| odd(&error.to_string()))?;
    let listed = listed.as_array().ok_or_else(|| odd("it is not a list"))?;
    listed.iter().map(subscription).collect()
}

/// The link as it is written, because its signature is about every letter; an error may stand in
/// its place.
pub(super) fn access_link(body: &[u8]) -> Result<String, RoomsError> {
    let answer = object(body)?;
    let link = text(&answer, "download_link")?;
    let url = Url::parse(link).ok().filter(Url::has_host);
    match url.map(|url| url.scheme().to_owned()).as_deref() {
        Some("https" | "http") => Ok(link.to_owned()),
        _ => Err(odd("the link is no address")),
    }
}

/// Some deletions are answered with nothing at all.
pub(super) fn is_deleted(body: &[u8]) -> Result<bool, RoomsError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(true);
    }
    let is_deleted = object(body)?.get("deleted").and_then(Value::as_bool);
    is_deleted.ok_or_else(|| odd("it does not say what was deleted"))
}

fn text<'a>(of: &'a Value, name: &str) -> Result<&'a str, RoomsError> {
    let text = of.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.ok_or_else(|| odd(&format!("it has no {name}")))
}

/// Whole seconds, and rather later than earlier.
fn seconds(at: Timestamp) -> i64 {
    let micros = at.as_micros();
    micros.div_euclid(1_000_000) + i64::from(micros.rem_euclid(1_000_000) > 0)
}

fn odd(reason: &str) -> RoomsError {
    RoomsError::Odd(reason.to_owned())
}
