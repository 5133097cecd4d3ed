//! One request to S3, signed, and what can be said of its answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{HeaderMap, HeaderValue};
use roundsman_core::ports::{Clock, MediaError};
use secrecy::{ExposeSecret, SecretString};
use url::{Position, Url};

use super::sign::{Link, Signer, ToSign, canonical_query, encode, signing_time};
use super::{InvalidS3Options, S3Options, xml};
use crate::http::{self, Exchange, FileBody, Place, StreamedCall, Tls};

/// The hash of nothing.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// How much of an answer that is no blob is read.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// How much of what S3 says is passed on.
const MESSAGE_CHARS_MAX: usize = 300;

pub(super) struct Api {
    clock: Arc<dyn Clock>,
    signer: Signer,
    session_token: Option<SecretString>,
    tls: Tls,
    endpoint: Url,
    /// Before every name.
    base: String,
    answer_max: Duration,
    bytes_per_sec_min: u64,
}

/// A request but for what is the same for all.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) blob: &'a str,
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) body: Payload,
}

/// What is sent.
#[derive(Default)]
pub(super) struct Payload {
    pub(super) body: FileBody,
    pub(super) bytes: u64,
    /// `None` for nothing.
    pub(super) sha256: Option<String>,
}

impl Api {
    pub(super) fn new(
        options: &S3Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, InvalidS3Options> {
        options.check()?;
        let mut endpoint = Url::parse(&options.endpoint).map_err(|_| InvalidS3Options::Endpoint)?;
        let tls = Tls::new(options.ca_pem.as_deref());
        let tls = tls.map_err(|error| InvalidS3Options::Tls(error.to_string()))?;
        let is_plain = endpoint.path() == "/" && endpoint.query().is_none();
        if !is_plain || Place::of(&endpoint, &tls).is_none() {
            return Err(InvalidS3Options::Endpoint);
        }
        let mut base = format!("/{}", options.prefix);
        if options.is_path_style {
            base = format!("/{}{base}", options.bucket);
        } else {
            let host = format!("{}.{}", options.bucket, endpoint.host_str().unwrap_or_default());
            endpoint.set_host(Some(&host)).map_err(|_| InvalidS3Options::Endpoint)?;
        }
        Ok(Api {
            clock,
            signer: Signer {
                access_key: options.access_key.clone(),
                secret_key: options.secret_key.clone(),
                region: options.region.clone(),
            },
            session_token: options.session_token.clone(),
            tls,
            endpoint,
            base,
            answer_max: options.answer_max,
            bytes_per_sec_min: options.bytes_per_sec_min.max(1),
        })
    }

    pub(super) async fn call(&self, ask: Ask<'_>) -> Result<Exchange, MediaError> {
        let within = self.answer_max + self.time_for(ask.body.bytes);
        let call = self.signed(ask)?;
        http::begin(call, within).await.map_err(|error| MediaError::Failed(error.to_string()))
    }

    /// An address under which an object can be read for so long, by whoever has it.
    pub(super) fn link(&self, name: &str, lasts_secs: u32) -> String {
        let path = encode(&format!("{}{name}", self.base), true);
        let link = Link {
            host: self.host(),
            path: &path,
            lasts_secs,
            session_token: self.session_token.as_ref().map(ExposeSecret::expose_secret),
        };
        let query = self.signer.link_query(&link, &signing_time(self.clock.now()));
        let place = &self.endpoint[..Position::AfterPort];
        format!("{place}{path}?{query}")
    }

    /// How long an answer may take that says little.
    pub(super) fn answer_max(&self) -> Duration {
        self.answer_max
    }

    /// How long so much may take.
    pub(super) fn time_for(&self, bytes: u64) -> Duration {
        Duration::from_secs(bytes / self.bytes_per_sec_min)
    }

    /// Reads an answer that is no blob. `None` if there is no such blob.
    pub(super) async fn answered(
        &self,
        answer: &mut Exchange,
    ) -> Result<Option<Bytes>, MediaError> {
        let body = tokio::time::timeout(self.answer_max, answer.whole(ANSWER_BYTES_MAX)).await;
        let body = body.map_err(|_| MediaError::Failed("S3 does not end its answer".to_owned()))?;
        let body = body.map_err(|error| MediaError::Failed(error.to_string()))?;
        let body = body.ok_or_else(|| MediaError::Failed("S3 says too much".to_owned()))?;
        let code = xml::value(&body, "Code").filter(|_| xml::has(&body, "Error"));
        match answer.status {
            // Some requests are answered with success before they have failed.
            200..300 if code.is_none() => Ok(Some(body)),
            404 if code.as_deref() != Some("NoSuchBucket") => Ok(None),
            status => Err(refusal(status, code, &body)),
        }
    }

    /// As it is signed.
    fn host(&self) -> &str {
        &self.endpoint[Position::BeforeHost..Position::AfterPort]
    }

    fn signed(&self, ask: Ask<'_>) -> Result<StreamedCall, MediaError> {
        let Ask { method, blob, query, body } = ask;
        let path = encode(&format!("{}{blob}", self.base), true);
        let payload_sha256 = body.sha256.as_deref().unwrap_or(EMPTY_SHA256);
        let time = signing_time(self.clock.now());
        let mut headers = vec![
            ("host", self.host().to_owned()),
            ("x-amz-content-sha256", payload_sha256.to_owned()),
            ("x-amz-date", time.clone()),
        ];
        let token = self.session_token.as_ref();
        headers
            .extend(token.map(|token| ("x-amz-security-token", token.expose_secret().to_owned())));
        let to_sign = ToSign {
            method: method.as_str(),
            path: &path,
            query,
            headers: &headers,
            payload_sha256,
        };
        let authorization = self.signer.authorization(&to_sign, &time);
        let place = Place::of(&self.endpoint, &self.tls);
        let mut place = place.ok_or_else(|| MediaError::Refused("S3 is nowhere".to_owned()))?;
        place.target = match canonical_query(query) {
            query if query.is_empty() => path.clone(),
            query => format!("{path}?{query}"),
        };
        headers.push(("authorization", authorization));
        // The client says where it goes by itself.
        let headers = headers.into_iter().filter(|(name, _)| *name != "host");
        let headers = headers.map(|(name, value)| {
            let value = HeaderValue::from_str(&value);
            let unfit = || MediaError::Refused(format!("the value of {name} cannot be sent"));
            value.map(|value| (name, value)).map_err(|_| unfit())
        });
        let headers = headers.collect::<Result<_, _>>()?;
        Ok(StreamedCall { method, place, headers, extra: HeaderMap::new(), body: body.body })
    }
}

fn refusal(status: u16, code: Option<String>, body: &[u8]) -> MediaError {
    let message = xml::value(body, "Message").unwrap_or_default();
    let code = code.unwrap_or_default();
    let said = format!("S3 says {status} {code}: {message}");
    let said: String = said.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARS_MAX).collect();
    let is_final = matches!(status, 400..500) && !matches!(status, 408 | 409 | 429);
    // A part of the body was late; S3 wants the request again.
    let is_slow = code == "RequestTimeout" || code == "RequestTimeTooSkewed";
    if is_final && !is_slow { MediaError::Refused(said) } else { MediaError::Failed(said) }
}
