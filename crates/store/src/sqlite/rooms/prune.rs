//! Deleting what is no longer needed.

use roundsman_core::Timestamp;
use rusqlite::{Connection, params};

use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn prune(
    conn: &Connection,
    tokens_before: Timestamp,
    versions_max: u32,
    rows_max: u32,
) -> Result<u64> {
    let tokens = conn.prepare_cached(TOKENS)?.execute(params![At(tokens_before), rows_max])?;
    let versions = conn.prepare_cached(VERSIONS)?.execute(params![versions_max, rows_max])?;
    Ok((tokens + versions) as u64)
}

pub(super) const TOKENS: &str = "-- tokens
    DELETE FROM room_tokens WHERE id IN (
        SELECT id FROM room_tokens INDEXED BY room_tokens_expires
         WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)";

/// Of every room the newest stay.
const VERSIONS: &str = "-- versions
    DELETE FROM room_versions WHERE (project_id, seq) IN (
        SELECT project_id, seq FROM (
            SELECT project_id, seq,
                   row_number() OVER (PARTITION BY project_id ORDER BY seq DESC) AS place
              FROM room_versions INDEXED BY room_versions_unnamed WHERE name IS NULL)
         WHERE place > ?1 LIMIT ?2)";
