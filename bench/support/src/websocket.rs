//! As little of WebSocket as the measurements need: texts go out masked with nothing, which is
//! allowed and costs nothing, and what comes in is cut into frames without being copied.

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub const CONTINUATION: u8 = 0x0;
pub const TEXT: u8 = 0x1;
pub const BINARY: u8 = 0x2;
pub const CLOSE: u8 = 0x8;
pub const PING: u8 = 0x9;
const PONG: u8 = 0xa;
const LAST: u8 = 0x80;
const MASKED: u8 = 0x80;
/// Lengths that say that the length follows.
const LENGTH_16: u8 = 126;
const LENGTH_64: u8 = 127;
const HEADER_BYTES_MAX: usize = 8 * 1024;
/// A larger frame is none that a measurement waits for.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// Connects and asks for a WebSocket. `headers` are whole lines without their ends. What the server
/// has sent right behind its answer is returned with the connection.
pub async fn connect(
    address: &str,
    path: &str,
    headers: &[&str],
) -> anyhow::Result<(TcpStream, Vec<u8>)> {
    let mut stream = TcpStream::connect(address).await.context("cannot connect")?;
    stream.set_nodelay(true)?;
    let first = format!("GET {path} HTTP/1.1");
    let mut lines = vec![
        first.as_str(),
        "host: bench",
        "connection: Upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
    ];
    lines.extend(headers);
    lines.extend(["", ""]);
    stream.write_all(lines.join("\r\n").as_bytes()).await?;
    let mut answer = Vec::with_capacity(512);
    let end = loop {
        if let Some(at) = answer.windows(4).position(|part| part == b"\r\n\r\n") {
            break at + 4;
        }
        ensure!(answer.len() < HEADER_BYTES_MAX, "an endless answer");
        ensure!(stream.read_buf(&mut answer).await? > 0, "the server closed the connection");
    };
    let is_socket = answer.starts_with(b"HTTP/1.1 101");
    ensure!(is_socket, "no WebSocket: {}", String::from_utf8_lossy(&answer));
    Ok((stream, answer.split_off(end)))
}

/// A text as one frame of a client.
pub fn text_frame(text: &str) -> Vec<u8> {
    frame(TEXT, text.as_bytes())
}

/// Bytes as one frame of a client.
pub fn binary_frame(bytes: &[u8]) -> Vec<u8> {
    frame(BINARY, bytes)
}

/// What a ping is answered with.
pub fn pong_frame(payload: &[u8]) -> Vec<u8> {
    frame(PONG, payload)
}

