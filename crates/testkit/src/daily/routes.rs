//! Daily's REST API, as far as anybody here asks it.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use serde_json::{Value, json};

use super::faults::{Fault, expired, too_many};
use super::http::{Reply, Request};
use super::meter::Route;
use super::{DOMAIN, Shared, State};

/// Most people in an answer about a room, unless it is asked otherwise.
const LIMIT_DEFAULT: usize = 100_000;
const NAME_CHARS_MAX: usize = 128;

/// Answers one request.
pub(super) async fn answer(shared: Arc<Shared>, request: Request) -> Reply {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let path = path.strip_prefix(&["v1"]).unwrap_or(&path);
    let route = route(&request.method, path);
    let fault = match shared.admit(route, &request) {
        Ok(fault) => fault,
        Err(refusal) => return refusal,
    };
    if let Some(reply) = fault.as_ref().and_then(|fault| fault.instead(route)) {
        return reply;
    }
    let older = match fault {
        Some(Fault::Stale(older)) => older,
        _ => Duration::ZERO,
    };
    let reply = match (request.method.as_str(), path) {
        // Somebody must answer there before a webhook is as it is wished.
        ("POST", ["webhooks"]) => shared.set_webhook(None, &request.json()).await,
        ("POST", ["webhooks", uuid]) => shared.set_webhook(Some(uuid), &request.json()).await,
        (method, path) => shared.answer(method, path, &request, older),
    };
    match fault {
        Some(fault) => fault.spoil(reply),
        None => reply,
    }
}

fn route(method: &str, path: &[&str]) -> Route {
    match (method, path) {
        ("GET", ["rooms", _, "presence"]) => Route::RoomPresence,
        ("GET", ["presence"]) => Route::DomainPresence,
        ("DELETE", ["rooms", _]) => Route::RoomDelete,
        (_, ["rooms", ..]) => Route::Rooms,
        (_, ["meeting-tokens", ..]) => Route::MeetingTokens,
        (_, ["webhooks", ..]) => Route::Webhooks,
        (_, ["recordings"]) => Route::Recordings,
        (_, ["recordings", _, "access-link"]) => Route::AccessLink,
        (_, ["recordings", _]) => Route::Recording,
        (_, ["files", ..]) => Route::File,
        _ => Route::Other,
    }
}

impl Shared {
    /// Counts the request, and draws what goes wrong with it.
    fn admit(&self, route: Route, request: &Request) -> Result<Option<Fault>, Reply> {
        let mut state = self.state();
        let (is_limited, retry_after) = (state.is_limited, state.retry_after_secs);
        if !state.meter.count(route, self.clock.monotonic(), is_limited) {
            return Err(too_many(retry_after));
        }
        if route != Route::File {
            let key = request.header("authorization").map(|value| value.strip_prefix("Bearer "));
            match key {
                None => return Err(Reply::error(400, "authorization-header-error", "no key")),
                Some(Some(key)) if key == self.api_key => {}
                Some(_) => return Err(Reply::error(401, "authentication-error", "a wrong key")),
            }
        }
        Ok(state.faults.draw(route, &self.random))
    }

