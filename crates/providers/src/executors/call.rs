//! One request to the service, and what can be said of its answer.

use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::Value;
use url::Url;

use super::HttpExecutor;
use super::errors::Told;
use super::form;
use super::plan::RequestPlan;
use super::template::Scope;
use crate::http::{self, Answer, Call, CallError, CallLimits, Place};
use roundsman_core::ports::FailureCode;

/// A request that is ready but for its key.
pub(super) struct Ready {
    method: Method,
    url: Url,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Option<Bytes>,
}

/// What came of a request.
pub(super) enum Answered {
    /// A good answer. Null if it has no body.
    Good(Value),
    /// An answer that says that something is wrong.
    Wrong { status: u16, body: Value, told: Told },
    /// A good status, and nothing that can be understood.
    Odd(String),
    /// No answer. `was_sent` if it may have been carried out nevertheless.
    Silent { was_sent: bool, reason: String },
}

impl HttpExecutor {
    /// Fills a request in; the error is about the parameters.
    pub(super) fn ready(&self, plan: &RequestPlan, scope: &Scope<'_>) -> Result<Ready, String> {
        let url = plan.url(&self.plan.base, scope)?;
        let mut headers = self.plan.headers.clone();
        headers.extend(plan.headers(scope)?);
        let body = if plan.is_form {
            let (body, kind) = form::encode(&plan.form(scope)?);
            let kind = HeaderValue::from_str(&kind).map_err(|error| error.to_string())?;
            headers.push((hyper::header::CONTENT_TYPE, kind));
            Some(body)
        } else {
            plan.body(scope)?.map(|body| Bytes::from(body.to_string()))
        };
        Ok(Ready { method: plan.method.clone(), url, headers, body })
    }

    /// A request for an address that the service named; only its own are asked.
    pub(super) fn ready_at(&self, url: Url) -> Option<Ready> {
        let (method, headers) = (Method::GET, self.plan.headers.clone());
        self.plan.is_own(&url).then_some(Ready { method, url, headers, body: None })
    }

    /// Sends it, within so long.
    pub(super) async fn ask(&self, ready: Ready, time_max: Duration) -> Answered {
        let asked = async {
            // Whoever waits here has sent nothing.
            let permit = self.calls.acquire().await;
            let header = self.auth.header().await;
            (permit, header)
        };
        let Ok((_permit, header)) = tokio::time::timeout(time_max, asked).await else {
            return not_sent(format!("no turn to ask within {time_max:?}"));
        };
        let header = match header {
            Ok(header) => header,
            Err(reason) => return not_sent(reason),
        };
        let Ready { method, mut url, mut headers, body } = ready;
        headers.extend(header);
        self.auth.sign(&mut url);
        let Some(place) = Place::of(&url, &self.tls) else {
            return not_sent("the address leads nowhere".to_owned());
        };
        let headers = headers.into_iter().map(|(name, value)| (name.as_str().to_owned(), value));
        let call = Call {
            method,
            target: place.target,
            host: place.host,
            headers: headers.collect(),
            json: body,
        };
        let limits = CallLimits { time_max, answer_bytes_max: self.plan.limits.answer_bytes_max };
        match http::send(&place.route, call, limits).await {
            Ok(answer) => self.read(answer).await,
            Err(error) => {
                let was_sent = matches!(error, CallError::TooSlow(_) | CallError::Broken(_));
                Answered::Silent { was_sent, reason: error.to_string() }
            }
        }
    }

    async fn read(&self, answer: Answer) -> Answered {
        let status = answer.status;
        let body: Option<Value> = serde_json::from_slice(&answer.body).ok();
        let is_good = (200..300).contains(&status);
        if is_good && !answer.is_whole {
            let bytes_max = self.plan.limits.answer_bytes_max;
            return Answered::Odd(format!("an answer of more than {bytes_max} bytes"));
        }
        if is_good && answer.body.is_empty() {
            return Answered::Good(Value::Null);
        }
        match body {
            Some(body) if is_good && self.plan.errors.is_good(&body) => Answered::Good(body),
            None if is_good => Answered::Odd(format!("{status} and no JSON")),
            body => {
                let body = body.unwrap_or_default();
                let mut told = self.plan.errors.told(status, &body);
                told.after = answer.retry_after.or(told.after);
                if status == 401 {
                    self.auth.was_refused().await;
                }
                Answered::Wrong { status, body, told }
            }
        }
    }
}

fn not_sent(reason: String) -> Answered {
    Answered::Silent { was_sent: false, reason }
}

impl Answered {
    /// What is to be said where nothing was learned.
    pub(super) fn unclear(self) -> roundsman_core::ports::Unclear {
        use roundsman_core::ports::Unclear;
        match self {
            Answered::Good(_) => odd("an answer that does not say what it should"),
            Answered::Odd(message) => odd(&message),
            Answered::Wrong { told, .. } => {
                Unclear { code: told.code, message: told.message, retry_after: told.after }
            }
            Answered::Silent { reason, .. } => {
                Unclear { code: FailureCode::Unavailable, message: reason, retry_after: None }
            }
        }
    }
}

pub(super) fn odd(message: &str) -> roundsman_core::ports::Unclear {
    roundsman_core::ports::Unclear {
        code: FailureCode::Odd,
        message: message.to_owned(),
        retry_after: None,
    }
}
