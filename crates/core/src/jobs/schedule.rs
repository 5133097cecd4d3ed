//! Schedules: jobs that are enqueued again and again, at moments that a rhythm gives.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cron::{Cron, time_zone};
use super::{JobKey, Json, KindName, NewJob, Tenant};
use crate::Timestamp;
use crate::limits::{MISSED_FIRED_MAX, SCHEDULE_LATE_SECS_MAX};
use crate::users::UserId;

/// The kind of the job that looks after one schedule.
pub const SCHEDULE_KIND: &str = "jobs.schedule";

/// A schedule's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScheduleId(i64);

impl ScheduleId {
    pub const fn new(value: i64) -> Self {
        ScheduleId(value)
    }

    pub const fn get(self) -> i64 {
        self.0
    }
}

/// When it is time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rhythm {
    /// By the calendar and clock of a place.
    Cron { expression: String, time_zone: String },
    /// Counted from a moment on.
    Every { secs: u32, from: Timestamp },
}

/// What is done about moments that passed while nobody could act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// Nothing: it goes on with the next.
    Skip,
    /// One job for all of them.
    #[default]
    Once,
    /// A job for each, the latest [`MISSED_FIRED_MAX`] of them.
    All,
}

impl Missed {
    pub const ALL: [Missed; 3] = [Missed::Skip, Missed::Once, Missed::All];

    pub fn as_str(self) -> &'static str {
        match self {
            Missed::Skip => "skip",
            Missed::Once => "once",
            Missed::All => "all",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Missed::ALL.into_iter().find(|missed| missed.as_str() == text)
    }
}

/// The job that a schedule enqueues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledJob {
    pub kind: KindName,
    /// With a key a job that still waits is joined by the next.
    pub key: Option<JobKey>,
    pub payload: Json,
    pub priority: i16,
    pub max_attempts: Option<u32>,
    pub tenant: Option<Tenant>,
}

/// What a schedule is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleSpec {
    pub name: String,
    pub rhythm: Rhythm,
    pub missed: Missed,
    pub job: ScheduledJob,
}

/// A schedule as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    pub id: ScheduleId,
    pub user_id: UserId,
    pub spec: ScheduleSpec,
    pub paused: bool,
    /// `None` if it is paused or nothing more is to come.
    pub next_at: Option<Timestamp>,
    /// The latest moment for which a job was enqueued.
    pub last_at: Option<Timestamp>,
    /// Jobs enqueued.
    pub fired: u64,
    /// Moments for which none was.
    pub missed: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What to change of a schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScheduleChange {
    pub spec: Option<ScheduleSpec>,
    pub paused: Option<bool>,
}

/// What is to be done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firing {
    /// A job for each.
    pub moments: Vec<Timestamp>,
    /// Moments that passed without one.
    pub missed: u64,
    pub next_at: Option<Timestamp>,
}

impl Rhythm {
    /// Its next few moments after this one. None at all, if it cannot be read any more.
    pub fn after(&self, after: Timestamp, moments_max: usize) -> Vec<Timestamp> {
        match self {
            Rhythm::Cron { expression, time_zone: zone } => {
                let (Ok(cron), Some(zone)) = (Cron::parse(expression), time_zone(zone)) else {
                    return Vec::new();
                };
                cron.after(after, zone).take(moments_max).collect()
            }
            Rhythm::Every { secs, from } => {
                let every = i64::from((*secs).max(1)) * 1_000_000;
                let passed = after.as_micros() - from.as_micros();
                let next = if passed < 0 { 0 } else { passed / every + 1 };
                let moment = |number: i64| {
                    let micros = from.as_micros().saturating_add(number.saturating_mul(every));
                    Timestamp::from_micros(micros)
                };
                let moments = (next..).map(moment).take_while(|at| *at <= Timestamp::MAX);
                moments.take(moments_max).collect()
            }
        }
    }

    /// The next moment after this one.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.after(after, 1).pop()
    }

    /// The moments from `first` on that are not after `now`: the latest few, and how many in all.
    fn passed(&self, first: Timestamp, now: Timestamp, keep: usize) -> (Vec<Timestamp>, u64) {
        let mut kept = std::collections::VecDeque::from([first]);
        let mut count = 1u64;
        let mut add = |moment: Timestamp| {
            if kept.len() == keep {
                kept.pop_front();
            }
            kept.push_back(moment);
            count += 1;
        };
        match self {
            Rhythm::Cron { expression, time_zone: zone } => {
                if let (Ok(cron), Some(zone)) = (Cron::parse(expression), time_zone(zone)) {
                    cron.after(first, zone).take_while(|at| *at <= now).for_each(&mut add);
                }
            }
            Rhythm::Every { secs, .. } => {
                // Not one by one: a second's rhythm may have slept for years.
                let every = u64::from((*secs).max(1));
                let all = now.since(first).as_secs() / every;
                let skipped = all.saturating_sub(keep as u64);
                let moments =
                    (skipped + 1..=all).map(|number| first + Duration::from_secs(number * every));
                moments.for_each(&mut add);
                count += skipped;
            }
        }
        (kept.into(), count)
    }
}

impl Schedule {
    /// A new one, which begins with the first moment after now.
    pub fn new(id: ScheduleId, user_id: UserId, spec: ScheduleSpec, now: Timestamp) -> Self {
        Schedule {
            id,
            user_id,
            next_at: spec.rhythm.next(now),
            spec,
            paused: false,
            last_at: None,
            fired: 0,
            missed: 0,
            created_at: now,
            updated_at: now,
        }
    }

