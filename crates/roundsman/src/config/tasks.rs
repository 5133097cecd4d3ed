//! The section about tasks and alarms.

use std::time::Duration;

use roundsman_core::tasks::TaskRules;

use super::reader::Reader;
use super::sections::{hours, ms, secs};

#[derive(Debug, Clone)]
pub(crate) struct Tasks {
    pub(crate) rules: TaskRules,
    pub(crate) submit_wait: Duration,
    pub(crate) submit_attempts_max: u32,
    pub(crate) poll_time_max: Duration,
    pub(crate) polls_at_once_max: usize,
    pub(crate) rooms_at_once_max: usize,
    pub(crate) submits_at_once_max: usize,
    pub(crate) collects_at_once_max: usize,
    pub(crate) collect_attempts_max: u32,
    pub(crate) sweep: Duration,
    pub(crate) keep_for: Duration,
    pub(crate) per_project_max: u32,
    pub(crate) alarms_per_room_max: u32,
}

impl Tasks {
    pub(super) fn read(reader: &mut Reader<'_>) -> Tasks {
        let rules = TaskRules {
            poll_every: reader.duration("tasks.poll_secs", ms(100)..=hours(1)),
            deadline: reader.duration("tasks.deadline_secs", secs(1)..=hours(24 * 30)),
            max_retries: reader.number("tasks.max_retries", 1..=1000),
        };
        Tasks {
            rules,
            submit_wait: reader.duration("tasks.submit_wait_secs", ms(0)..=secs(25)),
            submit_attempts_max: reader.number("tasks.submit_attempts_max", 1..=1000),
            poll_time_max: reader.duration("tasks.poll_time_secs_max", ms(10)..=secs(600)),
            polls_at_once_max: reader.number("tasks.polls_at_once_max", 1..=10_000),
            rooms_at_once_max: reader.number("tasks.rooms_at_once_max", 1..=10_000),
            submits_at_once_max: reader.number("tasks.submits_at_once_max", 1..=10_000),
            collects_at_once_max: reader.number("tasks.collects_at_once_max", 1..=1000),
            collect_attempts_max: reader.number("tasks.collect_attempts_max", 1..=1000),
            sweep: reader.duration("tasks.sweep_secs", ms(100)..=hours(1)),
            keep_for: reader.duration("tasks.retention_hours", hours(1)..=hours(876_000)),
            per_project_max: reader.number("tasks.tasks_per_project_max", 1..=10_000),
            alarms_per_room_max: reader.number("tasks.alarms_per_room_max", 1..=900),
        }
    }
}
