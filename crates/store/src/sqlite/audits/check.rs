//! What cannot be true of audits.

use roundsman_core::effects::Violation;
use roundsman_core::ports::StoreError;
use rusqlite::Connection;

use super::columns::read_audit;
use crate::rows::audits::{AUDITS, audit_columns, lost};
use crate::rows::check::{ROW_CONSISTENT, violation};
use crate::sqlite::error::Result;

const ALL: &str =
    concat!("-- all_audits\n    SELECT ", audit_columns!(), " FROM audits AS a ORDER BY a.id");

const LOST: &str = "-- lost_audits
    SELECT a.id FROM audit_records AS a
     WHERE a.ended_as IS NULL
       AND NOT EXISTS (SELECT 1 FROM job_queue AS q WHERE q.id = a.job_id)
       AND NOT EXISTS (SELECT 1 FROM job_running AS r WHERE r.id = a.job_id)
     ORDER BY a.id";

pub(in crate::sqlite) fn check(conn: &Connection) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    let mut statement = conn.prepare(LOST)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        found.push(lost(row.get(0)?));
    }
    let mut statement = conn.prepare(ALL)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        if let Err(failure) = read_audit(row) {
            let reason = StoreError::from(failure).to_string();
            found.push(violation(ROW_CONSISTENT, format!("{AUDITS} {id}"), reason));
        }
    }
    Ok(found)
}
