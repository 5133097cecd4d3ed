//! Enough of HTTP/1.1 to be Daily, or a generator: connections that are kept, bodies of known length, and answers
//! that break off on purpose.

use std::fmt::Write as _;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::Url;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::real_time;

const HEAD_BYTES_MAX: u64 = 32 * 1024;
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A request, read to its end.
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query as they came, encoded.
    pub(crate) target: String,
    /// The parts of its path, decoded.
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) headers: Vec<(String, String)>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null if it is none.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// An answer, and how it is sent.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Body,
    pub(crate) sent: Sent,
}

/// What is in an answer.
pub(crate) enum Body {
    Text(String),
    /// A part of a file.
    File {
        bytes: Arc<Vec<u8>>,
        range: std::ops::Range<usize>,
    },
}

/// How an answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Whole,
    /// Later.
    After(Duration),
    /// The connection ends after so many bytes of the body.
    CutAfter(usize),
    /// The connection ends instead.
    Reset,
    /// Nothing ever comes.
    Never,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<String>) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Reply { status, headers, body: Body::Text(body.into()), sent: Sent::Whole }
    }

    pub(crate) fn json(body: &serde_json::Value) -> Self {
        Reply::new(200, body.to_string())
    }

    /// In the form of Daily's errors.
    pub(crate) fn error(status: u16, code: &str, info: &str) -> Self {
        Reply::new(status, serde_json::json!({"error": code, "info": info}).to_string())
    }
}

impl Body {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Body::Text(text) => text.as_bytes(),
            Body::File { bytes, range } => &bytes[range.clone()],
        }
    }
}

/// Answers requests until it is told to stop.
pub(crate) async fn serve<F, Fut>(listener: TcpListener, stop: CancellationToken, answer: F)
where
    F: Fn(Request) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Reply> + Send,
{
    let tasks = TaskTracker::new();
    let accepting = async {
        while let Ok((stream, _)) = listener.accept().await {
            let (answer, stop) = (answer.clone(), stop.clone());
            tasks.spawn(async move {
                // A request that fails ends its connection, and the client sees that.
                let _ = stop.run_until_cancelled(connection(stream, answer)).await;
            });
        }
    };
    stop.run_until_cancelled(accepting).await;
}

async fn connection<F, Fut>(stream: TcpStream, answer: F) -> Result<()>
where
    F: Fn(Request) -> Fut,
    Fut: Future<Output = Reply>,
{
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await? {
        let keeps = !request.header("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"));
        let reply = answer(request).await;
        if !write(&mut stream, reply).await? || !keeps {
            break;
        }
    }
    stream.shutdown().await?;
    Ok(())
}

/// `None` when the client has nothing more to say.
async fn read(stream: &mut BufReader<TcpStream>) -> Result<Option<Request>> {
    let mut head = (&mut *stream).take(HEAD_BYTES_MAX);
    let mut line = String::new();
    if head.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().context("a method")?, words.next().context("a path")?);
    let url = Url::parse("http://daily/")?.join(target)?;
    let decoded = |part: &str| {
        // A query is decoded alike, but for this.
        let part = part.replace('+', "%2B");
        let pair = format!("http://daily/?{part}=");
        Url::parse(&pair).ok().and_then(|url| Some(url.query_pairs().next()?.0.into_owned()))
    };
    let path = url.path_segments().context("a path")?.filter(|part| !part.is_empty());
    let path = path.map(|part| decoded(part).unwrap_or_default()).collect();
    let query = url.query_pairs().into_owned().collect();
    let (method, target) = (method.to_owned(), target.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        ensure!(head.read_line(&mut line).await? > 0, "the head ends");
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut request = Request { method, target, path, query, body: Vec::new(), headers };
    let length = request.header("content-length").map_or(Ok(0), str::parse)?;
    ensure!(length <= BODY_BYTES_MAX, "a body of {length} bytes is too large");
    request.body = vec![0; length];
    stream.read_exact(&mut request.body).await?;
    Ok(Some(request))
}

/// Whether the connection can be kept.
async fn write(stream: &mut BufReader<TcpStream>, reply: Reply) -> Result<bool> {
    let body = reply.body.as_bytes();
    let cut = match reply.sent {
        Sent::Whole => body.len(),
        Sent::After(time) => {
            real_time::pause(time).await;
            body.len()
        }
        Sent::CutAfter(bytes) => bytes.min(body.len()),
        Sent::Reset => return Ok(false),
        Sent::Never => std::future::pending().await,
    };
    let mut head = format!("HTTP/1.1 {} X\r\ncontent-length: {}\r\n", reply.status, body.len());
    for (name, value) in &reply.headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body[..cut]).await?;
    stream.flush().await?;
    Ok(cut == body.len())
}
