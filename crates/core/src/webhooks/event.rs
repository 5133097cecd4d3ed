//! What is sent.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::DeliveryState;
use crate::Timestamp;
use crate::effects::Effects;
use crate::jobs::{JobKey, Json, KindName, NewJob};
use crate::users::UserId;

/// The kind that delivers events; its key is the event's id.
pub const DELIVER_KIND: &str = "webhooks.deliver";
/// Every type of event there is.
pub const EVENT_TYPES: [&str; 11] = [
    "meeting.status_change",
    "meeting.completed",
    "bot.failed",
    "transcription.ready",
    "recording.ready",
    "audit.completed",
    "audit.failed",
    "task.completed",
    "task.failed",
    "task.cancelled",
    "alarm.fired",
];
/// The version of the bodies' shape.
const API_VERSION: &str = "2026-03-01";

/// An event that a user's endpoint is to be told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEvent {
    pub user_id: UserId,
    /// The same for the same event, however often it is sent: receivers drop what they know.
    pub event_id: String,
    /// Such as `meeting.completed`.
    pub event_type: String,
    /// The whole body, as it is signed and sent.
    pub body: Json,
}

impl WebhookEvent {
    /// An event about `data`. Its members are also at the top of the body, where clients of older
    /// Vexa releases look for them.
    pub fn new(
        user_id: UserId,
        event_id: String,
        event_type: &str,
        data: Value,
        now: Timestamp,
    ) -> Self {
        let mut body = json!({
            "type": event_type,
            "event_type": event_type,
            "event_id": event_id,
            "api_version": API_VERSION,
            "timestamp": now.to_string(),
            "created_at": now.to_string(),
        });
        if let Value::Object(members) = &data {
            for (name, value) in members {
                body[name.as_str()] = value.clone();
            }
        }
        body["data"] = data;
        let body = Json::from_stored(body.to_string());
        WebhookEvent { user_id, event_id, event_type: event_type.to_owned(), body }
    }

    /// Writes the event, and the wish to deliver it, with whatever else is written.
    pub fn add_to(self, effects: &mut Effects, now: Timestamp) {
        effects.jobs.push(deliver_wish(&self.event_id, now));
        effects.webhooks.push(self);
    }
}

/// The wish to deliver an event.
pub fn deliver_wish(event_id: &str, now: Timestamp) -> NewJob {
    NewJob {
        user_id: UserId::SYSTEM,
        kind: KindName::new(DELIVER_KIND).expect("a built-in kind has a valid name"),
        key: JobKey::new(event_id).ok(),
        payload: Json::null(),
        priority: 0,
        run_at: now,
        max_attempts: None,
        tenant: None,
    }
}

/// The id of the event that these parts name.
pub fn event_id(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digest = hash.finalize();
    format!("evt_{}", hex::encode(&digest[..16]))
}

/// An event as it is stored, with how its delivery stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    pub id: i64,
    pub event: WebhookEvent,
    pub created_at: Timestamp,
    pub state: DeliveryState,
    /// How often it was sent.
    pub attempts: u32,
    /// Since when it is to be delivered: its creation, or the latest replay.
    pub since: Timestamp,
}
