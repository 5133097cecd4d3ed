//! Looks at the test site.

mod browser;
mod facts;
mod guard;
mod limits;
mod polite;
mod robots;
mod sheets;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use roundsman_core::audits::observed::{Observed, Seen};
use roundsman_core::ports::{
    ObserveError, ObserveErrorKind, ObserveProgress, ObserveStep, ObserveWish, Pages,
};
use roundsman_providers::egress::{Cidr, EgressGuard, EgressOptions};
use roundsman_providers::pages::{HttpPages, PagesOptions, Politeness};
use roundsman_testkit::site::Door;
use roundsman_testkit::{RealClock, TestSite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::egress::scripted;

/// The site, and somebody who looks at it. Of all addresses only the site's is allowed: everything
/// else of this machine stands for what must not be reached.
pub(crate) struct Lab {
    pub(crate) site: TestSite,
    pub(crate) pages: Arc<HttpPages>,
}

pub(crate) async fn lab() -> Lab {
    lab_with(|_| {}).await
}

pub(crate) async fn lab_with(change: impl FnOnce(&mut PagesOptions)) -> Lab {
    let site = TestSite::start().await.unwrap();
    let names: [(&str, &[&str]); 2] =
        [("site.test", &["127.0.0.1"]), ("www.site.test", &["127.0.0.1"])];
    let (guard, _) = scripted(only_the_site(), &names);
    let mut options = options(&site, guard);
    change(&mut options);
    let pages = HttpPages::new(options, Arc::new(RealClock::default())).unwrap();
    Lab { site, pages: Arc::new(pages) }
}

pub(crate) fn only_the_site() -> EgressOptions {
    let allow: Vec<Cidr> = vec!["127.0.0.1/32".parse().unwrap()];
    EgressOptions { allow, ..EgressOptions::default() }
}

pub(crate) fn options(site: &TestSite, guard: EgressGuard) -> PagesOptions {
    let politeness =
        Politeness { host_delay: Duration::ZERO, host_concurrency_max: 6, ..Politeness::default() };
    PagesOptions {
        extra_pem: Some(site.ca_pem().to_owned()),
        plain_http_port: site.port(Door::Plain),
        politeness,
        ..PagesOptions::new(guard)
    }
}

pub(crate) fn wish(url: &str) -> ObserveWish {
    ObserveWish {
        url: url.to_owned(),
        in_browser: false,
        allow_private: false,
        obey_robots: true,
        time_max: Duration::from_secs(30),
    }
}

impl Lab {
    pub(crate) async fn look(&self, door: Door, path: &str) -> Result<Observed, ObserveError> {
        self.look_as(wish(&self.site.url(door, path))).await
    }

    pub(crate) async fn look_as(&self, wish: ObserveWish) -> Result<Observed, ObserveError> {
        self.pages.observe(wish, Arc::new(Steps::default())).await
    }

    /// Why there is nothing to see.
    pub(crate) async fn trouble(&self, door: Door, path: &str) -> (ObserveErrorKind, String) {
        let error = self.look(door, path).await.unwrap_err();
        (error.kind, error.detail)
    }
}

/// Writes down how far a look has come.
#[derive(Default)]
pub(crate) struct Steps(pub(crate) Mutex<Vec<ObserveStep>>);

impl ObserveProgress for Steps {
    fn step(&self, step: ObserveStep) {
        self.0.lock().unwrap().push(step);
    }
}

/// Counts who connects to an address where nobody should.
pub(crate) struct Canary {
    pub(crate) address: SocketAddr,
    connects: Arc<Mutex<usize>>,
    _tasks: JoinSet<()>,
}

impl Canary {
    pub(crate) async fn at(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connects = Arc::<Mutex<usize>>::default();
        let count = connects.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while listener.accept().await.is_ok() {
                *count.lock().unwrap() += 1;
            }
        });
        Canary { address, connects, _tasks: tasks }
    }

    pub(crate) fn connects(&self) -> usize {
        *self.connects.lock().unwrap()
    }
}

pub(crate) fn reason<T>(seen: &Seen<T>) -> &str {
    match seen {
        Seen::Seen(_) => "it was seen",
        Seen::Missing(reason) => reason,
    }
}
