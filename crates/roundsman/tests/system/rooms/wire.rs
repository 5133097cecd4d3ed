//! Clients that speak by themselves: one of the protocol, which knows what was acknowledged, and one of
//! the raw mode.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use roundsman_documents::Document;
use roundsman_documents::protocol::{AckStatus, BatchId, Crdt, Frame, Message};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message as Packet;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

type Socket = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;

const ANSWER_MAX: Duration = Duration::from_secs(20);

pub(super) struct WireClient {
    socket: Socket,
    room: String,
    document: Document,
    batch: u64,
}

impl WireClient {
    /// Connects and joins; what the server has is here then.
    pub(super) async fn join(url: &str, room: &str, token: &str, peer: u64) -> Result<WireClient> {
        let (socket, _) = connect_async(url).await?;
        let document = Document::new(peer);
        let mut client = WireClient { socket, room: room.to_owned(), document, batch: 0 };
        let (auth, version) = (Bytes::copy_from_slice(token.as_bytes()), Bytes::new());
        client.send(Message::JoinRequest { auth, version }).await?;
        let Message::JoinOk { version, .. } = client.next().await? else { bail!("not let in") };
        while !client.document.has(&version)? {
            let message = client.next().await?;
            ensure!(client.take(message).await?.is_none(), "the document comes first");
        }
        Ok(client)
    }

    /// Writes a node and returns when that is acknowledged.
    pub(super) async fn write(&mut self, key: &str) -> Result<()> {
        let update = self.document.patch(&json!({"nodes": {key: key}}))?.context("no change")?;
        self.batch += 1;
        let batch = BatchId(self.batch.to_be_bytes());
        self.send(Message::Update { updates: vec![update], batch }).await?;
        loop {
            let message = self.next().await?;
            match self.take(message).await? {
                None => {}
                Some(Message::Ack { batch: acked, status }) if acked == batch => {
                    ensure!(status == AckStatus::Ok, "{status:?}");
                    return Ok(());
                }
                Some(other) => bail!("{other:?}"),
            }
        }
    }

    /// The keys of all nodes.
    pub(super) fn nodes(&self) -> BTreeSet<String> {
        let said = self.document.to_json();
        said["nodes"].as_object().map(|nodes| nodes.keys().cloned().collect()).unwrap_or_default()
    }

    /// Takes in what is an update, and gives back everything else.
    async fn take(&mut self, message: Message) -> Result<Option<Message>> {
        match message {
            Message::Update { updates, .. } => {
                for update in updates {
                    self.document.import(&update)?;
                }
                Ok(None)
            }
            Message::FragmentHeader { fragments, .. } => {
                let mut whole = BytesMut::new();
                for _ in 0..fragments {
                    let Message::Fragment { bytes, .. } = self.next().await? else {
                        bail!("a piece is missing");
                    };
                    whole.extend_from_slice(&bytes);
                }
                self.document.import(&whole)?;
                Ok(None)
            }
            other => Ok(Some(other)),
        }
    }

    async fn send(&mut self, message: Message) -> Result<()> {
        let frame = Frame { crdt: Crdt::Loro, room: self.room.clone(), message };
        Ok(self.socket.send(Packet::Binary(frame.encode())).await?)
    }

    async fn next(&mut self) -> Result<Message> {
        Ok(Frame::decode(binary(&mut self.socket).await?)?.message)
    }
}

/// A client of `/sync/{project}`.
pub(super) struct RawClient {
    socket: Socket,
    document: Document,
}

impl RawClient {
    /// Connects; the whole document is here then.
    pub(super) async fn connect(
        base_url: &str,
        project: &str,
        token: &str,
        peer: u64,
    ) -> Result<RawClient> {
        let base = base_url.replacen("http", "ws", 1);
        let (mut socket, _) = connect_async(format!("{base}/sync/{project}?token={token}")).await?;
        let mut document = Document::new(peer);
        document.import(&binary(&mut socket).await?)?;
        Ok(RawClient { socket, document })
    }

    /// Writes a node. Nobody says whether it is stored.
    pub(super) async fn set(&mut self, key: &str, value: &Value) -> Result<()> {
        let update = self.document.patch(&json!({"nodes": {key: value}}))?.context("no change")?;
        Ok(self.socket.send(Packet::Binary(update)).await?)
    }

    /// Takes in updates until the document says this at a place.
    pub(super) async fn wait(&mut self, place: &str, value: &Value) -> Result<()> {
        while self.document.to_json().pointer(place) != Some(value) {
            let update = binary(&mut self.socket).await;
            let update = update.with_context(|| format!("{place} is not {value}"))?;
            self.document.import(&update)?;
        }
        Ok(())
    }
}

/// The next message that is neither asked for nor an end.
async fn binary(socket: &mut Socket) -> Result<Bytes> {
    loop {
        let packet = tokio::time::timeout(ANSWER_MAX, socket.next()).await?;
        match packet.context("the server is gone")?? {
            Packet::Binary(bytes) => return Ok(bytes),
            Packet::Close(frame) => bail!("closed: {frame:?}"),
            _ => {}
        }
    }
}
