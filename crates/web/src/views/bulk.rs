//! One thing done to many jobs; export and import.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobId, JobKey, JobState, KindName};
use roundsman_core::ports::ListFilter;
use roundsman_engine::FieldError;
use roundsman_engine::jobs::{BulkAction, BulkReport, BulkWish, ImportLine, ImportReport, JobWish};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::JobView;
use crate::problem::Problem;

/// How many jobs one call changes unless it says otherwise.
const BULK_JOBS_DEFAULT: u32 = 1000;

/// Which jobs. Everything that is said must be true of a job.
#[derive(Debug, Clone, Default, Deserialize, ToSchema, IntoParams)]
#[schema(as = JobFilter)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FilterBody {
    /// Only this kind.
    #[schema(example = "reports.render")]
    kind: Option<String>,
    /// Only this state.
    #[schema(example = "failed")]
    state: Option<String>,
    /// For the operator: only this user's.
    pub(crate) user_id: Option<i64>,
    /// Only this key.
    key: Option<String>,
    /// Only keys that begin with this.
    key_prefix: Option<String>,
    /// Made at this time or later.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[param(value_type = Option<String>, format = DateTime)]
    created_after: Option<Timestamp>,
    /// Made before this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[param(value_type = Option<String>, format = DateTime)]
    created_before: Option<Timestamp>,
    /// Failed, with this text in the code or message of the error, to the letter.
    #[schema(example = "timeout")]
    error: Option<String>,
}

impl FilterBody {
    pub(crate) fn check(self) -> Result<ListFilter, Problem> {
        let mut problems = Vec::new();
        let mut refuse = |field: &str, error: &dyn std::fmt::Display| {
            problems.push(FieldError::new(field, error.to_string()));
        };
        let kind = self.kind.map(|text| KindName::new(&text).map_err(|e| refuse("kind", &e)));
        let key = self.key.map(|text| JobKey::new(&text).map_err(|e| refuse("key", &e)));
        let state = self.state.map(|text| JobState::parse(&text).map_err(|e| refuse("state", &e)));
        for (field, text) in [("key_prefix", &self.key_prefix), ("error", &self.error)] {
            if text.as_ref().is_some_and(|text| text.contains('\0')) {
                refuse(field, &"must not contain NUL");
            }
        }
        if !problems.is_empty() {
            return Err(Problem::invalid(problems));
        }
        Ok(ListFilter {
            kind: kind.and_then(Result::ok),
            key: key.and_then(Result::ok),
            state: state.and_then(Result::ok),
            key_prefix: self.key_prefix,
            created_from: self.created_after,
            created_before: self.created_before,
            error: self.error,
        })
    }
}

/// What to do, and to which jobs.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BulkRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkBody {
    action: ActionBody,
    /// With `reprioritise`.
    #[schema(minimum = -100, maximum = 100)]
    priority: Option<i16>,
    #[serde(default)]
    filter: FilterBody,
    /// Where to go on: `next_before` of the call before.
    before: Option<i64>,
    /// At most so many jobs in this call.
    #[schema(minimum = 1, maximum = 10_000, default = 1000)]
    limit: Option<u32>,
}

/// What is done to each job.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[schema(as = BulkAction)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ActionBody {
    /// Waiting jobs at once, running ones by telling their workers.
    Cancel,
    /// Jobs that are over with all attempts, waiting ones without their backoff.
    Retry,
    /// Waiting jobs get another priority.
    Reprioritise,
    /// Jobs that are over are deleted.
    Delete,
}

impl BulkBody {
    pub(crate) fn check(self) -> Result<BulkWish, Problem> {
        let action = match (self.action, self.priority) {
            (ActionBody::Reprioritise, Some(priority)) => BulkAction::Reprioritise { priority },
            (ActionBody::Reprioritise, None) => {
                return Err(Problem::field("priority", "is needed to reprioritise"));
            }
            (_, Some(_)) => return Err(Problem::field("priority", "is only for reprioritise")),
            (ActionBody::Cancel, None) => BulkAction::Cancel,
            (ActionBody::Retry, None) => BulkAction::Retry,
            (ActionBody::Delete, None) => BulkAction::Delete,
        };
        let user_id = self.filter.user_id;
        Ok(BulkWish {
            action,
            filter: self.filter.check()?,
            user_id,
            before: self.before.map(JobId::new),
            jobs_max: self.limit.unwrap_or(BULK_JOBS_DEFAULT),
        })
    }
}

/// What came of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BulkAnswer)]
pub(crate) struct BulkView {
    /// Jobs that fit the filter.
    matched: u64,
    /// Jobs to which it was done.
    changed: u64,
    /// Jobs whose state, or whose key, excludes it.
    skipped: u64,
    /// Send this as `before` to go on; `null` if that was all.
    next_before: Option<i64>,
}

impl From<BulkReport> for BulkView {
    fn from(report: BulkReport) -> Self {
        BulkView {
            matched: report.matched,
            changed: report.changed,
            skipped: report.skipped,
            next_before: report.next_before.map(JobId::get),
        }
    }
}

/// What came of an import.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = ImportAnswer)]
pub(crate) struct ImportView {
    lines: u64,
    enqueued: u64,
    /// A job with the same key was waiting.
    coalesced: u64,
    /// Imported before.
    known: u64,
    /// Lines of jobs that are over.
    skipped: u64,
}

impl ImportView {
    pub(crate) fn new(lines: u64, skipped: u64, report: ImportReport) -> Self {
        let ImportReport { enqueued, coalesced, known } = report;
        ImportView { lines, enqueued, coalesced, known, skipped }
    }
}

/// One line: a job as it is exported, or a wish for one. What an export has beyond a wish is not
/// looked at, except for the number and the state.
#[derive(Debug, Deserialize)]
struct Line {
    id: Option<i64>,
    kind: String,
    key: Option<String>,
    payload: Option<Box<RawValue>>,
    priority: Option<i64>,
    run_at: Option<Timestamp>,
    max_attempts: Option<i64>,
    tenant: Option<String>,
    state: Option<String>,
}

/// Reads a line; `None` if its job is over.
pub(crate) fn read_line(line: &str, number: u64) -> Result<Option<ImportLine>, Problem> {
    let line: Line = serde_json::from_str(line)
        .map_err(|error| Problem::field(format!("lines[{number}]"), error.to_string()))?;
    let state = line.state.as_deref().and_then(|state| JobState::parse(state).ok());
    if state.is_some_and(JobState::is_terminal) {
        return Ok(None);
    }
    let wish = JobWish {
        kind: line.kind,
        key: line.key,
        payload: line.payload.map(|raw| Box::<str>::from(raw).into_string()),
        priority: line.priority,
        run_at: line.run_at,
        max_attempts: line.max_attempts,
        tenant: line.tenant,
    };
    Ok(Some(ImportLine { number, id: line.id, wish }))
}

/// A job as a line.
pub(crate) fn line_of(job: &JobView) -> String {
    let mut line = serde_json::to_string(job).unwrap_or_default();
    line.push('\n');
    line
}
