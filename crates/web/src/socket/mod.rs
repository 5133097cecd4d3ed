//! WebSockets: what a message costs, how long sending may take, and how one ends.
//!
//! Invariants: a socket holds at most one fragment that its client has not taken, whatever is sent;
//! every socket that ends says why before it is gone, within a bounded time. Compression is not
//! offered, so no small message can become a large one.

mod handshake;

use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame, Utf8Bytes};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

pub(crate) use handshake::Handshake;

/// A larger text is sent in pieces of this size, so that no connection keeps a larger buffer.
const FRAGMENT_BYTES: usize = 16 * 1024;
/// Small texts are sent together until they are this much.
const WRITE_BUFFER_BYTES: usize = 4 * 1024;
/// More than ever waits: a fragment, what is sent with it, and answers to pings.
const UNSENT_BYTES_MAX: usize = 64 * 1024;
/// How long a client may take to hear why its connection ends.
const GOODBYE_MAX: Duration = Duration::from_secs(2);
/// The protocol allows no longer reason.
const REASON_BYTES_MAX: usize = 123;

/// What a socket may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketLimits {
    /// One message from the client.
    pub(crate) message_bytes_max: usize,
    /// Kept for every connection.
    pub(crate) read_buffer_bytes: usize,
    /// A client that does not take what is sent within this time is too slow.
    pub(crate) send_max: Duration,
}

/// One connection.
pub(crate) struct Socket {
    stream: WebSocketStream<TokioIo<Upgraded>>,
    send_max: Duration,
}

/// What a client has sent.
#[derive(Debug)]
pub(crate) enum Received {
    Text(Utf8Bytes),
    Binary(Bytes),
    /// A ping or a pong: a sign of life.
    Alive,
}

/// Why nothing more can be received or sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The client has left, in whatever way.
    Gone,
    /// It does not take what is sent.
    TooSlow,
    /// It sent a message that is too large.
    TooLarge,
    /// It does not keep to the protocol.
    NoProtocol,
}

/// How a client takes what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    AtOnce,
    /// There was no room for all of it: the client has yet to read what was sent before.
    Late,
}

/// The last word on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Goodbye {
    pub(crate) code: u16,
    pub(crate) reason: String,
}

impl Goodbye {
    pub(crate) fn new(code: u16, reason: impl Into<String>) -> Self {
        Goodbye { code, reason: reason.into() }
    }
}

impl Socket {
    async fn new(upgraded: Upgraded, limits: SocketLimits) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(limits.read_buffer_bytes)
            .write_buffer_size(WRITE_BUFFER_BYTES)
            .max_write_buffer_size(UNSENT_BYTES_MAX)
            .max_message_size(Some(limits.message_bytes_max))
            .max_frame_size(Some(limits.message_bytes_max));
        let io = TokioIo::new(upgraded);
        let stream = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        Socket { stream, send_max: limits.send_max }
    }

    /// The next message. Cancel-safe: dropping the future loses nothing.
    pub(crate) async fn receive(&mut self) -> Result<Received, Broken> {
        match self.stream.next().await {
            Some(Ok(Message::Text(text))) => Ok(Received::Text(text)),
            Some(Ok(Message::Binary(bytes))) => Ok(Received::Binary(bytes)),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(Received::Alive),
            Some(Ok(Message::Close(_))) => {
                // The answer to it is waiting to be sent.
                let _ = within(GOODBYE_MAX, self.stream.flush()).await;
                Err(Broken::Gone)
            }
            Some(Ok(Message::Frame(_))) | None => Err(Broken::Gone),
            Some(Err(error)) => Err(Broken::from(error)),
        }
    }

    /// Sends texts, each a message of its own.
    pub(crate) async fn send(&mut self, texts: Vec<Bytes>) -> Result<Taken, Broken> {
        self.send_as(Data::Text, texts).await
    }

    /// Sends bytes, each a message of its own.
    pub(crate) async fn send_binary(&mut self, messages: Vec<Bytes>) -> Result<Taken, Broken> {
        self.send_as(Data::Binary, messages).await
    }

    async fn send_as(&mut self, first: Data, messages: Vec<Bytes>) -> Result<Taken, Broken> {
        let stream = &mut self.stream;
        let sending = async {
            for message in messages {
                for (range, opcode, last) in fragments(first, message.len()) {
                    let frame = Frame::message(message.slice(range), opcode, last);
                    stream.feed(Message::Frame(frame)).await?;
                }
            }
            stream.flush().await
        };
        within(self.send_max, sending).await
    }

    /// Asks the client whether it is there.
    pub(crate) async fn ping(&mut self) -> Result<(), Broken> {
        let sending = self.stream.send(Message::Ping(Bytes::new()));
        within(self.send_max, sending).await.map(|_| ())
    }

    /// Says why, and waits a little for the client to hear it: a connection that is closed while
    /// there is something unread is reset, and the client never learns.
    pub(crate) async fn close(mut self, goodbye: Goodbye) {
        let mut reason = goodbye.reason;
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        let frame = CloseFrame { code: CloseCode::from(goodbye.code), reason: reason.into() };
        let leaving = async {
            self.stream.send(Message::Close(Some(frame))).await.ok()?;
            let io = self.stream.get_mut();
            io.shutdown().await.ok()?;
            let mut ignored = [0u8; 1024];
            while io.read(&mut ignored).await.ok()? > 0 {}
            Some(())
        };
        let _ = tokio::time::timeout(GOODBYE_MAX, leaving).await;
    }
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        match error {
            Error::Capacity(_) => Broken::TooLarge,
            Error::Protocol(_) | Error::Utf8(_) | Error::AttackAttempt => Broken::NoProtocol,
            _ => Broken::Gone,
        }
    }
}

async fn within(
    limit: Duration,
    sending: impl Future<Output = Result<(), Error>>,
) -> Result<Taken, Broken> {
    let mut sending = pin!(sending);
    // Nearly always it is taken at once, and then nobody needs a timer.
    match poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))).await {
        Poll::Ready(sent) => sent.map(|()| Taken::AtOnce).map_err(Broken::from),
        Poll::Pending => match tokio::time::timeout(limit, sending).await {
            Ok(sent) => sent.map(|()| Taken::Late).map_err(Broken::from),
            Err(_) => Err(Broken::TooSlow),
        },
    }
}

/// The pieces of a message of this length. An empty message is one empty piece.
fn fragments(first: Data, bytes: usize) -> impl Iterator<Item = (Range<usize>, OpCode, bool)> {
    let pieces = bytes.div_ceil(FRAGMENT_BYTES).max(1);
    (0..pieces).map(move |piece| {
        let start = piece * FRAGMENT_BYTES;
        let opcode = if piece == 0 { first } else { Data::Continue };
        let end = bytes.min(start + FRAGMENT_BYTES);
        (start..end, OpCode::Data(opcode), piece + 1 == pieces)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_into_pieces_that_make_it_whole() {
        for bytes in [0, 1, FRAGMENT_BYTES, FRAGMENT_BYTES + 1, 5 * FRAGMENT_BYTES] {
            let pieces: Vec<_> = fragments(Data::Text, bytes).collect();
            let sum: usize = pieces.iter().map(|(range, ..)| range.len()).sum();
            assert_eq!(sum, bytes);
            assert_eq!(pieces.iter().filter(|(.., last)| *last).count(), 1);
            assert!(pieces.last().is_some_and(|(.., last)| *last));
            for (index, (_, opcode, _)) in pieces.iter().enumerate() {
                let text = *opcode == OpCode::Data(Data::Text);
                assert_eq!(text, index == 0, "only the first says that it is text");
            }
        }
    }
}
