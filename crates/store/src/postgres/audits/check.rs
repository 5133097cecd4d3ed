//! What cannot be true of audits.

use futures_util::TryStreamExt;
use roundsman_core::effects::Violation;

use super::columns::read_audit;
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::rows::audits::{AUDITS, audit_columns, lost};
use crate::rows::check::{ROW_CONSISTENT, violation};

const ALL: &str = concat!(
    "-- all_audits
SELECT ",
    audit_columns!(),
    " FROM roundsman.audits a ORDER BY a.id"
);

const LOST: &str = "-- lost_audits
SELECT a.id FROM roundsman.audit_records a
 WHERE a.ended_as IS NULL
   AND NOT EXISTS (SELECT FROM roundsman.job_queue q WHERE q.id = a.job_id)
   AND NOT EXISTS (SELECT FROM roundsman.job_running r WHERE r.id = a.job_id)
 ORDER BY a.id";

pub(in crate::postgres) async fn check(session: &mut Session) -> Result<Vec<Violation>, Failure> {
    let mut found = Vec::new();
    for row in session.query(LOST, &[]).await? {
        found.push(lost(row.try_get(0)?));
    }
    let mut rows = Box::pin(session.stream(ALL).await?);
    while let Some(row) = rows.try_next().await? {
        let id: i64 = row.try_get(0)?;
        if let Err(failure) = read_audit(&row) {
            let reason = failure.into_store_error().to_string();
            found.push(violation(ROW_CONSISTENT, format!("{AUDITS} {id}"), reason));
        }
    }
    Ok(found)
}
