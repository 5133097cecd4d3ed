//! Whether every loop of this process still makes progress.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use roundsman_core::ports::Clock;

/// A loop is taken for stuck after this many of its intervals without progress.
const INTERVALS_MISSED_MAX: u32 = 3;

/// All loops of a process.
#[derive(Clone)]
pub struct Health {
    clock: Arc<dyn Clock>,
    loops: Arc<Mutex<BTreeMap<&'static str, LoopState>>>,
}

#[derive(Debug, Clone)]
struct LoopState {
    interval: Duration,
    need: Need,
    progress_at: Duration,
    tried_at: Duration,
    error: Option<String>,
}

/// What a loop must do to be well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Make progress: the node is of no use without it.
    Progress,
    /// Try: what it depends on may be away, and the node does its work without it.
    Tries,
}

/// A loop's side: it says when it has made a round.
#[derive(Clone)]
pub struct Pulse {
    health: Health,
    name: &'static str,
}

/// How one loop is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopReport {
    pub name: &'static str,
    /// It does what it must for the node to be ready.
    pub healthy: bool,
    /// It gets on; a loop that only has to try may be healthy without.
    pub progressing: bool,
    /// Since it last made progress.
    pub silent_for: Duration,
    pub last_error: Option<String>,
}

impl Health {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Health { clock, loops: Arc::default() }
    }

    /// Registers a loop that makes a round at least every `interval`.
    pub fn register(&self, name: &'static str, interval: Duration) -> Pulse {
        self.add(name, interval, Need::Progress)
    }

    /// Registers a loop whose rounds may fail for as long as something is away that the node can do
    /// without: only a loop that does not even try makes the node unready.
    pub fn register_trying(&self, name: &'static str, interval: Duration) -> Pulse {
        self.add(name, interval, Need::Tries)
    }

    fn add(&self, name: &'static str, interval: Duration, need: Need) -> Pulse {
        let now = self.clock.monotonic();
        let state = LoopState { interval, need, progress_at: now, tried_at: now, error: None };
        self.lock().insert(name, state);
        Pulse { health: self.clone(), name }
    }

    /// Every loop by name.
    pub fn report(&self) -> Vec<LoopReport> {
        let now = self.clock.monotonic();
        let one = |(name, state): (&&'static str, &LoopState)| {
            let recent =
                |at: Duration| now.saturating_sub(at) <= state.interval * INTERVALS_MISSED_MAX;
            let needed_at = match state.need {
                Need::Progress => state.progress_at,
                Need::Tries => state.tried_at,
            };
            LoopReport {
                name,
                healthy: recent(needed_at),
                progressing: recent(state.progress_at),
                silent_for: now.saturating_sub(state.progress_at),
                last_error: state.error.clone(),
            }
        };
        self.lock().iter().map(one).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, LoopState>> {
        self.loops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Health").field("loops", &self.report()).finish()
    }
}

impl Pulse {
    /// A round was made.
    pub fn beat(&self) {
        let now = self.health.clock.monotonic();
        if let Some(state) = self.health.lock().get_mut(self.name) {
            state.progress_at = now;
            state.tried_at = now;
            state.error = None;
        }
    }

    /// A round was tried and failed: no progress, and the reason is shown.
    pub fn failed(&self, error: &dyn std::fmt::Display) {
        let now = self.health.clock.monotonic();
        if let Some(state) = self.health.lock().get_mut(self.name) {
            state.tried_at = now;
            state.error = Some(error.to_string());
        }
    }
}

impl std::fmt::Debug for Pulse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pulse").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use roundsman_core::Timestamp;
    use roundsman_testkit::ManualClock;

    use super::*;

    #[test]
    fn a_loop_is_stuck_after_three_silent_intervals() {
        let clock = Arc::new(ManualClock::at(Timestamp::EPOCH));
        let health = Health::new(clock.clone());
        let pulse = health.register("sweep", Duration::from_secs(10));
        clock.advance(Duration::from_secs(30));
        assert!(health.report()[0].healthy);
        pulse.failed(&"the database is away");
        clock.advance(Duration::from_secs(1));
        assert!(!health.report()[0].healthy, "a failed round is no progress");
        assert_eq!(health.report()[0].last_error.as_deref(), Some("the database is away"));
        pulse.beat();
        assert!(health.report()[0].healthy);
    }

    #[test]
    fn a_loop_that_may_fail_is_well_as_long_as_it_tries() {
        let clock = Arc::new(ManualClock::at(Timestamp::EPOCH));
        let health = Health::new(clock.clone());
        let pulse = health.register_trying("streams", Duration::from_secs(15));
        // Redis is away for an hour.
        for _ in 0..360 {
            clock.advance(Duration::from_secs(10));
            pulse.failed(&"Redis is away");
        }
        let report = &health.report()[0];
        assert!(report.healthy && !report.progressing, "{report:?}");
        assert_eq!(report.silent_for, Duration::from_secs(3600));
        assert_eq!(report.last_error.as_deref(), Some("Redis is away"));
        // It hangs, or is dead.
        clock.advance(Duration::from_secs(46));
        assert!(!health.report()[0].healthy);
        pulse.beat();
        let report = &health.report()[0];
        assert!(report.healthy && report.progressing && report.last_error.is_none(), "{report:?}");
    }
}
