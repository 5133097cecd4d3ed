//! Batches.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{Batch, JobId};
use roundsman_engine::jobs::{BatchReport, BatchWish};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::job_request::WishBody;
use crate::problem::Problem;

/// Jobs that belong together.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BatchRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    /// For people.
    #[schema(max_length = 100, example = "march invoices")]
    name: Option<String>,
    #[schema(min_items = 1)]
    jobs: Vec<WishBody>,
    /// Enqueued once, when all of them have ended, however they did.
    callback: Option<WishBody>,
}

impl BatchBody {
    pub(crate) fn check(mut self) -> Result<BatchWish, Problem> {
        let of_callback = self.callback.iter_mut().map(|wish| ("callback".to_owned(), wish));
        let of_jobs = self.jobs.iter_mut().enumerate();
        let of_jobs = of_jobs.map(|(index, wish)| (format!("jobs[{index}]"), wish));
        for (place, wish) in of_jobs.chain(of_callback) {
            if wish.take_after().is_some() {
                let reason = "the jobs of a batch wait for nobody";
                return Err(Problem::field(format!("{place}.after"), reason));
            }
        }
        Ok(BatchWish {
            name: self.name,
            jobs: self.jobs.into_iter().map(Into::into).collect(),
            callback: self.callback.map(Into::into),
        })
    }
}

/// A new batch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchMade)]
pub(crate) struct BatchMadeView {
    #[schema(example = 3)]
    id: i64,
    /// The numbers of its jobs, in the order of the request. Wishes that joined one job share its number.
    #[schema(example = json!([17, 18]))]
    jobs: Vec<i64>,
    /// The same request had made it before.
    replayed: bool,
}

impl BatchMadeView {
    pub(crate) fn new(report: &BatchReport) -> Self {
        let jobs = report.jobs.iter().map(|job| job.id.get()).collect();
        BatchMadeView { id: report.id.get(), jobs, replayed: report.replayed }
    }
}

/// How far a batch is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Batch)]
pub(crate) struct BatchView {
    #[schema(example = 3)]
    id: i64,
    user_id: i64,
    name: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When the last of its jobs ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    finished_at: Option<Timestamp>,
    /// The job that was enqueued then.
    callback_job: Option<i64>,
    /// Its jobs.
    total: u64,
    counts: BatchCountsView,
}

/// How many jobs of a batch are in each state.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchCounts)]
pub(crate) struct BatchCountsView {
    scheduled: u64,
    pending: u64,
    processing: u64,
    completed: u64,
    failed: u64,
    cancelled: u64,
}

impl From<Batch> for BatchView {
    fn from(batch: Batch) -> Self {
        let [scheduled, pending, processing, completed, failed, cancelled] = batch.counts;
        BatchView {
            id: batch.id.get(),
            user_id: batch.user_id.get(),
            name: batch.name,
            created_at: batch.created_at,
            finished_at: batch.finished_at,
            callback_job: batch.callback.map(JobId::get),
            total: batch.total,
            counts: BatchCountsView {
                scheduled,
                pending,
                processing,
                completed,
                failed,
                cancelled,
            },
        }
    }
}
