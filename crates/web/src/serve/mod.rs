//! Connections: how many, how patient, and how they end.
//!
//! Invariant: after the signal to stop nothing new is accepted, what was asked is answered within
//! the grace, and when `serve` returns no request is left. A WebSocket gives its place among the
//! connections back, because it has another among those who listen live; it ends itself when the
//! process begins to stop.

mod patient_stream;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use roundsman_engine::wake;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use patient_stream::PatientStream;

/// When accepting fails, it is for want of something (descriptors, memory) that others give back.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// What is cut off is gone at once; only a session that waits for a database that hangs is not.
const CUT_OFF_MAX: Duration = Duration::from_secs(1);

/// What the system itself keeps of what a client has not read; it takes twice that. Left to itself
/// it keeps megabytes, which a client that is too slow would have to read before it hears why it is
/// closed.
const SEND_BUFFER_BYTES: u32 = 128 * 1024;
/// Connections that wait to be accepted.
const BACKLOG_CONNECTIONS_MAX: u32 = 1024;

/// How connections are treated.
#[derive(Debug, Clone, Copy)]
pub struct ServeOptions {
    /// A request's line and headers arrive within this time, and an idle connection is kept for it.
    pub header_read_max: Duration,
    /// A request's line and headers together; at least 8192.
    pub header_bytes_max: usize,
    /// A client that reads nothing of its answer for this long is given up.
    pub write_stalled_max: Duration,
    /// Further connections wait to be accepted.
    pub connections_max: usize,
    /// After the signal to stop, requests get this long to finish.
    pub grace: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            header_read_max: Duration::from_secs(10),
            header_bytes_max: 32 * 1024,
            write_stalled_max: Duration::from_secs(30),
            connections_max: 4096,
            grace: Duration::from_secs(25),
        }
    }
}

/// Listens at an address, with what every connection there inherits.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that was restarted need not wait for connections of the one before.
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(BACKLOG_CONNECTIONS_MAX)
}

/// Serves until `shutdown`, then lets requests finish and closes what is left after the grace.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
    options: ServeOptions,
) {
    let tasks = TaskTracker::new();
    let connections = TaskTracker::new();
    let server = Server {
        http: protocol(&options),
        router,
        write_stalled_max: options.write_stalled_max,
        connections: connections.clone(),
        closing: shutdown.clone(),
        cut_off: CancellationToken::new(),
    };
    let permits = Arc::new(Semaphore::new(options.connections_max));
    while let Some((stream, permit)) = accept(&listener, &permits, &shutdown).await {
        tasks.spawn(server.clone().connection(stream, permit));
    }
    // Closed now, so that a balancer sees refused connections and not unanswered ones.
    drop(listener);
    connections.close();
    if tokio::time::timeout(options.grace, connections.wait()).await.is_err() {
        let left = connections.len();
        tracing::warn!(left, "closing connections whose requests did not finish in time");
        server.cut_off.cancel();
        let _ = tokio::time::timeout(CUT_OFF_MAX, connections.wait()).await;
    }
}

/// What every connection needs.
#[derive(Clone)]
struct Server {
    http: http1::Builder,
    router: Router,
    write_stalled_max: Duration,
    /// Counts them, also after they have become something else than HTTP.
    connections: TaskTracker,
    /// No further requests on a connection.
    closing: CancellationToken,
    /// No connection any more.
    cut_off: CancellationToken,
}

impl Server {
    async fn connection(self, stream: TcpStream, _permit: OwnedSemaphorePermit) {
        // An answer is small and waited for; it should not wait for more to send with it.
        let _ = stream.set_nodelay(true);
        let counted = self.connections.token();
        let stream = PatientStream::new(stream, self.write_stalled_max, counted);
        let service = TowerToHyperService::new(self.router);
        let connection = self.http.serve_connection(TokioIo::new(stream), service).with_upgrades();
        tokio::pin!(connection);
        let result = tokio::select! {
            biased;
            result = connection.as_mut() => result,
            () = self.closing.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    biased;
                    result = connection.as_mut() => result,
                    () = self.cut_off.cancelled() => return,
                }
            }
        };
        if let Err(error) = result {
            // A client that hangs up, or speaks something else, is nothing to wake anybody for.
            tracing::debug!(error = &error as &dyn std::error::Error, "a connection ended early");
        }
    }
}

fn protocol(options: &ServeOptions) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(options.header_read_max)
        .max_header_size(options.header_bytes_max);
    http
}

/// The next connection, once there is room for it; `None` after the signal to stop.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    shutdown: &CancellationToken,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = tokio::select! {
        biased;
        () = shutdown.cancelled() => return None,
        permit = permits.clone().acquire_owned() => permit.ok()?,
    };
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => return None,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => return Some((stream, permit)),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot accept a connection"
                );
                if !wake::rest(ACCEPT_REST, shutdown).await {
                    return None;
                }
            }
        }
    }
}
