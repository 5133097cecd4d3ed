//! Looks at meetings in rooms and at who is in them.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{
    OpenPresence, PresenceCounts, PresenceFilter, PresencePage, Scope, SessionFilter,
};
use roundsman_core::presence::{EndReason, PresenceMeeting, PresenceSession, RoomName};
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{presence, presence_columns, read_presence, read_session, session_columns};
use super::open::open_in;
use crate::rows::presence::end_reason_from_text;
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn meeting(
    conn: &Connection,
    scope: Scope,
    id: MeetingId,
) -> Result<Option<PresenceMeeting>> {
    let found = presence(conn, id)?;
    Ok(found.filter(|meeting| match scope {
        Scope::All => true,
        Scope::User(user) => meeting.user_id == user,
    }))
}

/// Each sort of list has the index that leads to it; whatever else is asked is looked at row by row.
pub(super) fn meetings(
    conn: &Connection,
    scope: Scope,
    filter: &PresenceFilter,
    page: PresencePage,
) -> Result<Vec<PresenceMeeting>> {
    let user = match scope {
        Scope::All => None,
        Scope::User(user) => Some(user.get()),
    };
    let statement = match (&filter.room, filter.active, user) {
        (Some(_), _, _) => LIST_IN_ROOM,
        (None, Some(true), _) => LIST_OPEN,
        (None, _, Some(_)) => LIST_OF_USER,
        (None, _, None) => LIST_ALL,
    };
    let mut statement = conn.prepare_cached(statement)?;
    let mut rows = statement.query(params![
        user,
        page.before.map_or(i64::MAX, MeetingId::get),
        filter.active,
        filter.room.as_ref().map(RoomName::as_str),
        page.rows_max,
    ])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read_presence(row)?);
    }
    Ok(found)
}

pub(super) fn sessions(
    conn: &Connection,
    meeting: MeetingId,
    filter: &SessionFilter,
) -> Result<Vec<PresenceSession>> {
    let (joined_at, session_id) = match &filter.after {
        Some((joined_at, session_id)) => (joined_at.as_micros(), session_id.as_str()),
        None => (i64::MIN, ""),
    };
    let mut statement = conn.prepare_cached(LIST_SESSIONS)?;
    let page = params![meeting.get(), joined_at, session_id, filter.open, filter.rows_max];
    let mut rows = statement.query(page)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read_session(row)?);
    }
    Ok(found)
}

