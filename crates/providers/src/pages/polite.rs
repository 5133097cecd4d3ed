//! Turns at a host: however many look at it, it is asked by a few at once and not in a burst.
//!
//! A host is its name as the URL has it. Names that share an address are not known to be one host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roundsman_core::ports::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::options::Politeness;
use crate::wait;

/// When there are more hosts than this, those that nobody is at are forgotten.
const HOSTS_KEPT_MAX: usize = 1024;

/// Gives out turns. One for the whole process.
pub(super) struct Turns {
    rules: Politeness,
    clock: Arc<dyn Clock>,
    hosts: Mutex<HashMap<String, Arc<Host>>>,
}

struct Host {
    looks: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    /// When the next request may begin, by the monotonic clock.
    next: Mutex<Duration>,
}

/// Held as long as the host is busy with it.
pub(super) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
    _host: Arc<Host>,
}

impl Turns {
    pub(super) fn new(rules: Politeness, clock: Arc<dyn Clock>) -> Self {
        Turns { rules, clock, hosts: Mutex::default() }
    }

    /// Waits for a place among those who look at a host; `None` if that took too long.
    pub(super) async fn look(&self, host: &str) -> Option<Turn> {
        let host = self.host(host);
        let seat = host.looks.clone().acquire_owned();
        let permit = tokio::time::timeout(self.rules.host_wait_max, seat).await.ok()?.ok();
        Some(Turn { _permit: permit, _host: host })
    }

    /// Waits until the host may be asked again.
    pub(super) async fn request(&self, host: &str) -> Turn {
        let host = self.host(host);
        let permit = host.requests.clone().acquire_owned().await.ok();
        let now = self.clock.monotonic();
        let at = {
            let mut next = lock(&host.next);
            let at = now.max(*next);
            *next = at + self.rules.host_delay;
            at
        };
        let early = at.saturating_sub(now);
        if !early.is_zero() {
            wait::rest(early).await;
        }
        Turn { _permit: permit, _host: host }
    }

    fn host(&self, name: &str) -> Arc<Host> {
        let mut hosts = lock(&self.hosts);
        if hosts.len() >= HOSTS_KEPT_MAX {
            let now = self.clock.monotonic();
            hosts.retain(|_, host| Arc::strong_count(host) > 1 || *lock(&host.next) > now);
        }
        let places = self.rules.host_concurrency_max.max(1);
        let make = || {
            Arc::new(Host {
                looks: Arc::new(Semaphore::new(places)),
                requests: Arc::new(Semaphore::new(places)),
                next: Mutex::new(Duration::ZERO),
            })
        };
        hosts.entry(name.to_owned()).or_insert_with(make).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
