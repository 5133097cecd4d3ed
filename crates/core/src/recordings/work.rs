//! The jobs of recordings.

use super::RecordingId;
use crate::Timestamp;
use crate::bots::MeetingId;
use crate::jobs::{JobKey, Json, KindName, NewJob};
use crate::users::UserId;

/// Downloads, transcribes and saves one recording; its key is the provider's id.
pub const PROCESS_KIND: &str = "recordings.process";
/// Reads the provider's list for what its events have lost.
pub const POLL_KIND: &str = "recordings.poll";
/// Tries those that have failed once more, every night.
pub const RETRY_KIND: &str = "recordings.retry";
/// Deletes the media of a meeting; its key is the meeting's number.
pub const ERASE_KIND: &str = "recordings.erase";

pub fn process_wish(id: &RecordingId, run_at: Timestamp) -> NewJob {
    wish(PROCESS_KIND, id.as_str(), run_at)
}

pub fn erase_wish(meeting: MeetingId, run_at: Timestamp) -> NewJob {
    wish(ERASE_KIND, &meeting.to_string(), run_at)
}

/// Owned by the system, so that a user cannot cancel what keeps a promise to them.
fn wish(kind: &str, key: &str, run_at: Timestamp) -> NewJob {
    NewJob {
        user_id: UserId::SYSTEM,
        kind: KindName::new(kind).expect("a built-in kind has a valid name"),
        key: JobKey::new(key).ok(),
        payload: Json::null(),
        priority: 0,
        run_at,
        max_attempts: None,
        tenant: None,
    }
}
