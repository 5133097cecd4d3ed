//! A stand-in for an OpenAI-compatible transcriber: it hears in a file what is written there.
//!
//! A file is JSON: the name of its recording and the segments that are to be heard in it. Calls can
//! be held up and refused; it is seen how many of them there were at once for the same recording.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::post;
use roundsman_testkit::{eventually, ports};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::site::SOON;

/// What it must be told as its key.
pub(super) const KEY: &str = "canary-transcriber-key-91";
pub(super) const MODEL: &str = "stand-in-1";

/// Something that is to be heard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) text: &'static str,
}

/// The file in which this is heard, at least so long.
pub(super) fn file(recording: &str, said: &[Said], bytes_min: usize) -> Vec<u8> {
    let segments: Vec<Value> = said
        .iter()
        .map(|said| json!({"start": said.start, "end": said.end, "text": said.text}))
        .collect();
    let content = json!({"recording": recording, "segments": segments});
    let mut content = content.to_string().into_bytes();
    content.resize(content.len().max(bytes_min), b' ');
    content
}

/// The transcriber. It is gone when dropped.
pub(super) struct TranscriberStandIn {
    address: SocketAddr,
    shared: Arc<Shared>,
    held: watch::Sender<bool>,
    _serving: DropGuard,
}

struct Shared {
    state: Mutex<Calls>,
    held: watch::Receiver<bool>,
}

#[derive(Debug, Default)]
struct Calls {
    /// The recordings that were asked about, in order.
    heard: Vec<String>,
    under_way: BTreeMap<String, usize>,
    /// The most calls at once, of any one recording.
    at_once: usize,
    refusal: Option<u16>,
}

impl TranscriberStandIn {
    pub(super) async fn start() -> Result<TranscriberStandIn> {
        let listener = TcpListener::bind(ports::loopback(0)).await?;
        let address = listener.local_addr()?;
        let (held, is_held) = watch::channel(false);
        let shared = Arc::new(Shared { state: Mutex::default(), held: is_held });
        let router = Router::new()
            .route("/v1/audio/transcriptions", post(transcribe))
            .layer(DefaultBodyLimit::disable())
            .with_state(shared.clone());
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let serving = axum::serve(listener, router).with_graceful_shutdown(stopped);
        TaskTracker::new().spawn(serving.into_future());
        Ok(TranscriberStandIn { address, shared, held, _serving: stop.drop_guard() })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on nobody is answered.
    pub(super) fn hold(&self) {
        self.held.send_replace(true);
    }

    pub(super) fn release(&self) {
        self.held.send_replace(false);
    }

    /// From now on everybody gets this status.
    pub(super) fn refuse(&self, status: Option<u16>) {
        self.shared.state().refusal = status;
    }

    /// How often it was asked about a recording.
    pub(super) fn asked(&self, recording: &str) -> usize {
        self.shared.state().heard.iter().filter(|heard| *heard == recording).count()
    }

    /// The most calls at once, of any one recording.
    pub(super) fn at_once(&self) -> usize {
        self.shared.state().at_once
    }

    /// Waits until it was asked so often about a recording.
    pub(super) async fn wait_asked(&self, recording: &str, times: usize) -> Result<()> {
        let asked = eventually(SOON, async || (self.asked(recording) >= times).then_some(()));
        let asked = asked.await;
        asked.with_context(|| format!("{recording} was heard {} times", self.asked(recording)))
    }

    /// Waits until nobody waits for an answer about a recording: who did is dead.
    pub(super) async fn wait_left_alone(&self, recording: &str) -> Result<()> {
        let is_alone =
            || self.shared.state().under_way.get(recording).is_none_or(|calls| *calls == 0);
        let alone = eventually(SOON, async || is_alone().then_some(()));
        alone.await.with_context(|| format!("somebody waits for {recording}"))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Calls> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call as long as somebody waits for its answer.
struct UnderWay {
    recording: String,
    shared: Arc<Shared>,
}

impl UnderWay {
    fn begin(recording: &str, shared: &Arc<Shared>) -> UnderWay {
        let mut state = shared.state();
        state.heard.push(recording.to_owned());
        let calls = state.under_way.entry(recording.to_owned()).or_default();
        *calls += 1;
        let calls = *calls;
        state.at_once = state.at_once.max(calls);
        drop(state);
        UnderWay { recording: recording.to_owned(), shared: shared.clone() }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(calls) = self.shared.state().under_way.get_mut(&self.recording) {
            *calls -= 1;
        }
    }
}

async fn transcribe(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, axum::Json<Value>) {
    let content = match content(&headers, &body) {
        Ok(content) => content,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let recording = content["recording"].as_str().unwrap_or_default();
    let under_way = UnderWay::begin(recording, &shared);
    // It ends with the stand-in.
    let _ = shared.held.clone().wait_for(|is_held| !is_held).await;
    let refused = shared.state().refusal;
    drop(under_way);
    if let Some(status) = refused.and_then(|status| StatusCode::from_u16(status).ok()) {
        return refusal(status, "as the test has asked");
    }
    let segments = content["segments"].as_array().cloned().unwrap_or_default();
    let text: Vec<&str> = segments.iter().filter_map(|segment| segment["text"].as_str()).collect();
    let answer = json!({"task": "transcribe", "language": "english", "text": text.join(" "),
        "segments": segments});
    (StatusCode::OK, axum::Json(answer))
}

fn refusal(status: StatusCode, message: &str) -> (StatusCode, axum::Json<Value>) {
    (status, axum::Json(json!({"error": {"message": message}})))
}

/// What is in the file of the form, if all else is as it must be.
fn content(headers: &HeaderMap, body: &[u8]) -> Result<Value> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let key = header(header::AUTHORIZATION).context("no key")?;
    anyhow::ensure!(key == format!("Bearer {KEY}"), "another key");
    let boundary = header(header::CONTENT_TYPE).and_then(|kind| kind.split_once("boundary="));
    let boundary = format!("--{}", boundary.context("no form")?.1);
    let body = String::from_utf8_lossy(body);
    let mut fields = BTreeMap::new();
    for part in body.split(boundary.as_str()) {
        let Some((head, value)) = part.split_once("\r\n\r\n") else { continue };
        let name = head.split_once("name=\"").and_then(|(_, rest)| rest.split_once('"'));
        fields.insert(name.context("a field without a name")?.0, value.trim_end());
    }
    let field = |name: &str| fields.get(name).copied().with_context(|| format!("no {name}"));
    anyhow::ensure!(field("model")? == MODEL, "another model");
    anyhow::ensure!(field("response_format")? == "verbose_json", "another format");
    Ok(serde_json::from_str(field("file")?)?)
}
