//! A client that speaks the protocol by itself, and knows what was acknowledged.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use roundsman_documents::Document;
use roundsman_documents::protocol::{AckStatus, BatchId, Crdt, Frame, Message};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message as Packet;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

const ANSWER_MAX: Duration = Duration::from_secs(20);

pub(super) struct WireClient {
    socket: WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>,
    room: String,
    pub(super) document: Document,
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
        while client.document.updates_since(&[])?.is_none() || client.document.version() != version
        {
            if client.document.version() == version {
                break;
            }
            match client.next().await? {
                Message::Update { updates, .. } => client.take(&updates)?,
                other => bail!("{other:?} while the document comes"),
            }
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
            match self.next().await? {
                Message::Ack { batch: acked, status } if acked == batch => {
                    ensure!(status == AckStatus::Ok, "{status:?}");
                    return Ok(());
                }
                Message::Update { updates, .. } => self.take(&updates)?,
                other => bail!("{other:?}"),
            }
        }
    }

    /// The keys of all nodes.
    pub(super) fn nodes(&self) -> BTreeSet<String> {
        let said = self.document.to_json();
        said["nodes"].as_object().map(|nodes| nodes.keys().cloned().collect()).unwrap_or_default()
    }

    fn take(&mut self, updates: &[Bytes]) -> Result<()> {
        for update in updates {
            self.document.import(update)?;
        }
        Ok(())
    }

    async fn send(&mut self, message: Message) -> Result<()> {
        let frame = Frame { crdt: Crdt::Loro, room: self.room.clone(), message };
        Ok(self.socket.send(Packet::Binary(frame.encode())).await?)
    }

    async fn next(&mut self) -> Result<Message> {
        loop {
            let packet = tokio::time::timeout(ANSWER_MAX, self.socket.next()).await?;
            match packet.context("the server is gone")?? {
                Packet::Binary(bytes) => return Ok(Frame::decode(bytes)?.message),
                Packet::Close(frame) => bail!("closed: {frame:?}"),
                _ => {}
            }
        }
    }
}