fn frame(code: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(payload.len() + 14);
    frame.push(LAST | code);
    match payload.len() {
        length @ 0..126 => frame.push(MASKED | u8::try_from(length).unwrap_or(0)),
        length @ 126..0x1_0000 => {
            frame.push(MASKED | LENGTH_16);
            frame.extend(u16::try_from(length).unwrap_or(0).to_be_bytes());
        }
        length => {
            frame.push(MASKED | LENGTH_64);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    // A mask of zeros leaves the payload as it is.
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

/// A frame of a server.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub code: u8,
    /// The last one of its message.
    pub last: bool,
    pub payload: &'a [u8],
}

/// What the beginning of a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub code: u8,
    pub last: bool,
    /// Of the header itself.
    pub bytes: usize,
    pub payload_bytes: usize,
}

/// Reads the header that this begins with; `None` if it is not whole yet.
pub fn header(data: &[u8]) -> anyhow::Result<Option<Header>> {
    let &[first, second, ref rest @ ..] = data else { return Ok(None) };
    ensure!(second & MASKED == 0, "a server does not mask");
    let (payload_bytes, extra) = match second {
        LENGTH_16 => match rest.first_chunk() {
            Some(bytes) => (usize::from(u16::from_be_bytes(*bytes)), 2),
            None => return Ok(None),
        },
        LENGTH_64 => match rest.first_chunk() {
            Some(bytes) => (usize::try_from(u64::from_be_bytes(*bytes))?, 8),
            None => return Ok(None),
        },
        length => (usize::from(length), 0),
    };
    ensure!(payload_bytes <= FRAME_BYTES_MAX, "a frame of {payload_bytes} bytes");
    let (code, last) = (first & 0x0f, first & LAST != 0);
    Ok(Some(Header { code, last, bytes: 2 + extra, payload_bytes }))
}

/// The first whole frame in what was read, and how long it is; `None` if it is not whole yet.
pub fn cut(data: &[u8]) -> anyhow::Result<Option<(Frame<'_>, usize)>> {
    let Some(Header { code, last, bytes, payload_bytes }) = header(data)? else { return Ok(None) };
    let payload = data.get(bytes..bytes + payload_bytes);
    Ok(payload.map(|payload| (Frame { code, last, payload }, bytes + payload_bytes)))
}

/// A connection that is read frame by frame.
pub struct Socket {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Of the buffer, so much was read already.
    used: usize,
}

impl Socket {
    pub async fn open(address: &str, path: &str, headers: &[&str]) -> anyhow::Result<Socket> {
        let (stream, buffer) = connect(address, path, headers).await?;
        Ok(Socket { stream, buffer, used: 0 })
    }

    /// Sends frames that are ready.
    pub async fn send(&mut self, frames: &[u8]) -> anyhow::Result<()> {
        Ok(self.stream.write_all(frames).await?)
    }

    /// The next text. Pings are answered.
    pub async fn text(&mut self) -> anyhow::Result<String> {
        Ok(String::from_utf8(self.message(TEXT).await?)?)
    }

    /// The next message that is no text. Pings are answered.
    pub async fn binary(&mut self) -> anyhow::Result<Vec<u8>> {
        self.message(BINARY).await
    }

    async fn message(&mut self, wanted: u8) -> anyhow::Result<Vec<u8>> {
        let (mut message, mut sort) = (Vec::new(), wanted);
        loop {
            let Some((frame, length)) = cut(&self.buffer[self.used..])? else {
                self.buffer.drain(..self.used);
                self.used = 0;
                let read = self.stream.read_buf(&mut self.buffer).await?;
                ensure!(read > 0, "the server closed the connection");
                continue;
            };
            let Frame { code, last, payload } = frame;
            self.used += length;
            match code {
                TEXT | BINARY | CONTINUATION => {
                    if code != CONTINUATION {
                        sort = code;
                    }
                    if sort == wanted {
                        message.extend(payload);
                        if last {
                            return Ok(message);
                        }
                    }
                }
                PING => {
                    let pong = pong_frame(payload);
                    self.stream.write_all(&pong).await?;
                }
                CLOSE => bail!("closed: {}", String::from_utf8_lossy(payload)),
                _ => {}
            }
        }
    }

    /// The connection itself, if nothing was read that was not looked at.
    pub fn into_stream(self) -> anyhow::Result<TcpStream> {
        ensure!(self.used == self.buffer.len(), "there was more to read");
        Ok(self.stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_where_they_end() {
        let text = |last, payload| Frame { code: TEXT, last, payload };
        let mut data = vec![0x81, 2, b'h', b'i'];
        data.extend([0x01, 126, 1, 0]);
        data.extend([b'x'; 256]);
        assert_eq!(cut(&data).unwrap(), Some((text(true, b"hi"), 4)));
        assert_eq!(cut(&data[4..]).unwrap(), Some((text(false, &[b'x'; 256]), 260)));
        for end in [0, 1, 3] {
            assert_eq!(cut(&data[..end]).unwrap(), None);
        }
        assert_eq!(cut(&data[4..7]).unwrap(), None);
        assert!(cut(&text_frame("masked")).is_err(), "only clients mask");
    }

    #[test]
    fn lengths_are_written_as_they_are_read() {
        for length in [0, 125, 126, 65_535, 65_536] {
            let frame = text_frame(&"x".repeat(length));
            let header = frame.len() - length;
            assert_eq!(
                header,
                if length < 126 {
                    6
                } else if length < 65_536 {
                    8
                } else {
                    14
                }
            );
        }
    }
}
