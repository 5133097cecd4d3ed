//! fal: completed is not yet well, the result says how it went; signatures with public keys.

use roundsman_core::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::super::account::Account;
use super::super::faults::Wrong;
use super::super::service::{Ask, Callback, Order, Service, parts};
use super::super::task::{Ending, Task};
use super::file_number;
use crate::daily::http::{Reply, Request};

pub(super) struct Fal;

impl Service for Fal {
    fn admits(&self, request: &Request, account: &Account, _: Timestamp) -> bool {
        let expected = format!("Key {}", account.api_key);
        request.header("authorization") == Some(expected.as_str())
    }

    fn ask(&self, request: &Request) -> Ask {
        match (request.method.as_str(), parts(request).as_slice()) {
            ("GET", [_, _, "requests", id, "status"]) => Ask::Poll(vec![(*id).to_owned()]),
            ("GET", [_, _, "requests", id]) => Ask::Result((*id).to_owned()),
            ("PUT", [_, _, "requests", id, "cancel"]) => Ask::Cancel((*id).to_owned()),
            ("GET", [".well-known", "jwks.json"]) => Ask::Keys,
            ("GET", ["files", name]) => Ask::File(file_number(name)),
            ("POST", [_, _, ..]) => Ask::Submit(Order {
                key: None,
                callback_url: request.query("fal_webhook").map(str::to_owned),
            }),
            _ => Ask::Nothing,
        }
    }

    fn accepted(&self, task: &Task, url: &str, _: &[u8]) -> Reply {
        Reply::json(&status(task, url))
    }

    fn polled(&self, found: &[&Task], url: &str, _: &[u8]) -> Reply {
        match found.first() {
            None => self.wrong(Wrong::Missing),
            Some(task) => Reply::json(&status(task, url)),
        }
    }

    fn result(&self, task: &Task, url: &str) -> Reply {
        let usual = json!({
            "video": {"url": task.link(url), "content_type": "video/mp4", "file_size": 4096},
            "seed": 7,
        });
        match &task.ending {
            None => Reply::new(400, json!({"detail": "Request is still in progress"}).to_string()),
            Some(Ending::Failed { code, message }) => {
                let detail = json!([{"type": code, "msg": message, "loc": ["body"]}]);
                Reply::new(422, json!({"detail": detail}).to_string())
            }
            Some(Ending::Filtered(reason)) => {
                let detail = json!([{"type": "content_policy_violation", "msg": reason, "loc": ["body", "prompt"]}]);
                Reply::new(422, json!({"detail": detail}).to_string())
            }
            Some(Ending::Cancelled) => {
                Reply::new(400, json!({"detail": "Request was cancelled"}).to_string())
            }
            Some(Ending::Empty) => Reply::json(&json!({})),
            Some(_) => Reply::json(&task.output(url, usual)),
        }
    }

    fn cancelled(&self) -> Reply {
        Reply::new(202, json!({"status": "CANCELLATION_REQUESTED"}).to_string())
    }

    fn too_late(&self) -> Reply {
        Reply::new(400, json!({"status": "ALREADY_COMPLETED"}).to_string())
    }

    fn wrong(&self, what: Wrong) -> Reply {
        let (status, detail) = match what {
            Wrong::Key => (401, json!("No user found for Key ID and Secret")),
            Wrong::Billing => (403, json!("User is locked. Reason: Exhausted balance.")),
            Wrong::Busy => (429, json!("Concurrent requests limit reached")),
            Wrong::Params => (
                422,
                json!([{"type": "missing", "msg": "Field required", "loc": ["body", "prompt"]}]),
            ),
            Wrong::Content => (
                422,
                json!([{"type": "content_policy_violation", "msg": "The content could not be processed"}]),
            ),
            Wrong::Server => (500, json!("Internal Server Error")),
            Wrong::Forbidden => (403, json!("Forbidden")),
            Wrong::Missing => (404, json!("Request not found")),
        };
        Reply::new(status, json!({"detail": detail}).to_string())
    }

    fn callback(
        &self,
        task: &Task,
        url: &str,
        account: &Account,
        now: Timestamp,
    ) -> Option<Callback> {
        let is_well = matches!(task.ending, Some(Ending::Succeeded | Ending::SucceededWith(_)));
        let body = json!({
            "request_id": task.id,
            "gateway_request_id": task.id,
            "status": if is_well { "OK" } else { "ERROR" },
            "payload": if is_well { json!({"video": {"url": task.link(url)}}) } else { Value::Null },
        });
        let body = body.to_string();
        let seconds = (now.as_micros() / 1_000_000).to_string();
        let hash = hex::encode(Sha256::digest(body.as_bytes()));
        let message = [task.id.as_str(), "user-1", &seconds, &hash].join("\n");
        let headers = vec![
            ("x-fal-webhook-request-id".to_owned(), task.id.clone()),
            ("x-fal-webhook-user-id".to_owned(), "user-1".to_owned()),
            ("x-fal-webhook-timestamp".to_owned(), seconds),
            ("x-fal-webhook-signature".to_owned(), account.ed25519(message.as_bytes())),
        ];
        Some(Callback { url: task.callback_url.clone(), headers, body })
    }
}

fn status(task: &Task, url: &str) -> Value {
    // The rest of the model's path is dropped.
    let app = task.path.iter().take(2).cloned().collect::<Vec<_>>().join("/");
    let base = format!("{url}/{app}/requests/{}", task.id);
    let status = match (&task.ending, task.percent) {
        (Some(_), _) => "COMPLETED",
        (None, Some(_)) => "IN_PROGRESS",
        (None, None) => "IN_QUEUE",
    };
    json!({
        "request_id": task.id,
        "status": status,
        "queue_position": 0,
        "response_url": base,
        "status_url": format!("{base}/status"),
        "cancel_url": format!("{base}/cancel"),
    })
}
