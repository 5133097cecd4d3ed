//! Audits over a real database and the real judge, with pages that a test makes up.

mod defects;
mod recurring;
mod runs;
mod told;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::audits::observed::{
    BrowserSeen, Fetched, Headers, HttpVersion, Observed, Seen, Timing,
};
use roundsman_core::audits::{Audit, AuditId, AuditStatus, PriorityRule};
use roundsman_core::jobs::{RetryPolicy, Role};
use roundsman_core::ports::{
    AuditFilter, AuditStore, ObserveError, ObserveErrorKind, ObserveProgress, ObserveStep,
    ObserveWish, Pages, Scope,
};
use roundsman_core::users::UserId;
use roundsman_engine::audits::{
    AuditRequest, AuditSettings, AuditWork, Audits, WantedOptions, audit_specs,
};
use roundsman_engine::jobs::Worker;
use tokio::sync::Notify;

use crate::backend::Backend;
use crate::support::{World, secs, until};

const ADA: UserId = UserId::new(1);
const BOB: UserId = UserId::new(2);
const PAGE: &str = "https://example.org/";

/// What a look comes to.
#[derive(Debug, Clone)]
enum Look {
    Shows(&'static str),
    Fails(ObserveErrorKind),
    /// Until [`Made::go_on`] is called; then it shows this.
    Hangs(&'static str),
}

/// Pages that a test makes up: the looks in their order, the last one for ever.
#[derive(Default)]
struct Made {
    looks: Mutex<VecDeque<Look>>,
    asked: Mutex<Vec<ObserveWish>>,
    going: Notify,
}

impl Made {
    fn set(&self, looks: impl IntoIterator<Item = Look>) {
        *self.looks.lock().unwrap() = looks.into_iter().collect();
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// Lets one look that hangs go on.
    fn go_on(&self) {
        self.going.notify_one();
    }

    fn next(&self) -> Look {
        let mut looks = self.looks.lock().unwrap();
        match looks.len() {
            0 => Look::Shows(GOOD),
            1 => looks[0].clone(),
            _ => looks.pop_front().unwrap(),
        }
    }
}

#[async_trait]
impl Pages for Made {
    async fn observe(
        &self,
        wish: ObserveWish,
        progress: Arc<dyn ObserveProgress>,
    ) -> Result<Observed, ObserveError> {
        progress.step(ObserveStep::Page);
        self.asked.lock().unwrap().push(wish.clone());
        let html = match self.next() {
            Look::Shows(html) => html,
            Look::Hangs(html) => {
                progress.step(ObserveStep::Resources { done: 1, of: 3 });
                self.going.notified().await;
                html
            }
            Look::Fails(kind) => {
                return Err(ObserveError { kind, detail: "as the test says".to_owned() });
            }
        };
        Ok(observed(&wish, html))
    }
}

const GOOD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
    <title>Ada's page</title><meta name=\"description\" content=\"All about Ada\">\
    <meta name=\"viewport\" content=\"width=device-width\"></head>\
    <body><main><h1>Ada</h1><a href=\"mailto:ada@example.org\">Contact us</a></main></body></html>";
const BAD: &str = "<html><head></head><body><img src=\"a.png\"></body></html>";

fn observed(wish: &ObserveWish, html: &str) -> Observed {
    let browser = BrowserSeen {
        first_paint: None,
        first_contentful_paint: Some(Duration::from_millis(900)),
        largest_contentful_paint: Some(Duration::from_millis(1200)),
        largest_element: None,
        layout_shift: 0.0,
        blocking_time: Duration::ZERO,
        dom_content_loaded: None,
        load: None,
        transfer_bytes: 1000,
        requests: 1,
        console_errors: Vec::new(),
        screenshot_png: Some(b"\x89PNG made up".to_vec()),
        viewport_width_px: 412,
        viewport_height_px: 823,
        browser: "Test 1".to_owned(),
    };
    Observed {
        asked_url: wish.url.clone(),
        began_at: roundsman_core::Timestamp::from_micros(1_767_225_600_000_000),
        took: Duration::from_millis(350),
        hops: Vec::new(),
        page: Fetched {
            url: wish.url.clone(),
            status: 200,
            headers: Headers(vec![("content-type".to_owned(), "text/html".to_owned())]),
            body: html.as_bytes().to_vec(),
            is_whole: true,
            transfer_bytes: html.len() as u64,
            http_version: HttpVersion::Http11,
            tls: None,
            timing: Timing { wait: Duration::from_millis(40), ..Timing::default() },
        },
        plain_http: Seen::Missing("not in this test".to_owned()),
        foreign_origin: Seen::Missing("not in this test".to_owned()),
        robots: Seen::Missing("not in this test".to_owned()),
        sitemaps: Vec::new(),
        resources: Vec::new(),
        resources_left_out: 0,
        browser: if wish.in_browser {
            Seen::Seen(browser)
        } else {
            Seen::Missing("it was not asked for".to_owned())
        },
    }
}

/// A world that audits.
struct Office {
    world: World,
    pages: Arc<Made>,
    work: AuditWork,
    audits: Audits,
    worker: Arc<Worker>,
}

impl Office {
    async fn on(backend: Backend) -> Self {
        Office::with(backend, &[]).await
    }

    async fn with(backend: Backend, rules: &[&str]) -> Self {
        let settings = AuditSettings {
            retry: RetryPolicy { base: secs(10), cap: secs(300) },
            unfinished_per_user_max: 20,
            rules: rules.iter().map(|rule| PriorityRule::parse(rule).unwrap()).collect(),
            ..AuditSettings::default()
        };
        let world = World::on(backend, audit_specs(&settings)).await;
        let pages = Arc::new(Made::default());
        let work = AuditWork {
            store: world.store.clone(),
            clock: world.clock.clone(),
            random: world.random.clone(),
            wakes: world.wakes.clone(),
            metrics: world.metrics.clone(),
            pages: pages.clone(),
            settings: Arc::new(settings),
        };
        let worker = worker(&world, &work, "w1");
        Office { audits: Audits::new(&work), world, pages, work, worker }
    }

    /// Another process's worker.
    fn another(&self, name: &str) -> Arc<Worker> {
        worker(&self.world, &self.work, name)
    }

    async fn ask(&self, user: UserId, url: &str) -> Audit {
        self.audits.create(user, wish(url)).await.unwrap().audit
    }

    async fn seen(&self, id: AuditId) -> Audit {
        self.audits.get(Scope::All, id).await.unwrap()
    }

    async fn status(&self, id: AuditId) -> AuditStatus {
        self.seen(id).await.state.status
    }

    /// Claims what can be claimed and brings it to the end that it comes to by itself.
    async fn round(&self) {
        round(&self.worker).await;
    }

    /// The same, for alarms alone.
    async fn round_of_alarms(&self) {
        let scheduler = self.world.worker_with(self.work.handlers(), |options| {
            options.roles = vec![Role::Scheduler];
        });
        round(&scheduler).await;
    }

    /// Until so many looks have been taken in all.
    async fn looked(&self, count: usize) {
        until("pages are looked at", || self.pages.asked() >= count).await;
    }

    /// The audits in the order in which their jobs were claimed.
    async fn ends(&self) -> Vec<i64> {
        let filter = AuditFilter::default();
        let all = self.world.store.audits(Scope::All, filter, None, 100).await.unwrap();
        let mut claimed = Vec::new();
        for audit in all {
            let job = self.world.finished(audit.job_id).await;
            claimed.push((job.facts.runs.runs[0].lease_no, audit.id.get()));
        }
        claimed.sort();
        claimed.into_iter().map(|(_, id)| id).collect()
    }

    fn pass(&self, time: Duration) {
        self.world.clock.advance(time);
    }
}

async fn round(worker: &Worker) {
    worker.claim_tick().await.unwrap();
    until("looks have ended", || worker.running_count() == 0).await;
    worker.settle_tick().await.unwrap();
}

fn worker(world: &World, work: &AuditWork, name: &str) -> Arc<Worker> {
    world.worker_with(work.handlers(), |options| {
        options.name = roundsman_core::jobs::WorkerName::new(name);
        options.roles = vec![Role::Worker, Role::Scheduler];
    })
}

fn wish(url: &str) -> AuditRequest {
    AuditRequest {
        url: url.to_owned(),
        priority: 0,
        options: WantedOptions::default(),
        idempotency: None,
    }
}
