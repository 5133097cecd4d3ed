//! How long a failed attempt waits for the next.

use std::time::Duration;

/// Exponential backoff with full jitter: uniformly between zero and `base * 2^(attempt-1)`, at most
/// `cap`. Full jitter spreads a burst of failures over the whole window instead of repeating it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    pub base: Duration,
    pub cap: Duration,
}

impl RetryPolicy {
    /// The longest wait that may follow attempt number `attempt` (counted from 1).
    pub fn ceiling(self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1).min(32);
        self.base.saturating_mul(2u32.saturating_pow(doublings)).min(self.cap)
    }

    /// The wait itself; `jitter` is a random number over the whole range of `u64`.
    pub fn wait(self, attempt: u32, jitter: u64) -> Duration {
        let ceiling_micros = u64::try_from(self.ceiling(attempt).as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(jitter % ceiling_micros.saturating_add(1).max(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: RetryPolicy =
        RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(300) };

    #[test]
    fn the_ceiling_doubles_up_to_the_cap() {
        let ceilings: Vec<u64> = (1..=10).map(|n| POLICY.ceiling(n).as_secs()).collect();
        assert_eq!(ceilings, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(POLICY.ceiling(u32::MAX), POLICY.cap);
    }

    proptest! {
        #[test]
        fn a_wait_stays_under_its_ceiling(attempt in 0u32..100, jitter: u64) {
            prop_assert!(POLICY.wait(attempt, jitter) <= POLICY.ceiling(attempt));
        }
    }

    #[test]
    fn the_jitter_reaches_both_ends() {
        assert_eq!(POLICY.wait(1, 0), Duration::ZERO);
        assert_eq!(POLICY.wait(1, 2_000_000), Duration::from_secs(2));
    }
}
