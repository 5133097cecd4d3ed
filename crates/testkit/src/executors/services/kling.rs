//! Kling, first generation: tokens, envelopes, `succeed`, callbacks without a signature.

use roundsman_core::Timestamp;
use serde_json::{Value, json};

use super::super::account::Account;
use super::super::faults::Wrong;
use super::super::service::{Ask, Callback, Order, Service, bearer, parts, text};
use super::super::task::{Ending, Task};
use super::{file_number, kling_error, kling_wrong};
use crate::daily::http::{Reply, Request};

pub(super) struct Kling;

impl Service for Kling {
    fn admits(&self, request: &Request, account: &Account, now: Timestamp) -> bool {
        bearer(request).is_some_and(|token| account.is_good_hs256(token, now))
    }

    fn ask(&self, request: &Request) -> Ask {
        match (request.method.as_str(), parts(request).as_slice()) {
            ("POST", ["v1", "videos", "text2video" | "image2video" | "multi-image2video"]) => {
                let body = request.json();
                Ask::Submit(Order {
                    key: text(&body["external_task_id"]),
                    callback_url: text(&body["callback_url"]),
                })
            }
            // Either id is taken in the same place.
            ("GET", ["v1", "videos", _, id]) if id.starts_with("task-") => {
                Ask::Poll(vec![(*id).to_owned()])
            }
            ("GET", ["v1", "videos", _, key]) => Ask::LookUp((*key).to_owned()),
            ("GET", ["files", name]) => Ask::File(file_number(name)),
            _ => Ask::Nothing,
        }
    }

    fn has_unique_keys(&self) -> bool {
        true
    }

    fn accepted(&self, task: &Task, _: &str, _: &[u8]) -> Reply {
        envelope(&json!({
            "task_id": task.id,
            "task_status": "submitted",
            "task_info": {"external_task_id": task.key},
            "created_at": 1, "updated_at": 1,
        }))
    }

    fn polled(&self, found: &[&Task], url: &str, _: &[u8]) -> Reply {
        match found.first() {
            None => kling_wrong(Wrong::Missing),
            Some(task) => envelope(&data(task, url)),
        }
    }

    fn wrong(&self, what: Wrong) -> Reply {
        kling_wrong(what)
    }

    fn duplicate(&self) -> Reply {
        kling_error(400, 1201, "external_task_id has been used before")
    }

    fn callback(&self, task: &Task, url: &str, _: &Account, _: Timestamp) -> Option<Callback> {
        let mut body = data(task, url);
        body["final_unit_deduction"] = json!("1");
        Some(Callback {
            url: task.callback_url.clone(),
            headers: Vec::new(),
            body: body.to_string(),
        })
    }
}

fn envelope(data: &Value) -> Reply {
    Reply::json(&json!({"code": 0, "message": "SUCCEED", "request_id": "r-1", "data": data}))
}

fn data(task: &Task, url: &str) -> Value {
    let mut data = json!({
        "task_id": task.id,
        "task_status": "submitted",
        "task_status_msg": "",
        "task_info": {"external_task_id": task.key},
        "created_at": 1, "updated_at": 2,
    });
    match &task.ending {
        None if task.percent.is_some() => data["task_status"] = json!("processing"),
        None => {}
        Some(Ending::Failed { code, message }) => {
            data["task_status"] = json!("failed");
            data["task_status_msg"] = json!(format!("{code} {message}"));
        }
        Some(Ending::Filtered(reason)) => {
            data["task_status"] = json!("failed");
            data["task_status_msg"] =
                json!(format!("Failure to pass the risk control system: {reason}"));
        }
        Some(ending) => {
            let video = json!({"id": "v-1", "url": task.link(url), "duration": "5.1"});
            let videos = if *ending == Ending::Empty { json!([]) } else { json!([video]) };
            data["task_status"] = json!("succeed");
            data["task_result"] = task.output(url, json!({"videos": videos}));
        }
    }
    data
}
