//! Many listeners in one process that cost little: a socket, a count, and one buffer for all.
//!
//! Everything is on one thread, so that counting needs no lock and the server keeps the other
//! processor. What a listener has got is known by counting: frames come in order and none is left
//! out, or the measurement never ends well.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bench_support::websocket::{self, Socket, header, pong_frame, text_frame};
use futures_util::{StreamExt, TryStreamExt, stream};
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Connections that are opened at the same time.
const OPENING_MAX: usize = 64;
const READ_BYTES: usize = 64 * 1024;
/// Longer than any header.
const HEADER_BYTES_MAX: usize = 14;
/// What was published reaches everybody within this time, or never.
const DELIVERED_MAX: Duration = Duration::from_secs(60);

/// Everybody who listens.
pub(crate) struct Crowd {
    shared: Rc<Shared>,
    size: usize,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// What the listeners have in common.
struct Shared {
    clock: DatabaseClock,
    buffer: RefCell<Vec<u8>>,
    round: RefCell<Round>,
    done: Notify,
    broken: Cell<Option<&'static str>>,
}

/// Frames that are on their way.
#[derive(Default)]
struct Round {
    /// Frames that everybody had got before.
    base: usize,
    /// When the last listener has got each of them, up to now.
    last: Vec<Duration>,
    /// Bytes of the last frame.
    bytes: usize,
    missing: usize,
}

/// How a round went.
pub(crate) struct Delivered {
    /// For each frame: when the last listener had it.
    pub(crate) last: Vec<Duration>,
    /// How large a frame was.
    pub(crate) bytes: usize,
}

impl Crowd {
    /// Everybody connects and asks for the meeting.
    pub(crate) async fn gather(
        address: &str,
        headers: &[&str],
        size: usize,
    ) -> anyhow::Result<Crowd> {
        let shared = Rc::new(Shared {
            clock: DatabaseClock::start(),
            buffer: RefCell::new(vec![0; READ_BYTES]),
            round: RefCell::default(),
            done: Notify::new(),
            broken: Cell::new(None),
        });
        let wish = text_frame(r#"{"action":"subscribe","meetings":[{"meeting_id":1}]}"#);
        let join = async |_| {
            let mut socket = Socket::open(address, "/ws", headers).await?;
            socket.send(&wish).await?;
            let answer = socket.text().await?;
            ensure!(answer.contains(r#""type":"subscribed""#), "{answer}");
            socket.into_stream()
        };
        let opening = stream::iter(0..size).map(join).buffer_unordered(OPENING_MAX);
        let streams: Vec<TcpStream> = opening.try_collect().await?;
        let tasks = streams.into_iter().map(|stream| {
            let shared = shared.clone();
            tokio::task::spawn_local(async move {
                if listen(&shared, &stream).await.is_err() {
                    shared.broken.set(Some("a listener was cut off"));
                    shared.done.notify_one();
                }
            })
        });
        let tasks = tasks.collect();
        Ok(Crowd { shared, size, tasks })
    }

    pub(crate) fn now(&self) -> Duration {
        self.shared.clock.monotonic()
    }

    /// So many frames are published next.
    pub(crate) fn expect(&self, frames: usize) {
        let mut round = self.shared.round.borrow_mut();
        let base = round.base + round.last.len();
        *round = Round {
            base,
            last: vec![Duration::ZERO; frames],
            bytes: 0,
            missing: frames * self.size,
        };
    }

    /// Waits until everybody has all of them.
    pub(crate) async fn delivered(&self) -> anyhow::Result<Delivered> {
        let wait = async {
            while self.shared.round.borrow().missing > 0 {
                self.shared.done.notified().await;
                if let Some(why) = self.shared.broken.get() {
                    bail!(why);
                }
            }
            Ok(())
        };
        let waited = tokio::time::timeout(DELIVERED_MAX, wait).await;
        let round = self.shared.round.borrow();
        waited.with_context(|| format!("{} deliveries are missing", round.missing))??;
        Ok(Delivered { last: round.last.clone(), bytes: round.bytes })
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn listen(shared: &Shared, stream: &TcpStream) -> anyhow::Result<()> {
    let mut reader = Reader::default();
    loop {
        stream.readable().await?;
        let mut buffer = shared.buffer.borrow_mut();
        let length = match stream.try_read(&mut buffer) {
            Ok(0) => bail!("closed"),
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error.into()),
        };
        let read = reader.take(&buffer[..length])?;
        drop(buffer);
        if read.frames > 0 {
            shared.got(reader.frames - read.frames..reader.frames, reader.bytes);
        }
        if read.pings > 0 {
            // The server's pings carry nothing.
            let pong = pong_frame(b"");
            ensure!(stream.try_write(&pong)? == pong.len(), "a pong cannot be sent");
        }
    }
}

impl Shared {
    fn got(&self, frames: std::ops::Range<usize>, bytes: usize) {
        let now = self.clock.monotonic();
        let mut round = self.round.borrow_mut();
        round.bytes = bytes;
        for frame in frames {
            let place = frame.checked_sub(round.base).filter(|place| *place < round.last.len());
            let Some(place) = place else {
                self.broken.set(Some("more was delivered than was published"));
                self.done.notify_one();
                return;
            };
            round.last[place] = now;
            round.missing -= 1;
        }
        if round.missing == 0 {
            self.done.notify_one();
        }
    }
}

/// Counts the frames of one connection without keeping them.
#[derive(Default)]
struct Reader {
    /// The beginning of a header that was not whole.
    header: Vec<u8>,
    /// Of the payload that is being read.
    left: usize,
    /// The payload that is being read ends a text.
    ends_text: bool,
    is_ping: bool,
    /// Texts so far, and the bytes of the last one.
    frames: usize,
    bytes: usize,
}

struct Read {
    frames: usize,
    pings: usize,
}

impl Reader {
    fn take(&mut self, mut data: &[u8]) -> anyhow::Result<Read> {
        let mut read = Read { frames: 0, pings: 0 };
        while !data.is_empty() {
            if self.left > 0 {
                let skipped = self.left.min(data.len());
                data = &data[skipped..];
                self.left -= skipped;
            } else {
                // Nearly always the header is whole, and nothing is kept.
                let known = self.header.len();
                let found = if known == 0 {
                    header(data)?
                } else {
                    self.header.extend(&data[..data.len().min(HEADER_BYTES_MAX)]);
                    header(&self.header)?
                };
                let Some(found) = found else {
                    if known == 0 {
                        self.header.extend(data);
                    }
                    break;
                };
                self.header.clear();
                data = &data[found.bytes - known..];
                self.left = found.payload_bytes;
                ensure!(found.code != websocket::CLOSE, "closed");
                self.is_ping = found.code == websocket::PING;
                self.ends_text =
                    found.last && matches!(found.code, websocket::TEXT | websocket::CONTINUATION);
                if self.ends_text {
                    self.bytes = found.payload_bytes;
                }
            }
            if self.left == 0 {
                read.frames += usize::from(std::mem::take(&mut self.ends_text));
                read.pings += usize::from(std::mem::take(&mut self.is_ping));
            }
        }
        self.frames += read.frames;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_however_they_are_cut() {
        let mut data = vec![0x81, 2, b'h', b'i', 0x89, 0, 0x81, 126, 0, 200];
        data.extend([b'x'; 200]);
        data.extend([0x01, 1, b'a', 0x80, 1, b'b', 0x81, 0]);
        for size in 1..data.len() {
            let (mut reader, mut pings) = (Reader::default(), 0);
            for part in data.chunks(size) {
                pings += reader.take(part).unwrap().pings;
            }
            assert_eq!((reader.frames, pings, reader.left), (4, 1, 0), "in pieces of {size}");
        }
        assert!(Reader::default().take(&[0x88, 0]).is_err());
    }
}
