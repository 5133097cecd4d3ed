//! Requests and answers of the stand-in.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use roundsman_core::ports::Clock;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{S3Account, S3Fault, State, signature};

const BODY_BYTES_MAX: usize = 256 * 1024 * 1024;

#[derive(Clone)]
pub(super) struct Server {
    pub(super) account: S3Account,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) state: Arc<Mutex<State>>,
}

/// A request as it came: path and query with their encoding.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Reply {
    status: u16,
    etag: Option<String>,
    /// The value of `Content-Range`.
    range: Option<String>,
    body: Vec<u8>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn query(&self, name: &str) -> Option<String> {
        let found = self.query.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| decoded(value))
    }
}

impl Reply {
    pub(super) fn empty(status: u16) -> Self {
        Reply { status, etag: None, range: None, body: Vec::new() }
    }

    pub(super) fn named(status: u16, etag: String) -> Self {
        Reply { etag: Some(etag), ..Reply::empty(status) }
    }

    pub(super) fn object(body: Vec<u8>, etag: String) -> Self {
        Reply { body, ..Reply::named(200, etag) }
    }

    /// What a reader asks for of an object: `bytes=from-` or `bytes=from-to`.
    fn part(mut self, range: Option<&str>) -> Self {
        let Some(range) = range.filter(|_| self.status == 200) else { return self };
        let total = self.body.len();
        let bounds = range.strip_prefix("bytes=").and_then(|range| range.split_once('-'));
        let from = bounds.and_then(|(from, _)| from.parse::<usize>().ok());
        let Some(from) = from.filter(|from| *from < total) else {
            return Reply::error(416, "InvalidRange", "there is not so much");
        };
        let last = bounds.and_then(|(_, to)| to.parse::<usize>().ok());
        let end = last.map_or(total, |last| last.saturating_add(1).clamp(from + 1, total));
        self.range = Some(format!("bytes {from}-{}/{total}", end - 1));
        self.body = self.body[from..end].to_vec();
        Reply { status: 206, ..self }
    }

    pub(super) fn xml(document: &str) -> Self {
        let body = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{document}").into_bytes();
        Reply { body, ..Reply::empty(200) }
    }

    pub(super) fn error(status: u16, code: &str, message: &str) -> Self {
        let document = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
        Reply { status, ..Reply::xml(&document) }
    }
}

pub(super) async fn serve(
    listener: TcpListener,
    server: Server,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    let accepting = async {
        while let Ok((stream, _)) = listener.accept().await {
            let (server, stop) = (server.clone(), stop.clone());
            tasks.spawn(async move {
                // A request that makes no sense ends its connection, and the client sees that.
                let _ = stop.run_until_cancelled(server.answer(BufReader::new(stream))).await;
            });
        }
    };
    stop.run_until_cancelled(accepting).await;
}

impl Server {
    async fn answer(&self, mut stream: BufReader<TcpStream>) -> Result<()> {
        let request = read(&mut stream).await?;
        let is_head = request.method == "HEAD";
        let range = request.header("range").map(str::to_owned);
        let Some((reply, cut)) = self.reply(request) else { return Ok(()) };
        let reply = reply.part(range.as_deref());
        let etag = reply.etag.map(|etag| format!("etag: {etag}\r\n")).unwrap_or_default();
        let range = reply.range.map(|range| format!("content-range: {range}\r\n"));
        let etag = etag + &range.unwrap_or_default();
        let head =
            format!("HTTP/1.1 {} X\r\ncontent-length: {}\r\n", reply.status, reply.body.len());
        stream.write_all(format!("{head}{etag}connection: close\r\n\r\n").as_bytes()).await?;
        if !is_head {
            let sent = reply.body.len().min(cut.unwrap_or(usize::MAX));
            stream.write_all(&reply.body[..sent]).await?;
        }
        stream.shutdown().await?;
        Ok(())
    }

    /// The answer, and after how much of it the connection ends; `None` for silence.
    fn reply(&self, request: Request) -> Option<(Reply, Option<usize>)> {
        if let Err(refused) = signature::check(&request, &self.account, self.clock.now()) {
            return Some((refused, None));
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let names = request.query.iter().map(|(name, _)| name.as_str());
        // Of a link, the signature says nothing about what is asked for.
        let names = names.filter(|name| !name.starts_with("X-Amz-"));
        let sort: Vec<&str> = std::iter::once(request.method.as_str()).chain(names).collect();
        let sort = sort.join(" ");
        let meant = |what: &str| what == request.method || what == sort;
        let fault = state.faults.iter().position(|(what, _)| meant(what));
        state.requests.push(sort);
        let reply = match fault.map(|place| state.faults.remove(place).1) {
            None => carry_out(&mut state, request, &self.account),
            Some(S3Fault::CutAfter(bytes)) => {
                return Some((carry_out(&mut state, request, &self.account), Some(bytes)));
            }
            Some(S3Fault::HangUp) => return None,
            Some(S3Fault::Status(503)) => Reply::error(503, "SlowDown", "not so fast"),
            Some(S3Fault::Status(status)) => Reply::error(status, "InternalError", "oh"),
            Some(S3Fault::LateError) => Reply { status: 200, ..late_error() },
        };
        Some((reply, None))
    }
}

fn late_error() -> Reply {
    Reply::error(500, "InternalError", "it did not work after all")
}

fn carry_out(state: &mut State, request: Request, account: &S3Account) -> Reply {
    let path = decoded(&request.path);
    let name = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    let Some((_, name)) = name.filter(|(bucket, _)| *bucket == account.bucket) else {
        return Reply::error(404, "NoSuchBucket", "there is no such bucket");
    };
    let (name, objects) = (name.to_owned(), &mut state.objects);
    let (upload, number) = (request.query("uploadId"), request.query("partNumber"));
    match (request.method.as_str(), upload, number) {
        ("GET" | "HEAD", None, None) => objects.get(&name),
        ("PUT", None, None) => objects.put(name, request.body),
        ("DELETE", None, None) => objects.delete(&name),
        ("POST", None, None) if request.query("uploads").is_some() => objects.begin_upload(name),
        ("PUT", Some(upload), Some(number)) => objects.put_part(&upload, &number, request.body),
        ("POST", Some(upload), None) => {
            objects.complete(&upload, &String::from_utf8_lossy(&request.body))
        }
        ("DELETE", Some(upload), None) => objects.abort(&upload),
        _ => Reply::error(405, "MethodNotAllowed", "this is not done here"),
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Result<Request> {
    let mut first = String::new();
    stream.read_line(&mut first).await?;
    let mut words = first.split_whitespace();
    let (method, target) = (words.next().context("a method")?, words.next().context("a target")?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let query = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let (method, path) = (method.to_owned(), path.to_owned());
    let mut request = Request { method, path, query, headers, body: Vec::new() };
    let body_bytes = request.header("content-length").map_or(Ok(0), str::parse)?;
    ensure!(body_bytes <= BODY_BYTES_MAX, "a body of {body_bytes} bytes is too large");
    request.body = vec![0; body_bytes];
    stream.read_exact(&mut request.body).await?;
    Ok(request)
}

/// Without the encoding; what is not encoded as it should be stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let value = hex.filter(|_| byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(value.unwrap_or(byte));
        rest = if value.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
