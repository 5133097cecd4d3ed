//! What audits have found, and when it is forgotten.

use roundsman_core::Timestamp;
use roundsman_core::audits::{AuditId, AuditResult};
use rusqlite::{Connection, params};

use crate::sqlite::error::Result;
use crate::sqlite::time::At;

const WRITE: &str = "-- write_audit_result
    UPDATE audit_records
       SET final_url = ?2, overall_score = ?3, performance_score = ?4, seo_score = ?5,
           search_score = ?6, conversion_score = ?7, branding_score = ?8, presence_score = ?9,
           security_score = ?10, security_grade = ?11, accessibility_score = ?12,
           best_practices_score = ?13, mobile_score = ?14, ttfb_ms = ?15, fcp_est_ms = ?16,
           lcp_est_ms = ?17, total_bytes = ?18, request_count = ?19, http_version = ?20,
           tls_version = ?21, cert_expires_at = ?22, engine_version = ?23, attempt = ?24,
           duration_ms = ?25, previous_id = ?26, has_screenshot = ?27, redirects = ?28,
           headers = ?29, raw_data = ?30, report = ?31
     WHERE id = ?1";

const FORGET_SCREENSHOT: &str = "-- forget_screenshot
    DELETE FROM audit_screenshots WHERE audit_id = ?1";

const WRITE_SCREENSHOT: &str = "-- write_screenshot
    INSERT INTO audit_screenshots (audit_id, png) VALUES (?1, ?2)
    ON CONFLICT (audit_id) DO UPDATE SET png = excluded.png";

/// Writes what was found in the transaction that ends the job.
pub(in crate::sqlite) fn write(conn: &Connection, result: &AuditResult) -> Result<()> {
    let (id, found) = (result.audit_id.get(), &result.summary);
    let (scores, measured) = (&found.scores, &found.measured);
    conn.prepare_cached(WRITE)?.execute(params![
        id,
        found.final_url,
        scores.overall,
        scores.performance,
        scores.seo,
        scores.search,
        scores.conversion,
        scores.branding,
        scores.presence,
        scores.security,
        scores.security_grade,
        scores.accessibility,
        scores.best_practices,
        scores.mobile,
        measured.ttfb_ms,
        measured.fcp_est_ms,
        measured.lcp_est_ms,
        measured.total_bytes,
        measured.request_count,
        measured.http_version,
        measured.tls_version,
        measured.cert_expires_at.map(At),
        found.engine_version,
        found.attempt,
        found.duration_ms,
        found.previous_id.map(AuditId::get),
        found.has_screenshot,
        result.redirects.as_str(),
        result.headers.as_str(),
        result.raw_data.as_str(),
        result.report.as_str(),
    ])?;
    match &result.screenshot_png {
        Some(png) => conn.prepare_cached(WRITE_SCREENSHOT)?.execute(params![id, png])?,
        None => conn.prepare_cached(FORGET_SCREENSHOT)?.execute([id])?,
    };
    Ok(())
}

/// One whose job was asked for once more is not over.
pub(super) const OLD: &str = "-- old_audits
    SELECT a.id FROM audit_records AS a INDEXED BY audit_records_finished
     WHERE a.ended_as IS NOT NULL AND a.finished_at < ?1
       AND NOT EXISTS (SELECT 1 FROM job_queue AS q WHERE q.id = a.job_id)
       AND NOT EXISTS (SELECT 1 FROM job_running AS r WHERE r.id = a.job_id)
     ORDER BY a.finished_at LIMIT ?2";

const FORGET: &str = "-- forget_audit
    DELETE FROM audit_records WHERE id = ?1";

pub(super) fn prune(conn: &Connection, before: Timestamp, rows_max: u32) -> Result<u64> {
    let mut statement = conn.prepare_cached(OLD)?;
    let rows = statement.query_map(params![At(before), rows_max], |row| row.get::<_, i64>(0))?;
    let old = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    for id in &old {
        conn.prepare_cached(FORGET_SCREENSHOT)?.execute([id])?;
        conn.prepare_cached(FORGET)?.execute([id])?;
    }
    Ok(old.len() as u64)
}
