//! Places in the history of documents.

use roundsman_core::rooms::{ProjectId, RoomVersion};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn keep(conn: &Connection, project: &ProjectId, version: &RoomVersion) -> Result<()> {
    conn.prepare_cached(KEEP)?.execute(params![
        project.as_str(),
        version.seq,
        version.frontiers,
        version.name,
        At(version.at),
    ])?;
    Ok(())
}

pub(super) fn list(
    conn: &Connection,
    project: &ProjectId,
    before: Option<i64>,
    rows_max: u32,
) -> Result<Vec<RoomVersion>> {
    let mut statement = conn.prepare_cached(LIST)?;
    let before = before.unwrap_or(i64::MAX);
    let rows = statement.query_map(params![project.as_str(), before, rows_max], read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn one(conn: &Connection, project: &ProjectId, seq: i64) -> Result<Option<RoomVersion>> {
    let mut statement = conn.prepare_cached(ONE)?;
    Ok(statement.query_row(params![project.as_str(), seq], read).optional()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<RoomVersion> {
    Ok(RoomVersion {
        seq: row.get(0)?,
        frontiers: row.get(1)?,
        name: row.get(2)?,
        at: row.get(3).map(|At(at)| at)?,
    })
}

const KEEP: &str = "-- keep
    INSERT INTO room_versions (project_id, seq, frontiers, name, at) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (project_id, seq) DO UPDATE SET name = coalesce(excluded.name, name)";

pub(super) const LIST: &str = "-- list
    SELECT seq, frontiers, name, at FROM room_versions
     WHERE project_id = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3";

const ONE: &str = "-- one
    SELECT seq, frontiers, name, at FROM room_versions WHERE project_id = ?1 AND seq = ?2";