    fn answer(&self, method: &str, path: &[&str], request: &Request, older: Duration) -> Reply {
        let now = self.clock.now();
        let mut state = self.state();
        match (method, path) {
            ("GET", ["rooms", room, "presence"]) => state.room_presence(room, request, older, now),
            ("GET", ["presence"]) => {
                let at = now - (state.lags.domain + older);
                Reply::new(200, state.rooms.presence(at, now))
            }
            ("POST", ["rooms"]) => state.create_room(&request.json(), &self.draw_uuid(), now),
            ("GET", ["rooms"]) => state.list_rooms(now),
            ("GET", ["rooms", room]) => match state.rooms.get(room, now) {
                Some(found) => Reply::json(&found.describe(room, DOMAIN)),
                None => state.no_room(room, now),
            },
            ("DELETE", ["rooms", room]) => state.delete_room(room, now),
            ("POST", ["meeting-tokens"]) => state.create_token(&request.json(), &self.draw_uuid()),
            ("GET", ["meeting-tokens", token]) => match state.tokens.get(*token) {
                Some(properties) => Reply::json(properties),
                None => Reply::error(400, "invalid-request-error", "invalid token"),
            },
            ("GET", ["webhooks"]) => Reply::json(&state.webhooks.list()),
            ("GET", ["webhooks", uuid]) => match state.webhooks.get(uuid) {
                Some(hook) => Reply::json(&hook),
                None => Reply::error(404, "not-found", "webhook not found"),
            },
            ("DELETE", ["webhooks", uuid]) if state.webhooks.delete(uuid) => Reply::new(200, ""),
            ("GET", ["recordings"]) => state.recordings.list(request),
            ("GET", ["recordings", id]) => state.recordings.read(id),
            ("DELETE", ["recordings", id]) => state.recordings.delete(id),
            ("GET", ["recordings", id, "access-link"]) => {
                state.recordings.link(id, request, &self.base_url(), now)
            }
            ("GET", ["files", id, number]) => state.recordings.file(id, number, request, now),
            _ => Reply::error(404, "not-found", "there is no such thing"),
        }
    }
}

impl State {
    fn room_presence(
        &self,
        room: &str,
        request: &Request,
        older: Duration,
        now: Timestamp,
    ) -> Reply {
        let Some(found) = self.rooms.get(room, now) else { return self.no_room(room, now) };
        let limit = request.query("limit").and_then(|limit| limit.parse().ok());
        let at = now - (self.lags.room + older);
        Reply::new(200, found.presence(room, at, limit.unwrap_or(LIMIT_DEFAULT)))
    }

    fn create_room(&mut self, wish: &Value, id: &str, now: Timestamp) -> Reply {
        let invalid = |info: &str| Reply::error(400, "invalid-request-error", info);
        let name = match wish.get("name") {
            None | Some(Value::Null) => id.replace('-', ""),
            Some(Value::String(name)) => name.clone(),
            Some(_) => return invalid("name is not a text"),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_name) {
            return invalid("the name contains invalid characters");
        }
        if self.rooms.get(&name, now).is_some() {
            return invalid(&format!("a room named {name} already exists"));
        }
        self.rooms.remove(&name);
        let room = self.rooms.make(&name, id.to_owned(), now);
        if let Some(privacy) = wish.get("privacy").and_then(Value::as_str) {
            privacy.clone_into(&mut room.privacy);
        }
        if let Some(properties) = wish.get("properties").filter(|value| value.is_object()) {
            room.properties = properties.clone();
        }
        let expires = room.properties.get("exp").and_then(Value::as_i64);
        room.expires_at = expires.map(|secs| Timestamp::from_micros(secs * 1_000_000));
        Reply::json(&room.describe(&name, DOMAIN))
    }

    fn list_rooms(&self, now: Timestamp) -> Reply {
        let rooms = self.rooms.list(now);
        let data: Vec<Value> =
            rooms.iter().take(100).map(|(name, room)| room.describe(name, DOMAIN)).collect();
        Reply::json(&json!({"total_count": rooms.len(), "data": data}))
    }

    fn delete_room(&mut self, room: &str, now: Timestamp) -> Reply {
        if self.rooms.get(room, now).is_none() {
            return self.no_room(room, now);
        }
        self.rooms.remove(room);
        Reply::json(&json!({"deleted": true, "name": room}))
    }

    fn no_room(&self, room: &str, now: Timestamp) -> Reply {
        if self.rooms.is_expired(room, now) {
            return expired(room);
        }
        Reply::error(404, "not-found", &format!("room {room} not found"))
    }

    fn create_token(&mut self, wish: &Value, token: &str) -> Reply {
        let Some(properties) = wish.get("properties").filter(|value| value.is_object()) else {
            return Reply::error(400, "invalid-request-error", "properties are missing");
        };
        self.tokens.insert(token.to_owned(), properties.clone());
        Reply::json(&json!({ "token": token }))
    }
}
