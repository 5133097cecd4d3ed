//! Time for bots: the port, and the real one, which alone may sleep.

use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;

/// Where a bot gets time from.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Time since some moment before the bot began; never goes back.
    fn monotonic(&self) -> Duration;

    /// The date, for those who put what they hear on a calendar.
    fn wall(&self) -> SystemTime;

    /// Returns after `time` has passed. May be dropped at any moment.
    async fn pause(&self, time: Duration);
}

/// Real time.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn start() -> Self {
        SystemClock { started: Instant::now() }
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that sleeps")]
    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
