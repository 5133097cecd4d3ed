//! What became of a task, written into the document: once, to `tasks` and to the node that waits.
//!
//! An entry of `tasks` is written as one plain value, as the clients of the seed read it: nobody else
//! writes it, so there is nothing to merge. Of a node only what the result is about is changed.

use bytes::Bytes;
use loro::{Container, LoroDoc, LoroError, LoroMap, ValueOrContainer};
use roundsman_core::jobs::Json;
use roundsman_core::rooms::{TaskCompletion, TaskOutcome};
use serde_json::{Value, json};

use crate::json::{from_loro, to_loro};
use crate::patch::set;
use crate::{Document, PatchError};

/// The words that end a task.
const ENDED: [&str; 3] = ["completed", "failed", "cancelled"];

impl Document {
    /// Writes what became of a task. The answer is the update; `None` if the document says so already.
    pub fn complete(&mut self, completion: &TaskCompletion) -> Result<Option<Bytes>, PatchError> {
        self.change(|doc| {
            write_task(doc, completion)
                .and_then(|()| write_node(doc, completion))
                .map_err(|error| PatchError::Refused(error.to_string()))
        })
    }
}

fn write_task(doc: &LoroDoc, completion: &TaskCompletion) -> Result<(), LoroError> {
    let tasks = doc.get_map("tasks");
    let known = tasks.get(&completion.task_id).map(|entry| from_loro(&entry.get_deep_value()));
    let status = known.as_ref().and_then(|entry| entry.get("status")).and_then(Value::as_str);
    // Ended is ended: saying it again, or otherwise, changes nothing.
    if status.is_some_and(|status| ENDED.contains(&status)) {
        return Ok(());
    }
    tasks.insert(&completion.task_id, to_loro(&entry(completion)))
}

fn entry(completion: &TaskCompletion) -> Value {
    let mut entry = json!({
        "status": completion.outcome.status(),
        "completed_at": completion.at.as_micros() / 1000,
    });
    match &completion.outcome {
        TaskOutcome::Completed { result_url, result_data, .. } => {
            entry["result_url"] = json!(result_url);
            entry["result_data"] = result_data.as_ref().map_or(Value::Null, Json::to_value);
        }
        TaskOutcome::Failed { code, message } => {
            entry["error"] = json!(message);
            entry["error_code"] = json!(code);
        }
        TaskOutcome::Cancelled => {}
    }
    entry
}

fn write_node(doc: &LoroDoc, completion: &TaskCompletion) -> Result<(), LoroError> {
    let nodes = doc.get_map("nodes");
    let Some(id) = node_of(&nodes, completion) else { return Ok(()) };
    set(&nodes, &id, &json!({"data": news(&completion.outcome)}))
}

/// The node that waits for the task: the one that was named, unless it waits for another task by now,
/// else the one that names the task. A node that is gone is not made again.
fn node_of(nodes: &LoroMap, completion: &TaskCompletion) -> Option<String> {
    let task = completion.task_id.as_str();
    if let Some(id) = completion.node_id.as_deref() {
        let waits_for = task_of(&nodes.get(id)?);
        return waits_for.is_none_or(|other| other == task).then(|| id.to_owned());
    }
    let mut ids: Vec<String> = nodes.keys().map(|id| id.to_string()).collect();
    ids.sort_unstable();
    ids.into_iter()
        .find(|id| nodes.get(id).and_then(|node| task_of(&node)).is_some_and(|other| other == task))
}

fn task_of(node: &ValueOrContainer) -> Option<String> {
    let value = match node {
        ValueOrContainer::Container(Container::Map(node)) => {
            let data = node.get("data")?;
            match data {
                ValueOrContainer::Container(Container::Map(data)) => data.get("taskId")?,
                other => return text_of(&from_loro(&other.get_deep_value())["taskId"]),
            }
        }
        other => return text_of(&from_loro(&other.get_deep_value())["data"]["taskId"]),
    };
    text_of(&from_loro(&value.get_deep_value()))
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(ToOwned::to_owned)
}

