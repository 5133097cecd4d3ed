//! A connection that does not wait for ever for a client to read.

use std::future::Pending;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Timeout;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Fails once a write has made no progress for too long: a client that asks for much and reads
/// nothing would otherwise keep its place among the connections for good.
#[derive(Debug)]
pub(super) struct PatientStream {
    stream: TcpStream,
    stalled_max: Duration,
    /// Runs while a write makes no progress.
    stalled: Option<Pin<Box<Timeout<Pending<()>>>>>,
    /// Lives on in a WebSocket, so that the server's end waits for that too.
    _counted: TaskTrackerToken,
}

impl PatientStream {
    pub(super) fn new(stream: TcpStream, stalled_max: Duration, counted: TaskTrackerToken) -> Self {
        PatientStream { stream, stalled_max, stalled: None, _counted: counted }
    }

    fn write_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(result) = write(Pin::new(&mut self.stream), cx) {
            self.stalled = None;
            return Poll::Ready(result);
        }
        let limit = self.stalled_max;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::timeout(limit, std::future::pending())));
        stalled.as_mut().poll(cx).map(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for PatientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for PatientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write_with(cx, |stream, cx| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write_with(cx, |stream, cx| stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write_with(cx, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write_with(cx, AsyncWrite::poll_shutdown)
    }
}
