//! Whether this node should be sent requests: the database takes writes, every loop makes progress,
//! and nobody has asked it to stop.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::ports::{Clock, Database, StoreError};
use roundsman_engine::health::Health;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// A database that answers later than this is taken for away.
const PING_MAX: Duration = Duration::from_secs(2);
/// Anybody may ask whether we are ready, and asking costs a write: one answer serves all who ask
/// within this time.
const PING_REMEMBERED: Duration = Duration::from_secs(1);

/// Answers whether the node is ready. All clones share one memory of the database's last answer.
#[derive(Clone)]
pub struct Readiness {
    database: Arc<dyn Database>,
    clock: Arc<dyn Clock>,
    health: Health,
    stopping: CancellationToken,
    last_ping: Arc<Mutex<Option<Ping>>>,
}

/// One thing that must be well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) ok: bool,
    /// What is wrong, in words that may be shown to anybody.
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Clone)]
struct Ping {
    asked_at: Duration,
    failure: Option<&'static str>,
}

impl Readiness {
    /// `stopping` is cancelled when the process begins to shut down.
    pub fn new(
        database: Arc<dyn Database>,
        clock: Arc<dyn Clock>,
        health: Health,
        stopping: CancellationToken,
    ) -> Self {
        Readiness { database, clock, health, stopping, last_ping: Arc::default() }
    }

    /// Cancelled when the process begins to shut down.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Everything that must be well, whether it is or not.
    pub(crate) async fn checks(&self) -> Vec<Check> {
        let stopping = self.stopping.is_cancelled().then_some("the process is shutting down");
        let mut checks = vec![check("process", stopping), check("database", self.ping().await)];
        for report in self.health.report() {
            let reason =
                || format!("no progress for {:.0} s", report.silent_for.as_secs_f64().floor());
            checks.push(Check {
                name: format!("loop:{}", report.name),
                ok: report.healthy,
                // Shown also if the node can do without it.
                reason: (!report.healthy || !report.progressing).then(reason),
            });
        }
        checks
    }

    /// What is wrong with the database. Who asks while somebody else is asking waits for the same
    /// answer, so that a slow database is not asked ever more.
    async fn ping(&self) -> Option<&'static str> {
        let mut last = self.last_ping.lock().await;
        let now = self.clock.monotonic();
        if let Some(ping) = &*last
            && now.saturating_sub(ping.asked_at) < PING_REMEMBERED
        {
            return ping.failure;
        }
        let failure = match tokio::time::timeout(PING_MAX, self.database.ping()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the database ping failed"
                );
                Some(words_for(&error))
            }
            Err(_) => Some("no answer in time"),
        };
        *last = Some(Ping { asked_at: now, failure });
        failure
    }
}

fn check(name: &str, failure: Option<&'static str>) -> Check {
    Check { name: name.to_owned(), ok: failure.is_none(), reason: failure.map(str::to_owned) }
}

/// The error's own text may name hosts and files; this does not.
fn words_for(error: &StoreError) -> &'static str {
    match error {
        StoreError::Unavailable(_) => "unavailable",
        StoreError::StorageFull(_) => "cannot store more",
        _ => "refused a write",
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness")
            .field("database", &self.database.describe())
            .finish_non_exhaustive()
    }
}