/// The meeting that events of a room are about.
pub(super) fn meeting_of(conn: &Connection, room: &RoomName) -> Result<Option<MeetingId>> {
    if let Some(open) = open_in(conn, room)? {
        return Ok(Some(open));
    }
    let latest: Option<(i64, Option<String>)> = conn
        .prepare_cached(LATEST_IN)?
        .query_row([room.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((id, reason)) = latest else { return Ok(None) };
    let reason = end_reason_from_text(reason.as_deref(), id)?;
    Ok(reason.is_none_or(EndReason::may_be_undone).then_some(MeetingId::new(id)))
}

pub(super) fn open_presences(
    conn: &Connection,
    after: Option<MeetingId>,
    rows_max: u32,
) -> Result<Vec<OpenPresence>> {
    let mut statement = conn.prepare_cached(OPEN_PRESENCES)?;
    let mut rows = statement.query(params![after.map_or(i64::MIN, MeetingId::get), rows_max])?;
    let mut ids = conn.prepare_cached(OPEN_IDS)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let open = ids.query_map([id], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let room = RoomName::from_stored(row.get(1)?);
        found.push(OpenPresence { meeting_id: MeetingId::new(id), room, open });
    }
    Ok(found)
}

pub(super) fn empty_presences(
    conn: &Connection,
    after: Option<MeetingId>,
    rows_max: u32,
) -> Result<Vec<MeetingId>> {
    let mut statement = conn.prepare_cached(EMPTY_PRESENCES)?;
    let page = params![after.map_or(i64::MIN, MeetingId::get), rows_max];
    let ids = statement.query_map(page, |row| row.get(0).map(MeetingId::new))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn counts(conn: &Connection) -> Result<PresenceCounts> {
    let count = |row: &rusqlite::Row<'_>, index| row.get::<_, u32>(index).map(u64::from);
    Ok(conn.prepare_cached(COUNTS)?.query_row([], |row| {
        Ok(PresenceCounts {
            open: count(row, 0)?,
            clients: count(row, 1)?,
            failing: count(row, 2)?,
        })
    })?)
}

pub(super) fn note_domain_look(conn: &Connection, began_at: Timestamp) -> Result<()> {
    conn.prepare_cached(NOTE_DOMAIN_LOOK)?.execute([At(began_at)])?;
    Ok(())
}

pub(super) fn last_domain_look(conn: &Connection) -> Result<Option<Timestamp>> {
    let mut statement = conn.prepare_cached(LAST_DOMAIN_LOOK)?;
    Ok(statement.query_row([], |row| row.get(0).map(|At(at)| at)).optional()?)
}

pub(super) const LIST_IN_ROOM: &str = concat!(
    "-- list_in_room
    SELECT ",
    presence_columns!(),
    " FROM presence AS p INDEXED BY presence_room CROSS JOIN meetings AS m ON m.id = p.meeting_id
     WHERE p.room = ?4 AND p.meeting_id < ?2 AND (?1 IS NULL OR p.user_id = ?1)
       AND (?3 IS NULL OR p.open = ?3)
     ORDER BY p.meeting_id DESC LIMIT ?5"
);

pub(super) const LIST_OPEN: &str = concat!(
    "-- list_open
    SELECT ",
    presence_columns!(),
    " FROM presence AS p INDEXED BY presence_open CROSS JOIN meetings AS m ON m.id = p.meeting_id
     WHERE p.open = 1 AND p.meeting_id < ?2 AND (?1 IS NULL OR p.user_id = ?1)
     ORDER BY p.meeting_id DESC LIMIT ?5"
);

pub(super) const LIST_OF_USER: &str = concat!(
    "-- list_of_user
    SELECT ",
    presence_columns!(),
    " FROM presence AS p INDEXED BY presence_user CROSS JOIN meetings AS m ON m.id = p.meeting_id
     WHERE p.user_id = ?1 AND p.meeting_id < ?2 AND (?3 IS NULL OR p.open = ?3)
     ORDER BY p.meeting_id DESC LIMIT ?5"
);

pub(super) const LIST_ALL: &str = concat!(
    "-- list_all
    SELECT ",
    presence_columns!(),
    " FROM presence AS p CROSS JOIN meetings AS m ON m.id = p.meeting_id
     WHERE p.meeting_id < ?2 AND (?3 IS NULL OR p.open = ?3)
     ORDER BY p.meeting_id DESC LIMIT ?5"
);

pub(super) const LIST_SESSIONS: &str = concat!(
    "-- list_sessions
    SELECT ",
    session_columns!(),
    " FROM presence_sessions INDEXED BY presence_sessions_joined
     WHERE meeting_id = ?1 AND (joined_at, session_id) > (?2, ?3)
       AND (?4 IS NULL OR (left_at IS NULL) = ?4)
     ORDER BY joined_at, session_id LIMIT ?5"
);

pub(super) const LATEST_IN: &str = "-- latest_in
    SELECT meeting_id, end_reason FROM presence INDEXED BY presence_room
     WHERE room = ?1 ORDER BY meeting_id DESC LIMIT 1";

/// Without naming the index SQLite would walk all meetings by number, those that are over too.
pub(super) const OPEN_PRESENCES: &str = "-- open_presences
    SELECT meeting_id, room FROM presence INDEXED BY presence_open
     WHERE open = 1 AND meeting_id > ?1
     ORDER BY meeting_id LIMIT ?2";

pub(super) const OPEN_IDS: &str = "-- open_ids
    SELECT session_id FROM presence_sessions INDEXED BY presence_sessions_open
     WHERE meeting_id = ?1 AND left_at IS NULL
     ORDER BY session_id";

pub(super) const EMPTY_PRESENCES: &str = "-- empty_presences
    SELECT meeting_id FROM presence INDEXED BY presence_empty
     WHERE open = 1 AND num_clients = 0 AND meeting_id > ?1
     ORDER BY meeting_id LIMIT ?2";

pub(super) const COUNTS: &str = "-- counts
    SELECT count(*), coalesce(sum(num_clients), 0), count(failing_since)
      FROM presence INDEXED BY presence_open
     WHERE open = 1";

const NOTE_DOMAIN_LOOK: &str = "-- note_domain_look
    INSERT INTO presence_domain (one, looked_at) VALUES (1, ?1)
    ON CONFLICT (one) DO UPDATE SET looked_at = max(looked_at, excluded.looked_at)";

const LAST_DOMAIN_LOOK: &str = "-- last_domain_look
    SELECT looked_at FROM presence_domain";
