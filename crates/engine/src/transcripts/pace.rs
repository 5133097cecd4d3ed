//! How many frames of a meeting a listener gets that is behind.
//!
//! Invariant: in no second more than were asked for. Half of them at once and the other half spread
//! over a second is as many as all of them in one go, and nobody waits long for the next.

use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The same for all listeners.
#[derive(Debug, Clone, Copy)]
pub(super) struct PaceLimits {
    /// Frames that may come at once.
    at_once: u32,
    /// After this time there may be one more.
    each: Duration,
}

impl PaceLimits {
    /// At most so many in any second; two at least.
    pub(super) fn per_sec(frames_max: u32) -> Self {
        let at_once = (frames_max / 2).max(1);
        let later = frames_max.saturating_sub(at_once).max(1);
        PaceLimits { at_once, each: (SECOND / later).max(Duration::from_nanos(1)) }
    }
}

/// One listener and one meeting.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// From then on all of them may come at once again.
    full_at: Duration,
}

impl Pace {
    /// Frames that may come now.
    pub(super) fn left(&self, limits: &PaceLimits, now: Duration) -> usize {
        let used = self.full_at.saturating_sub(now).as_nanos().div_ceil(limits.each.as_nanos());
        let left = u128::from(limits.at_once).saturating_sub(used);
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// The time until one may come.
    pub(super) fn wait(&self, limits: &PaceLimits, now: Duration) -> Duration {
        self.full_at.saturating_sub(now + limits.each * (limits.at_once - 1))
    }

    /// So many come now.
    pub(super) fn spend(&mut self, limits: &PaceLimits, frames: usize, now: Duration) {
        // Nobody waits for ever after frames that could not be joined.
        let frames = u32::try_from(frames).unwrap_or(u32::MAX).min(limits.at_once);
        let full_at = self.full_at.max(now) + limits.each.saturating_mul(frames);
        self.full_at = full_at.min(now + limits.each.saturating_mul(limits.at_once));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn no_second_has_more_than_asked_for() {
        for per_sec in [2, 3, 7, 10, 64] {
            let limits = PaceLimits::per_sec(per_sec);
            let mut pace = Pace::default();
            let mut came = Vec::new();
            // It takes whatever it may, now and then after a rest.
            for now in (0..20_000).filter(|now| now % 5000 > 1500).map(ms) {
                let left = pace.left(&limits, now);
                assert_eq!(left > 0, pace.wait(&limits, now).is_zero(), "{per_sec} at {now:?}");
                pace.spend(&limits, left, now);
                came.extend(std::iter::repeat_n(now, left));
            }
            let within = |from: &Duration| {
                came.iter().filter(|at| (*from..=*from + SECOND).contains(*at)).count()
            };
            let most = came.iter().map(within).max().unwrap();
            assert_eq!(most, per_sec as usize);
        }
    }

    #[test]
    fn a_wait_ends_when_it_says() {
        let limits = PaceLimits::per_sec(10);
        let mut pace = Pace::default();
        pace.spend(&limits, 5, ms(1000));
        assert_eq!(pace.left(&limits, ms(1000)), 0);
        let wait = pace.wait(&limits, ms(1000));
        assert_eq!(wait, ms(200));
        assert_eq!(pace.left(&limits, Duration::from_nanos(1_199_999_999)), 0);
        assert_eq!(pace.left(&limits, ms(1000) + wait), 1);
        assert_eq!(pace.left(&limits, ms(9000)), 5);
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        let limits = PaceLimits::per_sec(u32::MAX);
        let mut pace = Pace::default();
        pace.spend(&limits, 10_000, ms(0));
        assert!(pace.left(&limits, ms(0)) > 1_000_000);
        assert!(pace.wait(&limits, ms(0)).is_zero());
    }
}
