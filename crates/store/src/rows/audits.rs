//! Audits as both databases keep them, free of dialect.

use roundsman_core::Timestamp;
use roundsman_core::audits::{
    Audit, AuditId, AuditOptions, AuditReport, AuditState, AuditStatus, AuditSummary, Measured,
    Recurring, RecurringId, Schedule, Scores, troubles,
};
use roundsman_core::effects::Violation;
use roundsman_core::jobs::{JobError, JobId, Json};
use roundsman_core::ports::StoreError;
use roundsman_core::users::UserId;

use super::check::violation;
use super::{inconsistent, runs_from_text};

pub(crate) const AUDITS: &str = "audits";
pub(crate) const RECURRING: &str = "recurring_audits";

/// The columns of the view `audits` that every statement names, in this order.
macro_rules! audit_columns {
    () => {
        "a.id, a.user_id, a.job_id, a.recurring_id, a.website_url, a.options, a.priority, \
         a.created_at, a.status, a.processing_started_at, a.processing_worker_id, \
         a.last_heartbeat, a.retry_count, a.next_attempt_at, a.finished_at, a.error_code, \
         a.error_message, a.runs, a.progress, a.final_url, a.overall_score, a.performance_score, \
         a.seo_score, a.search_score, a.conversion_score, a.branding_score, a.presence_score, \
         a.security_score, a.security_grade, a.accessibility_score, a.best_practices_score, \
         a.mobile_score, a.ttfb_ms, a.fcp_est_ms, a.lcp_est_ms, a.total_bytes, a.request_count, \
         a.http_version, a.tls_version, a.cert_expires_at, a.engine_version, a.attempt, \
         a.duration_ms, a.previous_id, a.has_screenshot"
    };
}

/// The same with all that was found.
macro_rules! report_columns {
    () => {
        concat!(
            $crate::rows::audits::audit_columns!(),
            ", a.redirects, a.headers, a.raw_data, a.report"
        )
    };
}

macro_rules! recurring_columns {
    () => {
        "c.id, c.user_id, c.website_url, c.schedule, c.time_zone, c.options, c.priority, c.created_at, c.next_at, \
         c.last_audit_id, c.started, c.skipped"
    };
}

pub(crate) use {audit_columns, recurring_columns, report_columns};

/// How many columns `audit_columns!` names.
pub(crate) const AUDIT_COLUMNS: usize = 45;

/// One row of the view.
pub(crate) struct AuditColumns {
    pub(crate) id: i64,
    pub(crate) user_id: i64,
    pub(crate) job_id: i64,
    pub(crate) recurring_id: Option<i64>,
    pub(crate) website_url: String,
    pub(crate) options: String,
    pub(crate) priority: i16,
    pub(crate) created_at: Timestamp,
    pub(crate) status: String,
    pub(crate) processing_started_at: Option<Timestamp>,
    pub(crate) processing_worker_id: Option<String>,
    pub(crate) last_heartbeat: Option<Timestamp>,
    pub(crate) retry_count: i64,
    pub(crate) next_attempt_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) error_code: Option<String>,
    pub(crate) error_message: Option<String>,
    pub(crate) runs: Option<String>,
    pub(crate) progress: Option<String>,
    pub(crate) found: FoundColumns,
}

/// What was found; nothing before the audit is completed.
pub(crate) struct FoundColumns {
    pub(crate) final_url: Option<String>,
    pub(crate) overall: Option<i16>,
    pub(crate) performance: Option<i16>,
    pub(crate) seo: Option<i16>,
    pub(crate) search: Option<i16>,
    pub(crate) conversion: Option<i16>,
    pub(crate) branding: Option<i16>,
    pub(crate) presence: Option<i16>,
    pub(crate) security: Option<i16>,
    pub(crate) security_grade: Option<String>,
    pub(crate) accessibility: Option<i16>,
    pub(crate) best_practices: Option<i16>,
    pub(crate) mobile: Option<i16>,
    pub(crate) measured: Measured,
    pub(crate) engine_version: Option<String>,
    pub(crate) attempt: Option<i64>,
    pub(crate) duration_ms: Option<i64>,
    pub(crate) previous_id: Option<i64>,
    pub(crate) has_screenshot: bool,
}

