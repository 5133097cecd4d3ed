//! Schedules: as callers make and see them, and the handler that fires them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::jobs::{
    Cron, JobError, Json, KindSpec, Missed, Outcome, Rhythm, SCHEDULE_KIND, Schedule,
    ScheduleChange, ScheduleId, ScheduleSpec, ScheduledJob, time_zone,
};
use roundsman_core::limits::{PAGE_ROWS_MAX, SCHEDULE_NAME_BYTES_MAX, SCHEDULES_PER_USER_MAX};
use roundsman_core::ports::{Clock, Fired, Store};
use roundsman_core::users::Authenticated;

use super::periodic::periodic_spec;
use super::service::{Jobs, asker, scope};
use super::wish::check_wishes;
use super::{Handler, HandlerResult, JobContext, JobWish};
use crate::metrics::Metrics;
use crate::wake::Wakes;
use crate::{Error, FieldError};

/// Schedules that one process looks after at once.
const KEPT_AT_ONCE_MAX: usize = 8;
/// How many moments ahead are shown.
pub const MOMENTS_SHOWN: usize = 5;

/// What a caller asks for. Nothing in it has been checked. In a change, what is absent stays.
#[derive(Debug, Clone, Default)]
pub struct ScheduleWish {
    pub name: Option<String>,
    pub cron: Option<String>,
    pub time_zone: Option<String>,
    pub every_secs: Option<u32>,
    pub missed: Option<String>,
    pub paused: Option<bool>,
    pub job: Option<JobWish>,
}

impl Jobs {
    pub async fn create_schedule(
        &self,
        caller: &Authenticated,
        wish: ScheduleWish,
    ) -> Result<Schedule, Error> {
        let paused = wish.paused;
        let spec = self.check_schedule(caller, wish, None)?;
        let user = asker(caller).user_id;
        let made = self.deps.store.create_schedule(user, spec, self.now()).await?;
        let Some(schedule) = made else {
            let reason = format!("you have {SCHEDULES_PER_USER_MAX} schedules, which is the limit");
            return Err(Error::Invalid(vec![FieldError::new("schedules", reason)]));
        };
        self.wake_keeper(&schedule);
        if paused != Some(true) {
            return Ok(schedule);
        }
        let change = ScheduleChange { paused, spec: None };
        let store = &self.deps.store;
        let paused = store.change_schedule(scope(caller), schedule.id, change, self.now()).await?;
        Ok(paused.unwrap_or(schedule))
    }

    pub async fn schedule(&self, caller: &Authenticated, id: i64) -> Result<Schedule, Error> {
        let found = self.deps.store.schedule(scope(caller), ScheduleId::new(id)).await?;
        found.ok_or(Error::NotFound { what: "schedule" })
    }

