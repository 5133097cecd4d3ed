//! Messages that could not be taken.

use roundsman_core::Timestamp;
use roundsman_core::ports::{DeadLetter, NewDeadLetter};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::sqlite::error::Result;
use crate::sqlite::time::At;

/// A letter that is there already stays as it is.
pub(super) fn put(conn: &Connection, letters: &[NewDeadLetter], now: Timestamp) -> Result<()> {
    let mut statement = conn.prepare_cached(PUT)?;
    for letter in letters {
        statement.execute(params![
            letter.source,
            letter.entry,
            letter.reason,
            letter.deliveries,
            letter.payload,
            At(now),
        ])?;
    }
    Ok(())
}

pub(super) fn list(
    conn: &Connection,
    before: Option<i64>,
    rows_max: u32,
) -> Result<Vec<DeadLetter>> {
    let mut statement = conn.prepare_cached(LIST)?;
    let rows = statement.query_map(params![before.unwrap_or(i64::MAX), rows_max], read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn one(conn: &Connection, id: i64) -> Result<Option<DeadLetter>> {
    Ok(conn.prepare_cached(ONE)?.query_row([id], read).optional()?)
}

pub(super) fn delete(conn: &Connection, id: i64) -> Result<bool> {
    Ok(conn.prepare_cached(DELETE)?.execute([id])? > 0)
}

macro_rules! columns {
    () => {
        "id, source, entry, reason, deliveries, payload, at"
    };
}

fn read(row: &Row<'_>) -> rusqlite::Result<DeadLetter> {
    Ok(DeadLetter {
        id: row.get(0)?,
        letter: NewDeadLetter {
            source: row.get(1)?,
            entry: row.get(2)?,
            reason: row.get(3)?,
            deliveries: row.get(4)?,
            payload: row.get(5)?,
        },
        at: row.get(6).map(|At(at)| at)?,
    })
}

const PUT: &str = "-- put
    INSERT INTO dead_letters (source, entry, reason, deliveries, payload, at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (source, entry) DO NOTHING";

const LIST: &str = concat!(
    "-- list
    SELECT ",
    columns!(),
    " FROM dead_letters WHERE id < ?1 ORDER BY id DESC LIMIT ?2"
);

const ONE: &str = concat!("-- one\nSELECT ", columns!(), " FROM dead_letters WHERE id = ?1");

const DELETE: &str = "-- delete
    DELETE FROM dead_letters WHERE id = ?1";
