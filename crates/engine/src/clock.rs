//! The process's clock: the database's time, carried forward by the monotonic clock.
//!
//! Several nodes share one database, so its clock is the one they agree on. Between two
//! synchronisations time advances monotonically: a step of this machine's wall clock changes
//! nothing here.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use roundsman_core::Timestamp;
use roundsman_core::ports::{Clock, Database, StoreError};

/// How often the clock asks the database for the time.
pub const SYNC_EVERY: Duration = Duration::from_secs(10);

/// A clock that follows the database's.
#[derive(Debug)]
pub struct DatabaseClock {
    started: Instant,
    /// The database's time at a monotonic moment.
    anchor: Mutex<(Timestamp, Duration)>,
}

impl DatabaseClock {
    /// Starts from this machine's wall clock, until the first [`DatabaseClock::sync`].
    pub fn start() -> Self {
        let started = monotonic_now();
        DatabaseClock { started, anchor: Mutex::new((wall_now(), Duration::ZERO)) }
    }

    /// Asks the database. The answer is taken to be from the middle of the round trip.
    pub async fn sync(&self, database: &dyn Database) -> Result<(), StoreError> {
        let before = self.monotonic();
        let now = database.now().await?;
        let middle = before + self.monotonic().saturating_sub(before) / 2;
        *self.anchor.lock().unwrap_or_else(PoisonError::into_inner) = (now, middle);
        Ok(())
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        let (wall, at) = *self.anchor.lock().unwrap_or_else(PoisonError::into_inner);
        wall + self.monotonic().saturating_sub(at)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
fn monotonic_now() -> Instant {
    Instant::now()
}

/// This machine's own clock, to be compared with the database's and for nothing else.
pub fn wall() -> Timestamp {
    wall_now()
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
fn wall_now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::EPOCH + since_epoch
}
