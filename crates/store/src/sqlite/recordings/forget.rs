//! Forgetting whose voices were recorded.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::recordings::{Recording, forget as forget_recording};
use roundsman_core::users::UserId;
use rusqlite::{Connection, OptionalExtension};

use super::columns::{all, recording_columns};
use super::process::{meeting_of, write};
use crate::sqlite::error::Result;

/// Takes away what could name anybody in the recordings of a meeting that is being anonymised, and has
/// their media erased. Comes before its room is forgotten, by which those are found that nobody has
/// begun to process. Does nothing to a meeting that is in no room.
pub(in crate::sqlite) fn forget(
    conn: &Connection,
    catalog: &KindCatalog,
    id: MeetingId,
    now: Timestamp,
) -> Result<()> {
    let mut statement = conn.prepare_cached(OWNER)?;
    let owner: Option<i64> = statement.query_row([id.get()], |row| row.get(0)).optional()?;
    let Some(owner) = owner.map(UserId::new) else { return Ok(()) };
    let mut own: Vec<Recording> = all(conn, OF_MEETING, [id.get()])?;
    for unmatched in all(conn, UNMATCHED_IN_ROOM, [id.get()])? {
        if meeting_of(conn, &unmatched)?.is_some_and(|(meeting, _)| meeting == id) {
            own.push(unmatched);
        }
    }
    for recording in own {
        write(conn, catalog, forget_recording(recording, id, owner, now), now)?;
    }
    conn.prepare_cached(FORGET_CONSENTS)?.execute([id.get()])?;
    Ok(())
}

const OWNER: &str = "-- owner
    SELECT user_id FROM presence WHERE meeting_id = ?1";

pub(super) const OF_MEETING: &str = concat!(
    "-- of_meeting
    SELECT ",
    recording_columns!(),
    " FROM recordings AS r INDEXED BY recordings_meeting WHERE r.meeting_id = ?1 ORDER BY r.no"
);

pub(super) const UNMATCHED_IN_ROOM: &str = concat!(
    "-- unmatched_in_room
    SELECT ",
    recording_columns!(),
    " FROM presence AS p
      CROSS JOIN recordings AS r INDEXED BY recordings_unmatched ON r.room = p.room
     WHERE p.meeting_id = ?1 AND r.meeting_id IS NULL ORDER BY r.recording_id"
);

const FORGET_CONSENTS: &str = "-- forget_consents
    DELETE FROM consents WHERE meeting_id = ?1";
