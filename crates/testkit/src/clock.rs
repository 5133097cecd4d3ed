//! Time that passes only when a test says so.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::ports::Clock;

use crate::real_time;

/// A clock that stands still until it is moved. Shared as `Arc<ManualClock>`.
#[derive(Debug)]
pub struct ManualClock {
    hands: Mutex<Hands>,
}

#[derive(Debug, Clone, Copy)]
struct Hands {
    wall: Timestamp,
    monotonic: Duration,
}

impl ManualClock {
    /// Starts at `wall`, with a process that has just begun.
    pub fn at(wall: Timestamp) -> Self {
        ManualClock { hands: Mutex::new(Hands { wall, monotonic: Duration::ZERO }) }
    }

    /// Lets time pass: wall and monotonic time move together.
    pub fn advance(&self, by: Duration) {
        self.with(|hands| {
            hands.wall = hands.wall + by;
            hands.monotonic += by;
        });
    }

    /// Steps the wall clock, in either direction, without any time passing: what a synchronisation
    /// with the database does.
    pub fn set_wall(&self, wall: Timestamp) {
        self.with(|hands| hands.wall = wall);
    }

    /// Lets time pass for this process alone, as when the database's clock fell behind.
    pub fn advance_monotonic(&self, by: Duration) {
        self.with(|hands| hands.monotonic += by);
    }

    fn with<T>(&self, change: impl FnOnce(&mut Hands) -> T) -> T {
        change(&mut self.hands.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// 2026-01-01T00:00:00Z, so that a failure shows a date that is easy to read.
impl Default for ManualClock {
    fn default() -> Self {
        ManualClock::at(Timestamp::from_micros(1_767_225_600_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.with(|hands| hands.wall)
    }

    fn monotonic(&self) -> Duration {
        self.with(|hands| hands.monotonic)
    }
}

/// A clock that goes by itself, for what measures how long something takes. Its date is not today's.
#[derive(Debug)]
pub struct RealClock {
    began: real_time::Instant,
    wall: Timestamp,
}

impl Default for RealClock {
    fn default() -> Self {
        RealClock { began: real_time::now(), wall: ManualClock::default().now() }
    }
}

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        self.wall + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        self.began.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_hands_move_together_unless_told_otherwise() {
        let clock = ManualClock::default();
        let start = clock.now();
        assert_eq!(start.to_string(), "2026-01-01T00:00:00.000000Z");

        clock.advance(Duration::from_secs(5));
        assert_eq!(clock.now(), start + Duration::from_secs(5));
        assert_eq!(clock.monotonic(), Duration::from_secs(5));

        clock.set_wall(start - Duration::from_mins(1));
        assert_eq!(clock.now(), start - Duration::from_mins(1));
        assert_eq!(clock.monotonic(), Duration::from_secs(5));

        clock.advance_monotonic(Duration::from_secs(1));
        assert_eq!(clock.now(), start - Duration::from_mins(1));
        assert_eq!(clock.monotonic(), Duration::from_secs(6));
    }
}
