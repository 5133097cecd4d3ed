//! Posts to endpoints that users named, through the [`egress`](crate::egress) guard.
//!
//! Invariants: the connection goes to an address that the guard has checked, and to no other;
//! redirects are an answer like any other; certificates are verified; at most
//! [`ANSWER_BYTES_MAX`] bytes of the answer are read, and thrown away.

use std::time::Duration;

use async_trait::async_trait;
use hyper::Method;
use hyper::header::HeaderValue;
use roundsman_core::ports::{NotSent, WebhookAnswer, WebhookRequest, WebhookSender};
use tokio::time::timeout;
use url::{Position, Url};

use crate::egress::{EgressError, EgressGuard};
use crate::http::{self, Call, CallLimits, Route, Tls};

/// How much of an answer is read, so that a connection ends in good order.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Sends webhooks over HTTP.
pub struct HttpWebhookSender {
    guard: EgressGuard,
    tls: Tls,
}

/// The certificates to trust cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidCertificates(String);

impl HttpWebhookSender {
    /// Trusts the system's certificates and, in addition, those in `extra_pem`.
    pub fn new(guard: EgressGuard, extra_pem: Option<&str>) -> Result<Self, InvalidCertificates> {
        let tls = Tls::new(extra_pem).map_err(|error| InvalidCertificates(error.to_string()))?;
        Ok(HttpWebhookSender { guard, tls })
    }

    async fn send(&self, request: WebhookRequest) -> Result<WebhookAnswer, NotSent> {
        let target = self.guard.resolve(&request.url).await.map_err(|error| not_sent(&error))?;
        let mut headers = Vec::new();
        for (name, value) in request.headers {
            let value = HeaderValue::from_str(&value)
                .map_err(|_| NotSent::Failed(format!("the value of {name} cannot be sent")))?;
            headers.push((name.to_owned(), value));
        }
        let call = Call {
            method: Method::POST,
            target: target.url[Position::BeforePath..Position::AfterQuery].to_owned(),
            host: authority(&target.url),
            headers,
            json: Some(request.body.into()),
        };
        let tls = (target.url.scheme() == "https").then(|| self.tls.clone());
        let route = Route::Pinned { addresses: target.addresses, name: target.name, tls };
        let limits = CallLimits { time_max: request.time_max, answer_bytes_max: ANSWER_BYTES_MAX };
        let answer = http::send(&route, call, limits).await;
        let answer = answer.map_err(|error| NotSent::Failed(error.to_string()))?;
        Ok(WebhookAnswer { status: answer.status })
    }
}

#[async_trait]
impl WebhookSender for HttpWebhookSender {
    async fn post(&self, request: WebhookRequest) -> Result<WebhookAnswer, NotSent> {
        let time_max = request.time_max;
        // Resolving takes time too.
        timeout(time_max, self.send(request)).await.unwrap_or_else(|_| Err(too_slow(time_max)))
    }

    fn check_url(&self, url: &str) -> Result<(), NotSent> {
        let checked = self.guard.check(url);
        checked.map(drop).map_err(|refusal| NotSent::BlockedTarget(refusal.to_string()))
    }
}

/// The host as the user wrote it, with the port if it is not the scheme's.
fn authority(url: &Url) -> String {
    url[Position::BeforeHost..Position::AfterPort].to_owned()
}

fn not_sent(error: &EgressError) -> NotSent {
    match error {
        EgressError::Refused(refusal) => NotSent::BlockedTarget(refusal.to_string()),
        EgressError::Unresolved(_) => NotSent::Failed(error.to_string()),
    }
}

fn too_slow(time_max: Duration) -> NotSent {
    NotSent::Failed(format!("no answer within {time_max:?}"))
}
