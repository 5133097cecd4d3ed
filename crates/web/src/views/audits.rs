//! Audits of websites.

use bytes::Bytes;
use roundsman_core::Timestamp;
use roundsman_core::audits::{
    Audit, AuditId, AuditOptions, AuditReport, AuditStatus, Measured, Recurring, RecurringId,
    Scores,
};
use roundsman_core::jobs::{Run, RunOutcome};
use roundsman_core::ports::AuditFilter;
use roundsman_engine::audits::{AuditRequest, RecurringRequest, RecurringWish, WantedOptions};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::{next_before, page_rows, raw};
use crate::problem::{Place, Problem};

/// A wish for an audit.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AuditRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditBody {
    /// The page. Without a scheme it is https.
    // Who may not ask is told that first: what is missing is found when it is looked at.
    #[serde(default)]
    #[schema(required = true, example = "https://example.org/", max_length = 2048)]
    url: String,
    /// Higher goes first; a step is worth a minute of waiting. The operator's rules add to it.
    #[serde(default)]
    #[schema(example = 0)]
    priority: i16,
    #[serde(default)]
    options: AuditOptionsBody,
}

/// How a page is to be looked at.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = AuditOptionsRequest)]
#[serde(deny_unknown_fields)]
struct AuditOptionsBody {
    /// Measure in a browser too, and take a picture. Without a browser on the server the report says so.
    #[schema(example = false)]
    browser: Option<bool>,
    /// End the audit if robots.txt forbids the page. The operator's setting if it is left out.
    #[schema(example = true)]
    obey_robots: Option<bool>,
}

impl AuditOptionsBody {
    fn into_wanted(self) -> WantedOptions {
        WantedOptions { browser: self.browser, obey_robots: self.obey_robots }
    }
}

impl AuditBody {
    pub(crate) fn into_request(self, idempotency: Option<(String, Bytes)>) -> AuditRequest {
        let AuditBody { url, priority, options } = self;
        AuditRequest { url, priority, options: options.into_wanted(), idempotency }
    }
}

/// Which audits to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditListQuery {
    /// `pending`, `processing`, `completed` or `failed`.
    status: Option<String>,
    /// Only those of this page.
    url: Option<String>,
    /// Only those that this recurring audit has started.
    recurring_id: Option<i64>,
    /// Only audits with a lower number: the `next_before` of the page before.
    before: Option<i64>,
    /// Rows on a page, from 1 to 200; 50 unless it is given.
    limit: Option<u32>,
}

impl AuditListQuery {
    pub(crate) fn check(self) -> Result<(AuditFilter, Option<AuditId>, u32), Problem> {
        let status = match self.status {
            Some(word) => Some(AuditStatus::parse(&word).ok_or_else(|| {
                let words = "must be pending, processing, completed or failed";
                Problem::field("status", words).at(Place::Query)
            })?),
            None => None,
        };
        let recurring = self.recurring_id.map(RecurringId::new);
        let filter = AuditFilter { status, website_url: self.url, recurring };
        Ok((filter, self.before.map(AuditId::new), page_rows(self.limit)?))
    }
}

