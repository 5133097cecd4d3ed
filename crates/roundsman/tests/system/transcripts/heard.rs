//! Those who listen: a client on `/ws` that comes back to where it was, and a subscriber of the raw
//! channel in Redis.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::{SinkExt, StreamExt};
use roundsman_testkit::eventually;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::room::{Room, breathe};
use crate::bots::user::User;
use crate::site::SOON;

/// A segment's session and its start in milliseconds.
pub(super) type Key = (String, i64);
/// What is known of a meeting.
pub(super) type Lines = BTreeMap<Key, Content>;

pub(super) type Socket = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;

/// What a frame must tell of when it changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Content {
    pub(super) text: String,
    pub(super) speaker: Option<String>,
    pub(super) language: Option<String>,
    /// Absolute.
    pub(super) start: Option<String>,
    pub(super) end: Option<String>,
}

/// Before a client that lost its server comes back.
const PAUSE: Duration = Duration::from_millis(30);

/// A list of segments as REST and frames show them; an error if one is there twice.
pub(super) fn lines_of(segments: &Value) -> Result<Lines> {
    let mut lines = Lines::new();
    for segment in segments.as_array().context("no list of segments")? {
        let content = content_of(segment)?;
        let before = lines.insert(key_of(segment)?, content);
        ensure!(before.is_none(), "twice: {segment} and {before:?}");
    }
    Ok(lines)
}

fn key_of(segment: &Value) -> Result<Key> {
    let start = segment["start"].as_f64().with_context(|| format!("no start: {segment}"))?;
    let session = segment["session_uid"].as_str().unwrap_or_default().to_owned();
    // Starts are whole milliseconds; the text of the number has them exactly.
    let start = format!("{:.0}", start * 1000.0).parse()?;
    Ok((session, start))
}

fn content_of(segment: &Value) -> Result<Content> {
    let text = |name: &str| segment[name].as_str().map(str::to_owned);
    Ok(Content {
        text: text("text").with_context(|| format!("no text: {segment}"))?,
        speaker: text("speaker"),
        language: text("language"),
        start: text("absolute_start_time"),
        end: text("absolute_end_time"),
    })
}

/// What a listener has made of its frames.
#[derive(Debug, Default)]
struct State {
    seq: i64,
    lines: Lines,
    /// Frames that did not follow the one before.
    leaps: usize,
    resets: usize,
    problems: Vec<String>,
}

/// A client on `/ws`. It follows the meeting from its first frame on, whatever happens to servers.
pub(super) struct Listener {
    state: Arc<Mutex<State>>,
    _stop: DropGuard,
}

impl Listener {
    pub(super) fn start(base_url: &str, user: &User, room: &Room) -> Listener {
        let state: Arc<Mutex<State>> = Arc::default();
        let url = base_url.replacen("http", "ws", 1) + "/ws";
        let (key, meeting, told) = (user.key.clone(), room.id, state.clone());
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        // A thread of its own: what a test is busy with must not keep it from listening.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let following = follow(&url, &key, meeting, &told);
            runtime.expect("a runtime").block_on(stopped.run_until_cancelled(following));
        });
        Listener { state, _stop: stop.drop_guard() }
    }

    /// Waits until it has heard the frame of this place.
    pub(super) async fn wait_for(&self, seq: i64) -> Result<()> {
        let heard = eventually(SOON, async || (lock(&self.state).seq >= seq).then_some(()));
        heard.await.with_context(|| format!("at {} of {seq}", lock(&self.state).seq))
    }

    /// It knows what a reader knows, was told nothing twice and nothing out of order.
    pub(super) async fn check(&self, lines: &Lines, seq: i64) -> Result<()> {
        self.wait_for(seq).await?;
        let state = lock(&self.state);
        ensure!(state.problems.is_empty(), "{:?}", state.problems);
        let missing: Vec<_> =
            lines.iter().filter(|(key, line)| state.lines.get(key) != Some(line)).collect();
        ensure!(missing.is_empty(), "not heard: {missing:?}");
        ensure!(state.lines.len() == lines.len(), "heard more than was said");
        Ok(())
    }

    /// Every frame was heard, each in its place.
    pub(super) fn expect_every_frame(&self) -> Result<()> {
        let state = lock(&self.state);
        ensure!((state.leaps, state.resets) == (0, 0), "frames were left out: {state:?}");
        Ok(())
    }
}

/// Opens `/ws` with a key in the header, or in the address.
pub(super) async fn connect(url: &str, key: Option<&str>) -> Result<Socket> {
    let request = handshake(url, key)?;
    let connected = tokio::time::timeout(SOON, connect_async(request)).await??;
    Ok(connected.0)
}

