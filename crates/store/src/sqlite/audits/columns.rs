//! How rows of the view `audits` and of `recurring_audits` are read.

use roundsman_core::audits::{Audit, Measured, Recurring};
use rusqlite::{Connection, Params, Row};

use crate::rows::audits::{AuditColumns, FoundColumns, RecurringColumns};
use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

pub(super) fn read_audit(row: &Row<'_>) -> Result<Audit> {
    let maybe = |index: usize| row.get(index).map(optional);
    let columns = AuditColumns {
        id: row.get(0)?,
        user_id: row.get(1)?,
        job_id: row.get(2)?,
        recurring_id: row.get(3)?,
        website_url: row.get(4)?,
        options: row.get(5)?,
        priority: row.get(6)?,
        created_at: row.get(7).map(|At(at)| at)?,
        status: row.get(8)?,
        processing_started_at: maybe(9)?,
        processing_worker_id: row.get(10)?,
        last_heartbeat: maybe(11)?,
        retry_count: row.get(12)?,
        next_attempt_at: maybe(13)?,
        finished_at: maybe(14)?,
        error_code: row.get(15)?,
        error_message: row.get(16)?,
        runs: row.get(17)?,
        progress: row.get(18)?,
        found: read_found(row)?,
    };
    Ok(columns.into_audit()?)
}

fn read_found(row: &Row<'_>) -> Result<FoundColumns> {
    Ok(FoundColumns {
        final_url: row.get(19)?,
        overall: row.get(20)?,
        performance: row.get(21)?,
        seo: row.get(22)?,
        search: row.get(23)?,
        conversion: row.get(24)?,
        branding: row.get(25)?,
        presence: row.get(26)?,
        security: row.get(27)?,
        security_grade: row.get(28)?,
        accessibility: row.get(29)?,
        best_practices: row.get(30)?,
        mobile: row.get(31)?,
        measured: Measured {
            ttfb_ms: row.get(32)?,
            fcp_est_ms: row.get(33)?,
            lcp_est_ms: row.get(34)?,
            total_bytes: row.get(35)?,
            request_count: row.get(36)?,
            http_version: row.get(37)?,
            tls_version: row.get(38)?,
            cert_expires_at: row.get(39).map(optional)?,
        },
        engine_version: row.get(40)?,
        attempt: row.get(41)?,
        duration_ms: row.get(42)?,
        previous_id: row.get(43)?,
        has_screenshot: row.get(44)?,
    })
}

pub(super) fn read_recurring(row: &Row<'_>) -> Result<Recurring> {
    let columns = RecurringColumns {
        id: row.get(0)?,
        user_id: row.get(1)?,
        website_url: row.get(2)?,
        schedule: row.get(3)?,
        time_zone: row.get(4)?,
        options: row.get(5)?,
        priority: row.get(6)?,
        created_at: row.get(7).map(|At(at)| at)?,
        next_at: row.get(8).map(optional)?,
        last_audit_id: row.get(9)?,
        started: row.get(10)?,
        skipped: row.get(11)?,
    };
    Ok(columns.into_recurring()?)
}

/// All rows of a statement, each read in the same way.
pub(super) fn all<T>(
    conn: &Connection,
    statement: &str,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = conn.prepare_cached(statement)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}
