//! Events of the provider, as they came.

use roundsman_core::Timestamp;
use roundsman_core::ports::{InboxEvent, InboxFilter, InboxOutcome, NewInboxEvent};
use rusqlite::{Connection, Row, params};

use crate::rows::presence::{InboxColumns, kept_event};
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

/// An event that is there already stays as it is.
pub(super) fn keep(
    conn: &Connection,
    events: Vec<NewInboxEvent>,
    now: Timestamp,
) -> Result<Vec<bool>> {
    let mut statement = conn.prepare_cached(KEEP)?;
    let mut new = Vec::with_capacity(events.len());
    for event in events.into_iter().map(kept_event) {
        let kept = statement.execute(params![
            event.service,
            event.event,
            event.kind,
            event.room,
            event.outcome.as_str(),
            event.reason,
            event.payload,
            At(now),
        ])?;
        new.push(kept == 1);
    }
    Ok(new)
}

pub(super) fn list(
    conn: &Connection,
    filter: &InboxFilter,
    before: Option<i64>,
    rows_max: u32,
) -> Result<Vec<InboxEvent>> {
    let statement = match (&filter.room, filter.outcome) {
        (Some(_), _) => LIST_OF_ROOM,
        (None, Some(_)) => LIST_BY_OUTCOME,
        (None, None) => LIST,
    };
    let mut statement = conn.prepare_cached(statement)?;
    let mut rows = statement.query(params![
        before.unwrap_or(i64::MAX),
        filter.room,
        filter.outcome.map(InboxOutcome::as_str),
        rows_max,
    ])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

pub(super) fn one(conn: &Connection, id: i64) -> Result<Option<InboxEvent>> {
    let mut statement = conn.prepare_cached(ONE)?;
    let mut rows = statement.query([id])?;
    rows.next()?.map(read).transpose()
}

macro_rules! columns {
    () => {
        "id, service, event, kind, room, outcome, reason, payload, at"
    };
}

fn read(row: &Row<'_>) -> Result<InboxEvent> {
    let columns = InboxColumns {
        id: row.get(0)?,
        service: row.get(1)?,
        event: row.get(2)?,
        kind: row.get(3)?,
        room: row.get(4)?,
        outcome: row.get(5)?,
        reason: row.get(6)?,
        payload: row.get(7)?,
        at: row.get(8).map(|At(at)| at)?,
    };
    Ok(columns.into_event()?)
}

pub(super) const KEEP: &str = "-- keep
    INSERT INTO inbox (service, event, kind, room, outcome, reason, payload, at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT (service, event) DO NOTHING";

pub(super) const LIST: &str = concat!(
    "-- list
    SELECT ",
    columns!(),
    " FROM inbox WHERE id < ?1 ORDER BY id DESC LIMIT ?4"
);

pub(super) const LIST_OF_ROOM: &str = concat!(
    "-- list_of_room
    SELECT ",
    columns!(),
    " FROM inbox INDEXED BY inbox_room
     WHERE room = ?2 AND id < ?1 AND (?3 IS NULL OR outcome = ?3)
     ORDER BY id DESC LIMIT ?4"
);

pub(super) const LIST_BY_OUTCOME: &str = concat!(
    "-- list_by_outcome
    SELECT ",
    columns!(),
    " FROM inbox INDEXED BY inbox_outcome
     WHERE outcome = ?3 AND id < ?1
     ORDER BY id DESC LIMIT ?4"
);

const ONE: &str = concat!("-- one\nSELECT ", columns!(), " FROM inbox WHERE id = ?1");
