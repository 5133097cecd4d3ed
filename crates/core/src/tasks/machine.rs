//! The one function that says what follows from what happened to a task.
//!
//! Invariants: what is over stays over, whoever comes late; a look that came to nothing counts, one
//! that found the task unfinished does not; a task that is past its deadline does not wait again.

use std::time::Duration;

use super::{
    KeptFile, Task, TaskError, TaskRules, TaskStage, TaskStatus, cancel_wish, collect_wish,
    failed_poll_pause, polling_wish, told,
};
use crate::Timestamp;
use crate::effects::{Effects, Transition};
use crate::jobs::Json;

/// The entity under which tasks are logged, by their numbers.
pub const TASK_ENTITY: &str = "task";
/// It was sent, and nobody can say whether it was taken: it is not sent again, because that could be
/// paid for twice.
pub const SUBMIT_UNKNOWN: &str = "submit_unknown";
/// It had not come to an end when its time was over.
pub const DEADLINE_EXCEEDED: &str = "deadline_exceeded";

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEvent {
    /// It is about to be sent. From here on the generator may know of it.
    Sending,
    /// The generator has not taken it, surely.
    NotSent { error: TaskError },
    /// The generator has it.
    Accepted { external_task_id: String, look_after: Duration },
    /// It is not done yet. `asked_at`: when the generator was asked.
    Unfinished { look_after: Duration, asked_at: Timestamp },
    /// Nothing was learned. `is_counted`: unless it was only too early to ask.
    PollFailed { error: TaskError, look_after: Option<Duration>, is_counted: bool },
    /// It is done, and there are files to fetch.
    Ready,
    /// It is done, and all of it is ours.
    Produced(Produced),
    /// It came to nothing.
    Failed { error: TaskError },
    /// Its time may be over.
    Overdue,
    /// Nobody wants it any more.
    Cancelled,
}

/// What a task brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Produced {
    pub result_url: Option<String>,
    pub result_data: Option<Json>,
    pub files: Vec<KeptFile>,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stepped {
    pub task: Task,
    pub effects: Effects,
}

/// This cannot happen to a task that is as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a task that is {} cannot take this step", current.as_str())]
pub struct Refused {
    pub current: TaskStatus,
}

/// What follows. `Ok(None)`: nothing does, because the task is over, or because all is as it was.
pub fn step(
    task: Task,
    event: TaskEvent,
    rules: TaskRules,
    now: Timestamp,
) -> Result<Option<Stepped>, Refused> {
    use TaskStatus::{Cancelled, Completed, Failed, Pending, Processing};
    let current = task.status;
    let stepped = match (current, event) {
        (Pending, TaskEvent::Sending) => waits(task, TaskStage::Sending, "submit", now),
        (Pending, TaskEvent::NotSent { error }) if is_late(&task, now) => fail(task, error, now),
        (Pending, TaskEvent::NotSent { error }) => {
            let task = Task { error: Some(error), ..task };
            waits(task, TaskStage::Waiting, "submit", now)
        }
        (Pending, TaskEvent::Accepted { external_task_id, look_after }) => {
            let task = Task { external_task_id: Some(external_task_id), error: None, ..task };
            looked_at_again(task, "submit", look_after, now)
        }
        (Processing, TaskEvent::Unfinished { .. } | TaskEvent::Overdue) if is_late(&task, now) => {
            fail(task, too_late(), now)
        }
        (Processing, TaskEvent::Unfinished { look_after, asked_at }) => {
            let is_hinted = task.hinted_at.is_some_and(|hinted| hinted > asked_at);
            let pause = if is_hinted { Duration::ZERO } else { look_after };
            let polls = task.polls.saturating_add(1);
            let task = Task { retry_count: 0, error: None, polls, ..task };
            looked_at_again(task, "poll", pause, now)
        }
        (Processing, TaskEvent::PollFailed { error, look_after, is_counted }) => {
            poll_failed(task, (error, look_after, is_counted), rules, now)
        }
        (Processing, TaskEvent::Ready) => ready(task, now),
        (Pending | Processing, TaskEvent::Produced(produced)) => complete(task, produced, now),
        (Pending | Processing, TaskEvent::Failed { error }) => fail(task, error, now),
        (Pending, TaskEvent::Overdue) if is_late(&task, now) => overdue_before(task, now),
        (Completed | Failed | Cancelled, _) | (Pending | Processing, TaskEvent::Overdue) => {
            return Ok(None);
        }
        (Pending | Processing, TaskEvent::Cancelled) => cancel(Task { error: None, ..task }, now),
        (
            Pending,
            TaskEvent::Unfinished { .. } | TaskEvent::PollFailed { .. } | TaskEvent::Ready,
        )
        | (
            Processing,
            TaskEvent::Sending | TaskEvent::NotSent { .. } | TaskEvent::Accepted { .. },
        ) => {
            return Err(Refused { current });
        }
    };
    Ok(Some(stepped))
}

