//! The columns of `presence` and `presence_sessions`, in the order in which every statement names
//! them, and how they are read and written. Statements call `presence` `p` and `meetings` `m`.

use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::presence::{EndReason, PresenceMeeting, PresenceSession};
use rusqlite::{Connection, Row, params};

use crate::rows::presence::{PresenceColumns, SessionColumns};
use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

macro_rules! presence_columns {
    () => {
        "p.meeting_id, p.user_id, p.room, p.room_url, m.status, p.starts_at, p.ends_at, \
         p.created_at, m.start_time, m.end_time, p.end_reason, p.num_clients, p.last_left_at, \
         p.look_no, p.looked_at, p.failures, p.failing_since, p.failure, p.empty_since, \
         p.gone_since"
    };
}

macro_rules! session_columns {
    () => {
        "meeting_id, session_id, user_id, user_name, joined_at, left_at, closed_by"
    };
}

pub(super) use {presence_columns, session_columns};

pub(super) fn read_presence(row: &Row<'_>) -> Result<PresenceMeeting> {
    let maybe = |index: usize| row.get(index).map(optional);
    let columns = PresenceColumns {
        meeting_id: row.get(0)?,
        user_id: row.get(1)?,
        room: row.get(2)?,
        room_url: row.get(3)?,
        status: row.get(4)?,
        starts_at: maybe(5)?,
        ends_at: maybe(6)?,
        created_at: row.get(7).map(|At(at)| at)?,
        started_at: maybe(8)?,
        ended_at: maybe(9)?,
        end_reason: row.get(10)?,
        num_clients: row.get(11)?,
        last_left_at: maybe(12)?,
        look_no: row.get(13)?,
        looked_at: maybe(14)?,
        failures: row.get(15)?,
        failing_since: maybe(16)?,
        failure: row.get(17)?,
        empty_since: maybe(18)?,
        gone_since: maybe(19)?,
    };
    Ok(columns.into_meeting()?)
}

pub(super) fn read_session(row: &Row<'_>) -> Result<PresenceSession> {
    let columns = SessionColumns {
        meeting_id: row.get(0)?,
        session_id: row.get(1)?,
        user_id: row.get(2)?,
        user_name: row.get(3)?,
        joined_at: row.get(4).map(|At(at)| at)?,
        left_at: optional(row.get(5)?),
        closed_by: row.get(6)?,
    };
    Ok(columns.into_session()?)
}

pub(super) const PRESENCE: &str = concat!(
    "-- presence
    SELECT ",
    presence_columns!(),
    " FROM presence AS p JOIN meetings AS m ON m.id = p.meeting_id WHERE p.meeting_id = ?1"
);

pub(super) fn presence(conn: &Connection, id: MeetingId) -> Result<Option<PresenceMeeting>> {
    let mut statement = conn.prepare_cached(PRESENCE)?;
    let mut rows = statement.query([id.get()])?;
    rows.next()?.map(read_presence).transpose()
}

const INSERT_PRESENCE: &str = "-- insert_presence
    INSERT INTO presence (meeting_id, open, end_reason, num_clients, last_left_at, look_no,
        looked_at, failures, failing_since, failure, empty_since, gone_since, user_id, room,
        room_url, starts_at, ends_at, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)";

/// Writes a meeting whose row of `meetings` is there already.
pub(super) fn insert_presence(conn: &Connection, meeting: &PresenceMeeting) -> Result<()> {
    let looks = &meeting.looks;
    conn.prepare_cached(INSERT_PRESENCE)?.execute(params![
        meeting.id.get(),
        meeting.is_active(),
        meeting.end_reason.map(EndReason::as_str),
        meeting.num_clients,
        meeting.last_left_at.map(At),
        looks.last_no,
        looks.looked_at.map(At),
        looks.failures,
        looks.failing_since.map(At),
        looks.failure,
        looks.empty_since.map(At),
        looks.gone_since.map(At),
        meeting.user_id.get(),
        meeting.room.as_str(),
        meeting.room_url,
        meeting.schedule.map(|schedule| At(schedule.starts_at)),
        meeting.schedule.map(|schedule| At(schedule.ends_at)),
        At(meeting.created_at),
    ])?;
    Ok(())
}

pub(super) const UPDATE_PRESENCE: &str = "-- update_presence
    UPDATE presence
       SET open = ?2, end_reason = ?3, num_clients = ?4, last_left_at = ?5, look_no = ?6,
           looked_at = ?7, failures = ?8, failing_since = ?9, failure = ?10, empty_since = ?11,
           gone_since = ?12
     WHERE meeting_id = ?1";

