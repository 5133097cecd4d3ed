//! One client's requests: each is acknowledged, refused, or without an answer.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use roundsman_testkit::JsonClient;
use roundsman_testkit::http::JsonResponse;
use serde_json::Value;

use super::ledger::Ledger;

/// Longer than a claim waits and than a server may take; a paused server answers later or never.
const REQUEST_MAX: Duration = Duration::from_secs(20);

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// 2xx: it is done, and must stay done.
    Acked { status: u16, body: Value },
    /// 4xx: certainly nothing was done.
    Refused { status: u16, code: String },
    /// Nobody knows.
    Lost(Lost),
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The connection broke or could not be made.
    Connection,
    /// 503: the server says that it cannot say.
    Unavailable,
}

impl Answer {
    pub(crate) fn acked(self) -> Option<Value> {
        match self {
            Answer::Acked { body, .. } => Some(body),
            Answer::Refused { .. } | Answer::Lost(_) => None,
        }
    }
}

/// Talks to one server as one user, and counts what is acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    client: JsonClient,
    ledger: Arc<Ledger>,
}

impl Api {
    pub(crate) fn new(client: JsonClient, ledger: Arc<Ledger>) -> Self {
        Api { client, ledger }
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(body), None).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PATCH, path, Some(body), None).await
    }

    /// A request that may be sent again and again.
    pub(crate) async fn post_idempotent(&self, path: &str, body: &Value, key: &str) -> Answer {
        self.send(Method::POST, path, Some(body), Some(key)).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        idempotency_key: Option<&str>,
    ) -> Answer {
        let name = format!("{method} {path}");
        let mut request = self.client.request(method, path).timeout(REQUEST_MAX);
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        match self.client.send(request).await {
            Ok(response) => self.judge(&name, response),
            Err(_) => Answer::Lost(Lost::Connection),
        }
    }

    fn judge(&self, name: &str, response: JsonResponse) -> Answer {
        let JsonResponse { status, text, body, .. } = response;
        match status {
            200..=299 => {
                self.ledger.count_acked();
                Answer::Acked { status, body }
            }
            401 | 404 | 409 => {
                let code = body["code"].as_str().unwrap_or_default().to_owned();
                Answer::Refused { status, code }
            }
            503 => Answer::Lost(Lost::Unavailable),
            _ => {
                self.ledger.problem(format!("{name} was answered {status}: {text}"));
                Answer::Lost(Lost::Unavailable)
            }
        }
    }
}
