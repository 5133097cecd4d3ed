//! The pause between two attempts to connect: exponential, capped, with jitter.
//!
//! This is the only place of the crate that sleeps.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::ports::Random;
use tokio_util::sync::CancellationToken;

use crate::limits::BusLimits;

pub(crate) struct Backoff {
    ms_min: u64,
    ms_max: u64,
    failures: u32,
    random: Arc<dyn Random>,
}

impl Backoff {
    pub(crate) fn new(limits: &BusLimits, random: Arc<dyn Random>) -> Self {
        Self {
            ms_min: limits.reconnect_ms_min,
            ms_max: limits.reconnect_ms_max,
            failures: 0,
            random,
        }
    }

    /// Begins again with the shortest pause: the last connection proved to work.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Sleeps before the next attempt; breaks when the bus is shut down meanwhile.
    pub(crate) async fn pause(&mut self, shutdown: &CancellationToken) -> ControlFlow<()> {
        let delay = self.next_delay();
        match shutdown.run_until_cancelled(sleep(delay)).await {
            Some(()) => ControlFlow::Continue(()),
            None => ControlFlow::Break(()),
        }
    }

    /// Half of the delay is fixed and half is random, so that the nodes of a cluster which lost
    /// the same server neither hammer it nor return in step.
    fn next_delay(&mut self) -> Duration {
        let factor = 1_u64.checked_shl(self.failures).unwrap_or(u64::MAX);
        let ms_full = self.ms_min.saturating_mul(factor).min(self.ms_max);
        self.failures = self.failures.saturating_add(1);
        let ms_half = ms_full / 2;
        Duration::from_millis(ms_half + self.random.below(ms_full - ms_half + 1))
    }
}

#[expect(clippy::disallowed_methods, reason = "the one sleep of the bus, ended by shutdown")]
async fn sleep(delay: Duration) {
    tokio::time::sleep(delay).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws the same byte for ever: all zeros give the shortest pause.
    struct Constant(u8);

    impl Random for Constant {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(self.0);
        }
    }

    fn backoff(byte: u8) -> Backoff {
        Backoff::new(&BusLimits::default(), Arc::new(Constant(byte)))
    }

    #[test]
    fn doubles_up_to_the_cap_and_begins_again() {
        let mut backoff = backoff(0);
        let delays: Vec<u128> = (0..9).map(|_| backoff.next_delay().as_millis()).collect();
        assert_eq!(delays, [50, 100, 200, 400, 800, 1600, 2500, 2500, 2500]);
        backoff.reset();
        assert_eq!(backoff.next_delay().as_millis(), 50);
    }

    #[test]
    fn stays_within_the_cap_after_any_number_of_failures() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut backoff = backoff(byte);
            for _ in 0..200 {
                assert!(backoff.next_delay() <= Duration::from_secs(5));
            }
        }
    }

    #[tokio::test]
    async fn a_shutdown_ends_the_pause() {
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        assert_eq!(backoff(0xff).pause(&shutdown).await, ControlFlow::Break(()));
    }
}
