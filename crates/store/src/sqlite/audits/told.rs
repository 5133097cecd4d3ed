//! Telling users of audits that failed, whatever ended them.

use roundsman_core::Timestamp;
use roundsman_core::audits::{AuditId, failed_event, is_failed_run};
use roundsman_core::jobs::{FinishedJob, KindCatalog};
use roundsman_core::users::UserId;
use rusqlite::{Connection, OptionalExtension};

use crate::sqlite::effects;
use crate::sqlite::error::Result;

pub(super) const OF_JOB: &str = "-- audit_of_job
    SELECT id, user_id, website_url FROM audit_records WHERE job_id = ?1";

/// Writes the event of a job that was an audit and has failed, in the transaction that ends it. Of any
/// other nothing is asked.
pub(in crate::sqlite) fn tell_failed(
    conn: &Connection,
    catalog: &KindCatalog,
    job: &FinishedJob,
    now: Timestamp,
) -> Result<()> {
    if !is_failed_run(job) {
        return Ok(());
    }
    let audit: Option<(i64, i64, String)> = conn
        .prepare_cached(OF_JOB)?
        .query_row([job.facts.id.get()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let event = audit
        .and_then(|(id, user, url)| failed_event(AuditId::new(id), UserId::new(user), &url, job));
    if let Some(event) = event {
        effects::apply(conn, catalog, event, now)?;
    }
    Ok(())
}
