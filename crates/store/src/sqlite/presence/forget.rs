//! Forgetting who was in a meeting.

use roundsman_core::bots::{MeetingId, stream_of};
use roundsman_core::presence::EndReason;
use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::error::Result;

/// Takes away what could name a meeting that is over, or anybody who was in it. Nothing is left for
/// which it could be opened again. Does nothing to a meeting that is in no room.
pub(in crate::sqlite) fn forget(conn: &Connection, id: MeetingId) -> Result<()> {
    let place: Option<(String, i64)> = conn
        .prepare_cached(PLACE)?
        .query_row([id.get()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((room, created_at)) = place else { return Ok(()) };
    conn.prepare_cached(FORGET_PEOPLE)?.execute([id.get()])?;
    conn.prepare_cached(FORGET_EXPECTED)?.execute([id.get()])?;
    conn.prepare_cached(FORGET_EVENTS)?.execute(params![room, created_at])?;
    conn.prepare_cached(FORGET_FRAMES)?.execute([stream_of(id)])?;
    let ended = EndReason::Deactivated.as_str();
    conn.prepare_cached(FORGET_ROOM)?.execute(params![id.get(), ended])?;
    Ok(())
}

const PLACE: &str = "-- place
    SELECT room, created_at FROM presence WHERE meeting_id = ?1";

const FORGET_PEOPLE: &str = "-- forget_people
    UPDATE presence_sessions SET user_id = NULL, user_name = NULL WHERE meeting_id = ?1";

const FORGET_EXPECTED: &str = "-- forget_expected
    DELETE FROM presence_joining WHERE meeting_id = ?1";

/// Also those of a later meeting in the same room: which one they were about is not known.
pub(super) const FORGET_EVENTS: &str = "-- forget_events
    DELETE FROM inbox WHERE room = ?1 AND at >= ?2";

/// They tell who came and went. Their numbers stay used.
const FORGET_FRAMES: &str = "-- forget_frames
    DELETE FROM frames WHERE stream = ?1";

const FORGET_ROOM: &str = "-- forget_room
    UPDATE presence SET room = '', room_url = NULL, failure = NULL, end_reason = ?2
     WHERE meeting_id = ?1";
