//! What is told of a task: to the document of its project, to listeners, to its user's endpoint.

use serde_json::{Value, json};

use super::{Task, TaskStatus};
use crate::Timestamp;
use crate::effects::{Effects, NewFrame};
use crate::jobs::Json;
use crate::rooms::{ProjectId, TaskCompletion, TaskOutcome};
use crate::webhooks::{WebhookEvent, event_id};

/// A node is called by so much of what was asked for.
pub const LABEL_CHARS_MAX: usize = 50;

/// The stream of everything that a room's listeners are told beside its document.
pub fn room_stream(project: &ProjectId) -> String {
    format!("room:{project}")
}

/// What the document is to say about a task that is over; `None` of one that is not.
pub fn completion(task: &Task) -> Option<TaskCompletion> {
    let outcome = match task.status {
        TaskStatus::Pending | TaskStatus::Processing => return None,
        TaskStatus::Completed => TaskOutcome::Completed {
            result_url: task.result_url.clone(),
            result_data: task.result_data.clone(),
            label: label(&task.params),
            description: text_member(task.result_data.as_ref(), "description"),
        },
        TaskStatus::Failed => TaskOutcome::Failed {
            code: task.error_code().unwrap_or("failed").to_owned(),
            message: task.error.as_ref().map(|e| e.message.clone()).unwrap_or_default(),
        },
        TaskStatus::Cancelled => TaskOutcome::Cancelled,
    };
    Some(TaskCompletion {
        project: task.project_id.clone(),
        task_id: task.id.to_string(),
        node_id: task.node_id.clone(),
        outcome,
        at: task.completed_at.unwrap_or(task.updated_at),
    })
}

/// Adds what listeners and the user's endpoint are told when a task has come to its end.
pub fn told(task: &Task, effects: &mut Effects, now: Timestamp) {
    let event_type = match task.status {
        TaskStatus::Pending | TaskStatus::Processing => return,
        TaskStatus::Completed => "task.completed",
        TaskStatus::Failed => "task.failed",
        TaskStatus::Cancelled => "task.cancelled",
    };
    let said = shown(task);
    let body = json!({ "type": event_type, "task": said, "ts": now.to_string() });
    effects.frames.push(NewFrame {
        stream: room_stream(&task.project_id),
        body: Json::from_stored(body.to_string()),
    });
    let id = event_id(&[&task.id.to_string(), event_type]);
    let data = json!({ "task": said });
    WebhookEvent::new(task.user_id, id, event_type, data, now).add_to(effects, now);
}

fn shown(task: &Task) -> Value {
    json!({
        "task_id": task.id.to_string(),
        "project_id": task.project_id.as_str(),
        "task_type": task.task_type.as_str(),
        "node_id": task.node_id,
        "status": task.status.as_str(),
        "result_url": task.result_url,
        "result_data": task.result_data.as_ref().map(Json::to_value),
        "error": task.error.as_ref().map(|e| json!({ "code": e.code.as_str(), "message": e.message })),
        "completed_at": task.completed_at.map(|at| at.to_string()),
    })
}

/// The beginning of what was asked for.
fn label(params: &Json) -> Option<String> {
    let prompt = text_member(Some(params), "prompt")?;
    let prompt = prompt.trim();
    let short: String = prompt.chars().take(LABEL_CHARS_MAX).collect();
    let is_cut = short.len() < prompt.len();
    (!short.is_empty()).then(|| if is_cut { format!("{short}…") } else { short })
}

fn text_member(document: Option<&Json>, name: &str) -> Option<String> {
    document?.to_value().get(name)?.as_str().map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_called_by_the_beginning_of_its_prompt() {
        let called = |params: &str| label(&Json::parse(params).unwrap());
        assert_eq!(called(r#"{"prompt":" a cat "}"#).as_deref(), Some("a cat"));
        let long = "é".repeat(LABEL_CHARS_MAX + 1);
        let short = format!("{}…", "é".repeat(LABEL_CHARS_MAX));
        assert_eq!(called(&format!(r#"{{"prompt":"{long}"}}"#)), Some(short));
        for none in ["{}", r#"{"prompt":7}"#, r#"{"prompt":" "}"#, "null"] {
            assert_eq!(called(none), None, "{none}");
        }
    }
}
