//! Calls whose bodies are too long for memory: sent from a file, read piece by piece.
//!
//! Like its smaller sibling it opens one connection per request and spawns nothing: a call that is
//! dropped is over.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncSeekExt, ReadBuf};
use tokio::time::timeout;

use super::{AGENT, CallError, Place, connect};

/// What is read of a file at once.
const PIECE_BYTES_MAX: usize = 128 * 1024;

/// A request that is ready.
pub(crate) struct StreamedCall {
    pub(crate) method: Method,
    pub(crate) place: Place,
    pub(crate) headers: Vec<(&'static str, HeaderValue)>,
    /// Those whose names are known only to the configuration.
    pub(crate) extra: HeaderMap,
    pub(crate) body: FileBody,
}

/// A few bytes, a part of a file, and a few bytes more; each of them may be nothing.
#[derive(Default)]
pub(crate) struct FileBody {
    before: Bytes,
    part: Option<Part>,
    after: Bytes,
}

struct Part {
    file: File,
    left: u64,
    buffer: Vec<u8>,
}

impl FileBody {
    pub(crate) fn bytes(bytes: Bytes) -> Self {
        FileBody { before: bytes, ..FileBody::default() }
    }

    /// So many bytes of a file from an offset on.
    pub(crate) async fn part(mut file: File, offset: u64, bytes: u64) -> io::Result<Self> {
        file.seek(io::SeekFrom::Start(offset)).await?;
        let part = Part { file, left: bytes, buffer: Vec::new() };
        Ok(FileBody { part: Some(part), ..FileBody::default() })
    }

    /// With something around it.
    #[must_use]
    pub(crate) fn between(self, before: Bytes, after: Bytes) -> Self {
        FileBody { before, after, ..self }
    }

    fn bytes_left(&self) -> u64 {
        let part = self.part.as_ref().map_or(0, |part| part.left);
        part + self.before.len() as u64 + self.after.len() as u64
    }
}

impl Part {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(PIECE_BYTES_MAX);
        self.buffer.resize(room, 0);
        let mut buffer = ReadBuf::new(&mut self.buffer);
        ready!(Pin::new(&mut self.file).poll_read(cx, &mut buffer))?;
        let piece = Bytes::copy_from_slice(buffer.filled());
        if piece.is_empty() {
            let shorter = "the file became shorter while it was sent";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, shorter)));
        }
        self.left -= piece.len() as u64;
        Poll::Ready(Ok(piece))
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        if !this.before.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.before)))));
        }
        if let Some(part) = this.part.as_mut().filter(|part| part.left > 0) {
            return part.poll_piece(cx).map(|piece| Some(piece.map(Frame::data)));
        }
        if !this.after.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.after)))));
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.bytes_left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes_left())
    }
}

/// An answer whose body is still to be read.
pub(crate) struct Exchange {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    /// Moves only while it is polled; `None` when it has ended.
    connection: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Its end would be the wish to end the connection.
    _sender: SendRequest<FileBody>,
}

/// Sends a request and waits for the head of its answer, so long at most.
pub(crate) async fn begin(call: StreamedCall, within: Duration) -> Result<Exchange, CallError> {
    let begun = async {
        let route = call.place.route.clone();
        let request = request(call)?;
        exchange(connect::open(&route).await?, request).await
    };
    timeout(within, begun).await.map_err(|_| CallError::TooSlow(within))?
}

fn request(call: StreamedCall) -> Result<Request<FileBody>, hyper::http::Error> {
    let StreamedCall { method, place, headers, extra, body } = call;
    let has_body = matches!(method, Method::PUT | Method::POST);
    let mut builder = Request::builder().method(method).uri(place.target);
    builder =
        builder.header(HOST, place.host).header(USER_AGENT, AGENT).header(CONNECTION, "close");
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    for (name, value) in &extra {
        builder = builder.header(name, value);
    }
    if has_body {
        builder = builder.header(CONTENT_LENGTH, body.bytes_left());
    }
    builder.body(body)
}

async fn exchange(
    stream: Box<dyn super::Stream>,
    request: Request<FileBody>,
) -> Result<Exchange, CallError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut connection: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async {
        // Whatever ended it, the answer that is waited for says so too.
        let _ = connection.await;
    });
    let (response, connection) = {
        let answered = sender.send_request(request);
        tokio::pin!(answered);
        tokio::select! {
            biased;
            response = &mut answered => (response?, Some(connection)),
            () = &mut connection => (answered.await?, None),
        }
    };
    let (head, body) = response.into_parts();
    let (status, headers) = (head.status.as_u16(), head.headers);
    Ok(Exchange { status, headers, body, connection, _sender: sender })
}

impl Exchange {
    /// The next piece of the body; `None` at its end. May be dropped and called again.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            let frame = match &mut self.connection {
                None => self.body.frame().await,
                Some(connection) => {
                    let frame = tokio::select! {
                        biased;
                        frame = self.body.frame() => Some(frame),
                        () = connection => None,
                    };
                    // What it has read already is still there to be taken.
                    let Some(frame) = frame else {
                        self.connection = None;
                        continue;
                    };
                    frame
                }
            };
            let Some(frame) = frame else { return Ok(None) };
            match frame?.into_data() {
                Ok(data) if !data.is_empty() => return Ok(Some(data)),
                _ => {}
            }
        }
    }

    /// The whole body; `None` if it is longer.
    pub(crate) async fn whole(&mut self, bytes_max: usize) -> Result<Option<Bytes>, CallError> {
        let mut read = BytesMut::new();
        while let Some(piece) = self.piece().await? {
            if piece.len() > bytes_max - read.len() {
                return Ok(None);
            }
            read.extend_from_slice(&piece);
        }
        Ok(Some(read.freeze()))
    }

    /// The value of a header, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}
