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

/// The increment of the splitmix64 generator (the golden ratio in 64 bits).
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// One random number for each of the jobs that a call is about, by their places in it: with the same
/// one for all, those that fail together would come back together. The first keeps it as it is, and
/// none at all stays none.
pub fn spread(jitter: u64, place: usize) -> u64 {
    if place == 0 || jitter == 0 {
        return jitter;
    }
    let mut mixed = jitter.wrapping_add(GAMMA.wrapping_mul(place as u64));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
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

    #[test]
    fn jobs_of_one_call_wait_for_different_times() {
        let jitter = 12_345_678_901_234_567;
        assert_eq!((spread(jitter, 0), spread(0, 7)), (jitter, 0));
        // In each tenth of the window about as many of them as in any other.
        let ceiling = POLICY.ceiling(5).as_micros();
        let mut tenths = [0; 10];
        for place in 0..1_000 {
            let wait = POLICY.wait(5, spread(jitter, place)).as_micros();
            tenths[usize::try_from((wait * 10 / ceiling).min(9)).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (60..140).contains(count)), "{tenths:?}");
    }

    /// Requests in the busiest second after an outage, of a thousand pollers with a period of ten
    /// seconds that all failed at once when it began.
    fn busiest_second_after(outage_secs: u64, wait: impl Fn(u32, u64) -> Duration) -> usize {
        const POLLERS: u64 = 1_000;
        const WATCHED_SECS: u64 = 900;
        let mut dice = 1u64;
        let mut requests = vec![0usize; usize::try_from(WATCHED_SECS).unwrap()];
        for _ in 0..POLLERS {
            let (mut now, mut attempt) = (Duration::ZERO, 1);
            while now < Duration::from_secs(outage_secs + WATCHED_SECS) {
                if now < Duration::from_secs(outage_secs) {
                    dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    now += wait(attempt, dice >> 16).max(Duration::from_millis(1));
                    attempt += 1;
                } else {
                    let second = usize::try_from(now.as_secs() - outage_secs).unwrap();
                    requests[second] += 1;
                    now += Duration::from_secs(10);
                }
            }
        }
        requests.into_iter().max().unwrap_or(0)
    }

    /// J-18. The steady rate is a hundred a second.
    #[test]
    fn an_outage_is_not_followed_by_a_storm() {
        for outage_secs in [30, 120, 600, 3_600] {
            let jittered = busiest_second_after(outage_secs, |n, dice| POLICY.wait(n, dice));
            assert!(jittered <= 200, "{jittered} a second after {outage_secs} s");
            let in_step = busiest_second_after(outage_secs, |n, _| POLICY.ceiling(n));
            assert!(in_step > 900, "without jitter they come together: {in_step}");
        }
    }
}