    /// A page of schedules, newest first.
    pub async fn schedules(
        &self,
        caller: &Authenticated,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<Schedule>, Error> {
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        let before = before.map(ScheduleId::new);
        Ok(self.deps.store.schedules(scope(caller), before, rows_max).await?)
    }

    pub async fn change_schedule(
        &self,
        caller: &Authenticated,
        id: i64,
        wish: ScheduleWish,
    ) -> Result<Schedule, Error> {
        let known = self.schedule(caller, id).await?;
        let paused = wish.paused;
        let spec = self.check_schedule(caller, wish, Some(&known.spec))?;
        let change = ScheduleChange { spec: Some(spec), paused };
        let store = &self.deps.store;
        let changed = store.change_schedule(scope(caller), known.id, change, self.now()).await?;
        let schedule = changed.ok_or(Error::NotFound { what: "schedule" })?;
        self.wake_keeper(&schedule);
        Ok(schedule)
    }

    pub async fn delete_schedule(&self, caller: &Authenticated, id: i64) -> Result<(), Error> {
        let deleted = self.deps.store.delete_schedule(scope(caller), ScheduleId::new(id)).await?;
        if deleted { Ok(()) } else { Err(Error::NotFound { what: "schedule" }) }
    }

    fn wake_keeper(&self, schedule: &Schedule) {
        // Whoever waits for the next due job has to hear that there is an earlier one.
        let keeper = schedule.keeper(self.now());
        self.deps.wakes.signal(keeper.map(|keeper| (keeper.base_lane(), 1)));
    }

    fn check_schedule(
        &self,
        caller: &Authenticated,
        wish: ScheduleWish,
        known: Option<&ScheduleSpec>,
    ) -> Result<ScheduleSpec, Error> {
        let mut problems = Vec::new();
        let name = match wish.name {
            Some(name) => name,
            None => known.map(|known| known.name.clone()).unwrap_or_default(),
        };
        if name.len() > SCHEDULE_NAME_BYTES_MAX || name.chars().any(char::is_control) {
            let reason =
                format!("at most {SCHEDULE_NAME_BYTES_MAX} bytes without control characters");
            problems.push(FieldError::new("name", reason));
        }
        let known_rhythm = known.map(|known| &known.rhythm);
        let rhythm = self.check_rhythm(wish.cron, wish.time_zone, wish.every_secs, known_rhythm);
        let missed = match wish.missed.as_deref() {
            None => Ok(known.map(|known| known.missed).unwrap_or_default()),
            Some(word) => Missed::parse(word)
                .ok_or_else(|| FieldError::new("missed", "must be skip, once or all")),
        };
        let job = match (wish.job, known) {
            (None, Some(known)) => Ok(known.job.clone()),
            (wish, _) => self.check_scheduled_job(caller, wish.unwrap_or_default()),
        };
        match (rhythm, missed, job) {
            (Ok(rhythm), Ok(missed), Ok(job)) if problems.is_empty() => {
                Ok(ScheduleSpec { name, rhythm, missed, job })
            }
            (rhythm, missed, job) => {
                problems.extend(rhythm.err());
                problems.extend(missed.err());
                match job {
                    Err(Error::Invalid(of_job)) => problems.extend(of_job),
                    Err(other) => return Err(other),
                    Ok(_) => {}
                }
                Err(Error::Invalid(problems))
            }
        }
    }

    fn check_rhythm(
        &self,
        cron: Option<String>,
        zone: Option<String>,
        every_secs: Option<u32>,
        known: Option<&Rhythm>,
    ) -> Result<Rhythm, FieldError> {
        let (cron, zone) = match (cron, zone, every_secs, known) {
            (Some(_), _, Some(_), _) => {
                return Err(FieldError::new("cron", "a schedule has cron or every_secs, not both"));
            }
            (_, _, Some(0), _) => return Err(FieldError::new("every_secs", "must be at least 1")),
            (None, None, Some(secs), Some(Rhythm::Every { from, .. })) => {
                return Ok(Rhythm::Every { secs, from: *from });
            }
            (None, None, Some(secs), _) => return Ok(Rhythm::Every { secs, from: self.now() }),
            (None, Some(_), Some(_), _) => {
                let reason = "an interval is the same everywhere: it has no time zone";
                return Err(FieldError::new("time_zone", reason));
            }
            (None, None, None, Some(known)) => return Ok(known.clone()),
            (cron, zone, None, Some(Rhythm::Cron { expression, time_zone })) => (
                cron.unwrap_or_else(|| expression.clone()),
                zone.unwrap_or_else(|| time_zone.clone()),
            ),
            (Some(cron), zone, None, _) => (cron, zone.unwrap_or_else(|| "UTC".to_owned())),
            (None, _, None, _) => return Err(FieldError::new("cron", "or every_secs is needed")),
        };
        Cron::parse(&cron).map_err(|error| FieldError::new("cron", error.to_string()))?;
        if time_zone(&zone).is_none() {
            let reason = "must be a name such as Europe/Berlin or UTC";
            return Err(FieldError::new("time_zone", reason));
        }
        Ok(Rhythm::Cron { expression: cron.trim().to_owned(), time_zone: zone })
    }

    fn check_scheduled_job(
        &self,
        caller: &Authenticated,
        wish: JobWish,
    ) -> Result<ScheduledJob, Error> {
        let deps = &self.deps;
        if wish.run_at.is_some() {
            let reason = "the schedule says when";
            return Err(Error::Invalid(vec![FieldError::new("job.run_at", reason)]));
        }
        let checked =
            check_wishes(vec![wish], asker(caller), &deps.catalog, &deps.limits, self.now());
        let job = match checked {
            Ok(mut jobs) => jobs.remove(0),
            Err(Error::Invalid(problems)) => {
                let placed = |problem: FieldError| {
                    FieldError::new(format!("job.{}", problem.field), problem.message)
                };
                return Err(Error::Invalid(problems.into_iter().map(placed).collect()));
            }
            Err(other) => return Err(other),
        };
        Ok(ScheduledJob {
            kind: job.kind,
            key: job.key,
            payload: job.payload,
            priority: job.priority,
            max_attempts: job.max_attempts,
            tenant: job.tenant,
        })
    }
}

/// The policy of the job that looks after a schedule.
pub fn schedule_spec() -> KindSpec {
    KindSpec {
        deadline: Some(Duration::from_secs(60)),
        concurrency: Some(KEPT_AT_ONCE_MAX),
        lease_name: Some("schedule:{key}"),
        ..periodic_spec(SCHEDULE_KIND)
    }
}

/// Fires schedules: one job per schedule, so that one node acts on each at a time.
pub struct ScheduleKeeper {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub wakes: Wakes,
    pub metrics: Metrics,
}

#[async_trait]
impl Handler for ScheduleKeeper {
    fn spec(&self) -> KindSpec {
        schedule_spec()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let number = context.job.key.as_ref().and_then(|key| key.as_str().parse().ok());
        let done = || Outcome::Done { result: Json::null() };
        let Some(id) = number.map(ScheduleId::new) else { return done().into() };
        match self.store.fire_schedule(id, context.lease, self.clock.now()).await {
            Ok(Fired::Done { jobs, missed, next_at }) => {
                self.metrics.schedule_fired(jobs.len() as u64, missed);
                self.wakes.signal(jobs.iter().map(|job| (job.base_lane(), 1)));
                match next_at {
                    Some(at) => Outcome::Again { at, payload: None }.into(),
                    None => done().into(),
                }
            }
            // A keeper whose lease is gone settles nothing either.
            Ok(Fired::Gone | Fired::LeaseLost) => done().into(),
            Err(error) => {
                let error = JobError::new("storage", error.to_string());
                Outcome::Retry { error, after: None }.into()
            }
        }
    }
}
