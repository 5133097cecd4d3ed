//! What fan-out costs at least with the parts that the server is made of: axum, tokio-tungstenite,
//! Redis, and one task for each connection that sends whatever comes. No keys, no meetings, no
//! places, no limits.
//!
//! usage: `bench-fanout-bare REDIS_URL CHANNEL`; prints the address it listens on.

use std::io::Write;

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::get;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::Utf8Bytes;

/// Frames that a connection may be behind.
const BEHIND_MAX: usize = 1024;

type Frames = broadcast::Sender<Utf8Bytes>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, channel] = arguments.as_slice() else { anyhow::bail!("REDIS_URL CHANNEL") };
    let (frames, _) = broadcast::channel(BEHIND_MAX);
    let mut redis = redis::Client::open(url.as_str())?.get_async_pubsub().await?;
    redis.subscribe(channel).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    let app = Router::new().route("/ws", get(upgrade)).with_state(frames.clone());
    let forward = async move {
        let mut messages = redis.on_message();
        while let Some(message) = messages.next().await {
            let _ = frames.send(message.get_payload::<String>()?.into());
        }
        Err::<(), _>(anyhow::anyhow!("Redis closed the connection"))
    };
    let served = async { axum::serve(listener, app).await.context("cannot serve") };
    tokio::try_join!(served, forward)?;
    Ok(())
}

async fn upgrade(
    State(frames): State<Frames>,
    headers: HeaderMap,
    mut request: Request,
) -> Result<Response<Body>, StatusCode> {
    let key = headers.get("sec-websocket-key").ok_or(StatusCode::UPGRADE_REQUIRED)?;
    let accept = derive_accept_key(key.as_bytes());
    let upgrade =
        request.extensions_mut().remove::<OnUpgrade>().ok_or(StatusCode::UPGRADE_REQUIRED)?;
    bench_support::spawn(async move {
        let io = TokioIo::new(upgrade.await?);
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
        listen(socket, frames.subscribe()).await
    });
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-accept", accept);
    response.body(Body::empty()).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

/// Whatever a client asks for, it gets all there is.
async fn listen(
    mut socket: WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>,
    mut frames: broadcast::Receiver<Utf8Bytes>,
) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            frame = frames.recv() => socket.send(Message::Text(frame?)).await?,
            message = socket.next() => match message {
                Some(Ok(Message::Text(_))) => {
                    socket.send(Message::text(r#"{"type":"subscribed"}"#)).await?;
                }
                Some(Ok(_)) => {}
                _ => return Ok(()),
            },
        }
    }
}
