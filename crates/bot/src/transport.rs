//! How a report gets to the server: the port, and plain HTTP.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER};
use serde_json::Value;

use crate::config::{BotConfig, ConfigError};

/// Shorter than a heartbeat: a hanging server must not keep the bot from asking again.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// An answer is a few hundred bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Carries one request to the server and its answer back.
#[async_trait]
pub trait Transport: Send + Sync {
    async fn send(&self, request: &Request) -> Result<Response, Unreachable>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Post,
    Patch,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub method: Method,
    /// Below the server's base URL.
    pub path: &'static str,
    pub body: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub body: Vec<u8>,
    /// How long the server asks to be left alone.
    pub retry_after: Option<Duration>,
}

/// There is no answer: the server may have acted on the request, or never have seen it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(pub String);

/// HTTP without TLS.
#[derive(Debug, Clone)]
pub struct HttpTransport {
    base_url: String,
    client: reqwest::Client,
}

impl HttpTransport {
    /// Speaks to the server that the configuration names, with its token.
    pub fn new(config: &BotConfig) -> Result<Self, ConfigError> {
        let url = &config.roundsman.callback_url;
        if !url.starts_with("http://") {
            return Err(ConfigError::Invalid {
                name: "roundsman.callbackUrl",
                expected: "an http:// URL: this bot was built without TLS",
            });
        }
        let client = client(config.roundsman.callback_token.expose())?;
        Ok(HttpTransport { base_url: url.trim_end_matches('/').to_owned(), client })
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(&self, request: &Request) -> Result<Response, Unreachable> {
        let method = match request.method {
            Method::Post => reqwest::Method::POST,
            Method::Patch => reqwest::Method::PATCH,
        };
        let url = format!("{}{}", self.base_url, request.path);
        let sent = self.client.request(method, url).json(&request.body).send();
        let mut response = sent.await.map_err(unreachable)?;
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(Unreachable(format!("more than {ANSWER_BYTES_MAX} bytes of answer")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Response { status, body, retry_after })
    }
}

/// A redirect is not followed: the token is for this server alone.
fn client(token: &str) -> Result<reqwest::Client, ConfigError> {
    let invalid = |expected| ConfigError::Invalid { name: "roundsman.callbackToken", expected };
    let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| invalid("text that fits into a header"))?;
    bearer.set_sensitive(true);
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_LIMIT)
        .timeout(REQUEST_LIMIT)
        .default_headers(HeaderMap::from_iter([(AUTHORIZATION, bearer)]))
        .build()
        .map_err(|_| invalid("usable by an HTTP client"))
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let secs = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(secs))
}

/// With its causes, which say what really went wrong.
fn unreachable(error: reqwest::Error) -> Unreachable {
    let error = error.without_url();
    let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
    Unreachable(causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}")))
}

#[cfg(test)]
impl Response {
    pub(crate) fn new(status: u16, body: &str) -> Self {
        Response { status, body: body.as_bytes().to_vec(), retry_after: None }
    }
}
