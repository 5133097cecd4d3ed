//! One request to the runtime, and what can be said of its answer.

use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use roundsman_core::ports::Unanswered;
use serde_json::Value;

use super::{DockerAddress, DockerOptions};
use crate::http::{self, Call, CallLimits, Route};

const VERSION: &str = "/v1.41";
/// A list of ten thousand containers is about this long.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How much of what the runtime says is passed on.
const MESSAGE_CHARS_MAX: usize = 300;

pub(super) struct Api {
    route: Route,
    host: String,
    request_max: Duration,
}

/// A whole answer.
pub(super) struct Reply {
    pub(super) status: u16,
    body: Bytes,
}

impl Api {
    pub(super) fn new(options: &DockerOptions) -> Self {
        let (route, host) = match &options.address {
            DockerAddress::Unix(path) => (Route::Unix(path.clone()), "docker".to_owned()),
            DockerAddress::Tcp { host, port } => {
                let route = Route::Host { name: host.clone(), port: *port, tls: None };
                (route, format!("{host}:{port}"))
            }
        };
        Api { route, host, request_max: options.request_max }
    }

    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Reply, Unanswered> {
        let call = Call {
            method,
            target: format!("{VERSION}{path}"),
            host: self.host.clone(),
            headers: Vec::new(),
            json: body.map(|body| body.to_string().into()),
        };
        let limits = CallLimits { time_max: self.request_max, answer_bytes_max: ANSWER_BYTES_MAX };
        let answer = http::send(&self.route, call, limits).await;
        let answer = answer.map_err(|error| Unanswered::new(error.to_string()))?;
        if !answer.is_whole {
            return Err(Unanswered::new("the runtime's answer is too long"));
        }
        Ok(Reply { status: answer.status, body: answer.body })
    }
}

impl Reply {
    /// The body as JSON, if the status is one of these.
    pub(super) fn expect(&self, statuses: &[u16]) -> Result<Value, Unanswered> {
        if !statuses.contains(&self.status) {
            return Err(self.unexpected());
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| Unanswered::new(format!("the runtime's answer is no JSON: {error}")))
    }

    pub(super) fn unexpected(&self) -> Unanswered {
        Unanswered::new(format!("the runtime answered {}: {}", self.status, self.message()))
    }

    /// Whether the runtime's own message contains these words, in any case.
    pub(super) fn says(&self, words: &str) -> bool {
        self.own_message().is_some_and(|message| message.to_lowercase().contains(words))
    }

    /// Whether it is the runtime that answers, and not something in between.
    pub(super) fn is_json(&self) -> bool {
        self.own_message().is_some()
    }

    pub(super) fn message(&self) -> String {
        let message = self.own_message();
        let message = message.unwrap_or_else(|| String::from_utf8_lossy(&self.body).into_owned());
        message.chars().take(MESSAGE_CHARS_MAX).collect()
    }

    fn own_message(&self) -> Option<String> {
        let body: Value = serde_json::from_slice(&self.body).ok()?;
        Some(body.get("message")?.as_str()?.to_owned())
    }
}