impl AuditColumns {
    pub(crate) fn into_audit(self) -> Result<Audit, StoreError> {
        let id = self.id;
        let wrong = |column, reason: String| inconsistent(AUDITS, column, id, reason);
        let status = AuditStatus::parse(&self.status)
            .ok_or_else(|| wrong("status", format!("{:?}", self.status)))?;
        let runs = runs_from_text(self.runs.as_deref(), AUDITS, id)?;
        let retry_count = u32::try_from(self.retry_count)
            .map_err(|error| wrong("retry_count", error.to_string()))?;
        let error = match (self.error_code, status) {
            (Some(code), _) => Some(JobError::new(&code, self.error_message.unwrap_or_default())),
            (None, AuditStatus::Failed) => {
                return Err(wrong("error_code", "a failed audit has none".to_owned()));
            }
            (None, _) => None,
        };
        let summary = match status {
            AuditStatus::Completed => {
                let found = self.found.into_summary();
                Some(found.ok_or_else(|| wrong("overall_score", "nothing was found".to_owned()))?)
            }
            _ => None,
        };
        Ok(Audit {
            id: AuditId::new(id),
            user_id: UserId::new(self.user_id),
            job_id: JobId::new(self.job_id),
            recurring_id: self.recurring_id.map(RecurringId::new),
            website_url: self.website_url,
            options: options_from_text(&self.options, AUDITS, id)?,
            priority: self.priority,
            created_at: self.created_at,
            state: AuditState {
                status,
                processing_started_at: self.processing_started_at,
                processing_worker_id: self.processing_worker_id,
                last_heartbeat: self.last_heartbeat,
                retry_count,
                next_attempt_at: self.next_attempt_at,
                finished_at: self.finished_at,
                error,
                troubles: troubles(&runs),
                progress: self.progress.map(Json::from_stored),
            },
            summary,
        })
    }
}

impl FoundColumns {
    fn into_summary(self) -> Option<AuditSummary> {
        Some(AuditSummary {
            final_url: self.final_url?,
            scores: Scores {
                overall: self.overall?,
                performance: self.performance?,
                seo: self.seo?,
                search: self.search,
                conversion: self.conversion?,
                branding: self.branding?,
                presence: self.presence?,
                security: self.security,
                security_grade: self.security_grade,
                accessibility: self.accessibility,
                best_practices: self.best_practices,
                mobile: self.mobile,
            },
            measured: self.measured,
            engine_version: self.engine_version?,
            attempt: u32::try_from(self.attempt?).ok()?,
            duration_ms: self.duration_ms?,
            previous_id: self.previous_id.map(AuditId::new),
            has_screenshot: self.has_screenshot,
        })
    }
}

/// The texts of a completed audit; `None` if it is not.
pub(crate) fn report_of(audit: Audit, texts: [Option<String>; 4]) -> Option<AuditReport> {
    audit.summary.as_ref()?;
    let [redirects, headers, raw_data, report] = texts.map(|text| text.map(Json::from_stored));
    let (redirects, headers) = (redirects?, headers?);
    Some(AuditReport { audit, redirects, headers, raw_data: raw_data?, report: report? })
}

pub(crate) fn options_to_text(options: AuditOptions) -> String {
    serde_json::to_string(&options).unwrap_or_else(|_| "{}".to_owned())
}

fn options_from_text(
    text: &str,
    table: &'static str,
    row: i64,
) -> Result<AuditOptions, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| inconsistent(table, "options", row, error.to_string()))
}

/// One row of `recurring_audits`.
pub(crate) struct RecurringColumns {
    pub(crate) id: i64,
    pub(crate) user_id: i64,
    pub(crate) website_url: String,
    pub(crate) schedule: String,
    /// None for an interval; and where a calendar has none, it goes by UTC.
    pub(crate) time_zone: Option<String>,
    pub(crate) options: String,
    pub(crate) priority: i16,
    pub(crate) created_at: Timestamp,
    pub(crate) next_at: Option<Timestamp>,
    pub(crate) last_audit_id: Option<i64>,
    pub(crate) started: i64,
    pub(crate) skipped: i64,
}

impl RecurringColumns {
    pub(crate) fn into_recurring(self) -> Result<Recurring, StoreError> {
        let id = self.id;
        let schedule = Schedule::parse(&self.schedule, self.time_zone.as_deref())
            .map_err(|error| inconsistent(RECURRING, "schedule", id, error.to_string()))?;
        Ok(Recurring {
            id: RecurringId::new(id),
            user_id: UserId::new(self.user_id),
            website_url: self.website_url,
            schedule,
            options: options_from_text(&self.options, RECURRING, id)?,
            priority: self.priority,
            created_at: self.created_at,
            next_at: self.next_at,
            last_audit_id: self.last_audit_id.map(AuditId::new),
            started: u32::try_from(self.started).unwrap_or(u32::MAX),
            skipped: u32::try_from(self.skipped).unwrap_or(u32::MAX),
        })
    }
}

/// An audit that has neither a job nor an end: nobody will ever work on it.
pub(crate) fn lost(audit: i64) -> Violation {
    violation(
        "audit_has_a_job_or_an_end",
        format!("{AUDITS} {audit}"),
        "no job runs it, and none has ended it".to_owned(),
    )
}
