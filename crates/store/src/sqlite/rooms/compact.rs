//! A new snapshot.

use roundsman_core::Timestamp;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{CompactAnswer, NewSnapshot};
use roundsman_core::rooms::{ProjectId, RoomVersion, compacted};
use rusqlite::{Connection, params};

use super::append::write_room;
use super::{read, versions};
use crate::rows::rooms::size_of;
use crate::sqlite::effects::is_held;
use crate::sqlite::error::Result;

pub(super) fn compact(
    conn: &Connection,
    project: &ProjectId,
    snapshot: &NewSnapshot,
    guard: LeaseRef,
    now: Timestamp,
) -> Result<CompactAnswer> {
    if !is_held(conn, guard)? {
        return Ok(CompactAnswer::LeaseLost);
    }
    let Some(room) = read::room(conn, project)? else { return Ok(CompactAnswer::NoSuchRoom) };
    if room.snapshot_seq != snapshot.from_seq || room.head_seq < snapshot.through_seq {
        return Ok(CompactAnswer::Superseded);
    }
    conn.prepare_cached(PUT)?.execute(params![project.as_str(), snapshot.bytes.as_ref()])?;
    conn.prepare_cached(DELETE)?.execute(params![project.as_str(), snapshot.through_seq])?;
    let left: i64 = conn.prepare_cached(WEIGHT)?.query_row([project.as_str()], |row| row.get(0))?;
    let bytes = size_of(&snapshot.bytes);
    let after = compacted(&room, snapshot.through_seq, bytes, left.unsigned_abs(), now);
    write_room(conn, &after)?;
    let frontiers = snapshot.frontiers.clone();
    let version = RoomVersion { seq: snapshot.through_seq, frontiers, name: None, at: now };
    versions::keep(conn, project, &version)?;
    Ok(CompactAnswer::Compacted(Box::new(after)))
}

const PUT: &str = "-- put
    INSERT INTO room_snapshots (project_id, bytes) VALUES (?1, ?2)
    ON CONFLICT (project_id) DO UPDATE SET bytes = excluded.bytes";

pub(super) const DELETE: &str = "-- delete
    DELETE FROM room_updates WHERE project_id = ?1 AND seq <= ?2";

pub(super) const WEIGHT: &str = "-- weight
    SELECT coalesce(sum(length(payload)), 0) FROM room_updates WHERE project_id = ?1";
