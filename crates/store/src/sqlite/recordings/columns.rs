//! The columns of `recordings`, in the order in which every statement names them, and how they are
//! read and written. Statements call the table `r`.

use roundsman_core::bots::MeetingId;
use roundsman_core::recordings::{Recording, RecordingId};
use roundsman_core::users::UserId;
use rusqlite::{Connection, Params, Row, params};

use crate::rows::recordings::{RecordingColumns, media_to_text, tracks_to_text};
use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

macro_rules! recording_columns {
    () => {
        "r.no, r.recording_id, r.meeting_id, r.user_id, r.room, r.kind, r.started_at, \
         r.duration_ms, r.tracks, r.media, r.status, r.error, r.repeats, r.segments, \
         r.announced_at, r.updated_at, r.completed_at, r.erased_at, r.erase_error"
    };
}

pub(super) use recording_columns;

/// How many columns `recording_columns!` names.
pub(super) const COLUMNS: usize = 19;

pub(super) fn read_recording(row: &Row<'_>) -> Result<Recording> {
    let at = |index: usize| row.get(index).map(|At(at)| at);
    let maybe = |index: usize| row.get(index).map(optional);
    let columns = RecordingColumns {
        no: row.get(0)?,
        recording_id: row.get(1)?,
        meeting_id: row.get(2)?,
        user_id: row.get(3)?,
        room: row.get(4)?,
        kind: row.get(5)?,
        started_at: at(6)?,
        duration_ms: row.get(7)?,
        tracks: row.get(8)?,
        media: row.get(9)?,
        status: row.get(10)?,
        error: row.get(11)?,
        repeats: row.get(12)?,
        segments: row.get(13)?,
        announced_at: at(14)?,
        updated_at: at(15)?,
        completed_at: maybe(16)?,
        erased_at: maybe(17)?,
        erase_error: row.get(18)?,
    };
    Ok(columns.into_recording()?)
}

/// All rows of a statement that begin with `recording_columns!`.
pub(super) fn all(
    conn: &Connection,
    statement: &str,
    params: impl Params,
) -> Result<Vec<Recording>> {
    let mut statement = conn.prepare_cached(statement)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read_recording(row)?);
    }
    Ok(found)
}

pub(super) const RECORDING: &str = concat!(
    "-- recording
    SELECT ",
    recording_columns!(),
    " FROM recordings AS r WHERE r.recording_id = ?1"
);

pub(super) fn recording(conn: &Connection, id: &RecordingId) -> Result<Option<Recording>> {
    Ok(all(conn, RECORDING, [id.as_str()])?.pop())
}

const INSERT_RECORDING: &str = "-- insert_recording
    INSERT INTO recordings (recording_id, meeting_id, user_id, room, kind, started_at, duration_ms,
        tracks, media, status, error, repeats, segments, announced_at, updated_at, completed_at,
        erased_at, erase_error)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
    RETURNING no";

/// Returns the number that it gets.
pub(super) fn insert_recording(conn: &Connection, new: &Recording) -> Result<i64> {
    let mut statement = conn.prepare_cached(INSERT_RECORDING)?;
    let values = params![
        new.id.as_str(),
        new.meeting_id.map(MeetingId::get),
        new.user_id.map(UserId::get),
        new.room.as_str(),
        new.kind.as_str(),
        At(new.started_at),
        new.duration_ms,
        tracks_to_text(&new.tracks),
        media_to_text(&new.media),
        new.status.as_str(),
        new.error,
        new.repeats,
        new.segments,
        At(new.announced_at),
        At(new.updated_at),
        new.completed_at.map(At),
        new.erased_at.map(At),
        new.erase_error,
    ];
    Ok(statement.query_row(values, |row| row.get(0))?)
}

pub(super) const UPDATE_RECORDING: &str = "-- update_recording
    UPDATE recordings
       SET meeting_id = ?2, user_id = ?3, room = ?4, tracks = ?5, media = ?6, status = ?7,
           error = ?8, repeats = ?9, segments = ?10, updated_at = ?11, completed_at = ?12,
           erased_at = ?13, erase_error = ?14
     WHERE no = ?1";

/// Writes all that may change of a recording.
pub(super) fn update_recording(conn: &Connection, changed: &Recording) -> Result<()> {
    conn.prepare_cached(UPDATE_RECORDING)?.execute(params![
        changed.no,
        changed.meeting_id.map(MeetingId::get),
        changed.user_id.map(UserId::get),
        changed.room.as_str(),
        tracks_to_text(&changed.tracks),
        media_to_text(&changed.media),
        changed.status.as_str(),
        changed.error,
        changed.repeats,
        changed.segments,
        At(changed.updated_at),
        changed.completed_at.map(At),
        changed.erased_at.map(At),
        changed.erase_error,
    ])?;
    Ok(())
}
