//! One more update.

use roundsman_core::Timestamp;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::AppendAnswer;
use roundsman_core::rooms::{self, AppendedUpdate, NewUpdate, Room};
use rusqlite::{Connection, params};

use super::read;
use crate::rows::rooms::{size_of, stored_size};
use crate::sqlite::effects;
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn append(
    conn: &Connection,
    catalog: &KindCatalog,
    update: &NewUpdate,
    now: Timestamp,
) -> Result<AppendAnswer> {
    let Some(room) = read::room(conn, &update.project)? else {
        return Ok(AppendAnswer::NoSuchRoom);
    };
    let bytes = size_of(&update.payload);
    let (after, effects) = match rooms::append(&room, bytes, &update.rules, now) {
        Ok(appended) => appended,
        Err(full) => return Ok(AppendAnswer::Full(full)),
    };
    conn.prepare_cached(INSERT)?.execute(params![
        update.project.as_str(),
        after.head_seq,
        update.payload.as_ref(),
        update.origin.as_str(),
        At(now),
    ])?;
    write_room(conn, &after)?;
    effects::apply(conn, catalog, effects, now)?;
    Ok(AppendAnswer::Appended { seq: after.head_seq })
}

/// Stores an update with something else that happens, in the caller's transaction. `None` if there is
/// no such room, or the document may not grow.
pub(in crate::sqlite) fn append_one(
    conn: &Connection,
    catalog: &KindCatalog,
    update: NewUpdate,
    now: Timestamp,
) -> Result<Option<AppendedUpdate>> {
    let AppendAnswer::Appended { seq } = append(conn, catalog, &update, now)? else {
        return Ok(None);
    };
    Ok(Some(AppendedUpdate { project: update.project, seq, payload: update.payload }))
}

pub(super) fn write_room(conn: &Connection, room: &Room) -> Result<()> {
    conn.prepare_cached(UPDATE)?.execute(params![
        room.project.as_str(),
        room.head_seq,
        room.snapshot_seq,
        stored_size(room.snapshot_bytes),
        stored_size(room.log_bytes),
        room.dirty_since.map(At),
        At(room.updated_at),
    ])?;
    Ok(())
}

const INSERT: &str = "-- insert
    INSERT INTO room_updates (project_id, seq, payload, origin, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5)";

pub(super) const UPDATE: &str = "-- update
    UPDATE rooms
       SET head_seq = ?2, snapshot_seq = ?3, snapshot_bytes = ?4, log_bytes = ?5, dirty_since = ?6,
           updated_at = ?7
     WHERE project_id = ?1";
