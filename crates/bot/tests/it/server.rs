//! A server that takes callbacks, notes them, and answers as the test says.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub(crate) const TOKEN: &str = "rmb_for_tests";
/// The name of a report that tells what is said.
pub(crate) const TOLD: &str = "/ingest/transcription";
const LIMIT: Duration = Duration::from_secs(30);
const BODY_BYTES_MAX: usize = 64 * 1024;

/// A report as it came.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    /// `started`, `heartbeat`, …; of a status, the status.
    pub(crate) what: String,
    pub(crate) body: Value,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    _serving: DropGuard,
}

#[derive(Default)]
struct Shared {
    reports: watch::Sender<Vec<Report>>,
    wants: Mutex<Wants>,
}

#[derive(Default)]
struct Wants {
    leave: bool,
    config: Option<(u32, Value)>,
    /// Answers to reports of a name: how often still (`None`: always), and with what.
    refusals: HashMap<String, (Option<u32>, u16)>,
}

impl Server {
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let router = Router::new().fallback(take).with_state(shared.clone());
        let stop = CancellationToken::new();
        let until = stop.clone();
        TaskTracker::new().spawn(async move {
            let serving = axum::serve(listener, router).into_future();
            until.run_until_cancelled(serving).await
        });
        Ok(Server { address, shared, _serving: stop.drop_guard() })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on every answer wants the bot to leave.
    pub(crate) fn want_leave(&self) {
        self.shared.wants.lock().unwrap().leave = true;
    }

    /// From now on every answer wants this configuration.
    pub(crate) fn want_config(&self, version: u32, config: Value) {
        self.shared.wants.lock().unwrap().config = Some((version, config));
    }

    /// Answers the next `times` reports of this name, or all of them, with this status.
    pub(crate) fn refuse(&self, what: &str, times: Option<u32>, status: u16) {
        self.shared.wants.lock().unwrap().refusals.insert(what.to_owned(), (times, status));
    }

    pub(crate) fn reports(&self) -> Vec<Report> {
        self.shared.reports.borrow().clone()
    }

    /// The names of all reports but heartbeats and what is told of the meeting, in order.
    pub(crate) fn life(&self) -> Vec<String> {
        let names = self.reports().into_iter().map(|report| report.what);
        names.filter(|what| what != "heartbeat" && what != TOLD).collect()
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.reports().iter().filter(|report| report.what == what).count()
    }

    /// Waits for a report for which this is true, and returns it.
    pub(crate) async fn wait_until(
        &self,
        why: &str,
        mut is_it: impl FnMut(&Report) -> bool,
    ) -> Result<Report> {
        let mut reports = self.shared.reports.subscribe();
        let mut found = None;
        let seen = reports.wait_for(|reports| {
            found = reports.iter().find(|report| is_it(report)).cloned();
            found.is_some()
        });
        let seen = tokio::time::timeout(LIMIT, seen).await.map(|seen| seen.map(drop));
        seen.with_context(|| format!("waited for {why}; came: {:?}", self.life()))??;
        found.context("it was found")
    }

    pub(crate) async fn wait_for(&self, what: &str) -> Result<Report> {
        self.wait_until(what, |report| report.what == what).await
    }

    /// Waits for so many more heartbeats than there are.
    pub(crate) async fn wait_for_heartbeats(&self, more: usize) -> Result<()> {
        let wanted = self.count("heartbeat") + more;
        let mut reports = self.shared.reports.subscribe();
        let counted = reports.wait_for(|reports| {
            reports.iter().filter(|report| report.what == "heartbeat").count() >= wanted
        });
        let counted = tokio::time::timeout(LIMIT, counted).await.map(|seen| seen.map(drop));
        counted.with_context(|| format!("waited for {wanted} heartbeats"))??;
        Ok(())
    }
}

async fn take(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let bearer = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    if bearer != Some(format!("Bearer {TOKEN}").as_str()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let body = axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let name = path.strip_prefix("/callback/").unwrap_or(&path).to_owned();
    let what = body["status"].as_str().map_or(name, str::to_owned);
    let answer = shared.wants.lock().unwrap().answer(&what);
    shared.reports.send_modify(|reports| reports.push(Report { what, body }));
    answer
}

impl Wants {
    fn answer(&mut self, what: &str) -> Response {
        if let Some((times, status)) = self.refusals.get_mut(what) {
            let is_over = *times == Some(0);
            *times = times.map(|times| times.saturating_sub(1));
            if !is_over {
                return StatusCode::from_u16(*status).unwrap().into_response();
            }
        }
        let wanted = if self.leave { "leave" } else { "run" };
        let (version, config) = self.config.clone().unwrap_or((0, json!({})));
        let answer = json!({"status": "processed", "meeting_id": 7, "state": "active",
            "wanted": wanted, "config_version": version, "config": config});
        (StatusCode::OK, [("content-type", "application/json")], answer.to_string()).into_response()
    }
}