/// Writes all that may change of a meeting but what `meetings` has of it.
pub(super) fn update_presence(conn: &Connection, meeting: &PresenceMeeting) -> Result<()> {
    let looks = &meeting.looks;
    conn.prepare_cached(UPDATE_PRESENCE)?.execute(params![
        meeting.id.get(),
        meeting.is_active(),
        meeting.end_reason.map(EndReason::as_str),
        meeting.num_clients,
        meeting.last_left_at.map(At),
        looks.last_no,
        looks.looked_at.map(At),
        looks.failures,
        looks.failing_since.map(At),
        looks.failure,
        looks.empty_since.map(At),
        looks.gone_since.map(At),
    ])?;
    Ok(())
}

/// Never the data, which is the user's.
pub(super) const UPDATE_MEETING: &str = "-- update_meeting
    UPDATE meetings SET status = ?2, start_time = ?3, end_time = ?4, updated_at = ?5
     WHERE id = ?1";

pub(super) fn update_meeting(
    conn: &Connection,
    meeting: &PresenceMeeting,
    now: Timestamp,
) -> Result<()> {
    conn.prepare_cached(UPDATE_MEETING)?.execute(params![
        meeting.id.get(),
        meeting.status.as_str(),
        meeting.started_at.map(At),
        meeting.ended_at.map(At),
        At(now),
    ])?;
    Ok(())
}

/// Without naming the index SQLite would walk all sessions that the meeting has ever had.
pub(super) const OPEN_SESSIONS: &str = concat!(
    "-- open_sessions
    SELECT ",
    session_columns!(),
    " FROM presence_sessions INDEXED BY presence_sessions_open
     WHERE meeting_id = ?1 AND left_at IS NULL"
);

pub(super) const SESSION: &str = concat!(
    "-- session
    SELECT ",
    session_columns!(),
    " FROM presence_sessions WHERE meeting_id = ?1 AND session_id = ?2"
);

/// The open sessions of a meeting, and those that are named.
pub(super) fn known_sessions(
    conn: &Connection,
    id: MeetingId,
    named: &BTreeSet<String>,
) -> Result<Vec<PresenceSession>> {
    let mut known = BTreeMap::new();
    let mut statement = conn.prepare_cached(OPEN_SESSIONS)?;
    let mut rows = statement.query([id.get()])?;
    while let Some(row) = rows.next()? {
        let session = read_session(row)?;
        known.insert(session.session_id.clone(), session);
    }
    let mut statement = conn.prepare_cached(SESSION)?;
    for session_id in named {
        if known.contains_key(session_id) {
            continue;
        }
        let mut rows = statement.query(params![id.get(), session_id])?;
        if let Some(row) = rows.next()? {
            known.insert(session_id.clone(), read_session(row)?);
        }
    }
    Ok(known.into_values().collect())
}

const PUT_SESSION: &str = "-- put_session
    INSERT INTO presence_sessions (meeting_id, session_id, user_id, user_name, joined_at, left_at,
        closed_by)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (meeting_id, session_id) DO UPDATE
       SET user_id = excluded.user_id, user_name = excluded.user_name,
           joined_at = excluded.joined_at, left_at = excluded.left_at,
           closed_by = excluded.closed_by";

pub(super) fn put_sessions(
    conn: &Connection,
    id: MeetingId,
    sessions: &[PresenceSession],
) -> Result<()> {
    let mut statement = conn.prepare_cached(PUT_SESSION)?;
    for session in sessions {
        statement.execute(params![
            id.get(),
            session.session_id,
            session.user_id,
            session.user_name,
            At(session.joined_at),
            session.closed.map(|closed| At(closed.at)),
            session.closed.map(|closed| closed.by.as_str()),
        ])?;
    }
    Ok(())
}

pub(super) const COUNT_OPEN: &str = "-- count_open
    SELECT count(*) FROM presence_sessions INDEXED BY presence_sessions_open
     WHERE meeting_id = ?1 AND left_at IS NULL";

/// How many sessions are open, by looking at them.
pub(super) fn count_open(conn: &Connection, id: MeetingId) -> Result<i64> {
    Ok(conn.prepare_cached(COUNT_OPEN)?.query_row([id.get()], |row| row.get(0))?)
}