/// What changes in the data of a node, as a merge patch.
fn news(outcome: &TaskOutcome) -> Value {
    let mut news = json!({"status": outcome.status(), "error": null});
    match outcome {
        TaskOutcome::Completed { result_url, label, description, .. } => {
            let known = [("src", result_url), ("label", label), ("description", description)];
            for (name, text) in known {
                if let Some(text) = text {
                    news[name] = json!(text);
                }
            }
        }
        TaskOutcome::Failed { message, .. } => news["error"] = json!(message),
        TaskOutcome::Cancelled => {}
    }
    news
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use roundsman_core::Timestamp;
    use roundsman_core::rooms::ProjectId;

    use super::*;

    fn completion(node: Option<&str>, outcome: TaskOutcome) -> TaskCompletion {
        TaskCompletion {
            project: ProjectId::new("p").unwrap(),
            task_id: "task_1".to_owned(),
            node_id: node.map(ToOwned::to_owned),
            outcome,
            at: Timestamp::EPOCH + Duration::from_secs(5),
        }
    }

    fn success() -> TaskOutcome {
        TaskOutcome::Completed {
            result_url: Some("https://x/v.mp4".to_owned()),
            result_data: Some(Json::parse(r#"{"duration": 5}"#).unwrap()),
            label: Some("a cat".to_owned()),
            description: None,
        }
    }

    fn failure() -> TaskOutcome {
        TaskOutcome::Failed { code: "submit_unknown".to_owned(), message: "no answer".to_owned() }
    }

    /// A node as a plain value, as a map with plain data, and as maps all the way down.
    fn documents() -> Vec<Document> {
        let node = json!({"id": "n", "position": {"x": 1}, "data": {"status": "generating", "taskId": "task_1", "error": "old"}});
        let mut plain = Document::new(1);
        plain.patch(&json!({"nodes": {"n": node}})).unwrap();
        let half = Document::new(2);
        let map = half.doc.get_map("nodes").insert_container("n", LoroMap::new()).unwrap();
        for (name, value) in node.as_object().unwrap() {
            map.insert(name, to_loro(value)).unwrap();
        }
        let deep = Document::new(3);
        let map = deep.doc.get_map("nodes").insert_container("n", LoroMap::new()).unwrap();
        map.insert("id", "n").unwrap();
        map.insert("position", to_loro(&node["position"])).unwrap();
        let data = map.insert_container("data", LoroMap::new()).unwrap();
        for (name, value) in node["data"].as_object().unwrap() {
            data.insert(name, to_loro(value)).unwrap();
        }
        vec![plain, half, deep]
    }

    #[test]
    fn a_result_is_written_to_tasks_and_to_the_node_once() {
        for mut document in documents() {
            let before = document.snapshot();
            let done = completion(Some("n"), success());
            let update = document.complete(&done).unwrap().expect("a change");
            let said = document.to_json();
            assert_eq!(
                said["tasks"]["task_1"],
                json!({"status": "completed", "completed_at": 5000,
                       "result_url": "https://x/v.mp4", "result_data": {"duration": 5}})
            );
            assert_eq!(
                said["nodes"]["n"],
                json!({"id": "n", "position": {"x": 1},
                       "data": {"status": "completed", "taskId": "task_1",
                                "src": "https://x/v.mp4", "label": "a cat"}})
            );
            let later = TaskCompletion { at: Timestamp::EPOCH, ..done };
            assert_eq!(document.complete(&later), Ok(None), "once");
            let mut elsewhere = Document::new(9);
            elsewhere.import(&before).unwrap();
            elsewhere.import(&update).unwrap();
            assert_eq!(elsewhere.to_json(), said);
        }
    }

    #[test]
    fn a_failure_reaches_tasks_too_and_the_node_that_names_the_task() {
        for mut document in documents() {
            document.complete(&completion(None, failure())).unwrap().expect("a change");
            let said = document.to_json();
            assert_eq!(said["tasks"]["task_1"]["error_code"], "submit_unknown");
            assert_eq!(said["nodes"]["n"]["data"]["status"], "failed");
            assert_eq!(said["nodes"]["n"]["data"]["error"], "no answer");
            assert_eq!(said["nodes"]["n"]["position"], json!({"x": 1}), "the rest stays");
        }
    }

    #[test]
    fn an_ended_task_stays_as_it_ended() {
        let mut document = documents().remove(0);
        document.complete(&completion(Some("n"), TaskOutcome::Cancelled)).unwrap();
        document.complete(&completion(Some("gone"), success())).unwrap();
        assert_eq!(document.to_json()["tasks"]["task_1"]["status"], "cancelled");
    }

    #[test]
    fn a_node_that_is_gone_or_waits_for_another_task_is_left_alone() {
        let mut document = Document::new(1);
        document.complete(&completion(Some("n"), success())).unwrap().expect("the task's entry");
        assert_eq!(document.to_json()["nodes"], json!({}));
        let mut busy = Document::new(2);
        let node = json!({"data": {"taskId": "task_2", "status": "generating"}});
        busy.patch(&json!({"nodes": {"n": node}})).unwrap();
        busy.complete(&completion(Some("n"), success())).unwrap();
        assert_eq!(busy.to_json()["nodes"]["n"], node);
        assert_eq!(busy.to_json()["tasks"]["task_1"]["status"], "completed");
    }

    #[test]
    fn two_who_write_the_same_result_write_one() {
        let base = documents().remove(2).snapshot();
        let mut both = [Document::new(7), Document::new(8)];
        let mut updates = Vec::new();
        for document in &mut both {
            document.import(&base).unwrap();
            updates.push(document.complete(&completion(Some("n"), success())).unwrap().unwrap());
        }
        let [mut one, mut other] = both;
        one.import(&updates[1]).unwrap();
        other.import(&updates[0]).unwrap();
        assert_eq!(one.to_json(), other.to_json());
        assert_eq!(one.to_json()["nodes"]["n"]["data"]["status"], "completed");
    }
}
