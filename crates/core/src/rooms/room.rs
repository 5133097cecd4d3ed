//! What is recorded about a room beside its document.

use super::ProjectId;
use crate::Timestamp;
use crate::users::UserId;

/// A room. Its document is the snapshot and the updates with numbers after `snapshot_seq`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    pub project: ProjectId,
    /// Whoever named the project first.
    pub owner: UserId,
    /// The number of the latest update; 0 before the first.
    pub head_seq: i64,
    /// The snapshot holds everything up to here; 0 while there is none.
    pub snapshot_seq: i64,
    pub snapshot_bytes: u64,
    /// The updates after the snapshot, together.
    pub log_bytes: u64,
    /// Since when something is not in the snapshot.
    pub dirty_since: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Room {
    /// As it is when somebody names its project.
    pub fn new(project: ProjectId, owner: UserId, now: Timestamp) -> Self {
        Room {
            project,
            owner,
            head_seq: 0,
            snapshot_seq: 0,
            snapshot_bytes: 0,
            log_bytes: 0,
            dirty_since: None,
            created_at: now,
            updated_at: now,
        }
    }

    /// Whether the log holds what the snapshot does not.
    pub fn is_dirty(&self) -> bool {
        self.head_seq > self.snapshot_seq
    }

    /// How much is stored for its document.
    pub fn document_bytes(&self) -> u64 {
        self.snapshot_bytes.saturating_add(self.log_bytes)
    }
}

/// A place in the history of a document that somebody may look at or go back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomVersion {
    /// What was stored by then: versions are named by this number, at most one for each.
    pub seq: i64,
    /// Where it is in the document's own history.
    pub frontiers: Vec<u8>,
    /// Given by a person; those without one were made with snapshots.
    pub name: Option<String>,
    pub at: Timestamp,
}
