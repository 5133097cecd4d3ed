//! What the server says on a live connection beside the frames of meetings.

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::MeetingRow;
use serde::Serialize;
use serde_json::{Value, json};

/// A meeting that somebody listens to, as they are told of it.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) platform: String,
    pub(super) native_id: Option<String>,
    pub(super) meeting_id: MeetingId,
    /// The last frame that was sent, or the one before the first that will be.
    pub(super) seq: i64,
}

impl Heard {
    pub(super) fn new(row: &MeetingRow, seq: i64) -> Self {
        let meeting = &row.meeting;
        Heard {
            platform: meeting.platform.clone(),
            native_id: meeting.native_id.clone(),
            meeting_id: meeting.id,
            seq,
        }
    }
}

pub(super) fn error(word: &str) -> String {
    json!({ "type": "error", "error": word }).to_string()
}

pub(super) fn error_details(word: &str, details: impl Into<Value>) -> String {
    json!({ "type": "error", "error": word, "details": details.into() }).to_string()
}

/// What Vexa's gateway says when the service behind it refuses.
pub(super) fn refused(status: u16, detail: &str) -> String {
    json!({
        "type": "error",
        "error": "authorization_service_error",
        "status": status,
        "detail": json!({ "detail": detail }).to_string(),
    })
    .to_string()
}

pub(super) fn pong() -> String {
    json!({ "type": "pong" }).to_string()
}

pub(super) fn subscribed(meetings: &[Heard]) -> String {
    json!({ "type": "subscribed", "meetings": meetings }).to_string()
}

pub(super) fn unsubscribed(meetings: &[Heard]) -> String {
    json!({ "type": "unsubscribed", "meetings": meetings }).to_string()
}
