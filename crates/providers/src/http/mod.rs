//! A small HTTP/1.1 client: one connection per request, to exactly the place it is told.
//!
//! It follows no redirects, asks no proxy, resolves no name that its caller has pinned, and keeps
//! nothing between requests. That makes it slower than a pool and easy to reason about: a launcher
//! is called a few times a minute, Daily twenty times a second at most, and a webhook must never
//! reach an address that was not checked.

mod connect;
mod place;
mod streamed;
mod tls;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

pub(crate) use connect::{Route, Stream};
pub(crate) use place::Place;
pub(crate) use streamed::{Exchange, FileBody, StreamedCall, begin};
pub(crate) use tls::{Tls, TlsError, roots};

pub(crate) const AGENT: &str = concat!("roundsman/", env!("CARGO_PKG_VERSION"));

/// A request that is ready but for where it goes.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query, encoded.
    pub(crate) target: String,
    /// The value of `Host`.
    pub(crate) host: String,
    pub(crate) headers: Vec<(String, HeaderValue)>,
    pub(crate) json: Option<Bytes>,
}

/// How long a call may take, connecting included, and how much of the answer is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallLimits {
    pub(crate) time_max: Duration,
    pub(crate) answer_bytes_max: usize,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
    /// False if the body was longer than what was read of it.
    pub(crate) is_whole: bool,
    /// Where the next page begins, if the server says that there is one.
    pub(crate) next_token: Option<String>,
    /// How long to wait, if the server says it in seconds.
    pub(crate) retry_after: Option<Duration>,
}

/// Why no answer came. The request may have been carried out nevertheless.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("no answer within {0:?}")]
    TooSlow(Duration),
    #[error("cannot connect: {0}")]
    Connect(std::io::Error),
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("the connection failed: {}", chain(.0))]
    Broken(#[from] hyper::Error),
    #[error("the request cannot be made: {0}")]
    Invalid(#[from] hyper::http::Error),
}

/// Sends one request and reads its answer.
pub(crate) async fn send(
    route: &Route,
    call: Call,
    limits: CallLimits,
) -> Result<Answer, CallError> {
    let request = request(call)?;
    let exchange = async {
        let stream = connect::open(route).await?;
        exchange(stream, request, limits.answer_bytes_max).await
    };
    timeout(limits.time_max, exchange).await.map_err(|_| CallError::TooSlow(limits.time_max))?
}

fn request(call: Call) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let mut builder = Request::builder().method(call.method).uri(call.target);
    builder = builder.header(HOST, call.host).header(USER_AGENT, AGENT).header(CONNECTION, "close");
    for (name, value) in call.headers {
        builder = builder.header(name, value);
    }
    if call.json.is_some() && builder.headers_ref().is_some_and(|h| !h.contains_key(CONTENT_TYPE)) {
        builder = builder.header(CONTENT_TYPE, "application/json");
    }
    let body = call.json.unwrap_or_default();
    builder = builder.header(CONTENT_LENGTH, body.len());
    builder.body(Full::new(body))
}

async fn exchange(
    stream: Box<dyn Stream>,
    request: Request<Full<Bytes>>,
    answer_bytes_max: usize,
) -> Result<Answer, CallError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let answered = async {
        let response = sender.send_request(request).await?;
        read(response, answer_bytes_max).await
    };
    // The connection moves only while it is polled. When it ends first, what it has read already is
    // still there to be taken.
    tokio::pin!(answered, connection);
    tokio::select! {
        answer = &mut answered => Ok(answer?),
        _ = &mut connection => Ok(answered.await?),
    }
}

async fn read(response: Response<Incoming>, bytes_max: usize) -> Result<Answer, hyper::Error> {
    let status = response.status().as_u16();
    let next_token = header(response.headers(), "x-nomad-nexttoken").map(str::to_owned);
    let retry_after = header(response.headers(), RETRY_AFTER.as_str());
    let retry_after = retry_after.and_then(|secs| secs.trim().parse().ok());
    let retry_after = retry_after.map(Duration::from_secs);
    let mut body = response.into_body();
    let mut read = BytesMut::new();
    let mut is_whole = true;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        let room = bytes_max - read.len();
        if data.len() > room {
            read.extend_from_slice(&data[..room]);
            is_whole = false;
            break;
        }
        read.extend_from_slice(&data);
    }
    Ok(Answer { status, body: read.freeze(), is_whole, next_token, retry_after })
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Hyper's errors name their cause only as a source.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
