//! One request to Nomad, and what can be said of its answer.

use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderValue;
use roundsman_core::ports::Unanswered;
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::{InvalidNomadOptions, NomadOptions};
use crate::http::{self, Call, CallLimits, Route, Tls};

const PORT_DEFAULT: u16 = 4646;
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How much of what Nomad says is passed on.
const MESSAGE_CHARS_MAX: usize = 300;

pub(super) struct Api {
    route: Route,
    host: String,
    token: Option<HeaderValue>,
    /// Part of every query: the namespace and the region.
    scope: Vec<(&'static str, String)>,
    request_max: Duration,
}

/// A whole answer.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) has_more: bool,
    body: Bytes,
}

impl Api {
    pub(super) fn new(options: &NomadOptions) -> Result<Self, InvalidNomadOptions> {
        let url = url::Url::parse(&options.address).map_err(|_| InvalidNomadOptions::Address)?;
        let is_plain = url.username().is_empty() && url.path() == "/" && url.query().is_none();
        let name = url.host_str().filter(|_| is_plain).ok_or(InvalidNomadOptions::Address)?;
        let tls = match url.scheme() {
            "http" => None,
            "https" => {
                let tls = Tls::new(options.ca_pem.as_deref());
                Some(tls.map_err(|error| InvalidNomadOptions::Tls(error.to_string()))?)
            }
            _ => return Err(InvalidNomadOptions::Address),
        };
        let port = url.port().unwrap_or(PORT_DEFAULT);
        let token = options.token.as_ref().map(|token| {
            let mut value = HeaderValue::from_str(token.expose_secret())
                .map_err(|_| InvalidNomadOptions::Token)?;
            value.set_sensitive(true);
            Ok(value)
        });
        let scope = [("namespace", &options.namespace), ("region", &options.region)];
        let host = format!("{name}:{port}");
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Api {
            route: Route::Host { name, port, tls },
            host,
            token: token.transpose()?,
            scope: scope.into_iter().filter_map(|(k, v)| Some((k, v.clone()?))).collect(),
            request_max: options.request_max,
        })
    }

    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<Value>,
    ) -> Result<Reply, Unanswered> {
        let query =
            Serializer::new(String::new()).extend_pairs(query).extend_pairs(&self.scope).finish();
        let token = self.token.iter().map(|token| ("x-nomad-token".to_owned(), token.clone()));
        let call = Call {
            method,
            target: format!("{path}?{query}"),
            host: self.host.clone(),
            headers: token.collect(),
            json: body.map(|body| body.to_string().into()),
        };
        let limits = CallLimits { time_max: self.request_max, answer_bytes_max: ANSWER_BYTES_MAX };
        let answer = http::send(&self.route, call, limits).await;
        let answer = answer.map_err(|error| Unanswered::new(error.to_string()))?;
        if !answer.is_whole {
            return Err(Unanswered::new("Nomad's answer is too long"));
        }
        let has_more = answer.next_token.is_some();
        Ok(Reply { status: answer.status, has_more, body: answer.body })
    }
}

impl Reply {
    pub(super) fn expect_json<T: DeserializeOwned>(&self) -> Result<T, Unanswered> {
        if self.status != 200 {
            return Err(Unanswered::new(format!("Nomad said {}: {}", self.status, self.message())));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| Unanswered::new(format!("Nomad's answer makes no sense: {error}")))
    }

    /// Whether the dispatch can never succeed as it is. Nomad answers some of these with 500, so the
    /// words decide; they are its own.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.status, 400 | 404 | 500)
            && [
                "job not found",
                "is not parameterized",
                "not a parameterized job",
                "unpermitted metadata keys",
                "required meta keys",
                "payload exceeds maximum size",
                "payload is not allowed",
            ]
            .iter()
            .any(|words| self.says(words))
    }

    /// Whether Nomad's message contains these words, in any case.
    pub(super) fn says(&self, words: &str) -> bool {
        self.message().to_lowercase().contains(words)
    }

    /// Nomad explains itself in plain text.
    pub(super) fn message(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().chars().take(MESSAGE_CHARS_MAX).collect()
    }
}

/// A job's name as one part of a path: those of instances contain a slash.
pub(super) fn encoded(id: &str) -> String {
    byte_serialize(id.as_bytes()).collect()
}
