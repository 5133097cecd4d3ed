//! Replicate: an output of any shape, that is gone in an hour.

use roundsman_core::Timestamp;
use serde_json::{Value, json};

use super::super::account::Account;
use super::super::faults::Wrong;
use super::super::service::{Ask, Callback, Order, Service, bearer, parts, text};
use super::super::task::{Ending, Task};
use super::{created, file_number};
use crate::daily::http::{Reply, Request};

pub(super) struct Replicate;

impl Service for Replicate {
    fn admits(&self, request: &Request, account: &Account, _: Timestamp) -> bool {
        bearer(request) == Some(&account.api_key)
    }

    fn ask(&self, request: &Request) -> Ask {
        match (request.method.as_str(), parts(request).as_slice()) {
            ("POST", ["v1", "predictions"] | ["v1", "models", _, _, "predictions"]) => {
                let callback_url = text(&request.json()["webhook"]);
                Ask::Submit(Order { key: None, callback_url })
            }
            ("GET", ["v1", "predictions", id]) => Ask::Poll(vec![(*id).to_owned()]),
            ("POST", ["v1", "predictions", id, "cancel"]) => Ask::Cancel((*id).to_owned()),
            ("GET", ["files", name]) => Ask::File(file_number(name)),
            _ => Ask::Nothing,
        }
    }

    fn accepted(&self, task: &Task, url: &str, _: &[u8]) -> Reply {
        created(&prediction(task, url))
    }

    fn polled(&self, found: &[&Task], url: &str, _: &[u8]) -> Reply {
        match found.first() {
            None => self.wrong(Wrong::Missing),
            Some(task) => Reply::json(&prediction(task, url)),
        }
    }

    fn cancelled(&self) -> Reply {
        Reply::json(&json!({"status": "canceled"}))
    }

    fn too_late(&self) -> Reply {
        Reply::json(&json!({"status": "succeeded"}))
    }

    fn wrong(&self, what: Wrong) -> Reply {
        let (status, title, detail) = match what {
            Wrong::Key => (401, "Unauthenticated", "You did not pass a valid authentication token"),
            Wrong::Billing => {
                (402, "Insufficient credit", "You have insufficient credit to run this model.")
            }
            Wrong::Busy => {
                (429, "Too many requests", "Request was throttled. Expected available in 1 second.")
            }
            Wrong::Params => (422, "Input validation failed", "input.prompt is required"),
            Wrong::Content => (422, "Input validation failed", "NSFW content detected"),
            Wrong::Server => (500, "Internal server error", "Something went wrong"),
            Wrong::Forbidden => (403, "Forbidden", "You do not have permission"),
            Wrong::Missing => (404, "Not found", "The requested resource could not be found."),
        };
        Reply::new(status, json!({"title": title, "detail": detail, "status": status}).to_string())
    }

    fn callback(
        &self,
        task: &Task,
        url: &str,
        account: &Account,
        now: Timestamp,
    ) -> Option<Callback> {
        let body = prediction(task, url).to_string();
        let headers = account.standard_headers(&format!("msg-{}", task.number), &body, now);
        Some(Callback { url: task.callback_url.clone(), headers, body })
    }
}

fn prediction(task: &Task, url: &str) -> Value {
    let mut prediction = json!({
        "id": task.id,
        "status": if task.percent.is_some() { "processing" } else { "starting" },
        "input": task.body["input"],
        "output": null, "error": null, "logs": "", "data_removed": false,
        "urls": {
            "get": format!("{url}/v1/predictions/{}", task.id),
            "cancel": format!("{url}/v1/predictions/{}/cancel", task.id),
        },
    });
    match &task.ending {
        None => {}
        Some(Ending::Failed { message, .. }) => {
            prediction["status"] = json!("failed");
            prediction["error"] = json!(message);
        }
        Some(Ending::Filtered(reason)) => {
            prediction["status"] = json!("failed");
            prediction["error"] = json!(format!("The output was flagged as sensitive: {reason}"));
        }
        Some(Ending::Cancelled) => prediction["status"] = json!("canceled"),
        Some(ending) => {
            let output =
                if *ending == Ending::Empty { Value::Null } else { json!([task.link(url)]) };
            prediction["status"] = json!("succeeded");
            prediction["metrics"] = json!({"predict_time": 4.2});
            prediction["output"] = task.output(url, output);
        }
    }
    prediction
}
