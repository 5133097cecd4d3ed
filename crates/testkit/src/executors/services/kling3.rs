//! Kling, second generation: `succeeded`, batches, an empty list for an unknown id, signatures.

use roundsman_core::Timestamp;
use serde_json::{Value, json};

use super::super::account::Account;
use super::super::faults::Wrong;
use super::super::service::{Ask, Callback, Order, Service, bearer, parts, text};
use super::super::task::{Ending, Task};
use super::{file_number, kling_error, kling_wrong};
use crate::daily::http::{Reply, Request};

pub(super) struct Kling3;

impl Service for Kling3 {
    fn admits(&self, request: &Request, account: &Account, _: Timestamp) -> bool {
        bearer(request) == Some(&account.api_key)
    }

    fn ask(&self, request: &Request) -> Ask {
        match (request.method.as_str(), parts(request).as_slice()) {
            ("POST", ["text-to-video" | "image-to-video", _model]) => {
                let options = &request.json()["options"];
                Ask::Submit(Order {
                    key: text(&options["external_task_id"]),
                    callback_url: text(&options["callback_url"]),
                })
            }
            ("GET", ["tasks"]) => {
                match (request.query("task_ids"), request.query("external_task_ids")) {
                    (Some(ids), _) => Ask::Poll(ids.split(',').map(str::to_owned).collect()),
                    (None, Some(key)) => Ask::LookUp(key.to_owned()),
                    (None, None) => Ask::Nothing,
                }
            }
            ("GET", ["files", name]) => Ask::File(file_number(name)),
            _ => Ask::Nothing,
        }
    }

    fn has_unique_keys(&self) -> bool {
        true
    }

    fn accepted(&self, task: &Task, _: &str, _: &[u8]) -> Reply {
        envelope(&json!({"id": task.id, "status": "submitted", "external_id": task.key}))
    }

    fn polled(&self, found: &[&Task], url: &str, _: &[u8]) -> Reply {
        envelope(&found.iter().map(|task| data(task, url)).collect())
    }

    fn wrong(&self, what: Wrong) -> Reply {
        kling_wrong(what)
    }

    fn duplicate(&self) -> Reply {
        kling_error(400, 1201, "external_task_id has been used before")
    }

    fn callback(
        &self,
        task: &Task,
        url: &str,
        account: &Account,
        now: Timestamp,
    ) -> Option<Callback> {
        let body = data(task, url).to_string();
        // Odd ones are signed as the standard says, even ones over the body alone: both are seen.
        let headers = if task.number % 2 == 1 {
            account.standard_headers(&format!("msg-{}", task.number), &body, now)
        } else {
            vec![("webhook-signature".to_owned(), format!("v1,{}", account.hmac(body.as_bytes())))]
        };
        Some(Callback { url: task.callback_url.clone(), headers, body })
    }
}

fn envelope(data: &Value) -> Reply {
    Reply::json(&json!({"code": 0, "message": "SUCCEED", "request_id": "r-1", "data": data}))
}

fn data(task: &Task, url: &str) -> Value {
    let mut data = json!({"id": task.id, "status": "submitted", "message": "", "billing": []});
    match &task.ending {
        None if task.percent.is_some() => data["status"] = json!("processing"),
        None => {}
        Some(Ending::Failed { code, message }) => {
            data["status"] = json!("failed");
            data["message"] = json!(format!("{code} {message}"));
        }
        Some(Ending::Filtered(reason)) => {
            data["status"] = json!("failed");
            data["message"] = json!(format!("Failure to pass the risk control system: {reason}"));
        }
        Some(ending) => {
            let output = json!({"type": "video", "url": task.link(url), "duration": "5.1"});
            let outputs = if *ending == Ending::Empty { json!([]) } else { json!([output]) };
            data["status"] = json!("succeeded");
            data["outputs"] = task.output(url, outputs);
        }
    }
    data
}
