//! Runway: a header that every request needs, a task that is gone once it is deleted, no webhooks.

use roundsman_core::Timestamp;
use serde_json::{Value, json};

use super::super::account::Account;
use super::super::faults::Wrong;
use super::super::service::{Ask, Order, Service, bearer, parts};
use super::super::task::{Ending, Task};
use super::file_number;
use crate::daily::http::{Reply, Request};

pub(super) struct Runway;

impl Service for Runway {
    fn admits(&self, request: &Request, account: &Account, _: Timestamp) -> bool {
        bearer(request) == Some(&account.api_key)
            && request.header("x-runway-version") == Some("2024-11-06")
    }

    fn ask(&self, request: &Request) -> Ask {
        match (request.method.as_str(), parts(request).as_slice()) {
            ("POST", ["v1", "image_to_video" | "text_to_video"]) => Ask::Submit(Order::default()),
            ("GET", ["v1", "tasks", id]) => Ask::Poll(vec![(*id).to_owned()]),
            ("DELETE", ["v1", "tasks", id]) => Ask::Cancel((*id).to_owned()),
            ("GET", ["files", name]) => Ask::File(file_number(name)),
            _ => Ask::Nothing,
        }
    }

    fn accepted(&self, task: &Task, _: &str, _: &[u8]) -> Reply {
        Reply::json(&json!({"id": task.id}))
    }

    fn polled(&self, found: &[&Task], url: &str, _: &[u8]) -> Reply {
        match found.first() {
            // After it was deleted there is nothing of it.
            Some(task) if task.ending != Some(Ending::Cancelled) => Reply::json(&shown(task, url)),
            _ => self.wrong(Wrong::Missing),
        }
    }

    fn wrong(&self, what: Wrong) -> Reply {
        let (status, error) = match what {
            Wrong::Key => (401, "Unauthorized"),
            Wrong::Billing => (400, "You do not have enough credits to run this task."),
            Wrong::Busy => (429, "Rate limit exceeded"),
            Wrong::Params => (400, "Validation of body failed"),
            Wrong::Content => (400, "Validation of body failed: moderation"),
            Wrong::Server => (500, "Internal server error"),
            Wrong::Forbidden => (403, "Forbidden"),
            Wrong::Missing => (404, "Task not found"),
        };
        Reply::new(status, json!({"error": error}).to_string())
    }
}

fn shown(task: &Task, url: &str) -> Value {
    let mut shown =
        json!({"id": task.id, "createdAt": "2026-01-01T00:00:00Z", "status": "PENDING"});
    match (&task.ending, task.percent) {
        // Over the limit of tasks at once, which Runway itself waits for.
        (None, Some(0)) => shown["status"] = json!("THROTTLED"),
        (None, Some(percent)) => {
            shown["status"] = json!("RUNNING");
            shown["progress"] = json!(f64::from(percent) / 100.0);
        }
        (None, None) => {}
        (Some(Ending::Failed { code, message }), _) => {
            shown["status"] = json!("FAILED");
            shown["failure"] = json!(message);
            shown["failureCode"] = json!(code);
        }
        (Some(Ending::Filtered(reason)), _) => {
            shown["status"] = json!("FAILED");
            shown["failure"] = json!(reason);
            shown["failureCode"] = json!("SAFETY.OUTPUT.VIDEO");
        }
        (Some(Ending::Cancelled), _) => shown["status"] = json!("CANCELLED"),
        (Some(ending), _) => {
            let output = if *ending == Ending::Empty { json!([]) } else { json!([task.link(url)]) };
            shown["status"] = json!("SUCCEEDED");
            shown["output"] = task.output(url, output);
        }
    }
    shown
}
