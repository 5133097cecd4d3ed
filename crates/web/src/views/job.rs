//! A job as clients see it.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    CancelCause, FinishedState, Job, JobError, JobId, JobState, Lease, Progress, Run, RunOutcome,
};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{next_before, raw};

/// A job without what may be large: payload, progress, result and attempts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobSummary)]
pub(crate) struct JobSummaryView {
    #[schema(example = 17)]
    id: i64,
    /// Whose it is; 0 is the server itself.
    #[schema(example = 3)]
    user_id: i64,
    #[schema(example = "reports.render")]
    kind: String,
    #[schema(example = "customer-7")]
    key: Option<String>,
    /// Whom it is for, if it was said.
    #[schema(example = "acme")]
    tenant: Option<String>,
    state: JobStateView,
    /// From -100 to 100; one step is worth a minute of waiting.
    #[schema(example = 0)]
    priority: i16,
    /// When it was asked to run: the earliest of all the wishes that joined.
    #[schema(value_type = String, format = DateTime, example = "2026-01-31T12:00:00.000000Z")]
    run_at: Timestamp,
    /// A backoff that ends then; no trigger shortens it.
    #[schema(value_type = Option<String>, format = DateTime)]
    not_before: Option<Timestamp>,
    /// The latest trigger that joined it.
    #[schema(value_type = String, format = DateTime, example = "2026-01-31T12:00:00.000000Z")]
    triggered_at: Timestamp,
    #[schema(value_type = String, format = DateTime, example = "2026-01-31T12:00:00.000000Z")]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    finished_at: Option<Timestamp>,
    /// Tries so far.
    #[schema(example = 1)]
    attempt: u32,
    /// `null`: it is tried for ever.
    #[schema(example = 3)]
    max_attempts: Option<u32>,
    /// Somebody asked the worker to stop.
    cancel_requested: bool,
    /// Why it failed or, while it is still being tried, why the latest attempt did.
    error: Option<JobErrorView>,
    /// Why it was cancelled.
    cancel_cause: Option<CancelCauseView>,
    /// The job that goes on in its place, if it was cancelled for that.
    folded_into: Option<i64>,
}

/// A job with everything that is known about it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Job)]
pub(crate) struct JobView {
    #[serde(flatten)]
    summary: JobSummaryView,
    /// What the worker needs to know.
    #[schema(value_type = serde_json::Value, example = json!({"page": 4}))]
    payload: Box<RawValue>,
    /// What the worker last said about how far it is.
    #[schema(value_type = Option<serde_json::Value>, example = json!({"percent": 40}))]
    progress: Option<Box<RawValue>>,
    /// What came of it, once it is completed.
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Box<RawValue>>,
    /// The jobs that it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits_for: Vec<i64>,
    /// Who works on it now.
    lease: Option<JobLeaseView>,
    /// How many attempts there were, including those no longer listed.
    attempts_total: u64,
    /// The latest attempts, oldest first.
    attempts: Vec<AttemptView>,
}

/// A page of jobs, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobList)]
pub(crate) struct JobListView {
    jobs: Vec<JobSummaryView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = JobState)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobStateView {
    Scheduled,
    Pending,
    Processing,
    Completed,
    Failed,
    Cancelled,
}

/// Why a job was cancelled.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = CancelCause)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CancelCauseView {
    /// Somebody asked for it.
    Requested,
    /// It met a waiting job with its key, which goes on in its place.
    Folded,
}

/// Why an attempt failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobError)]
pub(crate) struct JobErrorView {
    #[schema(example = "timeout")]
    code: String,
    #[schema(example = "the renderer did not answer within 30 s")]
    message: String,
}

/// A claim on a job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobLease)]
pub(crate) struct JobLeaseView {
    /// The fencing token: whoever does not repeat it changes nothing.
    #[schema(example = 912)]
    lease_no: i64,
    #[schema(value_type = String, format = DateTime)]
    lease_until: Timestamp,
    #[schema(example = "renderer-2")]
    worker: String,
    #[schema(value_type = String, format = DateTime)]
    claimed_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    heartbeat_at: Timestamp,
    /// The end of the run, heartbeats or not.
    #[schema(value_type = Option<String>, format = DateTime)]
    deadline_at: Option<Timestamp>,
}

/// One run of a job, from claim to end.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
pub(crate) struct AttemptView {
    #[schema(example = 1)]
    attempt: u32,
    #[schema(example = 912)]
    lease_no: i64,
    #[schema(example = "renderer-2")]
    worker: String,
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    ended_at: Timestamp,
    #[schema(example = 1250)]
    duration_ms: u64,
    outcome: AttemptOutcomeView,
    error: Option<JobErrorView>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = AttemptOutcome)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AttemptOutcomeView {
    Done,
    Again,
    Retry,
    Failed,
    Cancelled,
    Released,
    LeaseExpired,
    DeadlineExceeded,
}

