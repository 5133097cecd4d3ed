//! People who are on their way.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use rusqlite::{Connection, params};

use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

/// Who says so again is expected as they say now.
pub(super) fn note(
    conn: &Connection,
    meeting: MeetingId,
    connection: &str,
    until: Timestamp,
) -> Result<bool> {
    if !conn.prepare_cached(IS_OPEN)?.exists([meeting.get()])? {
        return Ok(false);
    }
    conn.prepare_cached(NOTE)?.execute(params![meeting.get(), connection, At(until)])?;
    Ok(true)
}

pub(super) fn end(conn: &Connection, meeting: MeetingId, connection: &str) -> Result<bool> {
    Ok(conn.prepare_cached(END)?.execute(params![meeting.get(), connection])? > 0)
}

/// The latest time until which somebody is expected.
pub(super) fn expected_until(conn: &Connection, meeting: MeetingId) -> Result<Option<Timestamp>> {
    let mut statement = conn.prepare_cached(EXPECTED_UNTIL)?;
    Ok(statement.query_row([meeting.get()], |row| row.get(0).map(optional))?)
}

const IS_OPEN: &str = "-- is_open
    SELECT 1 FROM presence WHERE meeting_id = ?1 AND open = 1";

const NOTE: &str = "-- note
    INSERT INTO presence_joining (meeting_id, connection, until) VALUES (?1, ?2, ?3)
    ON CONFLICT (meeting_id, connection) DO UPDATE SET until = excluded.until";

const END: &str = "-- end
    DELETE FROM presence_joining WHERE meeting_id = ?1 AND connection = ?2";

pub(super) const EXPECTED_UNTIL: &str = "-- expected_until
    SELECT max(until) FROM presence_joining WHERE meeting_id = ?1";
