//! Messages that may be lost: wake-ups, live frames, commands.
//!
//! Invariant: nothing on the bus is the only copy of anything. A lost message delays somebody until
//! their next look at the database; it never makes a row wrong. Callers therefore treat a failed
//! publish as a metric, not as an error of the operation they were doing.

use async_trait::async_trait;
use bytes::Bytes;

/// A larger message is refused by every adapter. PostgreSQL's NOTIFY takes less than 8,000 bytes
/// (after encoding), so an adapter over it refuses earlier: see [`BusError::TooLarge`].
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// Publishes to and listens on topics. A topic is a plain string such as `wake`.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Sends `body` to whoever listens on `topic` now, on any node. Returns once the message was
    /// handed to the transport, within a bounded time; delivery is at most once.
    async fn publish(&self, topic: &str, body: Bytes) -> Result<(), BusError>;

    /// Starts listening. Everything published after this returns is received, or a
    /// [`BusMessage::Gap`] says that something may have been missed.
    async fn subscribe(&self, topic: &str) -> Result<Box<dyn BusSubscription>, BusError>;

    /// Whether the transport is connected at this moment (for `/readyz` details and `doctor`).
    fn connected(&self) -> bool;

    /// The adapter's name as shown to operators: `local`, `redis`, `postgres`.
    fn name(&self) -> &'static str;
}

/// One listener on one topic. Dropping it stops listening.
#[async_trait]
pub trait BusSubscription: Send {
    /// Waits for the next message. Cancel-safe: dropping the future loses nothing.
    async fn next(&mut self) -> BusMessage;
}

/// What a listener receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusMessage {
    /// One message, as published.
    Body(Bytes),
    /// The connection was lost and is back, or this listener was too slow: look at the database.
    Gap,
    /// The bus was shut down; nothing follows.
    Closed,
}

/// Why a message was not sent.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The transport cannot carry a message of this size.
    #[error("message of {bytes} bytes is over the limit of {bytes_max}")]
    TooLarge { bytes: usize, bytes_max: usize },
    /// The transport is away; it reconnects by itself.
    #[error("bus unavailable: {0}")]
    Unavailable(String),
}
