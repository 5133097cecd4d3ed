//! A server that answers as a test tells it to, also in ways that no real one would.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// As sent, with its encoding.
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn is(&self, method: &str, path: &str) -> bool {
        self.method == method && self.path == path
    }
}

/// What to do with a request.
#[derive(Debug, Clone)]
pub(crate) enum Play {
    Answer(u16, String),
    /// These bytes, and then the end of the connection.
    Raw(Vec<u8>),
    /// These bytes, and then nothing for ever.
    Stall(Vec<u8>),
    /// Nothing, for ever.
    Hang,
}

type Handler = dyn Fn(Seen) -> Pin<Box<dyn Future<Output = Play> + Send>> + Send + Sync;

/// Listens on a port of its own until it is dropped.
pub(crate) struct StandIn {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    connects: Arc<Mutex<usize>>,
    _tasks: JoinSet<()>,
}

impl StandIn {
    /// Answers every request by the same rule.
    pub(crate) async fn answering(rule: impl Fn(&Seen) -> Play + Send + Sync + 'static) -> Self {
        Self::start(Arc::new(move |seen: Seen| {
            let play = rule(&seen);
            Box::pin(async move { play })
        }))
        .await
    }

    pub(crate) async fn start(handler: Arc<Handler>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, connects) = (Arc::<Mutex<Vec<Seen>>>::default(), Arc::<Mutex<usize>>::default());
        let mut tasks = JoinSet::new();
        let (record, count) = (seen.clone(), connects.clone());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                connections.spawn(serve(stream, record.clone(), handler.clone()));
            }
        });
        StandIn { address, seen, connects, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn connects(&self) -> usize {
        *self.connects.lock().unwrap()
    }
}

/// One request per connection.
async fn serve(stream: TcpStream, record: Arc<Mutex<Vec<Seen>>>, handler: Arc<Handler>) {
    let mut stream = BufReader::new(stream);
    let Some(seen) = read(&mut stream).await else { return };
    record.lock().unwrap().push(seen.clone());
    let bytes = match handler(seen).await {
        Play::Answer(status, body) => {
            let length = body.len();
            format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
        }
        Play::Raw(bytes) => bytes,
        Play::Stall(bytes) => {
            let _ = stream.write_all(&bytes).await;
            std::future::pending().await
        }
        Play::Hang => std::future::pending().await,
    };
    // The client may have gone away on purpose.
    let _ = stream.write_all(&bytes).await;
    let _ = stream.shutdown().await;
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|bytes| *bytes > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let (first, headers) = lines.split_first()?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let headers: Vec<(String, String)> = headers
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    let body = String::from_utf8(body).ok()?;
    Some(Seen { method, path: path.to_owned(), query, headers, body })
}
