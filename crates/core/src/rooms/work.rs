//! The jobs of rooms.

use super::ProjectId;
use crate::Timestamp;
use crate::jobs::{JobKey, Json, KindName, NewJob};
use crate::users::UserId;

/// Merges the log of a room into a snapshot; its key is the project. Known to users as the alarm
/// `snapshot`.
pub const SNAPSHOT_KIND: &str = "rooms.snapshot";

/// A wish for a snapshot. Owned by the system, so that a user cannot cancel what keeps a promise.
pub fn snapshot_wish(project: &ProjectId, run_at: Timestamp) -> NewJob {
    NewJob {
        user_id: UserId::SYSTEM,
        kind: KindName::new(SNAPSHOT_KIND).expect("a built-in kind has a valid name"),
        key: JobKey::new(project.as_str()).ok(),
        payload: Json::null(),
        priority: 0,
        run_at,
        max_attempts: None,
        tenant: None,
    }
}