/// A page of audits, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditList)]
pub(crate) struct AuditListView {
    audits: Vec<AuditView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

impl AuditListView {
    pub(crate) fn new(audits: Vec<Audit>, rows_max: u32) -> Self {
        let next_before = next_before(audits.iter().map(|audit| audit.id.get()), rows_max);
        AuditListView { audits: audits.into_iter().map(AuditView::new).collect(), next_before }
    }
}

/// An audit of a website.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Audit)]
pub(crate) struct AuditView {
    #[schema(example = 12)]
    id: i64,
    #[schema(example = 3)]
    user_id: i64,
    /// The job that runs it.
    #[schema(example = 345)]
    job_id: i64,
    /// The recurring audit that has started it.
    recurring_id: Option<i64>,
    #[schema(example = "https://example.org/")]
    website_url: String,
    options: AuditOptionsView,
    priority: i16,
    /// `pending`, `processing`, `completed` or `failed`: what the job that runs it is.
    #[schema(example = "completed")]
    status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    processing_started_at: Option<Timestamp>,
    processing_worker_id: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    last_heartbeat: Option<Timestamp>,
    /// Runs after the first.
    #[schema(example = 0)]
    retry_count: u32,
    /// When one that waits may be tried, after a failure.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    finished_at: Option<Timestamp>,
    /// Why it failed: a stable word such as `dns_failure`, `blocked_target`, `cancelled`.
    error_code: Option<String>,
    error_message: Option<String>,
    /// The attempts that did not complete it, oldest first.
    errors: Vec<AttemptErrorView>,
    /// How far it is while it is processed.
    #[schema(value_type = Option<Object>)]
    progress: Option<Box<RawValue>>,
    /// What was found; `null` unless it is completed.
    result: Option<AuditResultView>,
}

/// How a page was looked at.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditOptions)]
struct AuditOptionsView {
    browser: bool,
    obey_robots: bool,
}

impl From<AuditOptions> for AuditOptionsView {
    fn from(AuditOptions { browser, obey_robots }: AuditOptions) -> Self {
        AuditOptionsView { browser, obey_robots }
    }
}

/// An attempt that did not complete an audit.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditAttemptError)]
struct AttemptErrorView {
    #[schema(example = 1)]
    attempt: u32,
    worker: String,
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    ended_at: Timestamp,
    /// `retry`, `failed`, `released`, `lease_expired`, `deadline_exceeded` or `cancelled`.
    outcome: &'static str,
    #[schema(example = "timeout")]
    code: Option<String>,
    message: Option<String>,
}

impl From<Run> for AttemptErrorView {
    fn from(run: Run) -> Self {
        let (code, message) = match run.error {
            Some(error) => (Some(error.code.as_str().to_owned()), Some(error.message)),
            None => (None, None),
        };
        AttemptErrorView {
            attempt: run.attempt,
            worker: run.worker.as_str().to_owned(),
            started_at: run.started_at,
            ended_at: run.ended_at,
            outcome: outcome_word(run.outcome),
            code,
            message,
        }
    }
}

fn outcome_word(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Done => "done",
        RunOutcome::Again => "again",
        RunOutcome::Retry => "retry",
        RunOutcome::Failed => "failed",
        RunOutcome::Cancelled => "cancelled",
        RunOutcome::Released => "released",
        RunOutcome::LeaseExpired => "lease_expired",
        RunOutcome::DeadlineExceeded => "deadline_exceeded",
    }
}

/// What a completed audit found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditResult)]
struct AuditResultView {
    /// After redirects.
    #[schema(example = "https://www.example.org/")]
    final_url: String,
    scores: AuditScoresView,
    #[schema(example = 120)]
    ttfb_ms: Option<i64>,
    /// An estimate.
    fcp_est_ms: Option<i64>,
    /// An estimate.
    lcp_est_ms: Option<i64>,
    total_bytes: Option<i64>,
    request_count: Option<i64>,
    #[schema(example = "2")]
    http_version: Option<String>,
    #[schema(example = "1.3")]
    tls_version: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    cert_expires_at: Option<Timestamp>,
    /// Of the rules that judged it.
    engine_version: String,
    /// The attempt that completed it.
    attempt: u32,
    duration_ms: i64,
    /// The audit of the same page that it is compared with.
    previous_audit_id: Option<i64>,
    /// Whether there is a picture at `/audits/{id}/screenshot.png`.
    has_screenshot: bool,
}

/// From 0 to 100.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditScores)]
struct AuditScoresView {
    #[schema(example = 84)]
    overall: i16,
    performance: i16,
    seo: i16,
    search: Option<i16>,
    security: Option<i16>,
    /// `A+` to `F`.
    #[schema(example = "B+")]
    security_grade: Option<String>,
    accessibility: Option<i16>,
    best_practices: Option<i16>,
    mobile: Option<i16>,
    conversion: i16,
    branding: i16,
    presence: i16,
}

