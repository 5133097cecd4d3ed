//! What a room's round over its tasks does: which are looked at, and when it comes back.

use std::time::Duration;

use super::{TaskId, TaskRules, TaskStage};
use crate::Timestamp;

/// What a round must know of a task that is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskLook {
    pub id: TaskId,
    pub stage: TaskStage,
    pub retry_count: u32,
    pub next_poll_at: Option<Timestamp>,
    pub deadline_at: Timestamp,
}

/// Why a task is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// It is time to ask the generator.
    Poll(TaskId),
    /// Its time is over, and there is nobody to ask.
    Overdue(TaskId),
}

/// What is to be done now. Those that answer come before those that did not: many who keep silent
/// must not keep the others waiting.
pub fn due(looks: &[TaskLook], now: Timestamp) -> Vec<Due> {
    let mut found: Vec<(u32, Timestamp, Due)> = Vec::new();
    for look in looks {
        let at = look.next_poll_at.unwrap_or(look.deadline_at).min(look.deadline_at);
        let due = match look.stage {
            TaskStage::Over => continue,
            _ if at > now => continue,
            TaskStage::Polling => Due::Poll(look.id),
            TaskStage::Waiting | TaskStage::Sending | TaskStage::Collecting => {
                Due::Overdue(look.id)
            }
        };
        found.push((look.retry_count, at, due));
    }
    found.sort();
    found.into_iter().map(|(_, _, due)| due).collect()
}

/// When the round comes back; `None` if nothing waits any more. What waits for another job is looked
/// after at the usual pace, so that one that was lost costs no more than that.
pub fn come_back_at(looks: &[TaskLook], rules: TaskRules, now: Timestamp) -> Option<Timestamp> {
    let usual = now + rules.poll_every;
    let at = |look: &TaskLook| match look.stage {
        TaskStage::Over => None,
        TaskStage::Polling => Some(look.next_poll_at.unwrap_or(usual).min(look.deadline_at)),
        TaskStage::Waiting | TaskStage::Sending | TaskStage::Collecting => {
            Some(usual.min(look.deadline_at))
        }
    };
    // What is overdue was just looked at and could not be settled: not again at once.
    looks.iter().filter_map(at).min().map(|at| if at <= now { usual } else { at })
}

/// The pause after so many looks in a row that came to nothing: twice as long each time.
pub fn failed_poll_pause(rules: TaskRules, retry_count: u32) -> Duration {
    const PAUSE_MAX: Duration = Duration::from_secs(300);
    let doublings = retry_count.saturating_sub(1).min(16);
    rules.poll_every.saturating_mul(2u32.saturating_pow(doublings)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: TaskRules = TaskRules {
        poll_every: Duration::from_secs(10),
        deadline: Duration::from_secs(7200),
        max_retries: 3,
    };

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros(secs * 1_000_000)
    }

    fn look(id: i64, stage: TaskStage, next: Option<i64>) -> TaskLook {
        TaskLook {
            id: TaskId::new(id),
            stage,
            retry_count: 0,
            next_poll_at: next.map(at),
            deadline_at: at(7200),
        }
    }

    #[test]
    fn those_that_are_due_are_looked_at_and_silent_ones_come_last() {
        let silent = TaskLook { retry_count: 2, ..look(1, TaskStage::Polling, Some(1)) };
        let looks = [
            silent,
            look(2, TaskStage::Polling, Some(9)),
            look(3, TaskStage::Polling, Some(5)),
            look(4, TaskStage::Polling, Some(11)),
            look(5, TaskStage::Sending, None),
        ];
        let ids = |found: &[Due]| -> Vec<i64> {
            found.iter().map(|(Due::Poll(id) | Due::Overdue(id))| id.get()).collect()
        };
        assert_eq!(ids(&due(&looks, at(10))), [3, 2, 1]);
        let all = due(&looks, at(7200));
        assert_eq!(all.len(), 5);
        assert!(all.contains(&Due::Overdue(TaskId::new(5))));
    }

    #[test]
    fn it_comes_back_for_the_first_and_not_at_all_for_none() {
        assert_eq!(come_back_at(&[], RULES, at(0)), None);
        assert_eq!(come_back_at(&[look(1, TaskStage::Over, None)], RULES, at(0)), None);
        let polling = look(1, TaskStage::Polling, Some(30));
        assert_eq!(come_back_at(&[polling], RULES, at(0)), Some(at(30)));
        let sending = look(2, TaskStage::Sending, None);
        assert_eq!(come_back_at(&[polling, sending], RULES, at(0)), Some(at(10)));
        assert_eq!(come_back_at(&[polling], RULES, at(40)), Some(at(50)), "never at once");
        assert_eq!(come_back_at(&[sending], RULES, at(7195)), Some(at(7200)));
    }

    #[test]
    fn silence_is_met_with_patience() {
        let pauses = [1, 2, 3, 9, 99].map(|count| failed_poll_pause(RULES, count).as_secs());
        assert_eq!(pauses, [10, 20, 40, 300, 300]);
    }
}
