//! What was found, as it is stored.

use roundsman_audit::{Category, Comparison, Verdict, compare};
use roundsman_core::audits::{Audit, AuditReport, AuditResult, AuditSummary, Measured, Scores};
use roundsman_core::jobs::{InvalidJson, Json};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A larger picture is left out rather than kept in part.
const SCREENSHOT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a report is rendered from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredReport {
    pub verdict: Verdict,
    /// With the audit of the same page before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
}

impl StoredReport {
    /// `None` if it was written by a release whose reports cannot be read any more.
    pub fn read(report: &AuditReport) -> Option<Self> {
        serde_json::from_str(report.report.as_str()).ok()
    }
}

/// A verdict as it is written with the end of its job.
pub(super) fn result_of(
    audit: &Audit,
    verdict: Verdict,
    previous: Option<&AuditReport>,
    screenshot_png: Option<Vec<u8>>,
    attempt: u32,
) -> Result<AuditResult, InvalidJson> {
    let before = previous.and_then(StoredReport::read);
    let comparison = before.map(|before| compare(&before.verdict, &verdict));
    let screenshot_png = screenshot_png.filter(|png| png.len() <= SCREENSHOT_BYTES_MAX);
    let facts = &verdict.facts;
    let summary = AuditSummary {
        final_url: storable(verdict.final_url.clone()),
        scores: scores_of(&verdict),
        measured: Measured {
            ttfb_ms: Some(whole(facts.ttfb_ms)),
            fcp_est_ms: Some(whole(facts.fcp_est_ms)),
            lcp_est_ms: Some(whole(facts.lcp_est_ms)),
            total_bytes: Some(whole(facts.total_bytes)),
            request_count: Some(facts.request_count.into()),
            http_version: Some(storable(facts.http_version.clone())),
            tls_version: facts.tls_version.clone().map(storable),
            cert_expires_at: facts.cert_expires_at,
        },
        engine_version: verdict.engine_version.to_string(),
        attempt,
        duration_ms: whole(verdict.took_ms),
        previous_id: previous.map(|report| report.audit.id),
        has_screenshot: screenshot_png.is_some(),
    };
    Ok(AuditResult {
        audit_id: audit.id,
        summary,
        redirects: json_of(&facts.redirects)?,
        headers: json_of(&facts.headers)?,
        raw_data: json_of(&verdict.raw_data)?,
        report: json_of(&StoredReport { verdict, comparison })?,
        screenshot_png,
    })
}

fn scores_of(verdict: &Verdict) -> Scores {
    let score = |category| i16::from(verdict.score(category));
    Scores {
        overall: verdict.overall.into(),
        performance: score(Category::Performance),
        seo: score(Category::Seo),
        search: Some(score(Category::Search)),
        conversion: score(Category::Conversion),
        branding: score(Category::Branding),
        presence: score(Category::Presence),
        security: Some(score(Category::Security)),
        security_grade: Some(verdict.security_grade.clone()),
        accessibility: Some(score(Category::Accessibility)),
        best_practices: Some(score(Category::BestPractices)),
        mobile: Some(score(Category::Mobile)),
    }
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Pages contain whatever they like; PostgreSQL cannot store NUL.
fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

fn json_of(value: &impl Serialize) -> Result<Json, InvalidJson> {
    let mut value = serde_json::to_value(value).map_err(|_| InvalidJson::Syntax)?;
    without_nul(&mut value);
    Json::from_value(&value)
}

fn without_nul(value: &mut Value) {
    match value {
        Value::String(text) => *text = storable(std::mem::take(text)),
        Value::Array(items) => items.iter_mut().for_each(without_nul),
        Value::Object(members) => members.values_mut().for_each(without_nul),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