impl JobSummaryView {
    pub(crate) fn new(job: &Job, now: Timestamp) -> Self {
        let facts = job.facts();
        let mut view = JobSummaryView {
            id: facts.id.get(),
            user_id: facts.user_id.get(),
            kind: facts.kind.as_str().to_owned(),
            key: facts.key.as_ref().map(|key| key.as_str().to_owned()),
            tenant: facts.tenant.as_ref().map(|tenant| tenant.as_str().to_owned()),
            state: job.state(now).into(),
            priority: facts.priority,
            run_at: facts.run_at,
            not_before: None,
            triggered_at: facts.triggered_at,
            created_at: facts.created_at,
            finished_at: None,
            attempt: facts.attempt,
            max_attempts: facts.max_attempts,
            cancel_requested: false,
            error: facts.runs.last_error().map(Into::into),
            cancel_cause: None,
            folded_into: None,
        };
        match job {
            Job::Waiting(job) => view.not_before = job.not_before,
            Job::Running(job) => view.cancel_requested = job.cancel_requested,
            Job::Finished(job) => {
                view.finished_at = Some(job.finished_at);
                view.end(&job.state);
            }
        }
        view
    }

    fn end(&mut self, state: &FinishedState) {
        match state {
            FinishedState::Completed { .. } => self.error = None,
            FinishedState::Failed { error } => self.error = Some(error.into()),
            FinishedState::Cancelled { cause: CancelCause::Requested } => {
                self.cancel_cause = Some(CancelCauseView::Requested);
            }
            FinishedState::Cancelled { cause: CancelCause::Folded { into } } => {
                self.cancel_cause = Some(CancelCauseView::Folded);
                self.folded_into = Some(into.get());
            }
        }
    }
}

impl JobView {
    pub(crate) fn new(job: &Job, now: Timestamp) -> Self {
        let facts = job.facts();
        let progress = match job {
            Job::Waiting(_) => None,
            Job::Running(job) => job.progress.as_ref(),
            Job::Finished(job) => job.progress.as_ref(),
        };
        JobView {
            summary: JobSummaryView::new(job, now),
            payload: raw(&facts.payload),
            progress: progress.map(|Progress(json)| raw(json)),
            result: result_of(job),
            waits_for: Vec::new(),
            lease: match job {
                Job::Running(job) => Some((&job.lease).into()),
                Job::Waiting(_) | Job::Finished(_) => None,
            },
            attempts_total: facts.runs.total,
            attempts: facts.runs.runs.iter().map(Into::into).collect(),
        }
    }

    /// The same, with the jobs that it waits for.
    pub(crate) fn waiting_for(self, ids: &[JobId]) -> Self {
        JobView { waits_for: ids.iter().map(|id| id.get()).collect(), ..self }
    }
}

impl JobListView {
    pub(crate) fn new(jobs: &[Job], rows_max: u32, now: Timestamp) -> Self {
        let ids = jobs.iter().map(|job| job.facts().id.get());
        JobListView {
            next_before: next_before(ids, rows_max),
            jobs: jobs.iter().map(|job| JobSummaryView::new(job, now)).collect(),
        }
    }
}

fn result_of(job: &Job) -> Option<Box<RawValue>> {
    let Job::Finished(job) = job else { return None };
    match &job.state {
        FinishedState::Completed { result } => Some(raw(result)),
        FinishedState::Failed { .. } | FinishedState::Cancelled { .. } => None,
    }
}

impl From<JobState> for JobStateView {
    fn from(state: JobState) -> Self {
        match state {
            JobState::Scheduled => JobStateView::Scheduled,
            JobState::Pending => JobStateView::Pending,
            JobState::Processing => JobStateView::Processing,
            JobState::Completed => JobStateView::Completed,
            JobState::Failed => JobStateView::Failed,
            JobState::Cancelled => JobStateView::Cancelled,
        }
    }
}

impl From<&JobError> for JobErrorView {
    fn from(error: &JobError) -> Self {
        JobErrorView { code: error.code.as_str().to_owned(), message: error.message.clone() }
    }
}

impl From<&Lease> for JobLeaseView {
    fn from(lease: &Lease) -> Self {
        JobLeaseView {
            lease_no: lease.lease_no.get(),
            lease_until: lease.until,
            worker: lease.worker.as_str().to_owned(),
            claimed_at: lease.claimed_at,
            heartbeat_at: lease.heartbeat_at,
            deadline_at: lease.deadline_at,
        }
    }
}

impl From<&Run> for AttemptView {
    fn from(run: &Run) -> Self {
        let took = run.ended_at.since(run.started_at);
        AttemptView {
            attempt: run.attempt,
            lease_no: run.lease_no.get(),
            worker: run.worker.as_str().to_owned(),
            started_at: run.started_at,
            ended_at: run.ended_at,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            outcome: run.outcome.into(),
            error: run.error.as_ref().map(Into::into),
        }
    }
}

impl From<RunOutcome> for AttemptOutcomeView {
    fn from(outcome: RunOutcome) -> Self {
        match outcome {
            RunOutcome::Done => AttemptOutcomeView::Done,
            RunOutcome::Again => AttemptOutcomeView::Again,
            RunOutcome::Retry => AttemptOutcomeView::Retry,
            RunOutcome::Failed => AttemptOutcomeView::Failed,
            RunOutcome::Cancelled => AttemptOutcomeView::Cancelled,
            RunOutcome::Released => AttemptOutcomeView::Released,
            RunOutcome::LeaseExpired => AttemptOutcomeView::LeaseExpired,
            RunOutcome::DeadlineExceeded => AttemptOutcomeView::DeadlineExceeded,
        }
    }
}
