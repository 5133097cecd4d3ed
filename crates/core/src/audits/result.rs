//! What an audit found, as far as it has columns of its own.

use super::AuditId;
use crate::Timestamp;
use crate::jobs::Json;

/// What a completed audit found: written with the end of its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditResult {
    pub audit_id: AuditId,
    pub summary: AuditSummary,
    pub redirects: Json,
    pub headers: Json,
    pub raw_data: Json,
    pub report: Json,
    /// Bounded where it was taken.
    pub screenshot_png: Option<Vec<u8>>,
}

/// What lists show of a completed audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSummary {
    /// After redirects.
    pub final_url: String,
    pub scores: Scores,
    pub measured: Measured,
    /// Of the rules that judged it: scores of different versions are not quite comparable.
    pub engine_version: String,
    /// The attempt that brought it.
    pub attempt: u32,
    pub duration_ms: i64,
    /// The audit of the same URL that it was compared with.
    pub previous_id: Option<AuditId>,
    pub has_screenshot: bool,
}

/// From 0 to 100.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scores {
    pub overall: i16,
    pub performance: i16,
    pub seo: i16,
    pub search: Option<i16>,
    pub conversion: i16,
    pub branding: i16,
    pub presence: i16,
    pub security: Option<i16>,
    pub security_grade: Option<String>,
    pub accessibility: Option<i16>,
    pub best_practices: Option<i16>,
    pub mobile: Option<i16>,
}

/// What was measured of the page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    pub ttfb_ms: Option<i64>,
    /// Estimated from what was fetched, not painted.
    pub fcp_est_ms: Option<i64>,
    pub lcp_est_ms: Option<i64>,
    pub total_bytes: Option<i64>,
    pub request_count: Option<i64>,
    pub http_version: Option<String>,
    pub tls_version: Option<String>,
    pub cert_expires_at: Option<Timestamp>,
}
