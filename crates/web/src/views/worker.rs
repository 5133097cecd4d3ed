//! The worker protocol's shapes.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobError, JobId, LeaseNo, LeaseRef, RunningJob};
use roundsman_engine::jobs::ClaimWish;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::raw;

/// A worker's wish for work.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ClaimRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimBody {
    /// Who is asking, as people should see it.
    #[schema(max_length = 128, example = "renderer-2")]
    worker: String,
    /// The kinds of jobs it can do.
    #[schema(min_items = 1, max_items = 100, example = json!(["reports.render"]))]
    kinds: Vec<String>,
    /// How many jobs it can take now.
    #[schema(minimum = 1, default = 1)]
    max: Option<u32>,
    /// How long a lease lasts without a heartbeat; without it, what the kind says.
    #[schema(minimum = 5, maximum = 3600)]
    lease_secs: Option<u64>,
    /// How long to wait for work if there is none; the server may answer sooner.
    #[schema(minimum = 0, default = 0, example = 20)]
    wait_secs: Option<u64>,
}

/// The jobs that were handed out.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Claimed)]
pub(crate) struct ClaimedView {
    /// Empty if there was nothing to do.
    jobs: Vec<ClaimedJobView>,
}

/// A job that was handed out.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClaimedJob)]
pub(crate) struct ClaimedJobView {
    #[schema(example = 17)]
    id: i64,
    #[schema(example = "reports.render")]
    kind: String,
    #[schema(example = "customer-7")]
    key: Option<String>,
    /// Whom it is for, if it was said.
    #[schema(example = "acme")]
    tenant: Option<String>,
    #[schema(value_type = serde_json::Value, example = json!({"page": 4}))]
    payload: Box<RawValue>,
    /// Which try this is, from 1.
    #[schema(example = 1)]
    attempt: u32,
    max_attempts: Option<u32>,
    /// The fencing token: repeat it in every request about this job.
    #[schema(example = 912)]
    lease_no: i64,
    /// Without a heartbeat the job is taken back after this time.
    #[schema(value_type = String, format = DateTime)]
    lease_until: Timestamp,
    /// The end of the run, heartbeats or not.
    #[schema(value_type = Option<String>, format = DateTime)]
    deadline_at: Option<Timestamp>,
}

/// Names the lease that a request is made under.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = LeaseRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseBody {
    #[schema(example = 912)]
    pub(crate) lease_no: i64,
}

/// A sign of life.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = HeartbeatRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeartbeatBody {
    #[schema(example = 912)]
    pub(crate) lease_no: i64,
    /// From now on the lease lasts this long; without it, as long as it was claimed for.
    #[schema(minimum = 5, maximum = 3600)]
    pub(crate) lease_secs: Option<u64>,
    /// Replaces what was reported before.
    #[schema(value_type = Option<serde_json::Value>, example = json!({"percent": 40}))]
    progress: Option<Box<RawValue>>,
}

/// How far a run has come.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ProgressRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgressBody {
    #[schema(example = 912)]
    pub(crate) lease_no: i64,
    /// Replaces what was reported before.
    #[schema(value_type = serde_json::Value, example = json!({"percent": 40}))]
    progress: Box<RawValue>,
}

/// What a sign of life learns.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HeartbeatAnswer)]
pub(crate) struct HeartbeatView {
    #[schema(value_type = String, format = DateTime)]
    pub(crate) lease_until: Timestamp,
    /// Somebody wants the job to stop: stop, and say so with `cancelled`.
    pub(crate) cancel_requested: bool,
}

/// The work is done.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = CompleteRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteBody {
    #[schema(example = 912)]
    pub(crate) lease_no: i64,
    /// What came of it: any JSON.
    #[schema(value_type = Option<serde_json::Value>, example = json!({"pages": 12}))]
    result: Option<Box<RawValue>>,
}

/// The work failed.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = FailRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailBody {
    #[schema(example = 912)]
    pub(crate) lease_no: i64,
    error: FailErrorBody,
    /// Trying again is pointless.
    #[serde(default)]
    pub(crate) fatal: bool,
    /// Try again after this time, whatever the backoff says.
    #[schema(minimum = 0)]
    retry_after_secs: Option<u64>,
}

/// Why the work failed.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = FailError)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailErrorBody {
    /// A short word to count by; anything but a-z, 0-9, `_`, `-` and `.` becomes `_`.
    #[schema(max_length = 64, example = "timeout", default = "error")]
    code: Option<String>,
    /// For people; cut after 4096 bytes.
    #[schema(example = "the renderer did not answer within 30 s")]
    message: String,
}

/// The claim that a request about job `id` names.
pub(crate) fn lease_ref(id: i64, lease_no: i64) -> LeaseRef {
    LeaseRef { id: JobId::new(id), lease_no: LeaseNo::new(lease_no) }
}

impl From<ClaimBody> for ClaimWish {
    fn from(body: ClaimBody) -> Self {
        let ClaimBody { worker, kinds, max, lease_secs, wait_secs } = body;
        ClaimWish { worker, kinds, max, lease_secs, wait_secs }
    }
}

impl From<&[RunningJob]> for ClaimedView {
    fn from(jobs: &[RunningJob]) -> Self {
        ClaimedView { jobs: jobs.iter().map(Into::into).collect() }
    }
}

impl From<&RunningJob> for ClaimedJobView {
    fn from(job: &RunningJob) -> Self {
        ClaimedJobView {
            id: job.facts.id.get(),
            kind: job.facts.kind.as_str().to_owned(),
            key: job.facts.key.as_ref().map(|key| key.as_str().to_owned()),
            tenant: job.facts.tenant.as_ref().map(|tenant| tenant.as_str().to_owned()),
            payload: raw(&job.facts.payload),
            attempt: job.facts.attempt,
            max_attempts: job.facts.max_attempts,
            lease_no: job.lease.lease_no.get(),
            lease_until: job.lease.until,
            deadline_at: job.lease.deadline_at,
        }
    }
}

impl HeartbeatBody {
    pub(crate) fn progress(&mut self) -> Option<String> {
        self.progress.take().map(text)
    }
}

impl ProgressBody {
    pub(crate) fn into_progress(self) -> String {
        text(self.progress)
    }
}

impl CompleteBody {
    pub(crate) fn into_result(self) -> Option<String> {
        self.result.map(text)
    }
}

impl FailBody {
    pub(crate) fn error(&self) -> JobError {
        let code = self.error.code.as_deref().unwrap_or_default();
        JobError::new(code, self.error.message.as_str())
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after_secs.map(Duration::from_secs)
    }
}

fn text(raw: Box<RawValue>) -> String {
    Box::<str>::from(raw).into_string()
}
