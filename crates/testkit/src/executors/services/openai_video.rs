//! OpenAI-compatible videos: a form, and a file that is read with the key.

use roundsman_core::Timestamp;
use serde_json::{Value, json};

use super::super::account::Account;
use super::super::faults::Wrong;
use super::super::service::{Ask, Callback, Order, Service, bearer, parts};
use super::super::task::{Ending, Task};
use crate::daily::http::{Reply, Request};

pub(super) struct OpenAiVideo;

impl Service for OpenAiVideo {
    fn admits(&self, request: &Request, account: &Account, _: Timestamp) -> bool {
        bearer(request) == Some(&account.api_key)
    }

    fn ask(&self, request: &Request) -> Ask {
        let is_form = request
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("multipart/form-data; boundary="));
        match (request.method.as_str(), parts(request).as_slice()) {
            ("POST", ["v1", "videos"]) if is_form => Ask::Submit(Order::default()),
            ("GET", ["v1", "videos", id]) => Ask::Poll(vec![(*id).to_owned()]),
            ("DELETE", ["v1", "videos", id]) => Ask::Cancel((*id).to_owned()),
            ("GET", ["v1", "videos", id, "content"]) => {
                Ask::File(id.rsplit('_').next().and_then(|n| n.parse().ok()).unwrap_or(0))
            }
            _ => Ask::Nothing,
        }
    }

    fn guards_files(&self) -> bool {
        true
    }

    fn id(&self, number: usize, _: &[String]) -> String {
        format!("video_{number}")
    }

    fn accepted(&self, task: &Task, _: &str, _: &[u8]) -> Reply {
        Reply::json(&video(task))
    }

    fn polled(&self, found: &[&Task], _: &str, _: &[u8]) -> Reply {
        match found.first() {
            Some(task) if task.ending != Some(Ending::Cancelled) => Reply::json(&video(task)),
            _ => self.wrong(Wrong::Missing),
        }
    }

    fn cancelled(&self) -> Reply {
        Reply::json(&json!({"object": "video.deleted", "deleted": true}))
    }

    fn wrong(&self, what: Wrong) -> Reply {
        let (status, kind, code, message) = match what {
            Wrong::Key => {
                (401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided")
            }
            Wrong::Billing => {
                (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota")
            }
            Wrong::Busy => (429, "requests", "rate_limit_exceeded", "Rate limit reached"),
            Wrong::Params => {
                (400, "invalid_request_error", "invalid_value", "Invalid value: 'seconds'")
            }
            Wrong::Content => (
                400,
                "image_generation_user_error",
                "moderation_blocked",
                "Your request was blocked",
            ),
            Wrong::Server => (500, "server_error", "server_error", "The server had an error"),
            Wrong::Forbidden => (403, "invalid_request_error", "forbidden", "Not allowed"),
            Wrong::Missing => (404, "invalid_request_error", "not_found", "Video not found"),
        };
        let error = json!({"error": {"type": kind, "code": code, "message": message}});
        Reply::new(status, error.to_string())
    }

    fn callback(
        &self,
        task: &Task,
        _: &str,
        account: &Account,
        now: Timestamp,
    ) -> Option<Callback> {
        let body = json!({"type": "video.completed", "data": {"id": task.id}}).to_string();
        let headers = account.standard_headers(&format!("evt-{}", task.number), &body, now);
        Some(Callback { url: None, headers, body })
    }
}

fn video(task: &Task) -> Value {
    let mut video = json!({
        "id": task.id, "object": "video", "status": "queued", "progress": 0,
        "seconds": "4", "size": "720x1280", "error": null,
    });
    match (&task.ending, task.percent) {
        (None, Some(percent)) => {
            video["status"] = json!("in_progress");
            video["progress"] = json!(percent);
        }
        (None, None) => {}
        (Some(Ending::Failed { code, message }), _) => {
            video["status"] = json!("failed");
            video["error"] = json!({"code": code, "message": message});
        }
        (Some(Ending::Filtered(reason)), _) => {
            video["status"] = json!("failed");
            video["error"] = json!({"code": "moderation_blocked", "message": reason});
        }
        (Some(_), _) => {
            video["status"] = json!("completed");
            video["progress"] = json!(100);
        }
    }
    video
}
