//! What rooms may cost.

use std::time::Duration;

use roundsman_core::rooms::AppendRules;

/// The limits of rooms on one node.
#[derive(Debug, Clone, Copy)]
pub struct RoomLimits {
    /// Of documents, and when their logs are merged.
    pub rules: AppendRules,
    /// Connections in one room, on this node.
    pub members_max: usize,
    /// What may wait for one member before it is told to join again.
    pub mailbox_bytes_max: usize,
    /// A document that nobody has used for this long leaves memory.
    pub unload_after: Duration,
    /// Documents that are worked on at once.
    pub workers_max: usize,
    /// What somebody has said of themselves is forgotten after this time.
    pub presence_keep: Duration,
    /// Tokens of one room that hold.
    pub tokens_per_room_max: u32,
    /// Versions without a name that are kept of one room.
    pub versions_per_room_max: u32,
}

impl Default for RoomLimits {
    fn default() -> Self {
        RoomLimits {
            rules: AppendRules::default(),
            members_max: 1000,
            mailbox_bytes_max: 1024 * 1024,
            unload_after: Duration::from_secs(30),
            workers_max: 4,
            presence_keep: Duration::from_secs(30),
            tokens_per_room_max: 1000,
            versions_per_room_max: 1000,
        }
    }
}