    /// The schedule after a change. One that is resumed, or beats another rhythm, goes on with the next
    /// moment: what passed while it was paused is nobody's miss.
    #[must_use]
    pub fn changed(mut self, change: ScheduleChange, now: Timestamp) -> Self {
        let before = (self.paused, self.spec.rhythm.clone());
        if let Some(spec) = change.spec {
            self.spec = spec;
        }
        if let Some(paused) = change.paused {
            self.paused = paused;
        }
        if self.paused {
            self.next_at = None;
        } else if before != (self.paused, self.spec.rhythm.clone()) {
            self.next_at = self.spec.rhythm.next(now);
        }
        self.updated_at = now;
        self
    }

    /// What is to be done at `now`.
    pub fn due(&self, now: Timestamp) -> Firing {
        let Some(first) = self.next_at.filter(|at| *at <= now && !self.paused) else {
            let next_at = self.next_at.filter(|_| !self.paused);
            return Firing { moments: Vec::new(), missed: 0, next_at };
        };
        let keep = if self.spec.missed == Missed::All { MISSED_FIRED_MAX } else { 1 };
        let (mut moments, count) = self.spec.rhythm.passed(first, now, keep);
        let late = Duration::from_secs(SCHEDULE_LATE_SECS_MAX);
        if self.spec.missed == Missed::Skip {
            moments.retain(|moment| now.since(*moment) <= late);
        }
        let missed = count - moments.len() as u64;
        Firing { moments, missed, next_at: self.spec.rhythm.next(now) }
    }

    /// The schedule after that.
    #[must_use]
    pub fn fired(mut self, firing: &Firing) -> Self {
        self.fired += firing.moments.len() as u64;
        self.missed += firing.missed;
        self.last_at = firing.moments.last().copied().or(self.last_at);
        self.next_at = firing.next_at;
        self
    }

    /// The job of one moment.
    pub fn job_at(&self, moment: Timestamp) -> NewJob {
        let job = self.spec.job.clone();
        NewJob {
            user_id: self.user_id,
            kind: job.kind,
            key: job.key,
            payload: job.payload,
            priority: job.priority,
            run_at: moment,
            max_attempts: job.max_attempts,
            tenant: job.tenant,
        }
    }

    /// The job that looks after it: one per schedule, whichever node runs it.
    pub fn keeper(&self, now: Timestamp) -> Option<NewJob> {
        Some(NewJob {
            user_id: UserId::SYSTEM,
            kind: KindName::new(SCHEDULE_KIND).ok()?,
            key: JobKey::new(&self.id.get().to_string()).ok(),
            payload: Json::null(),
            priority: 0,
            run_at: self.next_at.unwrap_or(now),
            max_attempts: None,
            tenant: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros(secs * 1_000_000)
    }

    fn schedule(rhythm: Rhythm, missed: Missed, now: Timestamp) -> Schedule {
        let job = ScheduledJob {
            kind: KindName::new("report").unwrap(),
            key: None,
            payload: Json::null(),
            priority: 0,
            max_attempts: None,
            tenant: None,
        };
        let spec = ScheduleSpec { name: "r".to_owned(), rhythm, missed, job };
        Schedule::new(ScheduleId::new(1), UserId::new(1), spec, now)
    }

    fn every(secs: u32) -> Rhythm {
        Rhythm::Every { secs, from: at(0) }
    }

    #[test]
    fn an_interval_is_counted_from_its_beginning() {
        let rhythm = every(10);
        assert_eq!(rhythm.after(at(25), 5), [at(30), at(40), at(50), at(60), at(70)]);
        assert_eq!(rhythm.next(at(30)), Some(at(40)));
        assert_eq!(Rhythm::Every { secs: 10, from: at(100) }.next(at(5)), Some(at(100)));
    }

    #[test]
    fn missed_moments_are_dealt_with_as_was_asked() {
        for rhythm in [every(60), cron("* * * * *")] {
            for (missed, fired) in [(Missed::Skip, 0), (Missed::Once, 1), (Missed::All, 100)] {
                let schedule = schedule(rhythm.clone(), missed, at(0));
                assert_eq!(schedule.next_at, Some(at(60)));
                // Ten days later, one second after a moment would be in time; so a while after.
                let now = at(864_000 + 59);
                let firing = schedule.due(now);
                let last = at(864_000);
                let expected = if missed == Missed::Skip { 1 } else { fired };
                assert_eq!(firing.moments.len(), expected, "{missed:?}");
                assert_eq!(firing.moments.last(), Some(&last));
                assert_eq!(firing.missed, 14_400 - expected as u64);
                assert_eq!(firing.next_at, Some(at(864_060)));
                let after = schedule.fired(&firing);
                assert_eq!((after.fired, after.last_at), (expected as u64, Some(last)));
                assert!(after.due(now).moments.is_empty());
            }
        }
        let late = schedule(every(86_400), Missed::Skip, at(0)).due(at(86_400 + 61));
        assert_eq!((late.moments.len(), late.missed), (0, 1), "a minute late is too late");
    }

    fn cron(expression: &str) -> Rhythm {
        Rhythm::Cron { expression: expression.to_owned(), time_zone: "UTC".to_owned() }
    }

    #[test]
    fn what_passed_during_a_pause_is_not_missed() {
        let schedule = schedule(cron("0 * * * *"), Missed::All, at(0));
        let paused = schedule.changed(ScheduleChange { paused: Some(true), spec: None }, at(10));
        assert_eq!((paused.next_at, paused.due(at(90_000)).moments.len()), (None, 0));
        let resumed = paused.changed(ScheduleChange { paused: Some(false), spec: None }, at(7_201));
        assert_eq!(resumed.next_at, Some(at(10_800)));
        let again =
            resumed.clone().changed(ScheduleChange { paused: Some(false), spec: None }, at(9_000));
        assert_eq!(again.next_at, resumed.next_at);
    }
}
