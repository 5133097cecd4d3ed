//! Between rows of meetings in rooms and the types of `roundsman_core`.
//!
//! Invariant: readers go by position, in the order of the lists that the macros here spell out.

use roundsman_core::presence::{PresenceMeeting, PresenceSession};
use tokio_postgres::Row;

use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::rows::presence::{PresenceColumns, SessionColumns};

/// A row of `roundsman.presence`, named `p`, and what the row of `public.meetings`, named `m`, has of
/// it. That table may be one of an existing Vexa database: its times are without a zone and mean UTC.
macro_rules! presence_columns {
    () => {
        "p.meeting_id, p.user_id, p.room, p.room_url, m.status::text, p.starts_at, p.ends_at, \
         p.created_at, m.start_time AT TIME ZONE 'UTC', m.end_time AT TIME ZONE 'UTC', \
         p.end_reason, p.num_clients, p.last_left_at, p.look_no, p.looked_at, p.failures, \
         p.failing_since, p.failure, p.empty_since, p.gone_since"
    };
}

/// A row of `roundsman.presence_sessions`, named `s`.
macro_rules! session_columns {
    () => {
        "s.meeting_id, s.session_id, s.user_id, s.user_name, s.joined_at, s.left_at, s.closed_by"
    };
}

pub(super) use {presence_columns, session_columns};

/// Reads a row that begins with [`presence_columns`].
pub(super) fn meeting(row: &Row) -> Result<PresenceMeeting, Failure> {
    let mut reader = Reader::new(row);
    let columns = PresenceColumns {
        meeting_id: reader.value()?,
        user_id: reader.value()?,
        room: reader.value()?,
        room_url: reader.value()?,
        status: reader.value()?,
        starts_at: reader.time_opt()?,
        ends_at: reader.time_opt()?,
        created_at: reader.time()?,
        started_at: reader.time_opt()?,
        ended_at: reader.time_opt()?,
        end_reason: reader.value()?,
        num_clients: reader.value::<i32>()?.into(),
        last_left_at: reader.time_opt()?,
        look_no: reader.value()?,
        looked_at: reader.time_opt()?,
        failures: reader.value::<i32>()?.into(),
        failing_since: reader.time_opt()?,
        failure: reader.value()?,
        empty_since: reader.time_opt()?,
        gone_since: reader.time_opt()?,
    };
    Ok(columns.into_meeting()?)
}

/// Reads the one row that there is, if there is one.
pub(super) fn meeting_of(rows: &[Row]) -> Result<Option<PresenceMeeting>, Failure> {
    rows.first().map(meeting).transpose()
}

/// Reads rows with [`session_columns`].
pub(super) fn sessions(rows: &[Row]) -> Result<Vec<PresenceSession>, Failure> {
    rows.iter().map(room_session).collect()
}

/// Reads a row that begins with [`session_columns`].
pub(super) fn room_session(row: &Row) -> Result<PresenceSession, Failure> {
    let mut reader = Reader::new(row);
    let columns = SessionColumns {
        meeting_id: reader.value()?,
        session_id: reader.value()?,
        user_id: reader.value()?,
        user_name: reader.value()?,
        joined_at: reader.time()?,
        left_at: reader.time_opt()?,
        closed_by: reader.value()?,
    };
    Ok(columns.into_session()?)
}
