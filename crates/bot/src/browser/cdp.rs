//! A small client of the browser's debugging protocol: calls with answers, and events, over one WebSocket.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

const CALL_LIMIT: Duration = Duration::from_secs(20);
const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
const EVENTS_QUEUED_MAX: usize = 4096;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;
type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Result<Value, CdpError>>>>>;

/// A connection to a browser. Dropping it closes the connection.
pub(super) struct Cdp {
    sink: tokio::sync::Mutex<SplitSink<Socket, Message>>,
    waiting: Waiting,
    calls: AtomicU64,
    _reader: DropGuard,
}

/// Something the browser says unasked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CdpEvent {
    pub(super) method: String,
    pub(super) params: Value,
    pub(super) session: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum CdpError {
    #[error("the connection to the browser failed: {0}")]
    Connection(#[from] Box<tokio_tungstenite::tungstenite::Error>),
    #[error("the connection to the browser is closed")]
    Closed,
    #[error("the browser did not answer within {CALL_LIMIT:?}: {0}")]
    NoAnswer(&'static str),
    #[error("the browser refused {method}: {message}")]
    Refused { method: &'static str, message: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Incoming {
    id: Option<u64>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    error: Option<Refusal>,
    session_id: Option<String>,
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

impl Cdp {
    /// Connects to the browser's own endpoint. The events end when the connection does.
    pub(super) async fn connect(url: &str) -> Result<(Self, mpsc::Receiver<CdpEvent>), CdpError> {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let connecting = connect_async_with_config(url, Some(config), true);
        let connected = timeout(CALL_LIMIT, connecting).await;
        let (socket, _) =
            connected.map_err(|_| CdpError::NoAnswer("connect"))?.map_err(Box::new)?;
        let (sink, stream) = socket.split();
        let (events, receiver) = mpsc::channel(EVENTS_QUEUED_MAX);
        let waiting = Waiting::default();
        let stop = CancellationToken::new();
        let reading = read(stream, waiting.clone(), events);
        let until = stop.clone();
        TaskTracker::new().spawn(async move { until.run_until_cancelled(reading).await });
        let cdp = Cdp {
            sink: tokio::sync::Mutex::new(sink),
            waiting,
            calls: AtomicU64::new(0),
            _reader: stop.drop_guard(),
        };
        Ok((cdp, receiver))
    }

    /// Calls a method, of the browser itself or within a session.
    pub(super) async fn call(
        &self,
        session: Option<&str>,
        method: &'static str,
        params: Value,
    ) -> Result<Value, CdpError> {
        let id = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let (answer, answered) = oneshot::channel();
        lock(&self.waiting).insert(id, answer);
        let exchange = async {
            let mut sink = self.sink.lock().await;
            sink.send(Message::text(message.to_string())).await.map_err(Box::new)?;
            drop(sink);
            answered.await.map_err(|_| CdpError::Closed)?
        };
        let outcome = timeout(CALL_LIMIT, exchange).await;
        lock(&self.waiting).remove(&id);
        outcome.map_err(|_| CdpError::NoAnswer(method))?.map_err(|error| match error {
            CdpError::Refused { message, .. } => CdpError::Refused { method, message },
            other => other,
        })
    }
}

/// Reads until the connection ends; whoever still waits then learns it.
async fn read(mut stream: SplitStream<Socket>, waiting: Waiting, events: mpsc::Sender<CdpEvent>) {
    while let Some(Ok(message)) = stream.next().await {
        let Message::Text(text) = message else { continue };
        let Ok(incoming) = serde_json::from_str::<Incoming>(&text) else { continue };
        if let Some(id) = incoming.id {
            let refused =
                |refusal: Refusal| CdpError::Refused { method: "", message: refusal.message };
            let answer = incoming.error.map_or(Ok(incoming.result), |error| Err(refused(error)));
            if let Some(caller) = lock(&waiting).remove(&id) {
                // A caller that gave up does not mind.
                let _ = caller.send(answer);
            }
        } else if let Some(method) = incoming.method {
            let (params, session) = (incoming.params, incoming.session_id);
            if events.try_send(CdpEvent { method, params, session }).is_err() {
                tracing::warn!("the browser says more than the bot can follow");
                break;
            }
        }
    }
    lock(&waiting).clear();
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
