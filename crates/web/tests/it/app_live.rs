//! A server with a network, and clients on its WebSockets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use roundsman_web::{ServeOptions, listen, serve};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::Request;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::app::App;
use crate::app_bots::MEET;

/// Far more than anything here takes.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// Nothing comes within this time.
const A_WHILE: Duration = Duration::from_millis(100);

/// The server of an [`App`].
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    server: AbortOnDropHandle<()>,
}

impl App {
    pub(crate) fn serve(&self) -> Running {
        self.serve_with(ServeOptions::default())
    }

    pub(crate) fn serve_with(&self, options: ServeOptions) -> Running {
        let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let task = serve(listener, self.router.clone(), shutdown.clone(), options);
        let server = AbortOnDropHandle::new(TaskTracker::new().spawn(task));
        Running { address, shutdown, server }
    }
}

impl Running {
    /// A client on `/ws`, with a key in the header.
    pub(crate) async fn listen(&self, key: &str) -> Socket {
        self.socket("/ws", &[("x-api-key", key)]).await
    }

    pub(crate) async fn socket(&self, path: &str, headers: &[(&str, &str)]) -> Socket {
        self.try_socket(path, headers).await.expect("the socket is accepted")
    }

    pub(crate) async fn try_socket(
        &self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Socket, Error> {
        let mut request: Request<()> =
            format!("ws://{}{path}", self.address).into_client_request()?;
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let config = WebSocketConfig::default().read_buffer_size(8 * 1024);
        let (stream, _) = connect_async_with_config(request, Some(config), true).await?;
        Ok(Socket { stream })
    }

    pub(crate) async fn ended(self) {
        timeout(SOON, self.server).await.expect("the server ends").unwrap();
    }
}

/// One client's end of a WebSocket.
pub(crate) struct Socket {
    pub(crate) stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Socket {
    pub(crate) async fn send(&mut self, command: Value) {
        self.send_text(&command.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        self.stream.send(Message::text(text)).await.unwrap();
    }

    /// The next message that is no ping.
    async fn message(&mut self) -> Option<Result<Message, Error>> {
        loop {
            let next = timeout(SOON, self.stream.next()).await.expect("something comes");
            match next {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => return other,
            }
        }
    }

    /// The next frame.
    pub(crate) async fn next(&mut self) -> Value {
        match self.message().await {
            Some(Ok(Message::Text(text))) => serde_json::from_str(&text).unwrap(),
            other => panic!("expected a frame, got {other:?}"),
        }
    }

    /// The code and the reason of the end, which comes next.
    pub(crate) async fn closed(&mut self) -> (u16, String) {
        match self.message().await {
            Some(Ok(Message::Close(Some(frame)))) => (frame.code.into(), frame.reason.to_string()),
            other => panic!("expected the end, got {other:?}"),
        }
    }

    /// Nothing comes for a while.
    pub(crate) async fn is_silent(&mut self) {
        let next = timeout(A_WHILE, self.stream.next()).await;
        assert!(next.is_err(), "{next:?}");
    }

    /// Asks, and is answered.
    pub(crate) async fn ask(&mut self, command: Value) -> Value {
        self.send(command).await;
        self.next().await
    }

    /// Listens to the meeting at [`MEET`]; returns the place it starts from.
    pub(crate) async fn subscribe(&mut self) -> i64 {
        let subscribed = self.ask(json!({"action": "subscribe", "meetings": [meet()]})).await;
        assert_eq!(subscribed["type"], "subscribed", "{subscribed}");
        subscribed["meetings"][0]["seq"].as_i64().unwrap_or_else(|| panic!("{subscribed}"))
    }
}

pub(crate) fn meet() -> Value {
    json!({"platform": "google_meet", "native_id": MEET})
}

/// The wish to hear what follows a place in the meeting at [`MEET`].
pub(crate) fn since(seq: i64) -> Value {
    let meeting = json!({"platform": "google_meet", "native_id": MEET, "since": seq});
    json!({"action": "subscribe", "meetings": [meeting]})
}

/// What a client makes of the frames of one meeting.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// The place of the last frame.
    pub(crate) seq: i64,
    /// Frames that did not follow the one before: some were joined to one.
    pub(crate) leaps: usize,
    pub(crate) resets: usize,
    pub(crate) lines: Lines,
}

/// Text and speaker by the absolute start.
pub(crate) type Lines = BTreeMap<String, (Value, Value)>;

impl Known {
    /// Nothing, from a place on.
    pub(crate) fn at(seq: i64) -> Self {
        Known { seq, ..Known::default() }
    }

    /// Applies a frame; whatever has no place is an answer and no frame.
    pub(crate) fn apply(&mut self, frame: &Value) {
        let Some(seq) = frame["seq"].as_i64() else { return };
        let segments = &frame["payload"]["segments"];
        match frame["type"].as_str() {
            Some("transcript.reset") => {
                self.resets += 1;
                self.lines = lines(segments);
            }
            Some("transcript.mutable") => {
                assert!(seq > self.seq, "{seq} after {}", self.seq);
                self.leaps += usize::from(seq > self.seq + 1);
                self.lines.extend(lines(segments));
            }
            _ => panic!("not expected here: {frame}"),
        }
        self.seq = seq;
    }

    pub(crate) fn apply_all(&mut self, frames: &[Value]) {
        for frame in frames {
            self.apply(frame);
        }
    }

    /// Hears on until a place.
    pub(crate) async fn hear_until(&mut self, socket: &mut Socket, seq: i64) {
        while self.seq < seq {
            self.apply(&socket.next().await);
        }
    }
}

/// Segments as frames and REST have them.
pub(crate) fn lines(segments: &Value) -> Lines {
    let segments = segments.as_array().unwrap_or_else(|| panic!("{segments}")).iter();
    let line = |segment: &Value| {
        let start = segment["absolute_start_time"].as_str().unwrap().to_owned();
        (start, (segment["text"].clone(), segment["speaker"].clone()))
    };
    segments.map(line).collect()
}
