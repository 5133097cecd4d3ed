//! The browser's only way to the network: a proxy on loopback that asks the guard about every
//! address and connects to the one that the guard saw.
//!
//! It lives as long as one measurement. It speaks what Chromium speaks to a proxy: `CONNECT` for what
//! is encrypted and for WebSockets, and one plain request per connection.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::{Position, Url};

use super::super::connection::tcp;
use crate::egress::EgressGuard;

const CONNECTIONS_MAX: usize = 128;
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
const PIECE_BYTES: usize = 16 * 1024;

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Whom the browser calls on its own account. No page needs them.
const OF_THE_BROWSER: [&str; 5] = [
    "clients2.google.com",
    "optimizationguide-pa.googleapis.com",
    "redirector.gvt1.com",
    "safebrowsing.googleapis.com",
    "update.googleapis.com",
];

/// Ends when dropped, with all connections.
pub(super) struct Proxy {
    port: u16,
    rules: Arc<Rules>,
    _tasks: JoinSet<()>,
}

struct Rules {
    guard: EgressGuard,
    /// What is asked for before the page is, the browser asks for itself.
    is_open: AtomicBool,
    /// In both directions; what would go beyond ends its connection.
    bytes_left: AtomicU64,
}

/// What a request of the browser is for.
struct Wanted {
    method: String,
    url: Url,
    /// Without those that are the proxy's own.
    headers: Vec<String>,
    body_bytes: u64,
    /// What came behind the head already.
    begun: Vec<u8>,
}

impl Proxy {
    pub(super) async fn start(guard: EgressGuard, traffic_bytes_max: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let rules = Arc::new(Rules {
            guard,
            is_open: AtomicBool::new(false),
            bytes_left: AtomicU64::new(traffic_bytes_max),
        });
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut tasks = JoinSet::new();
        let shared = rules.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok(place) = places.clone().acquire_owned().await else { break };
                let Ok((browser, _)) = listener.accept().await else { break };
                while connections.try_join_next().is_some() {}
                let rules = shared.clone();
                connections.spawn(async move {
                    // Whatever went wrong, the browser sees that its connection ended.
                    let _ = serve(browser, &rules).await;
                    drop(place);
                });
            }
        });
        Ok(Proxy { port, rules, _tasks: tasks })
    }

    /// From now on it is the page that asks.
    pub(super) fn open(&self) {
        self.rules.is_open.store(true, Relaxed);
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

async fn serve(mut browser: TcpStream, rules: &Rules) -> io::Result<()> {
    let wanted = timeout(HEAD_TIME_MAX, read_head(&mut browser)).await??;
    let Some(wanted) = wanted else { return refuse(&mut browser, "400 Bad Request").await };
    let is_own = wanted.url.host_str().is_none_or(|host| OF_THE_BROWSER.contains(&host));
    if is_own || !rules.is_open.load(Relaxed) {
        return refuse(&mut browser, "403 Forbidden").await;
    }
    let Ok(target) = rules.guard.resolve(wanted.url.as_str()).await else {
        return refuse(&mut browser, "403 Forbidden").await;
    };
    let Ok(mut server) = tcp(&target.addresses, CONNECT_TIME_MAX).await else {
        return refuse(&mut browser, "502 Bad Gateway").await;
    };
    if wanted.method == "CONNECT" {
        browser.write_all(ESTABLISHED).await?;
        server.write_all(&wanted.begun).await?;
        return both_ways(browser, server, rules).await;
    }
    let path = &wanted.url[Position::BeforePath..Position::AfterQuery];
    let mut head = format!("{} {path} HTTP/1.1\r\n", wanted.method);
    for header in &wanted.headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    head.push_str("connection: close\r\n\r\n");
    server.write_all(head.as_bytes()).await?;
    let begun_bytes = wanted.body_bytes.min(wanted.begun.len() as u64);
    server.write_all(&wanted.begun[..usize::try_from(begun_bytes).unwrap_or(0)]).await?;
    // Nothing beyond this request goes to a server that was checked for this request.
    let mut rest = (&mut browser).take(wanted.body_bytes - begun_bytes);
    pump(&mut rest, &mut server, rules).await?;
    pump(&mut server, &mut browser, rules).await?;
    browser.shutdown().await
}

/// `None` for what is no request to a proxy.
async fn read_head(browser: &mut TcpStream) -> io::Result<Option<Wanted>> {
    let mut read = Vec::new();
    let end = loop {
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        let room = HEAD_BYTES_MAX.saturating_sub(read.len());
        let bytes = browser.take(room as u64).read_buf(&mut read).await?;
        if bytes == 0 {
            return Ok(None);
        }
    };
    let begun = read.split_off(end + 4);
    Ok(String::from_utf8(read).ok().and_then(|head| parse(&head, begun)))
}

fn parse(head: &str, begun: Vec<u8>) -> Option<Wanted> {
    let mut lines = head.trim_end().split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, place) = (words.next()?, words.next()?);
    let url = match method {
        "CONNECT" => Url::parse(&format!("https://{place}/")),
        _ => Url::parse(place),
    };
    let url = url.ok().filter(|url| method == "CONNECT" || url.scheme() == "http")?;
    let (mut headers, mut body_bytes) = (Vec::new(), 0);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        match name.trim().to_ascii_lowercase().as_str() {
            "connection" | "proxy-connection" | "proxy-authorization" | "keep-alive" => continue,
            // The browser knows the length of what it sends.
            "transfer-encoding" => return None,
            "content-length" => body_bytes = value.trim().parse().ok()?,
            _ => {}
        }
        headers.push(line.to_owned());
    }
    Some(Wanted { method: method.to_owned(), url, headers, body_bytes, begun })
}

