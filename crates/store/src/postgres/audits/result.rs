//! What audits have found, and when it is forgotten.

use roundsman_core::Timestamp;
use roundsman_core::audits::{AuditId, AuditResult};

use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

pub(super) const WRITE: &str = "-- write_audit_result
UPDATE roundsman.audit_records
   SET final_url = $2, overall_score = $3, performance_score = $4, seo_score = $5,
       search_score = $6, conversion_score = $7, branding_score = $8, presence_score = $9,
       security_score = $10, security_grade = $11, accessibility_score = $12,
       best_practices_score = $13, mobile_score = $14, ttfb_ms = $15, fcp_est_ms = $16,
       lcp_est_ms = $17, total_bytes = $18, request_count = $19, http_version = $20,
       tls_version = $21, cert_expires_at = $22, engine_version = $23, attempt = $24,
       duration_ms = $25, previous_id = $26, has_screenshot = $27, redirects = $28,
       headers = $29, raw_data = $30, report = $31
 WHERE id = $1";

const FORGET_SCREENSHOT: &str = "-- forget_screenshot
DELETE FROM roundsman.audit_screenshots WHERE audit_id = $1";

const WRITE_SCREENSHOT: &str = "-- write_screenshot
INSERT INTO roundsman.audit_screenshots (audit_id, png) VALUES ($1, $2)
ON CONFLICT (audit_id) DO UPDATE SET png = excluded.png";

/// Writes what was found in the transaction that ends the job.
pub(in crate::postgres) async fn write(
    session: &mut Session,
    result: &AuditResult,
) -> Result<(), Failure> {
    let (id, found) = (result.audit_id.get(), &result.summary);
    let (scores, measured) = (&found.scores, &found.measured);
    session
        .execute(
            WRITE,
            &[
                &id,
                &found.final_url,
                &scores.overall,
                &scores.performance,
                &scores.seo,
                &scores.search,
                &scores.conversion,
                &scores.branding,
                &scores.presence,
                &scores.security,
                &scores.security_grade,
                &scores.accessibility,
                &scores.best_practices,
                &scores.mobile,
                &measured.ttfb_ms,
                &measured.fcp_est_ms,
                &measured.lcp_est_ms,
                &measured.total_bytes,
                &measured.request_count,
                &measured.http_version,
                &measured.tls_version,
                &measured.cert_expires_at.map(Time),
                &found.engine_version,
                &i32::try_from(found.attempt).unwrap_or(i32::MAX),
                &found.duration_ms,
                &found.previous_id.map(AuditId::get),
                &found.has_screenshot,
                &result.redirects.as_str(),
                &result.headers.as_str(),
                &result.raw_data.as_str(),
                &result.report.as_str(),
            ],
        )
        .await?;
    match &result.screenshot_png {
        Some(png) => session.execute(WRITE_SCREENSHOT, &[&id, png]).await?,
        None => session.execute(FORGET_SCREENSHOT, &[&id]).await?,
    };
    Ok(())
}

/// One whose job was asked for once more is not over. `OFFSET 0` and the order keep this a look for each
/// job by its number, also with a plan that was made while the tables were empty.
pub(super) const PRUNE: &str = "-- prune_audits
WITH old AS MATERIALIZED (
    SELECT a.id FROM roundsman.audit_records a
     WHERE a.ended_as IS NOT NULL AND a.finished_at < $1
       AND NOT EXISTS (SELECT FROM roundsman.job_queue q
                        WHERE q.id BETWEEN a.job_id AND a.job_id ORDER BY q.id OFFSET 0)
       AND NOT EXISTS (SELECT FROM roundsman.job_running r
                        WHERE r.id BETWEEN a.job_id AND a.job_id ORDER BY r.id OFFSET 0)
     ORDER BY a.finished_at
     LIMIT $2
       FOR UPDATE SKIP LOCKED
), pictures AS (
    DELETE FROM roundsman.audit_screenshots
     WHERE audit_id = ANY (ARRAY (SELECT old.id FROM old))
)
DELETE FROM roundsman.audit_records WHERE id = ANY (ARRAY (SELECT old.id FROM old))";

pub(super) struct Prune {
    pub(super) before: Timestamp,
    pub(super) rows_max: u32,
}

impl Operation for Prune {
    type Answer = u64;

    async fn run(&self, session: &mut Session) -> Result<u64, Failure> {
        session.begin();
        let rows_max = i64::from(self.rows_max);
        let count = session.execute(PRUNE, &[&Time(self.before), &rows_max]).await?;
        session.commit().await?;
        Ok(count)
    }
}
