//! Veo by Vertex AI: OAuth, polls by POST, results in a bucket or in the answer.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::Url;
use roundsman_core::Timestamp;
use serde_json::json;

use super::super::account::Account;
use super::super::faults::Wrong;
use super::super::service::{Ask, Order, Service, bearer, parts, text};
use super::super::task::Task;
use super::veo::operation;
use super::{file_number, google_wrong};
use crate::daily::http::{Reply, Request};

pub(super) struct VeoVertex;

impl Service for VeoVertex {
    fn admits(&self, request: &Request, account: &Account, _: Timestamp) -> bool {
        bearer(request) == Some(&account.oauth_token())
    }

    fn ask(&self, request: &Request) -> Ask {
        match (request.method.as_str(), parts(request).as_slice()) {
            ("POST", ["token"]) => {
                let body = String::from_utf8_lossy(&request.body).into_owned();
                let pairs = Url::parse(&format!("http://form/?{body}"));
                let pairs =
                    pairs.ok().map(|url| url.query_pairs().into_owned().collect::<Vec<_>>());
                let statement = pairs.into_iter().flatten().find(|(name, _)| name == "assertion");
                Ask::Token(statement.map(|(_, value)| value).unwrap_or_default())
            }
            (
                "POST",
                ["v1", "projects", _, "locations", _, "publishers", "google", "models", model],
            ) => {
                if model.ends_with(":fetchPredictOperation") {
                    return Ask::Poll(text(&request.json()["operationName"]).into_iter().collect());
                }
                Ask::Submit(Order::default())
            }
            // What is in a bucket.
            ("GET", ["storage", "v1", "b", "bucket", "o", name]) => {
                Ask::File(file_number(name.rsplit('/').next().unwrap_or_default()))
            }
            _ => Ask::Nothing,
        }
    }

    fn guards_files(&self) -> bool {
        true
    }

    fn id(&self, number: usize, path: &[String]) -> String {
        let path = path[1..].join("/");
        let model = path.split(':').next().unwrap_or_default().to_owned();
        format!("{model}/operations/op-{number}")
    }

    fn accepted(&self, task: &Task, _: &str, _: &[u8]) -> Reply {
        Reply::json(&json!({"name": task.id}))
    }

    fn polled(&self, found: &[&Task], url: &str, file: &[u8]) -> Reply {
        let Some(task) = found.first() else { return google_wrong(Wrong::Missing) };
        let is_in_bucket = task.body["parameters"]["storageUri"].is_string();
        let video = if is_in_bucket {
            json!({"gcsUri": format!("gs://bucket/out/{}.mp4", task.number), "mimeType": "video/mp4"})
        } else {
            json!({"bytesBase64Encoded": BASE64_STANDARD.encode(file), "mimeType": "video/mp4"})
        };
        Reply::json(&operation(task, |reason| match reason {
            None => task.output(url, json!({"videos": [video.clone()]})),
            Some(reasons) => {
                json!({"raiMediaFilteredCount": 1, "raiMediaFilteredReasons": reasons})
            }
        }))
    }

    fn wrong(&self, what: Wrong) -> Reply {
        match what {
            Wrong::Key => {
                let error = json!({"error": {"code": 401, "status": "UNAUTHENTICATED",
                    "message": "Request had invalid authentication credentials."}});
                Reply::new(401, error.to_string())
            }
            what => google_wrong(what),
        }
    }
}
