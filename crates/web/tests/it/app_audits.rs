//! Audits in a test's server: the real jobs over pages that are made up.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::audits::observed::{Fetched, Headers, HttpVersion, Observed, Seen, Timing};
use roundsman_core::jobs::{LeaseOwner, Role, WorkerName};
use roundsman_core::ports::{ObserveError, ObserveErrorKind, ObserveProgress, ObserveWish, Pages};
use roundsman_engine::audits::{AuditSettings, AuditWork};
use roundsman_engine::jobs::{HandlerRegistry, Worker, WorkerDeps, WorkerOptions};
use roundsman_testkit::eventually;
use tokio_util::task::TaskTracker;

use crate::app::App;
use crate::app_parts::Parts;

/// More than a user of these tests asks for in vain.
pub(crate) const UNFINISHED_MAX: u32 = 3;

const HTML: &str = "<!doctype html><html lang=\"en\"><head><title>A page</title></head>\
    <body><h1>A page</h1><script>alert('foreign')</script></body></html>";

/// Every page is the same, but for those whose address says that they are not there.
struct OnePage;

#[async_trait]
impl Pages for OnePage {
    async fn observe(
        &self,
        wish: ObserveWish,
        _progress: Arc<dyn ObserveProgress>,
    ) -> Result<Observed, ObserveError> {
        if wish.url.contains("blocked") {
            let detail = "the address is not public".to_owned();
            return Err(ObserveError { kind: ObserveErrorKind::BlockedTarget, detail });
        }
        Ok(Observed {
            asked_url: wish.url.clone(),
            began_at: roundsman_core::Timestamp::from_micros(1_767_225_600_000_000),
            took: Duration::from_millis(120),
            hops: Vec::new(),
            page: Fetched {
                url: wish.url,
                status: 200,
                headers: Headers(vec![("content-type".to_owned(), "text/html".to_owned())]),
                body: HTML.as_bytes().to_vec(),
                is_whole: true,
                transfer_bytes: HTML.len() as u64,
                http_version: HttpVersion::Http2,
                tls: None,
                timing: Timing { wait: Duration::from_millis(40), ..Timing::default() },
            },
            plain_http: Seen::Missing("not in this test".to_owned()),
            foreign_origin: Seen::Missing("not in this test".to_owned()),
            robots: Seen::Missing("not in this test".to_owned()),
            sitemaps: Vec::new(),
            resources: Vec::new(),
            resources_left_out: 0,
            browser: Seen::Missing("there is none".to_owned()),
        })
    }
}

pub(crate) fn audit_work(parts: &Parts) -> AuditWork {
    let settings =
        AuditSettings { unfinished_per_user_max: UNFINISHED_MAX, ..AuditSettings::default() };
    AuditWork {
        store: parts.store.clone(),
        clock: parts.clock.clone(),
        random: parts.random.clone(),
        wakes: parts.wakes.clone(),
        metrics: parts.metrics.clone(),
        pages: Arc::new(OnePage),
        settings: Arc::new(settings),
    }
}

impl App {
    /// Makes all audits that wait, and rings all alarms that are due.
    pub(crate) async fn make_audits(&self) {
        let work = &self.audit_work;
        let worker = Worker::new(
            WorkerDeps {
                store: work.store.clone(),
                clock: work.clock.clone(),
                random: work.random.clone(),
                wakes: work.wakes.clone(),
                metrics: work.metrics.clone(),
                health: self.health.clone(),
                handlers: work
                    .handlers()
                    .into_iter()
                    .fold(HandlerRegistry::default(), HandlerRegistry::with),
                tasks: TaskTracker::new(),
            },
            WorkerOptions {
                name: WorkerName::new("auditor"),
                owner: LeaseOwner::Process(1),
                roles: vec![Role::Worker, Role::Scheduler],
                slots: 10,
                claim_max: 10,
                poll_every: Duration::from_mins(10),
            },
        );
        // An alarm that rings starts an audit, which is made in the second round.
        for _ in 0..2 {
            worker.claim_tick().await.unwrap();
            let idle = async || (worker.running_count() == 0).then_some(());
            eventually(Duration::from_secs(20), idle).await.unwrap();
            worker.settle_tick().await.unwrap();
        }
    }
}
