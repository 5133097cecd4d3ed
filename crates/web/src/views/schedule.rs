//! Schedules.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{Rhythm, Schedule};
use roundsman_engine::jobs::{MOMENTS_SHOWN, ScheduleWish};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::job_request::WishBody;
use super::{next_before, page_rows, raw};
use crate::problem::Problem;

/// A wish for a schedule. In a change, what is absent stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ScheduleRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleBody {
    /// For people.
    #[schema(max_length = 100, example = "nightly report")]
    name: Option<String>,
    /// Minute, hour, day of the month, month, day of the week; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    #[schema(example = "30 2 * * MON-FRI")]
    cron: Option<String>,
    /// By whose clocks `cron` goes; UTC unless said otherwise.
    #[schema(example = "Europe/Berlin")]
    time_zone: Option<String>,
    /// Instead of `cron`: every so many seconds.
    #[schema(minimum = 1)]
    every_secs: Option<u32>,
    /// What is done about times that passed while nobody could act: `skip`, `once` (one job for all of
    /// them, the default) or `all` (one for each, at most the latest 100).
    #[schema(example = "once")]
    missed: Option<String>,
    /// Whether it rests.
    paused: Option<bool>,
    /// The job that is enqueued each time. With a key, a job that still waits is joined by the next.
    job: Option<WishBody>,
}

impl From<ScheduleBody> for ScheduleWish {
    fn from(body: ScheduleBody) -> Self {
        ScheduleWish {
            name: body.name,
            cron: body.cron,
            time_zone: body.time_zone,
            every_secs: body.every_secs,
            missed: body.missed,
            paused: body.paused,
            job: body.job.map(Into::into),
        }
    }
}

/// A schedule.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Schedule)]
pub(crate) struct ScheduleView {
    #[schema(example = 4)]
    id: i64,
    user_id: i64,
    name: String,
    #[schema(example = "30 2 * * MON-FRI")]
    cron: Option<String>,
    #[schema(example = "Europe/Berlin")]
    time_zone: Option<String>,
    every_secs: Option<u32>,
    #[schema(example = "once")]
    missed: &'static str,
    paused: bool,
    job: ScheduledJobView,
    /// The next times, five at most; none while it is paused.
    #[schema(value_type = Vec<String>, example = json!(["2026-02-02T01:30:00.000000Z"]))]
    next_runs: Vec<Timestamp>,
    /// The latest time for which a job was enqueued.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_run: Option<Timestamp>,
    /// Jobs enqueued so far.
    fired_total: u64,
    /// Times that passed without a job.
    missed_total: u64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// The job that a schedule enqueues.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ScheduledJob)]
pub(crate) struct ScheduledJobView {
    #[schema(example = "reports.render")]
    kind: String,
    key: Option<String>,
    #[schema(value_type = serde_json::Value)]
    payload: Box<RawValue>,
    priority: i16,
    max_attempts: Option<u32>,
    tenant: Option<String>,
}

/// A page of schedules, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ScheduleList)]
pub(crate) struct ScheduleListView {
    schedules: Vec<ScheduleView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleListQuery {
    /// Only schedules with a smaller number than this.
    pub(crate) before: Option<i64>,
    /// Rows in the page, 50 unless said otherwise.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
}

impl ScheduleListQuery {
    pub(crate) fn rows_max(&self) -> Result<u32, Problem> {
        page_rows(self.limit)
    }
}

impl ScheduleView {
    pub(crate) fn new(schedule: &Schedule) -> Self {
        let (cron, time_zone, every_secs) = match &schedule.spec.rhythm {
            Rhythm::Cron { expression, time_zone } => {
                (Some(expression.clone()), Some(time_zone.clone()), None)
            }
            Rhythm::Every { secs, .. } => (None, None, Some(*secs)),
        };
        let job = &schedule.spec.job;
        let mut next_runs: Vec<Timestamp> = schedule.next_at.into_iter().collect();
        if let Some(first) = schedule.next_at {
            next_runs.extend(schedule.spec.rhythm.after(first, MOMENTS_SHOWN - 1));
        }
        ScheduleView {
            id: schedule.id.get(),
            user_id: schedule.user_id.get(),
            name: schedule.spec.name.clone(),
            cron,
            time_zone,
            every_secs,
            missed: schedule.spec.missed.as_str(),
            paused: schedule.paused,
            job: ScheduledJobView {
                kind: job.kind.as_str().to_owned(),
                key: job.key.as_ref().map(|key| key.as_str().to_owned()),
                payload: raw(&job.payload),
                priority: job.priority,
                max_attempts: job.max_attempts,
                tenant: job.tenant.as_ref().map(|tenant| tenant.as_str().to_owned()),
            },
            next_runs,
            last_run: schedule.last_at,
            fired_total: schedule.fired,
            missed_total: schedule.missed,
            created_at: schedule.created_at,
            updated_at: schedule.updated_at,
        }
    }
}

impl ScheduleListView {
    pub(crate) fn new(schedules: &[Schedule], rows_max: u32) -> Self {
        let next_before = next_before(schedules.iter().map(|one| one.id.get()), rows_max);
        ScheduleListView {
            schedules: schedules.iter().map(ScheduleView::new).collect(),
            next_before,
        }
    }
}