fn is_late(task: &Task, now: Timestamp) -> bool {
    now >= task.deadline_at
}

fn too_late() -> TaskError {
    TaskError::new(DEADLINE_EXCEEDED, "it had not come to an end when its time was over")
}

/// One that may have been sent must not be told to be merely late: somebody may have been paid.
fn overdue_before(task: Task, now: Timestamp) -> Stepped {
    let error = match task.stage {
        TaskStage::Sending => TaskError::new(
            SUBMIT_UNKNOWN,
            "it was sent, and whether it was taken was not learned before its time was over",
        ),
        _ => too_late(),
    };
    fail(task, error, now)
}

/// It waits on where it is.
fn waits(task: Task, stage: TaskStage, cause: &'static str, now: Timestamp) -> Stepped {
    moved(Task { stage, next_poll_at: None, ..task }, TaskStatus::Pending, cause, now)
}

/// The generator has it, and is asked again after a pause, but not later than its end.
fn looked_at_again(task: Task, cause: &'static str, pause: Duration, now: Timestamp) -> Stepped {
    let at = (now + pause).min(task.deadline_at);
    let task = Task { stage: TaskStage::Polling, next_poll_at: Some(at), ..task };
    let was_pending = task.status == TaskStatus::Pending;
    let mut stepped = moved(task, TaskStatus::Processing, cause, now);
    // A round that looks at it comes back for it by itself.
    if was_pending {
        stepped.effects.jobs.push(polling_wish(&stepped.task.project_id, at));
    }
    stepped
}

fn poll_failed(
    task: Task,
    (error, look_after, is_counted): (TaskError, Option<Duration>, bool),
    rules: TaskRules,
    now: Timestamp,
) -> Stepped {
    let retry_count = task.retry_count + u32::from(is_counted);
    if is_late(&task, now) {
        return fail(Task { retry_count, ..task }, too_late(), now);
    }
    if is_counted && retry_count >= task.max_retries {
        return fail(Task { retry_count, ..task }, error, now);
    }
    let pause = look_after.unwrap_or_else(|| failed_poll_pause(rules, retry_count));
    let task = Task { retry_count, error: Some(error), ..task };
    looked_at_again(task, "poll", pause, now)
}

fn ready(task: Task, now: Timestamp) -> Stepped {
    let task = Task { stage: TaskStage::Collecting, next_poll_at: None, error: None, ..task };
    let mut stepped = moved(task, TaskStatus::Processing, "poll", now);
    stepped.effects.jobs.push(collect_wish(stepped.task.id, now));
    stepped
}

fn complete(task: Task, produced: Produced, now: Timestamp) -> Stepped {
    let Produced { result_url, result_data, files } = produced;
    let task = Task { result_url, result_data, files, error: None, ..task };
    over(task, TaskStatus::Completed, "generator", now)
}

fn fail(task: Task, error: TaskError, now: Timestamp) -> Stepped {
    over(Task { error: Some(error), ..task }, TaskStatus::Failed, "generator", now)
}

/// Its generator, if one has it, is told that nobody wants it any more.
fn cancel(task: Task, now: Timestamp) -> Stepped {
    let mut stepped = over(task, TaskStatus::Cancelled, "user", now);
    if stepped.task.external_task_id.is_some() {
        stepped.effects.jobs.push(cancel_wish(stepped.task.id, now));
    }
    stepped
}

/// It is over, and everybody is told.
fn over(task: Task, status: TaskStatus, cause: &'static str, now: Timestamp) -> Stepped {
    let task = Task { stage: TaskStage::Over, next_poll_at: None, completed_at: Some(now), ..task };
    let mut stepped = moved(task, status, cause, now);
    told(&stepped.task, &mut stepped.effects, now);
    stepped
}

fn moved(task: Task, status: TaskStatus, cause: &'static str, now: Timestamp) -> Stepped {
    let from = task.status;
    let task = Task { status, updated_at: now, version: task.version + 1, ..task };
    let steps = (from != status).then(|| logged(&task, Some(from), cause));
    let effects = Effects { transitions: steps.into_iter().collect(), ..Effects::default() };
    Stepped { task, effects }
}

/// The step as the log keeps it.
pub(super) fn logged(task: &Task, from: Option<TaskStatus>, cause: &'static str) -> Transition {
    let detail = task.error.as_ref().filter(|_| task.status == TaskStatus::Failed);
    let detail = detail.and_then(|error| {
        let code = serde_json::json!({ "code": error.code.as_str() });
        Json::from_value(&code).ok()
    });
    Transition {
        entity: TASK_ENTITY,
        entity_id: task.id.get(),
        from_state: from.map(|from| from.as_str().to_owned()),
        to_state: task.status.as_str().to_owned(),
        cause: cause.to_owned(),
        detail,
    }
}

#[cfg(test)]
mod tests;
