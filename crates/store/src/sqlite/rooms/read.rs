//! Reading rooms and their documents.

use roundsman_core::Timestamp;
use roundsman_core::ports::{RoomCounts, RoomTail, Scope, StoredRoom};
use roundsman_core::rooms::{ProjectId, Room, StoredUpdate};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::rows::rooms::{RoomColumns, update_of};
use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

macro_rules! room_columns {
    () => {
        "project_id, user_id, head_seq, snapshot_seq, snapshot_bytes, log_bytes, dirty_since, \
         created_at, updated_at"
    };
}

fn read_room(row: &Row<'_>) -> Result<Room> {
    let columns = RoomColumns {
        project: row.get(0)?,
        user_id: row.get(1)?,
        head_seq: row.get(2)?,
        snapshot_seq: row.get(3)?,
        snapshot_bytes: row.get(4)?,
        log_bytes: row.get(5)?,
        dirty_since: row.get(6).map(optional)?,
        created_at: row.get(7).map(|At(at)| at)?,
        updated_at: row.get(8).map(|At(at)| at)?,
    };
    Ok(columns.into_room()?)
}

pub(super) fn room(conn: &Connection, project: &ProjectId) -> Result<Option<Room>> {
    let mut statement = conn.prepare_cached(ROOM)?;
    let mut rows = statement.query([project.as_str()])?;
    rows.next()?.map(read_room).transpose()
}

pub(super) fn rooms(
    conn: &Connection,
    scope: Scope,
    after: Option<&ProjectId>,
    rows_max: u32,
) -> Result<Vec<Room>> {
    let after = after.map_or("", ProjectId::as_str);
    let (sql, user) = match scope {
        Scope::All => (ALL, 0),
        Scope::User(user) => (OF_USER, user.get()),
    };
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![after, rows_max, user])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read_room(row)?);
    }
    Ok(found)
}

pub(super) fn load(conn: &Connection, project: &ProjectId) -> Result<Option<StoredRoom>> {
    let Some(room) = room(conn, project)? else { return Ok(None) };
    let mut statement = conn.prepare_cached(SNAPSHOT)?;
    let snapshot: Option<Vec<u8>> =
        statement.query_row([project.as_str()], |row| row.get(0)).optional()?;
    let updates = updates(conn, project, room.snapshot_seq, u32::MAX)?;
    Ok(Some(StoredRoom { room, snapshot: snapshot.map(Into::into), updates }))
}

pub(super) fn tail(
    conn: &Connection,
    project: &ProjectId,
    after_seq: i64,
    rows_max: u32,
) -> Result<Option<RoomTail>> {
    let Some(room) = room(conn, project)? else { return Ok(None) };
    let updates = updates(conn, project, after_seq, rows_max)?;
    let Room { head_seq, snapshot_seq, .. } = room;
    Ok(Some(RoomTail { head_seq, snapshot_seq, updates }))
}

fn updates(
    conn: &Connection,
    project: &ProjectId,
    after_seq: i64,
    rows_max: u32,
) -> Result<Vec<StoredUpdate>> {
    let mut statement = conn.prepare_cached(UPDATES)?;
    let mut rows = statement.query(params![project.as_str(), after_seq, rows_max])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(update_of(row.get(0)?, row.get(1)?, &row.get::<_, String>(2)?)?);
    }
    Ok(found)
}

pub(super) fn head(conn: &Connection, project: &ProjectId) -> Result<Option<i64>> {
    let mut statement = conn.prepare_cached(HEAD)?;
    Ok(statement.query_row([project.as_str()], |row| row.get(0)).optional()?)
}

pub(super) fn stale(
    conn: &Connection,
    before: Timestamp,
    after: Option<&ProjectId>,
    rows_max: u32,
) -> Result<Vec<ProjectId>> {
    let after = after.map_or("", ProjectId::as_str);
    let mut statement = conn.prepare_cached(STALE)?;
    let rows = statement.query_map(params![At(before), after, rows_max], |row| {
        row.get(0).map(ProjectId::from_stored)
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn counts(conn: &Connection) -> Result<RoomCounts> {
    let mut statement = conn.prepare_cached(COUNTS)?;
    let (rooms, dirty): (i64, i64) =
        statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(RoomCounts { rooms: rooms.unsigned_abs(), dirty: dirty.unsigned_abs() })
}

pub(super) const ROOM: &str = concat!(
    "-- room
    SELECT ",
    room_columns!(),
    " FROM rooms WHERE project_id = ?1"
);

const ALL: &str = concat!(
    "-- all
    SELECT ",
    room_columns!(),
    " FROM rooms WHERE project_id > ?1 AND ?3 = 0 ORDER BY project_id LIMIT ?2"
);

pub(super) const OF_USER: &str = concat!(
    "-- of_user
    SELECT ",
    room_columns!(),
    " FROM rooms INDEXED BY rooms_user
     WHERE user_id = ?3 AND project_id > ?1 ORDER BY project_id LIMIT ?2"
);

pub(super) const SNAPSHOT: &str = "-- snapshot
    SELECT bytes FROM room_snapshots WHERE project_id = ?1";

pub(super) const UPDATES: &str = "-- updates
    SELECT seq, payload, origin FROM room_updates
     WHERE project_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";

const HEAD: &str = "-- head
    SELECT head_seq FROM rooms WHERE project_id = ?1";

/// Few are dirty at any time, and fewer for long: they are sorted by name afterwards.
const STALE: &str = "-- stale
    SELECT project_id FROM rooms INDEXED BY rooms_dirty
     WHERE dirty_since < ?1 AND project_id > ?2 ORDER BY project_id LIMIT ?3";

const COUNTS: &str = "-- counts
    SELECT (SELECT count(*) FROM rooms),
           (SELECT count(*) FROM rooms INDEXED BY rooms_dirty WHERE dirty_since IS NOT NULL)";
