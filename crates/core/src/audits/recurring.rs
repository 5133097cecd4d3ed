//! Audits that recur.

use std::fmt;

use super::{AuditId, AuditOptions, Schedule};
use crate::Timestamp;
use crate::users::UserId;

/// A recurring audit's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecurringId(i64);

impl RecurringId {
    pub const fn new(value: i64) -> Self {
        RecurringId(value)
    }

    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for RecurringId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A recurring audit that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecurring {
    pub user_id: UserId,
    pub website_url: String,
    pub schedule: Schedule,
    pub options: AuditOptions,
    pub priority: i16,
}

/// An audit that is made again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recurring {
    pub id: RecurringId,
    pub user_id: UserId,
    pub website_url: String,
    pub schedule: Schedule,
    pub options: AuditOptions,
    pub priority: i16,
    pub created_at: Timestamp,
    /// `None` while it is paused.
    pub next_at: Option<Timestamp>,
    pub last_audit_id: Option<AuditId>,
    /// How many were started.
    pub started: u32,
    /// Times that came while the audit before was not over yet.
    pub skipped: u32,
}

/// What somebody wants of a recurring audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecurringChange {
    pub is_paused: Option<bool>,
    pub schedule: Option<Schedule>,
}

/// What is to be done when the alarm rings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// It is paused: the alarm is over.
    Paused,
    NotBefore(Timestamp),
    /// An audit is started, and this is written with it.
    Start(Recurring),
    /// The one before is not over: this is written, and nothing started.
    Skip(Recurring),
}

/// A new one: the first audit is started at once, so that there is something to see.
pub fn first(id: RecurringId, new: NewRecurring, now: Timestamp) -> Recurring {
    Recurring {
        id,
        user_id: new.user_id,
        website_url: new.website_url,
        schedule: new.schedule,
        options: new.options,
        priority: new.priority,
        created_at: now,
        next_at: Some(now),
        last_audit_id: None,
        started: 0,
        skipped: 0,
    }
}

/// The alarm rings. Times that were missed while nobody was there are not made up for: one audit
/// says what is now, and what was then nobody can tell any more.
pub fn due(known: Recurring, is_last_unfinished: bool, now: Timestamp) -> Due {
    let Some(next_at) = known.next_at else { return Due::Paused };
    if next_at > now {
        return Due::NotBefore(next_at);
    }
    let following = Some(known.schedule.next_after(next_at, now));
    if is_last_unfinished {
        let skipped = known.skipped.saturating_add(1);
        return Due::Skip(Recurring { next_at: following, skipped, ..known });
    }
    let started = known.started.saturating_add(1);
    Due::Start(Recurring { next_at: following, started, ..known })
}

/// What somebody wants is done.
pub fn change(known: Recurring, wanted: &RecurringChange, now: Timestamp) -> Recurring {
    let is_moved = wanted.schedule.as_ref().is_some_and(|schedule| *schedule != known.schedule);
    let schedule = wanted.schedule.clone().unwrap_or(known.schedule);
    let is_paused = wanted.is_paused.unwrap_or(known.next_at.is_none());
    let next_at = match known.next_at {
        _ if is_paused => None,
        Some(next_at) if !is_moved => Some(next_at),
        _ => Some(schedule.next_after(now, now)),
    };
    Recurring { schedule, next_at, ..known }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros(secs * 1_000_000)
    }

    fn hourly() -> Recurring {
        let new = NewRecurring {
            user_id: UserId::new(1),
            website_url: "https://example.org/".to_owned(),
            schedule: Schedule::parse("every 1h", None).unwrap(),
            options: AuditOptions::default(),
            priority: 0,
        };
        first(RecurringId::new(1), new, at(100))
    }

    #[test]
    fn each_time_starts_one_audit_and_missed_times_none() {
        let Due::Start(once) = due(hourly(), false, at(100)) else { panic!("it is due") };
        assert_eq!((once.started, once.next_at), (1, Some(at(3700))));
        assert_eq!(due(once.clone(), false, at(3699)), Due::NotBefore(at(3700)));
        let Due::Skip(skipped) = due(once.clone(), true, at(3701)) else { panic!("it skips") };
        assert_eq!((skipped.started, skipped.skipped, skipped.next_at), (1, 1, Some(at(7300))));
        let Due::Start(late) = due(once, false, at(100 + 10 * 3600 + 5)) else { panic!("due") };
        assert_eq!(late.next_at, Some(at(100 + 11 * 3600)), "in step with the first");
    }

    #[test]
    fn a_pause_lasts_until_it_is_lifted() {
        let paused = RecurringChange { is_paused: Some(true), schedule: None };
        let quiet = change(hourly(), &paused, at(200));
        assert_eq!(due(quiet.clone(), false, at(9999)), Due::Paused);
        let other = RecurringChange {
            is_paused: None,
            schedule: Some(Schedule::parse("every 2h", None).unwrap()),
        };
        assert_eq!(change(quiet.clone(), &other, at(300)).next_at, None);
        let goes_on = RecurringChange { is_paused: Some(false), schedule: None };
        assert_eq!(change(quiet, &goes_on, at(300)).next_at, Some(at(3900)));
        assert_eq!(change(hourly(), &goes_on, at(300)).next_at, Some(at(100)), "nothing is asked");
        assert_eq!(change(hourly(), &other, at(300)).next_at, Some(at(7500)));
    }
}
