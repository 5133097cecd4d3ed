//! Veo by the Gemini API: operations without `done`, done without samples, files behind the key.

use roundsman_core::Timestamp;
use serde_json::{Value, json};

use super::super::account::Account;
use super::super::faults::Wrong;
use super::super::service::{Ask, Order, Service, parts};
use super::super::task::{Ending, Task};
use super::{file_number, google_wrong};
use crate::daily::http::{Reply, Request};

pub(super) struct Veo;

impl Service for Veo {
    fn admits(&self, request: &Request, account: &Account, _: Timestamp) -> bool {
        request.header("x-goog-api-key") == Some(&account.api_key)
    }

    fn ask(&self, request: &Request) -> Ask {
        match (request.method.as_str(), parts(request).as_slice()) {
            ("POST", ["v1beta", "models", model]) if model.ends_with(":predictLongRunning") => {
                Ask::Submit(Order::default())
            }
            ("GET", ["v1beta", name @ ..]) if name.len() == 4 => Ask::Poll(vec![name.join("/")]),
            ("GET", ["files", name]) => Ask::File(file_number(name)),
            _ => Ask::Nothing,
        }
    }

    fn guards_files(&self) -> bool {
        true
    }

    fn id(&self, number: usize, path: &[String]) -> String {
        let model = path.last().and_then(|model| model.split(':').next()).unwrap_or("veo");
        format!("models/{model}/operations/op-{number}")
    }

    fn accepted(&self, task: &Task, _: &str, _: &[u8]) -> Reply {
        Reply::json(&json!({"name": task.id}))
    }

    fn polled(&self, found: &[&Task], url: &str, _: &[u8]) -> Reply {
        match found.first() {
            None => google_wrong(Wrong::Missing),
            Some(task) => {
                let uri = json!({"video": {"uri": task.link(url)}});
                let samples = json!({"generatedSamples": [uri]});
                Reply::json(&operation(task, |reason| match reason {
                    None => json!({"generateVideoResponse": task.output(url, samples.clone())}),
                    Some(reasons) => json!({"generateVideoResponse": {
                        "raiMediaFilteredCount": 1, "raiMediaFilteredReasons": reasons,
                    }}),
                }))
            }
        }
    }

    fn wrong(&self, what: Wrong) -> Reply {
        google_wrong(what)
    }
}

/// An operation; `response` makes what is in it, or what is in it when the filters took it.
pub(super) fn operation(task: &Task, response: impl Fn(Option<&[String]>) -> Value) -> Value {
    match &task.ending {
        // `done` is absent, not false.
        None => json!({"name": task.id, "metadata": {"@type": "x"}}),
        Some(Ending::Failed { code, message }) => {
            let code: i64 = code.parse().unwrap_or(13);
            json!({"name": task.id, "done": true, "error": {"code": code, "message": message}})
        }
        Some(Ending::Filtered(reason)) => {
            json!({"name": task.id, "done": true, "response": response(Some(std::slice::from_ref(reason)))})
        }
        Some(Ending::Empty) => {
            json!({"name": task.id, "done": true, "response": response(Some(&[]))})
        }
        Some(_) => json!({"name": task.id, "done": true, "response": response(None)}),
    }
}
