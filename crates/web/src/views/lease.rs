//! Who works on what, under the names operators know.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobId, RunningJob};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{next_before, page_rows};
use crate::problem::Problem;

/// A page of leases, newest job first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LeaseList)]
pub(crate) struct LeaseListView {
    leases: Vec<LeaseView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

/// A lease: the lock that the holder of a running job has on its key.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lease)]
pub(crate) struct LeaseView {
    #[schema(example = "meeting_presence_poll:7")]
    name: String,
    #[schema(example = 17)]
    job_id: i64,
    /// Whose job it is; 0 is the server itself.
    #[schema(example = 3)]
    user_id: i64,
    #[schema(example = "presence.poll")]
    kind: String,
    key: Option<String>,
    #[schema(example = "node-1")]
    worker: String,
    #[schema(example = 912)]
    lease_no: i64,
    /// How long it lasts without a heartbeat.
    #[schema(example = 120.0)]
    ttl_secs: f64,
    #[schema(value_type = String, format = DateTime)]
    lease_until: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    claimed_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    heartbeat_at: Timestamp,
    cancel_requested: bool,
}

/// Which part of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeasesQuery {
    /// Only jobs with smaller numbers: `next_before` of the page before.
    before: Option<i64>,
    /// Leases on a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

impl LeasesQuery {
    pub(crate) fn check(self) -> Result<(Option<JobId>, u32), Problem> {
        Ok((self.before.map(JobId::new), page_rows(self.limit)?))
    }
}

impl LeaseListView {
    pub(crate) fn new(leases: &[(String, RunningJob)], rows_max: u32) -> Self {
        let ids = leases.iter().map(|(_, job)| job.facts.id.get());
        LeaseListView {
            next_before: next_before(ids, rows_max),
            leases: leases.iter().map(Into::into).collect(),
        }
    }
}

impl From<&(String, RunningJob)> for LeaseView {
    fn from((name, job): &(String, RunningJob)) -> Self {
        LeaseView {
            name: name.clone(),
            job_id: job.facts.id.get(),
            user_id: job.facts.user_id.get(),
            kind: job.facts.kind.as_str().to_owned(),
            key: job.facts.key.as_ref().map(|key| key.as_str().to_owned()),
            worker: job.lease.worker.as_str().to_owned(),
            lease_no: job.lease.lease_no.get(),
            ttl_secs: job.lease.ttl.as_secs_f64(),
            lease_until: job.lease.until,
            claimed_at: job.lease.claimed_at,
            heartbeat_at: job.lease.heartbeat_at,
            cancel_requested: job.cancel_requested,
        }
    }
}