fn handshake(url: &str, key: Option<&str>) -> Result<Request> {
    let mut request = url.into_client_request()?;
    if let Some(key) = key {
        request.headers_mut().insert("x-api-key", key.parse()?);
    }
    Ok(request)
}

/// Asks to hear of a meeting.
pub(super) async fn subscribe(socket: &mut Socket, meeting: i64, since: Option<i64>) -> Result<()> {
    let mut wish = json!({"meeting_id": meeting});
    if let Some(since) = since {
        wish["since"] = json!(since);
    }
    let meetings = json!([wish]);
    let command = json!({"action": "subscribe", "meetings": meetings}).to_string();
    Ok(socket.send(Message::text(command)).await?)
}

/// The next thing that is said; an error if the connection is over.
pub(super) async fn next(socket: &mut Socket) -> Result<Value> {
    loop {
        match socket.next().await.context("the end")?? {
            Message::Text(text) => return Ok(serde_json::from_str(&text)?),
            Message::Close(reason) => anyhow::bail!("closed: {reason:?}"),
            _ => {}
        }
    }
}

async fn follow(url: &str, key: &str, meeting: i64, state: &Mutex<State>) {
    loop {
        // A server that is gone is no problem; what it did not say is asked of the next.
        let _ = listen(url, key, meeting, state).await;
        breathe(PAUSE).await;
    }
}

async fn listen(url: &str, key: &str, meeting: i64, state: &Mutex<State>) -> Result<()> {
    let mut socket = connect(url, Some(key)).await?;
    let since = lock(state).seq;
    subscribe(&mut socket, meeting, Some(since)).await?;
    loop {
        let frame = next(&mut socket).await?;
        let mut state = lock(state);
        if let Err(problem) = state.apply(&frame) {
            state.problems.push(format!("{problem:#}"));
        }
    }
}

impl State {
    fn apply(&mut self, frame: &Value) -> Result<()> {
        let kind = frame["type"].as_str().unwrap_or_default();
        if ["subscribed", "pong"].contains(&kind) {
            return Ok(());
        }
        let seq = frame["seq"].as_i64().with_context(|| format!("no seq: {frame}"))?;
        ensure!(seq > self.seq, "{seq} after {}", self.seq);
        self.leaps += usize::from(seq != self.seq + 1);
        self.seq = seq;
        let segments = &frame["payload"]["segments"];
        match kind {
            "transcript.mutable" => {
                for (key, content) in lines_of(segments)? {
                    let before = self.lines.insert(key.clone(), content.clone());
                    ensure!(before != Some(content), "told again as it was: {key:?} in {frame}");
                }
            }
            "transcript.retracted" => {
                for segment in segments.as_array().context("no list")? {
                    self.lines.remove(&key_of(segment)?);
                }
            }
            "transcript.reset" => {
                self.resets += 1;
                self.lines = lines_of(segments)?;
            }
            _ => ensure!(kind == "meeting.status", "an unknown frame: {frame}"),
        }
        Ok(())
    }
}

/// A subscriber of `tc:meeting:{id}:mutable`, where a frame may come more than once.
pub(super) struct Subscriber {
    seen: Arc<Mutex<BTreeSet<(Key, Content)>>>,
    _task: AbortOnDropHandle<()>,
}

impl Subscriber {
    /// Subscribed when it returns.
    pub(super) async fn start(redis_url: &str, room: &Room) -> Result<Subscriber> {
        let mut channel = redis::Client::open(redis_url)?.get_async_pubsub().await?;
        channel.subscribe(format!("tc:meeting:{}:mutable", room.id)).await?;
        let seen: Arc<Mutex<BTreeSet<(Key, Content)>>> = Arc::default();
        let all = seen.clone();
        let task = TaskTracker::new().spawn(async move {
            let mut messages = channel.into_on_message();
            while let Some(message) = messages.next().await {
                let frame: Value =
                    serde_json::from_slice(message.get_payload_bytes()).unwrap_or_default();
                // Others tell of what is gone, or only that there is something.
                if frame["type"] == "transcript.mutable" {
                    let lines = lines_of(&frame["payload"]["segments"]).unwrap_or_default();
                    lock(&all).extend(lines);
                }
            }
        });
        Ok(Subscriber { seen, _task: AbortOnDropHandle::new(task) })
    }

    /// It has seen everything that a reader knows.
    pub(super) async fn check(&self, lines: &Lines) -> Result<()> {
        let all: BTreeSet<_> = lines.iter().map(|(k, line)| (k.clone(), line.clone())).collect();
        let seen = eventually(SOON, async || all.is_subset(&lock(&self.seen)).then_some(()));
        let missing = || all.difference(&lock(&self.seen)).cloned().collect::<Vec<_>>();
        seen.await.with_context(|| format!("never published: {:?}", missing()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
