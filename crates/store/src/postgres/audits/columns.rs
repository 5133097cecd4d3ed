//! How rows of the view `audits` and of `recurring_audits` are read.

use roundsman_core::audits::{Audit, AuditReport, Measured, Recurring};
use tokio_postgres::{Error, Row};

use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::rows::audits::{AUDIT_COLUMNS, AuditColumns, FoundColumns, RecurringColumns, report_of};

pub(super) fn read_audit(row: &Row) -> Result<Audit, Failure> {
    let mut reader = Reader::new(row);
    let columns = AuditColumns {
        id: reader.value()?,
        user_id: reader.value()?,
        job_id: reader.value()?,
        recurring_id: reader.value()?,
        website_url: reader.value()?,
        options: reader.value()?,
        priority: reader.value()?,
        created_at: reader.time()?,
        status: reader.value()?,
        processing_started_at: reader.time_opt()?,
        processing_worker_id: reader.value()?,
        last_heartbeat: reader.time_opt()?,
        retry_count: reader.value::<i32>()?.into(),
        next_attempt_at: reader.time_opt()?,
        finished_at: reader.time_opt()?,
        error_code: reader.value()?,
        error_message: reader.value()?,
        runs: reader.value()?,
        progress: reader.value()?,
        found: read_found(&mut reader)?,
    };
    Ok(columns.into_audit()?)
}

fn read_found(reader: &mut Reader<'_>) -> Result<FoundColumns, Error> {
    Ok(FoundColumns {
        final_url: reader.value()?,
        overall: reader.value()?,
        performance: reader.value()?,
        seo: reader.value()?,
        search: reader.value()?,
        conversion: reader.value()?,
        branding: reader.value()?,
        presence: reader.value()?,
        security: reader.value()?,
        security_grade: reader.value()?,
        accessibility: reader.value()?,
        best_practices: reader.value()?,
        mobile: reader.value()?,
        measured: Measured {
            ttfb_ms: reader.value()?,
            fcp_est_ms: reader.value()?,
            lcp_est_ms: reader.value()?,
            total_bytes: reader.value()?,
            request_count: reader.value()?,
            http_version: reader.value()?,
            tls_version: reader.value()?,
            cert_expires_at: reader.time_opt()?,
        },
        engine_version: reader.value()?,
        attempt: reader.value::<Option<i32>>()?.map(i64::from),
        duration_ms: reader.value()?,
        previous_id: reader.value()?,
        has_screenshot: reader.value()?,
    })
}

pub(super) fn read_audits(rows: &[Row]) -> Result<Vec<Audit>, Failure> {
    rows.iter().map(read_audit).collect()
}

/// Of the first row, if it is of a completed audit.
pub(super) fn read_report(rows: &[Row]) -> Result<Option<AuditReport>, Failure> {
    let Some(row) = rows.first() else { return Ok(None) };
    let mut reader = Reader::from(row, AUDIT_COLUMNS);
    let texts = [reader.value()?, reader.value()?, reader.value()?, reader.value()?];
    Ok(report_of(read_audit(row)?, texts))
}

pub(super) fn read_recurring(row: &Row) -> Result<Recurring, Failure> {
    let mut reader = Reader::new(row);
    let columns = RecurringColumns {
        id: reader.value()?,
        user_id: reader.value()?,
        website_url: reader.value()?,
        schedule: reader.value()?,
        time_zone: reader.value()?,
        options: reader.value()?,
        priority: reader.value()?,
        created_at: reader.time()?,
        next_at: reader.time_opt()?,
        last_audit_id: reader.value()?,
        started: reader.value::<i32>()?.into(),
        skipped: reader.value::<i32>()?.into(),
    };
    Ok(columns.into_recurring()?)
}
