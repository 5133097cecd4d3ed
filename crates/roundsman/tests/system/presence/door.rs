//! What stands before several servers: it passes every event of Daily's on to all of them, with its
//! signature, so that each hears what the others hear.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use futures_util::future::join_all;
use roundsman_testkit::ports;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::place::WEBHOOK;

/// Who does not answer within this is passed over.
const PATIENCE: Duration = Duration::from_secs(2);
const SIGNATURE: [&str; 2] = ["x-webhook-timestamp", "x-webhook-signature"];

/// Open until it is dropped.
pub(super) struct Door {
    address: SocketAddr,
    shared: Arc<Shared>,
    _open: DropGuard,
}

struct Shared {
    client: reqwest::Client,
    servers: Mutex<Vec<String>>,
}

impl Door {
    pub(super) async fn open() -> Result<Door> {
        let listener = TcpListener::bind(ports::loopback(0)).await?;
        let address = listener.local_addr()?;
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
        let shared = Arc::new(Shared { client, servers: Mutex::default() });
        let router = Router::new().fallback(pass_on).with_state(shared.clone());
        let open = CancellationToken::new();
        let closed = open.clone().cancelled_owned();
        TaskTracker::new()
            .spawn(axum::serve(listener, router).with_graceful_shutdown(closed).into_future());
        Ok(Door { address, shared, _open: open.drop_guard() })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}{WEBHOOK}", self.address)
    }

    /// Events go to these servers from now on.
    pub(super) fn leads_to(&self, base_urls: impl IntoIterator<Item = String>) {
        let servers = base_urls.into_iter().map(|url| url + WEBHOOK).collect();
        *self.shared.servers.lock().unwrap_or_else(PoisonError::into_inner) = servers;
    }
}

/// One server that takes it is enough for Daily.
async fn pass_on(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let servers = shared.servers.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let posts = servers.iter().map(|url| {
        let mut request = shared.client.post(url).body(body.clone());
        for name in SIGNATURE {
            if let Some(value) = headers.get(name) {
                request = request.header(name, value);
            }
        }
        request.send()
    });
    let mut worst = StatusCode::BAD_GATEWAY;
    for answer in join_all(posts).await.into_iter().flatten() {
        if answer.status() == StatusCode::OK {
            return StatusCode::OK;
        }
        worst = answer.status();
    }
    worst
}
