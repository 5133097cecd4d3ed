//! The states of a task as a picture, drawn by asking the rules themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{
    NewTask, Produced, Task, TaskError, TaskEvent, TaskId, TaskRules, TaskStage, TaskStatus,
    TaskType, new_task, step,
};
use crate::Timestamp;
use crate::jobs::Json;
use crate::rooms::ProjectId;
use crate::users::UserId;

/// A Mermaid state diagram of every step that is allowed, with what leads to it.
pub fn task_diagram() -> String {
    let mut lines = vec!["stateDiagram-v2".to_owned()];
    lines.push(format!("    [*] --> {}: created", TaskStatus::Pending.as_str()));
    for from in TaskStatus::ALL {
        let mut ways: BTreeMap<TaskStatus, Vec<&'static str>> = BTreeMap::new();
        for (name, to) in ways_from(from) {
            let names = ways.entry(to).or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for (to, names) in ways {
            let names = names.join(", ");
            lines.push(format!("    {} --> {}: {names}", from.as_str(), to.as_str()));
        }
        if from.is_over() {
            lines.push(format!("    {} --> [*]", from.as_str()));
        }
    }
    lines.join("\n") + "\n"
}

/// What may happen, and where it leads: early and late, with tries left and without.
fn ways_from(from: TaskStatus) -> Vec<(&'static str, TaskStatus)> {
    let (early, late) = (at(10), at(10_000));
    let mut ways = Vec::new();
    for (name, event) in events() {
        for (now, retry_count) in [(early, 0), (early, 9), (late, 0)] {
            let task = Task { retry_count, ..example(from) };
            if let Ok(Some(stepped)) = step(task, event.clone(), TaskRules::default(), now) {
                ways.push((name, stepped.task.status));
            }
        }
    }
    ways
}

fn events() -> Vec<(&'static str, TaskEvent)> {
    let error = || TaskError::new("error", "an error");
    let look_after = Duration::from_secs(10);
    vec![
        ("sending", TaskEvent::Sending),
        ("not sent", TaskEvent::NotSent { error: error() }),
        ("accepted", TaskEvent::Accepted { external_task_id: "x".to_owned(), look_after }),
        ("unfinished", TaskEvent::Unfinished { look_after, asked_at: at(9) }),
        (
            "look failed",
            TaskEvent::PollFailed { error: error(), look_after: None, is_counted: true },
        ),
        ("ready", TaskEvent::Ready),
        ("produced", TaskEvent::Produced(Produced::default())),
        ("failed", TaskEvent::Failed { error: error() }),
        ("overdue", TaskEvent::Overdue),
        ("cancelled", TaskEvent::Cancelled),
    ]
}

fn example(status: TaskStatus) -> Task {
    let wish = NewTask {
        user_id: UserId::new(1),
        project_id: ProjectId::from_stored("p".to_owned()),
        task_type: TaskType::from_stored("t".to_owned()),
        params: Json::null(),
        node_id: None,
        external_service: "s".to_owned(),
        submit_key: "k".to_owned(),
        result_key: "r".to_owned(),
        max_retries: 3,
        retry_of: None,
        deadline_at: at(7200),
        first_look_at: at(10),
    };
    let made = new_task(TaskId::new(1), wish, at(0)).task;
    let stage = match status {
        TaskStatus::Pending => TaskStage::Waiting,
        TaskStatus::Processing => TaskStage::Polling,
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => TaskStage::Over,
    };
    Task { status, stage, ..made }
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_micros(secs * 1_000_000)
}
