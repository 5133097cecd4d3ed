//! Opens connections to pages: only to addresses that the guard has just allowed, in HTTP/1.1 or,
//! where the server prefers it, HTTP/2.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use roundsman_core::audits::observed::TlsSeen;
use roundsman_core::ports::{Clock, ObserveError, ObserveErrorKind as Kind};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::Url;

use super::certificate::PageTls;
use super::options::PageLimits;
use super::trouble::{of_egress, of_hyper, trouble};
use crate::egress::EgressGuard;
use crate::http::Stream;

const HEADERS_MAX: usize = 200;
/// HTTP/2 sends so much before it waits: enough for a page at once, too little to hurt.
const WINDOW_BYTES: u32 = 256 * 1024;

/// What every connection of a look is opened with.
pub(super) struct Opener<'a> {
    pub(super) guard: &'a EgressGuard,
    pub(super) tls: &'a PageTls,
    pub(super) limits: &'a PageLimits,
    pub(super) clock: &'a dyn Clock,
    pub(super) tasks: Tasks,
}

/// An open connection.
pub(super) struct Connection {
    pub(super) sender: Sender,
    pub(super) tls: Option<TlsSeen>,
}

pub(super) enum Sender {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

/// How long it took to open.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Phases {
    pub(super) dns: Duration,
    pub(super) connect: Duration,
    pub(super) tls: Duration,
}

/// What moves the connections of one look. They end with it.
#[derive(Clone, Default)]
pub(super) struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    fn add(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, task: F) {
        self.add(task);
    }
}

impl Opener<'_> {
    /// Resolves, checks, connects, secures.
    pub(super) async fn open(&self, url: &Url) -> Result<(Connection, Phases), ObserveError> {
        let limits = self.limits;
        let began = self.clock.monotonic();
        let resolved = timeout(limits.connect_max, self.guard.resolve(url.as_str())).await;
        let target = resolved
            .map_err(|_| trouble(Kind::DnsFailure, "the name was not resolved in time"))?
            .map_err(of_egress)?;
        let resolved_at = self.clock.monotonic();
        let stream = tcp(&target.addresses, limits.connect_max).await?;
        let connected_at = self.clock.monotonic();
        let (stream, tls, is_http2): (Box<dyn Stream>, _, _) = if url.scheme() == "https" {
            let secured = timeout(limits.tls_max, self.tls.secure(stream, &target.name)).await;
            let late = || trouble(Kind::Timeout, "the TLS handshake was not done in time");
            let (stream, seen) = secured.map_err(|_| late())??;
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            (Box::new(stream), Some(seen), is_http2)
        } else {
            (Box::new(stream), None, false)
        };
        let phases = Phases {
            dns: resolved_at.saturating_sub(began),
            connect: connected_at.saturating_sub(resolved_at),
            tls: self.clock.monotonic().saturating_sub(connected_at),
        };
        let sender = self.speak(stream, is_http2).await.map_err(|error| of_hyper(&error))?;
        Ok((Connection { sender, tls }, phases))
    }

    async fn speak(&self, stream: Box<dyn Stream>, is_http2: bool) -> hyper::Result<Sender> {
        let head_bytes_max = self.limits.head_bytes_max;
        let stream = TokioIo::new(stream);
        // Whatever ends a connection, the answer that is waited for says so too.
        if is_http2 {
            let (sender, connection) = http2::Builder::new(self.tasks.clone())
                .max_header_list_size(u32::try_from(head_bytes_max).unwrap_or(u32::MAX))
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES * 4)
                .handshake(stream)
                .await?;
            self.tasks.add(async { drop(connection.await) });
            return Ok(Sender::Http2(sender));
        }
        let (sender, connection) = http1::Builder::new()
            .max_headers(HEADERS_MAX)
            .max_header_size(head_bytes_max)
            // What is read ahead while a head is not whole yet.
            .max_buf_size(head_bytes_max.max(16 * 1024))
            .handshake(stream)
            .await?;
        self.tasks.add(async { drop(connection.await) });
        Ok(Sender::Http1(sender))
    }
}

impl Sender {
    /// Whether another request may be sent now.
    pub(super) async fn is_ready(&mut self) -> bool {
        match self {
            Sender::Http1(sender) => sender.ready().await.is_ok(),
            Sender::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Empty<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        match self {
            Sender::Http1(sender) => sender.send_request(request).await,
            Sender::Http2(sender) => sender.send_request(request).await,
        }
    }

    pub(super) fn is_http2(&self) -> bool {
        matches!(self, Sender::Http2(_))
    }
}

/// The first address that answers, in the order given.
pub(super) async fn tcp(
    addresses: &[SocketAddr],
    within: Duration,
) -> Result<TcpStream, ObserveError> {
    let mut last = trouble(Kind::ConnectFailure, "the name has no address");
    for address in addresses {
        last = match timeout(within, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Only a socket that is gone already refuses this, and that shows soon.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => trouble(Kind::ConnectFailure, reason(&error)),
            Err(_) => trouble(Kind::Timeout, "no connection in time"),
        };
    }
    Err(last)
}

/// The kind only: a message may name an address.
fn reason(error: &io::Error) -> String {
    format!("cannot connect: {}", error.kind())
}
