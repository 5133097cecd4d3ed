//! The requests of the worker protocol.

use std::time::Duration;

use reqwest::{Client, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Error, Failure, Job};

/// Longer than any request but a claim takes on a server that works.
const REQUEST_SECS_MAX: u64 = 15;

/// Why a request changed nothing, as far as is known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The job is somebody else's now, or over.
    #[error("the lease is lost")]
    LeaseLost,
    /// Sending it again will not help.
    #[error("refused with {status}: {detail}")]
    Refused { status: u16, detail: String },
    #[error("no answer: {0}")]
    Unanswered(String),
}

/// One server, as one user sees it.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    client: Client,
    base: Url,
    token: String,
}

#[derive(Debug, Deserialize)]
struct Claimed {
    jobs: Vec<Job>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Beat {
    pub(crate) cancel_requested: bool,
}

/// What to claim.
#[derive(Debug)]
pub(crate) struct ClaimWish<'a> {
    pub(crate) worker: &'a str,
    pub(crate) kinds: &'a [String],
    pub(crate) max: usize,
    pub(crate) lease: Duration,
    pub(crate) wait: Duration,
}

impl Api {
    pub(crate) fn new(url: &str, token: &str) -> Result<Self, Error> {
        let address = || Error::Address(url.to_owned());
        let mut base: Url = url.parse().map_err(|_| address())?;
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        if token.is_empty() || token.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(Error::Token);
        }
        let client = Client::builder().build().map_err(Error::Client)?;
        Ok(Api { client, base, token: token.to_owned() })
    }

    pub(crate) fn with_client(self, client: Client) -> Self {
        Api { client, ..self }
    }

    pub(crate) async fn claim(&self, wish: &ClaimWish<'_>) -> Result<Vec<Job>, CallError> {
        let body = json!({
            "worker": wish.worker,
            "kinds": wish.kinds,
            "max": wish.max,
            "lease_secs": wish.lease.as_secs(),
            "wait_secs": wish.wait.as_secs(),
        });
        let time_max = wish.wait + Duration::from_secs(REQUEST_SECS_MAX);
        let claimed: Claimed = self.call("jobs/claim", &body, time_max).await?;
        Ok(claimed.jobs)
    }

    pub(crate) async fn heartbeat(
        &self,
        job: &Job,
        lease: Duration,
        progress: Option<Value>,
    ) -> Result<Beat, CallError> {
        let mut body = json!({"lease_no": job.lease_no, "lease_secs": lease.as_secs()});
        if let Some(progress) = progress {
            body["progress"] = progress;
        }
        self.about(job, "heartbeat", &body).await
    }

    pub(crate) async fn complete(&self, job: &Job, result: &Value) -> Result<(), CallError> {
        self.settle(job, "complete", &json!({"lease_no": job.lease_no, "result": result})).await
    }

    pub(crate) async fn fail(&self, job: &Job, failure: &Failure) -> Result<(), CallError> {
        let mut body = json!({
            "lease_no": job.lease_no,
            "error": {"message": failure.message},
            "fatal": failure.is_fatal,
        });
        if let Some(code) = &failure.code {
            body["error"]["code"] = json!(code);
        }
        if let Some(wait) = failure.retry_after {
            body["retry_after_secs"] = json!(wait.as_secs());
        }
        self.settle(job, "fail", &body).await
    }

    pub(crate) async fn release(&self, job: &Job) -> Result<(), CallError> {
        self.settle(job, "release", &json!({"lease_no": job.lease_no})).await
    }

    pub(crate) async fn cancelled(&self, job: &Job) -> Result<(), CallError> {
        self.settle(job, "cancelled", &json!({"lease_no": job.lease_no})).await
    }

    async fn settle(&self, job: &Job, verb: &str, body: &Value) -> Result<(), CallError> {
        self.about::<Value>(job, verb, body).await.map(drop)
    }

    async fn about<T: for<'de> Deserialize<'de>>(
        &self,
        job: &Job,
        verb: &str,
        body: &Value,
    ) -> Result<T, CallError> {
        let path = format!("jobs/{}/{verb}", job.id);
        self.call(&path, body, Duration::from_secs(REQUEST_SECS_MAX)).await
    }

    async fn call<T: for<'de> Deserialize<'de>>(
        &self,
        path: &str,
        body: &Value,
        time_max: Duration,
    ) -> Result<T, CallError> {
        let unanswered = |error: reqwest::Error| CallError::Unanswered(error.to_string());
        let url = self.base.join(path).map_err(|error| CallError::Unanswered(error.to_string()))?;
        let request = self.client.post(url).header("x-api-key", &self.token).timeout(time_max);
        let answer = request.json(body).send().await.map_err(unanswered)?;
        let status = answer.status();
        if status.is_success() {
            return answer.json().await.map_err(unanswered);
        }
        let detail = answer.text().await.map_err(unanswered)?;
        Err(refusal(status, detail))
    }
}

fn refusal(status: StatusCode, detail: String) -> CallError {
    match status {
        StatusCode::CONFLICT | StatusCode::NOT_FOUND | StatusCode::GONE => CallError::LeaseLost,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            CallError::Unanswered(format!("{status}"))
        }
        _ if status.is_server_error() => CallError::Unanswered(format!("{status}")),
        _ => CallError::Refused { status: status.as_u16(), detail },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_refusal_means() {
        let is_lost = |status| matches!(refusal(status, String::new()), CallError::LeaseLost);
        let may_pass = |status| matches!(refusal(status, String::new()), CallError::Unanswered(_));
        assert!(is_lost(StatusCode::CONFLICT) && is_lost(StatusCode::NOT_FOUND));
        assert!(
            may_pass(StatusCode::SERVICE_UNAVAILABLE) && may_pass(StatusCode::TOO_MANY_REQUESTS)
        );
        assert!(!may_pass(StatusCode::UNPROCESSABLE_ENTITY));
        assert!(!is_lost(StatusCode::UNAUTHORIZED) && !may_pass(StatusCode::UNAUTHORIZED));
    }

    #[test]
    fn addresses_and_tokens_are_checked_before_anything_is_sent() {
        assert!(matches!(Api::new("not an address", "t"), Err(Error::Address(_))));
        assert!(matches!(Api::new("http://127.0.0.1:1", "a b"), Err(Error::Token)));
        let below = Api::new("http://127.0.0.1:1/roundsman", "t").unwrap();
        assert_eq!(below.base.join("jobs/claim").unwrap().path(), "/roundsman/jobs/claim");
    }
}