impl From<Scores> for AuditScoresView {
    fn from(scores: Scores) -> Self {
        AuditScoresView {
            overall: scores.overall,
            performance: scores.performance,
            seo: scores.seo,
            search: scores.search,
            security: scores.security,
            security_grade: scores.security_grade,
            accessibility: scores.accessibility,
            best_practices: scores.best_practices,
            mobile: scores.mobile,
            conversion: scores.conversion,
            branding: scores.branding,
            presence: scores.presence,
        }
    }
}

impl AuditView {
    pub(crate) fn new(audit: Audit) -> Self {
        let state = audit.state;
        let (error_code, error_message) = match state.error {
            Some(error) => (Some(error.code.as_str().to_owned()), Some(error.message)),
            None => (None, None),
        };
        AuditView {
            id: audit.id.get(),
            user_id: audit.user_id.get(),
            job_id: audit.job_id.get(),
            recurring_id: audit.recurring_id.map(RecurringId::get),
            website_url: audit.website_url,
            options: audit.options.into(),
            priority: audit.priority,
            status: state.status.as_str(),
            created_at: audit.created_at,
            processing_started_at: state.processing_started_at,
            processing_worker_id: state.processing_worker_id,
            last_heartbeat: state.last_heartbeat,
            retry_count: state.retry_count,
            next_attempt_at: state.next_attempt_at,
            finished_at: state.finished_at,
            error_code,
            error_message,
            errors: state.troubles.into_iter().map(AttemptErrorView::from).collect(),
            progress: state.progress.as_ref().map(raw),
            result: audit.summary.map(|found| {
                let Measured {
                    ttfb_ms,
                    fcp_est_ms,
                    lcp_est_ms,
                    total_bytes,
                    request_count,
                    http_version,
                    tls_version,
                    cert_expires_at,
                } = found.measured;
                AuditResultView {
                    final_url: found.final_url,
                    scores: found.scores.into(),
                    ttfb_ms,
                    fcp_est_ms,
                    lcp_est_ms,
                    total_bytes,
                    request_count,
                    http_version,
                    tls_version,
                    cert_expires_at,
                    engine_version: found.engine_version,
                    attempt: found.attempt,
                    duration_ms: found.duration_ms,
                    previous_audit_id: found.previous_id.map(AuditId::get),
                    has_screenshot: found.has_screenshot,
                }
            }),
        }
    }
}

/// All that a completed audit found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditReport)]
pub(crate) struct AuditReportView {
    audit: AuditView,
    /// The fourteen checks under the names of the original: `checks`, `final_url`, `timestamp`.
    #[schema(value_type = Object)]
    raw_data: Box<RawValue>,
    /// `verdict` with every check, its findings and evidence, and the facts; `comparison` with the audit
    /// of the same page before, if there is one.
    #[schema(value_type = Object)]
    report: Box<RawValue>,
}

impl AuditReportView {
    pub(crate) fn new(report: AuditReport) -> Self {
        AuditReportView {
            raw_data: raw(&report.raw_data),
            report: raw(&report.report),
            audit: AuditView::new(report.audit),
        }
    }
}

/// A wish for an audit that recurs.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = RecurringAuditRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecurringAuditBody {
    #[serde(default)]
    #[schema(required = true, example = "https://example.org/", max_length = 2048)]
    url: String,
    /// An interval such as `every 6h`, the five fields of cron such as `30 6 * * MON`, or one of
    /// `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    #[serde(default)]
    #[schema(required = true, example = "30 6 * * MON")]
    schedule: String,
    /// By whose clock cron is read: a name of the time zone database. UTC if it is left out; an interval has
    /// none.
    #[schema(example = "Europe/Berlin")]
    time_zone: Option<String>,
    #[serde(default)]
    priority: i16,
    #[serde(default)]
    options: AuditOptionsBody,
}

