//! The pause between two tries: exponential, capped, with jitter.

use std::time::Duration;

use crate::random::Random;

/// Counts failures and says how long to wait after each.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Backoff { first, longest, failures: 0 }
    }

    /// Begins again with the shortest pause.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Half of the pause is fixed and half is random, so that bots that lost the same server
    /// neither hammer it nor return in step.
    pub(crate) fn next(&mut self, random: &dyn Random) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let full = self.first.saturating_mul(factor).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        let half_ms = u64::try_from(full.as_millis() / 2).unwrap_or(u64::MAX);
        full / 2 + Duration::from_millis(random.below(half_ms.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Constant(u64);

    impl Random for Constant {
        fn next_u64(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn doubles_up_to_the_cap_and_begins_again() {
        let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(15));
        let mut next = || backoff.next(&Constant(0)).as_millis();
        let pauses: Vec<u128> = std::iter::repeat_with(&mut next).take(7).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 7500, 7500]);
        backoff.reset();
        assert_eq!(backoff.next(&Constant(0)).as_millis(), 250);
    }

    #[test]
    fn stays_within_the_cap_after_any_number_of_failures() {
        for drawn in [0, 1, 250, u64::MAX] {
            let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(15));
            for _ in 0..100 {
                assert!(backoff.next(&Constant(drawn)) <= Duration::from_secs(15));
            }
        }
    }
}
