//! A user's endpoint for webhooks: takes what comes, remembers it, answers what it is told to.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use roundsman_testkit::{eventually, ports};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Received {
    pub(crate) fn id(&self) -> &str {
        self.header("webhook-id")
    }

    pub(crate) fn kind(&self) -> &str {
        self.body["type"].as_str().unwrap_or_default()
    }

    /// The status that a meeting has come to, in the words of Vexa's clients.
    pub(crate) fn status_reached(&self) -> Option<&str> {
        self.body["status_change"]["to"].as_str()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

/// An endpoint on loopback that can go away and come back.
pub(crate) struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    running: Option<(CancellationToken, TaskTracker)>,
}

struct Shared {
    received: Mutex<Vec<Received>>,
    answer: AtomicU16,
}

impl Receiver {
    pub(crate) async fn start() -> Result<Receiver> {
        let address = ports::loopback(ports::free_port()?);
        let shared = Arc::new(Shared { received: Mutex::default(), answer: AtomicU16::new(204) });
        let mut receiver = Receiver { address, shared, running: None };
        receiver.start_again().await?;
        Ok(receiver)
    }

    pub(crate) async fn start_again(&mut self) -> Result<()> {
        let listener = TcpListener::bind(self.address).await?;
        let router = Router::new().fallback(receive).with_state(self.shared.clone());
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let stopped = stop.clone().cancelled_owned();
        tasks.spawn(axum::serve(listener, router).with_graceful_shutdown(stopped).into_future());
        self.running = Some((stop, tasks));
        Ok(())
    }

    /// Connections are refused from now on.
    pub(crate) async fn stop(&mut self) {
        if let Some((stop, tasks)) = self.running.take() {
            stop.cancel();
            tasks.close();
            tasks.wait().await;
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// The status of every answer from now on.
    pub(crate) fn answer_with(&self, status: u16) {
        self.shared.answer.store(status, Ordering::SeqCst);
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until what has come so far is enough.
    pub(crate) async fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        enough: impl Fn(&[Received]) -> bool,
    ) -> Result<Vec<Received>> {
        let found = eventually(limit, async || {
            let received = self.received();
            enough(&received).then_some(received)
        });
        found.await.with_context(|| {
            let all = self.received();
            let seen: Vec<_> = all.iter().map(|r| (r.kind(), r.status_reached())).collect();
            format!("{what}: only {seen:?} came")
        })
    }
}

async fn receive(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    text: String,
) -> StatusCode {
    let status = shared.answer.load(Ordering::SeqCst);
    let pair = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
        (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned())
    };
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    let headers = headers.iter().map(pair).collect();
    let received = Received { headers, text, body };
    shared.received.lock().unwrap_or_else(PoisonError::into_inner).push(received);
    StatusCode::from_u16(status).unwrap_or(StatusCode::NO_CONTENT)
}