async fn refuse(browser: &mut TcpStream, status: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    browser.write_all(head.as_bytes()).await?;
    browser.shutdown().await
}

async fn both_ways(browser: TcpStream, server: TcpStream, rules: &Rules) -> io::Result<()> {
    let (mut from_browser, mut to_browser) = browser.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let there = async {
        pump(&mut from_browser, &mut to_server, rules).await?;
        to_server.shutdown().await
    };
    let back = async {
        pump(&mut from_server, &mut to_browser, rules).await?;
        to_browser.shutdown().await
    };
    tokio::try_join!(there, back).map(drop)
}

/// Until one side ends or the budget does.
async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    rules: &Rules,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let bytes = from.read(&mut piece).await?;
        if bytes == 0 {
            return Ok(());
        }
        let spend = |left: u64| left.checked_sub(bytes as u64);
        if rules.bytes_left.fetch_update(Relaxed, Relaxed, spend).is_err() {
            return Err(io::Error::other("the budget of bytes is used up"));
        }
        to.write_all(&piece[..bytes]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_to_a_proxy_are_understood() {
        let head = "POST http://a.test:81/b?c HTTP/1.1\r\nHost: a.test:81\r\nProxy-Connection: keep-alive\r\n\
                    Content-Length: 3\r\n\r\n";
        let wanted = parse(head, b"xyz".to_vec()).unwrap();
        assert_eq!((wanted.method.as_str(), wanted.url.as_str()), ("POST", "http://a.test:81/b?c"));
        assert_eq!(wanted.headers, ["Host: a.test:81", "Content-Length: 3"]);
        assert_eq!((wanted.body_bytes, wanted.begun.as_slice()), (3, &b"xyz"[..]));
        let tunnel = parse("CONNECT [::1]:443 HTTP/1.1\r\n\r\n", Vec::new()).unwrap();
        assert_eq!(tunnel.url.as_str(), "https://[::1]/");
        for odd in [
            "",
            "GET",
            "GET / HTTP/1.1\r\n\r\n",
            "GET https://a.test/ HTTP/1.1\r\n\r\n",
            "GET file:///etc/passwd HTTP/1.1\r\n\r\n",
            "CONNECT a b c\r\nnonsense\r\n\r\n",
            "POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST http://a.test/ HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        ] {
            assert!(parse(odd, Vec::new()).is_none(), "{odd}");
        }
    }
}
