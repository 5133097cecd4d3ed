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
    progress_at: Duration,
    error: Option<String>,
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
    pub healthy: bool,
    pub silent_for: Duration,
    pub last_error: Option<String>,
}

impl Health {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Health { clock, loops: Arc::default() }
    }

    /// Registers a loop that makes a round at least every `interval`.
    pub fn register(&self, name: &'static str, interval: Duration) -> Pulse {
        let state = LoopState { interval, progress_at: self.clock.monotonic(), error: None };
        self.lock().insert(name, state);
        Pulse { health: self.clone(), name }
    }

    /// Every loop by name.
    pub fn report(&self) -> Vec<LoopReport> {
        let now = self.clock.monotonic();
        let one = |(name, state): (&&'static str, &LoopState)| {
            let silent_for = now.saturating_sub(state.progress_at);
            LoopReport {
                name,
                healthy: silent_for <= state.interval * INTERVALS_MISSED_MAX,
                silent_for,
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
            state.error = None;
        }
    }

    /// A round was tried and failed: no progress, and the reason is shown.
    pub fn failed(&self, error: &dyn std::fmt::Display) {
        if let Some(state) = self.health.lock().get_mut(self.name) {
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
}
