//! Gemini's pictures: the answer has them, or has only words.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use roundsman_core::Timestamp;
use serde_json::{Value, json};

use super::super::account::Account;
use super::super::faults::Wrong;
use super::super::service::{Ask, Order, Service, parts};
use super::super::task::{Ending, Task};
use super::google_wrong;
use crate::daily::http::{Reply, Request};

pub(super) struct GeminiImage;

impl Service for GeminiImage {
    fn admits(&self, request: &Request, account: &Account, _: Timestamp) -> bool {
        request.header("x-goog-api-key") == Some(&account.api_key)
    }

    fn ask(&self, request: &Request) -> Ask {
        match (request.method.as_str(), parts(request).as_slice()) {
            ("POST", ["v1beta", "models", model]) if model.ends_with(":generateContent") => {
                Ask::Submit(Order::default())
            }
            _ => Ask::Nothing,
        }
    }

    fn is_synchronous(&self) -> bool {
        true
    }

    fn accepted(&self, task: &Task, url: &str, file: &[u8]) -> Reply {
        let picture =
            json!({"inlineData": {"mimeType": "image/png", "data": BASE64_STANDARD.encode(file)}});
        let text = |words: &str| json!({"text": words});
        let candidate = |parts: Value, reason: &str| {
            json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": reason, "index": 0}],
                   "modelVersion": "gemini-2.5-flash-image", "usageMetadata": {"totalTokenCount": 1290}})
        };
        let body = match &task.ending {
            Some(Ending::Empty) => candidate(json!([text("I can only describe it.")]), "STOP"),
            Some(Ending::Filtered(reason)) => json!({
                "promptFeedback": {"blockReason": reason}, "modelVersion": "gemini-2.5-flash-image",
            }),
            Some(Ending::Failed { code, .. }) => {
                json!({"candidates": [{"content": {}, "finishReason": code, "index": 0}]})
            }
            _ => task.output(url, candidate(json!([text("Here it is."), picture]), "STOP")),
        };
        Reply::json(&body)
    }

    fn polled(&self, _: &[&Task], _: &str, _: &[u8]) -> Reply {
        google_wrong(Wrong::Missing)
    }

    fn wrong(&self, what: Wrong) -> Reply {
        google_wrong(what)
    }
}
