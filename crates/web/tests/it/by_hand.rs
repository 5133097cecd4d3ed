//! Connections that a test makes byte by byte, for clients that do not behave.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::app_live::SOON;
use crate::app_transcripts::AT_MEET;

/// Small, so that whoever does not read is soon known for it.
const RECEIVE_BYTES: u32 = 32 * 1024;

/// A WebSocket which answers nothing by itself.
pub(crate) async fn open_socket(address: SocketAddr, key: &str) -> TcpStream {
    let request = format!(
        "GET /ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         x-api-key: {key}\r\n\r\n"
    );
    let (stream, head) = ask(address, &request).await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "the answer that the standard names");
    assert!(!head.to_lowercase().contains("sec-websocket-extensions"), "no compression");
    stream
}

/// The events of the meeting of these tests.
pub(crate) async fn open_events(address: SocketAddr, key: &str) -> TcpStream {
    let request = format!("GET {AT_MEET}/events HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\r\n");
    let (stream, head) = ask(address, &request).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.to_lowercase().contains("transfer-encoding: chunked"), "{head}");
    stream
}

/// Sends a request and reads the head of the answer, and no byte more.
async fn ask(address: SocketAddr, request: &str) -> (TcpStream, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(RECEIVE_BYTES).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(SOON, stream.read_u8()).await.unwrap().unwrap());
    }
    (stream, String::from_utf8(head).unwrap())
}

/// A text as a client must send it: with a mask, here of zeros.
pub(crate) fn masked(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    assert!(length < 126);
    let mut frame = vec![0x81, 0x80 | length, 0, 0, 0, 0];
    frame.extend(text.bytes());
    frame
}

/// Everything until the server closes.
pub(crate) async fn rest_of(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    timeout(SOON, stream.read_to_end(&mut bytes)).await.expect("the server closes").unwrap();
    bytes
}

/// What a server has said on a WebSocket: whole texts, and the code and reason of its end. A text
/// that was cut off is left out.
pub(crate) fn heard(bytes: &[u8]) -> (Vec<Value>, Option<(u16, String)>) {
    let (mut texts, mut text, mut rest) = (Vec::new(), Vec::new(), bytes);
    while let Some((first, payload, after)) = frame(rest) {
        match first & 0x0f {
            0x8 => {
                let code = u16::from_be_bytes([payload[0], payload[1]]);
                assert!(after.is_empty(), "nothing comes after the end");
                return (texts, Some((code, String::from_utf8_lossy(&payload[2..]).into_owned())));
            }
            0x0 | 0x1 => {
                text.extend_from_slice(payload);
                if first & 0x80 != 0 {
                    texts.push(serde_json::from_slice(&std::mem::take(&mut text)).unwrap());
                }
            }
            _ => {}
        }
        rest = after;
    }
    (texts, None)
}

/// The code and reason of the end of what a server has said.
pub(crate) fn goodbye(bytes: &[u8]) -> (u16, String) {
    heard(bytes).1.unwrap_or_else(|| panic!("no end in {:?}", String::from_utf8_lossy(bytes)))
}

/// The first byte of a frame, its payload and what follows it; `None` if it is not all there.
fn frame(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (length, head) = match *bytes.get(1)? {
        126 => (u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)), 4),
        127 => (u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?), 10),
        length => (u64::from(length), 2),
    };
    let end = head + usize::try_from(length).ok()?;
    Some((bytes[0], bytes.get(head..end)?, &bytes[end..]))
}

/// The data of whole events in a body that came in chunks, in their order.
pub(crate) fn events(mut bytes: &[u8]) -> Vec<Value> {
    let mut body = Vec::new();
    while let Some(line) = bytes.windows(2).position(|pair| pair == b"\r\n") {
        let size = std::str::from_utf8(&bytes[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        let start = line + 2;
        body.extend_from_slice(&bytes[start.min(bytes.len())..(start + size).min(bytes.len())]);
        bytes = bytes.get(start + size + 2..).unwrap_or_default();
    }
    // The last one may be cut off, even within a character.
    let mut events: Vec<&[u8]> = Vec::new();
    let mut rest = body.as_slice();
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") {
        events.push(&rest[..end]);
        rest = &rest[end + 2..];
    }
    let texts = events.into_iter().map(|event| std::str::from_utf8(event).unwrap());
    let data = texts.filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data:")));
    data.map(|data| serde_json::from_str(data.trim()).unwrap()).collect()
}