impl RecurringAuditBody {
    pub(crate) fn into_request(self) -> RecurringRequest {
        let RecurringAuditBody { url, schedule, time_zone, priority, options } = self;
        RecurringRequest { url, schedule, time_zone, priority, options: options.into_wanted() }
    }
}

/// What is to change.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = RecurringAuditChange)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecurringAuditChangeBody {
    #[schema(example = true)]
    paused: Option<bool>,
    #[schema(example = "@daily")]
    schedule: Option<String>,
    #[schema(example = "Europe/Berlin")]
    time_zone: Option<String>,
}

impl RecurringAuditChangeBody {
    pub(crate) fn into_wish(self) -> RecurringWish {
        let RecurringAuditChangeBody { paused: is_paused, schedule, time_zone } = self;
        RecurringWish { is_paused, schedule, time_zone }
    }
}

/// Which recurring audits to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecurringAuditQuery {
    /// Only those with a lower number: the `next_before` of the page before.
    before: Option<i64>,
    /// Rows on a page, from 1 to 200; 50 unless it is given.
    limit: Option<u32>,
}

impl RecurringAuditQuery {
    pub(crate) fn check(self) -> Result<(Option<RecurringId>, u32), Problem> {
        Ok((self.before.map(RecurringId::new), page_rows(self.limit)?))
    }
}

/// A page of recurring audits, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RecurringAuditList)]
pub(crate) struct RecurringAuditListView {
    recurring_audits: Vec<RecurringAuditView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

impl RecurringAuditListView {
    pub(crate) fn new(listed: Vec<Recurring>, rows_max: u32) -> Self {
        let next_before = next_before(listed.iter().map(|one| one.id.get()), rows_max);
        let recurring_audits = listed.into_iter().map(RecurringAuditView::new).collect();
        RecurringAuditListView { recurring_audits, next_before }
    }
}

/// An audit that is made again and again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RecurringAudit)]
pub(crate) struct RecurringAuditView {
    #[schema(example = 2)]
    id: i64,
    user_id: i64,
    website_url: String,
    #[schema(example = "30 6 * * MON")]
    schedule: String,
    /// By whose clock it goes; an interval goes by none.
    #[schema(example = "Europe/Berlin")]
    time_zone: Option<String>,
    options: AuditOptionsView,
    priority: i16,
    paused: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// `null` while it is paused.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_at: Option<Timestamp>,
    last_audit_id: Option<i64>,
    /// How many audits it has started.
    started: u32,
    /// Times that came while the audit before was not over.
    skipped: u32,
}

impl RecurringAuditView {
    pub(crate) fn new(known: Recurring) -> Self {
        RecurringAuditView {
            id: known.id.get(),
            user_id: known.user_id.get(),
            website_url: known.website_url,
            schedule: known.schedule.as_str().to_owned(),
            time_zone: known.schedule.time_zone().map(ToOwned::to_owned),
            options: known.options.into(),
            priority: known.priority,
            paused: known.next_at.is_none(),
            created_at: known.created_at,
            next_at: known.next_at,
            last_audit_id: known.last_audit_id.map(AuditId::get),
            started: known.started,
            skipped: known.skipped,
        }
    }
}

/// Scores over time, oldest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditHistory)]
pub(crate) struct AuditHistoryView {
    points: Vec<AuditPointView>,
}

/// One audit in a history.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditPoint)]
struct AuditPointView {
    audit_id: i64,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    scores: AuditScoresView,
}

impl AuditHistoryView {
    pub(crate) fn new(audits: Vec<Audit>) -> Self {
        let point = |audit: Audit| {
            Some(AuditPointView {
                audit_id: audit.id.get(),
                at: audit.state.finished_at?,
                scores: audit.summary?.scores.into(),
            })
        };
        AuditHistoryView { points: audits.into_iter().filter_map(point).collect() }
    }
}
