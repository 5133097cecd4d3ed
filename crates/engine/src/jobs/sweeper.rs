//! Takes jobs back from holders that fell silent.
//!
//! Every node may sweep: the write compares the time again, so two sweeps, or a sweep and a late
//! heartbeat, never both win.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::failpoint;
use roundsman_core::ports::{Clock, Random, Store, StoreError, SweepReport, SweepRequest};

use crate::metrics::Metrics;
use crate::wake::Wakes;

/// Jobs rescued with one transaction; the sweep goes on until none are left.
const ROWS_PER_STEP_MAX: u32 = 500;
/// The database's clock is taken to have been set when it moves more than this against our own.
const CLOCK_STEP_MAX: Duration = Duration::from_secs(5);
/// How long nobody is swept after it was set forward: every living holder has sent a heartbeat by
/// then, at the longest interval of any kind, and thereby a lease in the new time.
const CLOCK_SET_REST: Duration = Duration::from_secs(90);

/// The sweep and what it needs.
pub struct Sweeper {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub wakes: Wakes,
    pub metrics: Metrics,
    watch: Mutex<Watch>,
}

/// What the sweep remembers from round to round.
#[derive(Debug, Default)]
struct Watch {
    /// Since when the database has answered without a break: see `SweepRequest::serving_since`.
    serving_since: Option<Timestamp>,
    /// Both clocks at the last round.
    last_round: Option<(Timestamp, Duration)>,
    /// In monotonic time: until when a clock that was set keeps us from sweeping.
    rest_until: Duration,
}

impl Sweeper {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        wakes: Wakes,
        metrics: Metrics,
    ) -> Self {
        Sweeper { store, clock, random, wakes, metrics, watch: Mutex::default() }
    }

    /// One sweep. Returns how many jobs were rescued.
    pub async fn tick(&self) -> Result<usize, StoreError> {
        let Some(now) = self.begin_round() else { return Ok(0) };
        let mut rescued = 0;
        loop {
            let report = match self.step(now).await {
                Ok(report) => report,
                Err(error) => {
                    self.watch().serving_since = None;
                    return Err(error);
                }
            };
            rescued += report.rescued.len();
            if report.rescued.len() < ROWS_PER_STEP_MAX as usize {
                break;
            }
        }
        if rescued > 0 {
            tracing::info!(rescued, "took jobs back from silent holders");
            self.wakes.signal_all();
        }
        Ok(rescued)
    }

    /// The time of this round; none if the database's clock was set forward lately: every lease
    /// looks expired then, though its holder may be alive. All of the round goes by the one time
    /// that was compared here, so that no step of the clock slips in between.
    fn begin_round(&self) -> Option<Timestamp> {
        let (wall, own) = (self.clock.now(), self.clock.monotonic());
        let mut watch = self.watch();
        if let Some((wall_then, own_then)) = watch.last_round.replace((wall, own)) {
            let expected = wall_then + own.saturating_sub(own_then);
            if wall.since(expected) > CLOCK_STEP_MAX {
                tracing::warn!("the database's clock was set forward; not sweeping for a while");
                watch.serving_since = None;
                watch.rest_until = own + CLOCK_SET_REST;
            } else if expected.since(wall) > CLOCK_STEP_MAX {
                // Otherwise the moment would lie ahead, and nobody be swept until it has come.
                tracing::warn!("the database's clock was set back");
                watch.serving_since = None;
            }
        }
        (own >= watch.rest_until).then_some(wall)
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn step(&self, now: Timestamp) -> Result<SweepReport, StoreError> {
        let serving_since = *self.watch().serving_since.get_or_insert(now);
        let jitter = self.random.below(u64::MAX);
        let request = SweepRequest { rows_max: ROWS_PER_STEP_MAX, serving_since, jitter };
        failpoint::hit("sweeper.sweeping");
        let report = self.store.sweep(request, now).await?;
        failpoint::hit("sweeper.swept");
        self.metrics.rescued(&report);
        Ok(report)
    }
}

impl std::fmt::Debug for Sweeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sweeper").finish_non_exhaustive()
    }
}
