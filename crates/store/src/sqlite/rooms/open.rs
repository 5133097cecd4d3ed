//! Naming a project.

use roundsman_core::Timestamp;
use roundsman_core::ports::OpenRoomAnswer;
use roundsman_core::rooms::{ProjectId, Room};
use roundsman_core::users::UserId;
use rusqlite::{Connection, params};

use super::read;
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn open(
    conn: &Connection,
    user: UserId,
    project: ProjectId,
    now: Timestamp,
) -> Result<OpenRoomAnswer> {
    if let Some(room) = read::room(conn, &project)? {
        return Ok(if room.owner == user {
            OpenRoomAnswer::Open { room, is_new: false }
        } else {
            OpenRoomAnswer::Foreign
        });
    }
    if !conn.prepare_cached(IS_USER)?.exists([user.get()])? {
        return Ok(OpenRoomAnswer::NoSuchUser);
    }
    conn.prepare_cached(INSERT)?.execute(params![project.as_str(), user.get(), At(now)])?;
    Ok(OpenRoomAnswer::Open { room: Room::new(project, user, now), is_new: true })
}

const IS_USER: &str = "-- is_user
    SELECT 1 FROM users WHERE id = ?1";

const INSERT: &str = "-- insert
    INSERT INTO rooms (project_id, user_id, head_seq, snapshot_seq, snapshot_bytes, log_bytes,
        created_at, updated_at)
    VALUES (?1, ?2, 0, 0, 0, 0, ?3, ?3)";
