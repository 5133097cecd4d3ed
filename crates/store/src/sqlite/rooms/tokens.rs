//! Room tokens.

use roundsman_core::Timestamp;
use roundsman_core::rooms::{ProjectId, RoomToken, RoomTokenId, RoomTokenWish};
use rusqlite::{Connection, Params, Row, params};

use super::read::head;
use crate::rows::rooms::RoomTokenColumns;
use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

pub(super) fn create(
    conn: &Connection,
    wish: &RoomTokenWish,
    now: Timestamp,
) -> Result<Option<RoomToken>> {
    if head(conn, &wish.project)?.is_none() {
        return Ok(None);
    }
    let values = params![
        wish.project.as_str(),
        wish.permission.as_str(),
        wish.name,
        wish.hash.as_bytes(),
        At(now),
        At(wish.expires_at),
    ];
    first(conn, INSERT, values)
}

pub(super) fn one(conn: &Connection, id: RoomTokenId) -> Result<Option<RoomToken>> {
    first(conn, ONE, [id.get()])
}

pub(super) fn list(
    conn: &Connection,
    project: &ProjectId,
    now: Timestamp,
    rows_max: u32,
) -> Result<Vec<RoomToken>> {
    let mut statement = conn.prepare_cached(LIST)?;
    let mut rows = statement.query(params![project.as_str(), At(now), rows_max])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

pub(super) fn extend(
    conn: &Connection,
    project: &ProjectId,
    id: RoomTokenId,
    expires_at: Timestamp,
) -> Result<Option<RoomToken>> {
    first(conn, EXTEND, params![id.get(), project.as_str(), At(expires_at)])
}

pub(super) fn revoke(
    conn: &Connection,
    project: &ProjectId,
    id: RoomTokenId,
    now: Timestamp,
) -> Result<bool> {
    let mut statement = conn.prepare_cached(REVOKE)?;
    Ok(statement.execute(params![id.get(), project.as_str(), At(now)])? > 0)
}

fn first(conn: &Connection, sql: &str, values: impl Params) -> Result<Option<RoomToken>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    rows.next()?.map(read).transpose()
}

fn read(row: &Row<'_>) -> Result<RoomToken> {
    let columns = RoomTokenColumns {
        id: row.get(0)?,
        project: row.get(1)?,
        permission: row.get(2)?,
        name: row.get(3)?,
        secret_hash: row.get(4)?,
        created_at: row.get(5).map(|At(at)| at)?,
        expires_at: row.get(6).map(|At(at)| at)?,
        revoked_at: row.get(7).map(optional)?,
    };
    Ok(columns.into_token()?)
}

macro_rules! columns {
    () => {
        "id, project_id, permission, name, secret_hash, created_at, expires_at, revoked_at"
    };
}

const INSERT: &str = concat!(
    "-- insert
    INSERT INTO room_tokens (project_id, permission, name, secret_hash, created_at, expires_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    RETURNING ",
    columns!()
);

const ONE: &str = concat!(
    "-- one
    SELECT ",
    columns!(),
    " FROM room_tokens WHERE id = ?1"
);

pub(super) const LIST: &str = concat!(
    "-- list
    SELECT ",
    columns!(),
    " FROM room_tokens INDEXED BY room_tokens_project
     WHERE project_id = ?1 AND expires_at > ?2 AND revoked_at IS NULL
     ORDER BY id DESC LIMIT ?3"
);

const EXTEND: &str = concat!(
    "-- extend
    UPDATE room_tokens SET expires_at = ?3
     WHERE id = ?1 AND project_id = ?2 AND revoked_at IS NULL
    RETURNING ",
    columns!()
);

const REVOKE: &str = "-- revoke
    UPDATE room_tokens SET revoked_at = ?3
     WHERE id = ?1 AND project_id = ?2 AND revoked_at IS NULL";
