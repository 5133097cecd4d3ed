//! Instants as SQLite keeps them: whole microseconds since 1970 in an INTEGER.

use roundsman_core::Timestamp;
use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, ValueRef};

/// A [`Timestamp`] on its way into or out of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct At(pub(super) Timestamp);

impl ToSql for At {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.as_micros()))
    }
}

impl FromSql for At {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(|micros| At(Timestamp::from_micros(micros)))
    }
}

/// The instant of a column that may be NULL.
pub(super) fn optional(at: Option<At>) -> Option<Timestamp> {
    at.map(|At(instant)| instant)
}
