//! Looks at recordings.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{RecordingFilter, Scope};
use roundsman_core::recordings::{Recording, RecordingId, RecordingStatus};
use roundsman_core::users::UserId;
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{all, recording, recording_columns};
use crate::rows::inconsistent;
use crate::rows::recordings::{RECORDINGS, id_from_text};
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

/// The user whose rows may be touched; `None` for everybody's.
pub(super) fn user_of(scope: Scope) -> Option<i64> {
    match scope {
        Scope::All => None,
        Scope::User(user) => Some(user.get()),
    }
}

pub(super) fn is_known(conn: &Connection, id: &RecordingId) -> Result<bool> {
    Ok(conn.prepare_cached(IS_KNOWN)?.exists([id.as_str()])?)
}

pub(super) fn one(conn: &Connection, scope: Scope, id: &RecordingId) -> Result<Option<Recording>> {
    let user = user_of(scope);
    let is_theirs = |known: &Recording| user.is_none() || known.user_id.map(UserId::get) == user;
    Ok(recording(conn, id)?.filter(is_theirs))
}

/// Each sort of list has the index that leads to it; whatever else is asked is looked at row by row.
pub(super) fn list(
    conn: &Connection,
    scope: Scope,
    filter: &RecordingFilter,
    before: Option<i64>,
    rows_max: u32,
) -> Result<Vec<Recording>> {
    let user = user_of(scope);
    // Most are completed.
    let unfinished = filter.status.filter(|status| *status != RecordingStatus::Completed);
    let statement = match (filter.meeting, user, unfinished) {
        (Some(_), ..) => LIST_OF_MEETING,
        (None, Some(_), _) => LIST_OF_USER,
        (None, None, Some(_)) => LIST_UNFINISHED,
        (None, None, None) => LIST_ALL,
    };
    let page = params![
        user,
        before.unwrap_or(i64::MAX),
        filter.meeting.map(MeetingId::get),
        filter.status.map(RecordingStatus::as_str),
        rows_max,
    ];
    all(conn, statement, page)
}

pub(super) fn cursor(conn: &Connection) -> Result<Option<RecordingId>> {
    let mut statement = conn.prepare_cached(CURSOR)?;
    let id: Option<String> = statement.query_row([], |row| row.get(0)).optional()?;
    Ok(id.map(|id| id_from_text(&id, 0)).transpose()?)
}

pub(super) fn set_cursor(conn: &Connection, id: &RecordingId, now: Timestamp) -> Result<()> {
    conn.prepare_cached(SET_CURSOR)?.execute(params![id.as_str(), At(now)])?;
    Ok(())
}

pub(super) fn counts(conn: &Connection) -> Result<Vec<(RecordingStatus, u64)>> {
    let mut statement = conn.prepare_cached(COUNTS)?;
    let mut rows = statement.query([])?;
    let mut counts = Vec::new();
    while let Some(row) = rows.next()? {
        let (word, count): (String, u32) = (row.get(0)?, row.get(1)?);
        let status = RecordingStatus::parse(&word)
            .ok_or_else(|| inconsistent(RECORDINGS, "status", 0, format!("{word:?}")))?;
        counts.push((status, count.into()));
    }
    Ok(counts)
}

const IS_KNOWN: &str = "-- is_known
    SELECT 1 FROM recordings WHERE recording_id = ?1";

macro_rules! list {
    ($name:literal, $which:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT ",
            recording_columns!(),
            " FROM recordings AS r ",
            $which,
            " AND r.no < ?2 AND (?1 IS NULL OR r.user_id = ?1)
               AND (?3 IS NULL OR r.meeting_id = ?3) AND (?4 IS NULL OR r.status = ?4)
             ORDER BY r.no DESC LIMIT ?5"
        )
    };
}

pub(super) const LIST_OF_MEETING: &str =
    list!("list_of_meeting", "INDEXED BY recordings_meeting WHERE r.meeting_id = ?3");

pub(super) const LIST_OF_USER: &str =
    list!("list_of_user", "INDEXED BY recordings_user WHERE r.user_id = ?1");

pub(super) const LIST_UNFINISHED: &str = list!(
    "list_unfinished",
    "INDEXED BY recordings_unfinished WHERE r.status = ?4 AND r.status <> 'completed'"
);

pub(super) const LIST_ALL: &str = list!("list_all", "WHERE TRUE");

const CURSOR: &str = "-- cursor
    SELECT recording_id FROM recording_cursor";

const SET_CURSOR: &str = "-- set_cursor
    INSERT INTO recording_cursor (one, recording_id, read_at) VALUES (1, ?1, ?2)
    ON CONFLICT (one) DO UPDATE SET recording_id = excluded.recording_id,
                                    read_at = excluded.read_at";

/// Nobody asks how many are completed.
pub(super) const COUNTS: &str = "-- counts
    SELECT status, count(*) FROM recordings INDEXED BY recordings_unfinished
     WHERE status <> 'completed' GROUP BY status";
