//! A new meeting.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::OpenAnswer;
use roundsman_core::presence::{NewPresenceMeeting, RoomName, opening_effects};
use rusqlite::{Connection, OptionalExtension};

use super::columns::insert_presence;
use crate::rows::presence::{UNNUMBERED, meeting_row};
use crate::sqlite::bots::columns::insert_meeting;
use crate::sqlite::effects;
use crate::sqlite::error::Result;

pub(super) fn open(
    conn: &Connection,
    catalog: &KindCatalog,
    wish: NewPresenceMeeting,
    now: Timestamp,
) -> Result<OpenAnswer> {
    if !conn.prepare_cached(IS_USER)?.exists([wish.user_id.get()])? {
        return Ok(OpenAnswer::NoSuchUser);
    }
    if let Some(meeting) = open_in(conn, &wish.room)? {
        return Ok(OpenAnswer::RoomTaken { meeting });
    }
    let mut meeting = wish.meeting(UNNUMBERED, now);
    meeting.id = insert_meeting(conn, &meeting_row(&meeting))?;
    insert_presence(conn, &meeting)?;
    effects::apply(conn, catalog, opening_effects(&meeting, now), now)?;
    Ok(OpenAnswer::Opened(Box::new(meeting)))
}

/// The meeting that is open in a room.
pub(super) fn open_in(conn: &Connection, room: &RoomName) -> Result<Option<MeetingId>> {
    let mut statement = conn.prepare_cached(OPEN_IN)?;
    let id = statement.query_row([room.as_str()], |row| row.get(0)).optional()?;
    Ok(id.map(MeetingId::new))
}

const IS_USER: &str = "-- is_user
    SELECT 1 FROM users WHERE id = ?1";

pub(super) const OPEN_IN: &str = "-- open_in
    SELECT meeting_id FROM presence INDEXED BY presence_open_room WHERE room = ?1 AND open = 1";
