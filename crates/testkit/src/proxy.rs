//! A network between a client and a server that can be made slow, silent or broken.
//!
//! A TCP proxy on loopback. Its switches act on open connections too, at once, and per direction.
//! Nothing is ever reordered or lost within a connection: that is TCP's promise, and a connection
//! over a bad network keeps it until it is cut.

mod acceptor;
mod pump;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ports::{free_port, loopback};

const SWITCH_LIMIT: Duration = Duration::from_secs(10);

/// Which way a switch acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// What the client says.
    ToServer,
    /// What the server answers.
    ToClient,
    Both,
}

/// A proxy in front of one server. Dropping it cuts every connection.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    switches: watch::Sender<Switches>,
    shared: Arc<Shared>,
    tasks: TaskTracker,
}

/// What is wrong with the network at the moment.
#[derive(Debug, Clone, Default)]
struct Switches {
    refusing: bool,
    to_server: Faults,
    to_client: Faults,
    /// Connections live as long as this; a cut cancels it and puts a new one in its place.
    connections: CancellationToken,
}

/// One direction of every connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Faults {
    latency: Duration,
    blackhole: bool,
    bytes_per_sec: Option<NonZeroU32>,
}

/// What the tasks report back.
#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    stopped: CancellationToken,
    listening: watch::Sender<bool>,
    open: watch::Sender<usize>,
    bytes_to_server: AtomicU64,
    bytes_to_client: AtomicU64,
}

impl FaultProxy {
    /// Listens on a free loopback port and forwards to `upstream` without faults.
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        let port = free_port()?;
        let shared = Arc::new(Shared {
            upstream,
            stopped: CancellationToken::new(),
            listening: watch::Sender::new(false),
            open: watch::Sender::new(0),
            bytes_to_server: AtomicU64::new(0),
            bytes_to_client: AtomicU64::new(0),
        });
        let switches = watch::Sender::new(Switches::default());
        let tasks = TaskTracker::new();
        tasks.spawn(acceptor::run(port, shared.clone(), switches.subscribe(), tasks.clone()));
        let proxy = FaultProxy { port, switches, shared, tasks };
        proxy.wait_listening(true).await?;
        Ok(proxy)
    }

    pub fn addr(&self) -> SocketAddr {
        loopback(self.port)
    }

    /// `url` with this proxy in place of the server's host and port.
    pub fn url(&self, url: &str) -> String {
        url.replace(&self.shared.upstream.to_string(), &self.addr().to_string())
    }

    /// Delays everything by `latency`; several messages may be under way at once.
    pub fn latency(&self, direction: Direction, latency: Duration) {
        self.change(direction, |faults| faults.latency = latency);
    }

    /// Forwards at most this many bytes per second on each connection.
    pub fn bandwidth(&self, direction: Direction, bytes_per_sec: NonZeroU32) {
        self.change(direction, |faults| {
            faults.bytes_per_sec = Some(bytes_per_sec);
        });
    }

    /// Connections stay open and are accepted, but nothing gets through, not even their end: half
    /// open, as after a cable is pulled. What was sent arrives when the network is healed.
    pub fn blackhole(&self, direction: Direction) {
        self.change(direction, |faults| faults.blackhole = true);
    }

    /// Resets every open connection on both sides; new ones are accepted as before.
    pub async fn cut(&self) -> Result<()> {
        self.switches.send_modify(|switches| {
            std::mem::take(&mut switches.connections).cancel();
        });
        let mut open = self.shared.open.subscribe();
        let gone = tokio::time::timeout(SWITCH_LIMIT, open.wait_for(|count| *count == 0)).await;
        gone.context("connections did not end")?.context("the proxy has stopped")?;
        Ok(())
    }

    /// New connections are refused, as when nobody listens; open ones stay.
    pub async fn refuse(&self) -> Result<()> {
        self.switches.send_modify(|switches| switches.refusing = true);
        self.wait_listening(false).await
    }

    /// Refuses and cuts: the server is gone, as far as its clients can see.
    pub async fn partition(&self) -> Result<()> {
        self.refuse().await?;
        self.cut().await
    }

    /// Switches every fault off. Connections that are still open go on with what was held back.
    pub async fn heal(&self) -> Result<()> {
        self.switches.send_modify(|switches| {
            switches.refusing = false;
            switches.to_server = Faults::default();
            switches.to_client = Faults::default();
        });
        self.wait_listening(true).await
    }

    /// How many connections are open.
    pub fn open_connections(&self) -> usize {
        *self.shared.open.borrow()
    }

    /// How many bytes were forwarded since the start.
    pub fn bytes_forwarded(&self, direction: Direction) -> u64 {
        let to_server = self.shared.bytes_to_server.load(Ordering::Relaxed);
        let to_client = self.shared.bytes_to_client.load(Ordering::Relaxed);
        match direction {
            Direction::ToServer => to_server,
            Direction::ToClient => to_client,
            Direction::Both => to_server + to_client,
        }
    }

    fn change(&self, direction: Direction, change: impl Fn(&mut Faults)) {
        self.switches.send_modify(|switches| {
            if direction != Direction::ToClient {
                change(&mut switches.to_server);
            }
            if direction != Direction::ToServer {
                change(&mut switches.to_client);
            }
        });
    }

    async fn wait_listening(&self, wanted: bool) -> Result<()> {
        let mut listening = self.shared.listening.subscribe();
        let reached = tokio::time::timeout(SWITCH_LIMIT, listening.wait_for(|is| *is == wanted));
        let reached = reached.await.with_context(|| format!("port {}", self.port))?;
        reached.context("the proxy has stopped")?;
        Ok(())
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.tasks.close();
        self.shared.stopped.cancel();
    }
}
