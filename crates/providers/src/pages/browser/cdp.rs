//! A small client of the browser's debugging protocol: calls with answers, and events, over one
//! WebSocket that one task reads and writes.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

const CALL_LIMIT: Duration = Duration::from_secs(15);
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Events that wait while an answer is waited for; the oldest are dropped.
const EVENTS_QUEUED_MAX: usize = 20_000;

/// A connection to a browser. Dropping it closes the connection.
pub(super) struct Cdp {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    calls: u64,
    session: Option<String>,
    events: VecDeque<CdpEvent>,
}

/// Something the browser says unasked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CdpEvent {
    pub(super) method: String,
    pub(super) params: Value,
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
struct Incoming {
    id: Option<u64>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

impl Cdp {
    /// Connects to the browser's own endpoint.
    pub(super) async fn connect(url: &str) -> Result<Self, CdpError> {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let connecting = connect_async_with_config(url, Some(config), true);
        let connected = timeout(CALL_LIMIT, connecting).await;
        let (socket, _) =
            connected.map_err(|_| CdpError::NoAnswer("connect"))?.map_err(Box::new)?;
        Ok(Cdp { socket, calls: 0, session: None, events: VecDeque::new() })
    }

    /// Every call from here on is to this session.
    pub(super) fn enter(&mut self, session: &str) {
        self.session = Some(session.to_owned());
    }

    pub(super) async fn call(
        &mut self,
        method: &'static str,
        params: Value,
    ) -> Result<Value, CdpError> {
        self.calls += 1;
        let id = self.calls;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let exchange = async {
            let sent = self.socket.send(Message::text(message.to_string())).await;
            sent.map_err(Box::new)?;
            loop {
                let incoming = receive(&mut self.socket).await?;
                if incoming.id == Some(id) {
                    return match incoming.error {
                        None => Ok(incoming.result),
                        Some(Refusal { message }) => Err(CdpError::Refused { method, message }),
                    };
                }
                if let Some(method) = incoming.method {
                    if self.events.len() == EVENTS_QUEUED_MAX {
                        self.events.pop_front();
                    }
                    self.events.push_back(CdpEvent { method, params: incoming.params });
                }
            }
        };
        timeout(CALL_LIMIT, exchange).await.map_err(|_| CdpError::NoAnswer(method))?
    }

    /// What the browser says next. May be dropped without losing anything.
    pub(super) async fn event(&mut self) -> Result<CdpEvent, CdpError> {
        if let Some(event) = self.events.pop_front() {
            return Ok(event);
        }
        loop {
            let incoming = receive(&mut self.socket).await?;
            if let Some(method) = incoming.method {
                return Ok(CdpEvent { method, params: incoming.params });
            }
        }
    }
}

async fn receive(
    socket: &mut WebSocketStream<MaybeTlsStream<TcpStream>>,
) -> Result<Incoming, CdpError> {
    loop {
        let message = socket.next().await.ok_or(CdpError::Closed)?.map_err(Box::new)?;
        let Message::Text(text) = message else { continue };
        if let Ok(incoming) = serde_json::from_str(&text) {
            return Ok(incoming);
        }
    }
}
