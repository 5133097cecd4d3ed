//! How a meeting looks to others: in the words and shapes that Vexa's clients know, with our own
//! word for the status beside theirs.

use serde_json::{Value, json};

use super::{Bot, BotRecord, Meeting, MeetingAddress, Platform};
use crate::Timestamp;
use crate::presence::PresenceStatus;

/// A meeting as answers, frames and webhooks show it.
pub fn meeting_body(meeting: &Meeting, bot: Option<&Bot>) -> Value {
    let status = meeting.bot_status();
    json!({
        "id": meeting.id.get(),
        "user_id": meeting.user_id.get(),
        "platform": meeting.platform,
        "native_meeting_id": meeting.native_id,
        "constructed_meeting_url": meeting_url(meeting, bot),
        "status": vexa_status(meeting, bot),
        "state": status.map_or(meeting.status.as_str(), |status| status.as_str()),
        "bot_container_id": meeting.container_id,
        "start_time": meeting.start_time.map(Timestamp::naive),
        "end_time": meeting.end_time.map(Timestamp::naive),
        "data": meeting.data.to_value(),
        "created_at": meeting.created_at.naive(),
        "updated_at": meeting.updated_at.naive(),
        "completion_reason": bot.and_then(|bot| bot.completion_reason.as_deref()),
        "failure_stage": bot.and_then(|bot| bot.failure_stage.as_deref()),
    })
}

/// The status of a meeting in the words of Vexa's clients, who rely on knowing every one of them.
pub fn vexa_status(meeting: &Meeting, bot: Option<&Bot>) -> &'static str {
    match meeting.bot_status() {
        Ok(status) => status.as_vexa(bot.and_then(|bot| bot.stage)),
        // A room in which people may be, without a bot.
        Err(_) if meeting.status == PresenceStatus::Open.as_str() => "active",
        // What is not known is shown as over, as in Vexa.
        Err(_) => "completed",
    }
}

/// The address a person would open, if one can be made.
pub fn meeting_url(meeting: &Meeting, bot: Option<&Bot>) -> Option<String> {
    if let Some(url) = bot.and_then(|bot| bot.wish.meeting_url.clone()) {
        return Some(url);
    }
    let platform = Platform::parse(&meeting.platform).ok()?;
    let passcode = bot.and_then(|bot| bot.wish.passcode.as_deref());
    let address = MeetingAddress::new(platform, meeting.native_id.as_deref()?, passcode).ok()?;
    address.url()
}

/// The frame that tells listeners of a status.
pub(super) fn status_frame(record: &BotRecord, now: Timestamp) -> Value {
    json!({
        "type": "meeting.status",
        "meeting": {
            "id": record.meeting.id.get(),
            "platform": record.meeting.platform,
            "native_id": record.meeting.native_id,
        },
        "payload": { "status": record.vexa_status(), "state": record.status.as_str() },
        "user_id": record.meeting.user_id.get(),
        "ts": now.naive(),
    })
}
