//! The section about rooms and their documents.

use std::time::Duration;

use roundsman_core::rooms::AppendRules;
use roundsman_engine::rooms::RoomLimits;
use roundsman_web::RoomSocketLimits;

use super::reader::Reader;
use super::sections::{hours, ms, secs};

#[derive(Debug, Clone)]
pub(crate) struct Rooms {
    pub(crate) limits: RoomLimits,
    pub(crate) sockets: RoomSocketLimits,
    pub(crate) look: Duration,
}

impl Rooms {
    pub(super) fn read(reader: &mut Reader<'_>) -> Rooms {
        let rules = AppendRules {
            document_bytes_max: reader.number("rooms.document_bytes_max", 1024..=1 << 30),
            snapshot_after: reader.duration("rooms.snapshot_secs", ms(100)..=hours(24)),
            snapshot_updates: reader.number("rooms.snapshot_updates", 1..=100_000),
            snapshot_log_bytes: reader.number("rooms.snapshot_log_bytes", 1..=1 << 30),
        };
        Rooms {
            limits: RoomLimits {
                rules,
                members_max: reader.number("rooms.members_max", 1..=100_000),
                mailbox_bytes_max: reader.number("rooms.mailbox_bytes_max", 1024..=1 << 30),
                unload_after: reader.duration("rooms.unload_secs", ms(0)..=hours(24)),
                workers_max: reader.number("rooms.workers_max", 1..=1000),
                presence_keep: reader.duration("rooms.presence_secs", secs(1)..=hours(24)),
                tokens_per_room_max: reader.number("rooms.tokens_per_room_max", 1..=100_000),
                versions_per_room_max: reader.number("rooms.versions_per_room_max", 1..=1_000_000),
            },
            sockets: RoomSocketLimits {
                batch_bytes_max: reader.number("rooms.batch_bytes_max", 1024..=1 << 30),
                fragments_max: reader.number("rooms.fragments_max", 1..=1_000_000),
                updates_per_sec_max: reader.number("rooms.updates_per_sec_max", 1..=100_000),
                rooms_max: reader.number("rooms.rooms_per_connection_max", 1..=100_000),
                ..RoomSocketLimits::default()
            },
            look: reader.duration("rooms.look_secs", ms(100)..=hours(1)),
        }
    }
}
