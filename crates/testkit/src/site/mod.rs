//! A website on loopback whose defects are known: pages that are well made and pages that are not,
//! servers that lie, stall and flood, certificates of every kind, and an account of who asked for what.
//!
//! Pages of known defects are the clean page with one thing changed (see [`DEFECTS`]), so that each shows
//! one difference and no other.

mod body;
mod certificates;
mod defects;
mod routes;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use self::certificates::Certificates;

pub use self::defects::DEFECTS;

/// Which of the site's servers is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// Plain http.
    Plain,
    /// https as it should be, HTTP/2 preferred.
    Secure,
    /// https that knows HTTP/1.1 only.
    SecureHttp1,
    /// https that knows TLS 1.2 only.
    Tls12,
    Expired,
    NotYetValid,
    /// With a certificate for somebody else.
    OtherName,
    /// With a certificate from an issuer that nobody trusts.
    Untrusted,
    /// Accepts connections and says nothing, ever.
    Silent,
}

impl Door {
    pub const ALL: [Door; 9] = [
        Door::Plain,
        Door::Secure,
        Door::SecureHttp1,
        Door::Tls12,
        Door::Expired,
        Door::NotYetValid,
        Door::OtherName,
        Door::Untrusted,
        Door::Silent,
    ];
}

/// What `/robots.txt` answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RobotsRule {
    /// Allows everything and names the sitemap.
    #[default]
    Friendly,
    Text(String),
    Status(u16),
    RedirectsTo(String),
    /// No answer, ever.
    Hangs,
}

/// A request that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteRequest {
    pub door: Door,
    pub method: String,
    pub path_and_query: String,
    /// As `HTTP/2.0`.
    pub version: String,
    pub headers: Vec<(String, String)>,
}

impl SiteRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The site. It ends when this is dropped.
pub struct TestSite {
    ports: Vec<(Door, u16)>,
    ca_pem: String,
    state: Arc<State>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct State {
    requests: Mutex<Vec<SiteRequest>>,
    connections: AtomicUsize,
    at_once: AtomicUsize,
    at_once_max: AtomicUsize,
    robots: Mutex<RobotsRule>,
    /// Where plain http sends everybody, if it does.
    plain_leads_to: Mutex<Option<String>>,
}

/// While a request is being answered.
struct Answering(Arc<State>);

impl TestSite {
    pub async fn start() -> Result<Self> {
        let certificates = Certificates::make()?;
        let state = Arc::<State>::default();
        let (mut tasks, mut ports) = (JoinSet::new(), Vec::new());
        for door in Door::ALL {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            ports.push((door, listener.local_addr()?.port()));
            let acceptor = certificates.acceptor(door)?;
            tasks.spawn(listen(listener, door, acceptor, state.clone()));
        }
        Ok(TestSite { ports, ca_pem: certificates.ca_pem, state, _tasks: tasks })
    }

    /// The certificate to trust.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    pub fn port(&self, door: Door) -> u16 {
        self.ports.iter().find(|(known, _)| *known == door).map_or(0, |(_, port)| *port)
    }

    pub fn address(&self, door: Door) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port(door)))
    }

    /// `https://127.0.0.1:port/path`. The certificates are for `127.0.0.1`, `localhost` and
    /// `site.test` with everything below it.
    pub fn url(&self, door: Door, path: &str) -> String {
        self.url_at("127.0.0.1", door, path)
    }

    pub fn url_at(&self, host: &str, door: Door, path: &str) -> String {
        let scheme = if door == Door::Plain { "http" } else { "https" };
        format!("{scheme}://{host}:{}{path}", self.port(door))
    }

    /// Everything that was asked for, in its order.
    pub fn requests(&self) -> Vec<SiteRequest> {
        lock(&self.state.requests).clone()
    }

    /// How often a path was asked for.
    pub fn count(&self, path: &str) -> usize {
        let requests = lock(&self.state.requests);
        requests.iter().filter(|request| request.path_and_query == path).count()
    }

    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// The most requests that were being answered at the same time.
    pub fn at_once_max(&self) -> usize {
        self.state.at_once_max.load(Ordering::SeqCst)
    }

    pub fn set_robots(&self, rule: RobotsRule) {
        *lock(&self.state.robots) = rule;
    }

    /// From now on plain http sends everybody to the same path elsewhere.
    pub fn plain_leads_to(&self, origin: &str) {
        *lock(&self.state.plain_leads_to) = Some(origin.to_owned());
    }

    /// Forgets who asked for what.
    pub fn forget(&self) {
        lock(&self.state.requests).clear();
        self.state.at_once_max.store(0, Ordering::SeqCst);
    }
}

impl State {
    fn begin(self: &Arc<Self>, request: SiteRequest) -> Answering {
        lock(&self.requests).push(request);
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.at_once_max.fetch_max(now, Ordering::SeqCst);
        Answering(self.clone())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.at_once.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn listen(
    listener: TcpListener,
    door: Door,
    acceptor: Option<TlsAcceptor>,
    state: Arc<State>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        state.connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(admit(stream, door, acceptor.clone(), state.clone()));
    }
}

async fn admit(stream: TcpStream, door: Door, acceptor: Option<TlsAcceptor>, state: Arc<State>) {
    // Whoever goes away on purpose is no trouble.
    let _ = stream.set_nodelay(true);
    match (door, acceptor) {
        (Door::Silent, _) => {
            let _stream = stream;
            std::future::pending::<()>().await;
        }
        (_, None) => serve(stream, door, false, state).await,
        (_, Some(acceptor)) => {
            if let Ok(stream) = acceptor.accept(stream).await {
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                serve(stream, door, is_http2, state).await;
            }
        }
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    door: Door,
    is_http2: bool,
    state: Arc<State>,
) {
    let service = service_fn(move |request| routes::answer(request, door, state.clone()));
    let stream = TokioIo::new(stream);
    if is_http2 {
        let server = http2::Builder::new(TokioExecutor::new());
        let _ = server.serve_connection(stream, service).await;
    } else {
        let _ = http1::Builder::new().serve_connection(stream, service).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
