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
/// The database's clock is taken to have been set when it gains more than this on our own.
const CLOCK_GAIN_MAX: Duration = Duration::from_secs(5);
/// How long nobody is swept after that: every living holder has sent a heartbeat by then, at the
/// longest interval of any kind, and thereby a lease in the new time.
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
        if self.rests() {
            return Ok(0);
        }
        let mut rescued = 0;
        loop {
            let report = match self.step().await {
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

    /// Whether the database's clock was set forward lately: every lease looks expired then, though
    /// its holder may be alive.
    fn rests(&self) -> bool {
        let (wall, own) = (self.clock.now(), self.clock.monotonic());
        let mut watch = self.watch();
        let was_set = watch.last_round.is_some_and(|(wall_then, own_then)| {
            wall.since(wall_then) > own.saturating_sub(own_then) + CLOCK_GAIN_MAX
        });
        watch.last_round = Some((wall, own));
        if was_set {
            tracing::warn!("the database's clock was set forward; not sweeping for a while");
            watch.serving_since = None;
            watch.rest_until = own + CLOCK_SET_REST;
        }
        own < watch.rest_until
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn step(&self) -> Result<SweepReport, StoreError> {
        let now = self.clock.now();
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
