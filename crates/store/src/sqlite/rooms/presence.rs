//! Presence that is kept.

use bytes::Bytes;
use roundsman_core::ports::{KeepPresenceAnswer, KeptPresence};
use roundsman_core::rooms::ProjectId;
use rusqlite::{Connection, OptionalExtension, params};

use super::read;
use crate::sqlite::error::Result;

pub(super) fn kept(conn: &Connection, project: &ProjectId) -> Result<Option<KeptPresence>> {
    let mut statement = conn.prepare_cached(KEPT)?;
    let found = statement.query_row([project.as_str()], |row| {
        let bytes: Vec<u8> = row.get(1)?;
        Ok(KeptPresence { version: row.get(0)?, bytes: bytes.into() })
    });
    Ok(found.optional()?)
}

pub(super) fn version(conn: &Connection, project: &ProjectId) -> Result<i64> {
    let mut statement = conn.prepare_cached(VERSION)?;
    let found = statement.query_row([project.as_str()], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or(0))
}

pub(super) fn keep(
    conn: &Connection,
    project: &ProjectId,
    from_version: i64,
    bytes: &Bytes,
) -> Result<KeepPresenceAnswer> {
    if read::head(conn, project)?.is_none() {
        return Ok(KeepPresenceAnswer::NoSuchRoom);
    }
    if version(conn, project)? != from_version {
        return Ok(KeepPresenceAnswer::Superseded);
    }
    let version = from_version + 1;
    conn.prepare_cached(KEEP)?.execute(params![project.as_str(), version, bytes.as_ref()])?;
    Ok(KeepPresenceAnswer::Kept { version })
}

pub(super) const KEPT: &str = "-- kept_presence
    SELECT version, bytes FROM room_presence WHERE project_id = ?1";

pub(super) const VERSION: &str = "-- kept_presence_version
    SELECT version FROM room_presence WHERE project_id = ?1";

const KEEP: &str = "-- keep_presence
    INSERT INTO room_presence (project_id, version, bytes) VALUES (?1, ?2, ?3)
    ON CONFLICT (project_id) DO UPDATE SET version = excluded.version, bytes = excluded.bytes";
