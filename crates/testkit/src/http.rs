//! A small JSON client for tests: a request is one line, an answer is a status and a body.

use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// Longer than any long poll that the tests make.
const REQUEST_LIMIT: Duration = Duration::from_mins(1);

/// Talks to one server, as one user.
#[derive(Debug, Clone)]
pub struct JsonClient {
    base_url: String,
    headers: HeaderMap,
    client: reqwest::Client,
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct JsonResponse {
    pub status: u16,
    pub headers: HeaderMap,
    /// The body as text, whatever its type.
    pub text: String,
    /// The body as JSON; null if it is not JSON.
    pub body: Value,
}

impl JsonClient {
    /// A client without a token for a server such as `http://127.0.0.1:8080`.
    pub fn new(base_url: impl Into<String>) -> Result<Self> {
        let client = reqwest::Client::builder().no_proxy().timeout(REQUEST_LIMIT).build()?;
        let base_url = base_url.into().trim_end_matches('/').to_owned();
        Ok(JsonClient { base_url, headers: HeaderMap::new(), client })
    }

    /// The same client with a bearer token, sharing its connections.
    pub fn with_token(&self, token: &str) -> Result<Self> {
        self.with_header("authorization", &format!("Bearer {token}"))
    }

    /// The same client with one more header on every request.
    pub fn with_header(&self, name: &str, value: &str) -> Result<Self> {
        let mut changed = self.clone();
        changed.headers.insert(
            HeaderName::try_from(name).context("not a header name")?,
            HeaderValue::try_from(value).context("not a header value")?,
        );
        Ok(changed)
    }

    pub async fn get(&self, path: &str) -> Result<JsonResponse> {
        self.send(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<JsonResponse> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<JsonResponse> {
        self.send(self.request(Method::PUT, path).json(body)).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Result<JsonResponse> {
        self.send(self.request(Method::PATCH, path).json(body)).await
    }

    pub async fn delete(&self, path: &str) -> Result<JsonResponse> {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// A request to be completed by hand, for what the methods above do not cover.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.base_url);
        self.client.request(method, url).headers(self.headers.clone())
    }

    /// Sends a request made by [`JsonClient::request`].
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Result<JsonResponse> {
        let response = request.send().await?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let text = response.text().await?;
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(JsonResponse { status, headers, text, body })
    }
}

impl JsonResponse {
    /// The response if it has this status; otherwise an error that shows what came instead.
    pub fn expect_status(self, status: u16) -> Result<Self> {
        anyhow::ensure!(
            self.status == status,
            "expected status {status}, got {}: {}",
            self.status,
            self.text
        );
        Ok(self)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}
