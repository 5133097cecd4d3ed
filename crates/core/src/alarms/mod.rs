//! Alarms: a room's wishes to be woken at a time. Each is a keyed job, so there is no table of timers
//! and no loop beside that of jobs.
//!
//! Invariants: an alarm fires at least once and never before its time; setting one that is firing
//! leaves it set; what happens when it fires commits with its end.

mod alarm;
mod fire;

pub use alarm::{
    Alarm, AlarmName, AlarmWish, FAILING_ATTEMPTS_MIN, InvalidAlarmName, SetMode, USER_ALARM_KIND,
    alarm_key, alarm_of_job, alarm_of_key, alarm_wish, is_alarm_of, replace,
};
pub use fire::{Fired, fired};
