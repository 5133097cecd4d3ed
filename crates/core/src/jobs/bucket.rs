//! Token buckets in whole numbers, so that two databases and any number of nodes agree to the last token.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// So many jobs in so much time, and how many of them may come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    pub count: u32,
    pub per_secs: u32,
    /// At most `count`.
    pub burst: u32,
}

impl Rate {
    pub const COUNT_MAX: u32 = 1_000_000;
    /// A bucket that nobody used for this long is full again, whatever its rate.
    pub const PER_SECS_MAX: u32 = 86_400;

    /// What one token costs: a bucket gains `count` in every microsecond.
    fn price(self) -> i64 {
        i64::from(self.per_secs) * 1_000_000
    }
}

/// What is left of a rate, in microseconds times `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    pub level: i64,
    pub at: Timestamp,
}

impl Bucket {
    pub fn full(rate: Rate, now: Timestamp) -> Self {
        Bucket { level: i64::from(rate.burst) * rate.price(), at: now }
    }

    /// What it holds at `now`. A clock that was set back gives nothing and takes nothing.
    #[must_use]
    pub fn refilled(self, rate: Rate, now: Timestamp) -> Self {
        let micros = i64::try_from(now.since(self.at).as_micros()).unwrap_or(i64::MAX);
        let gained = micros.saturating_mul(i64::from(rate.count));
        let level = self.level.saturating_add(gained).min(Bucket::full(rate, now).level);
        Bucket { level, at: self.at.max(now) }
    }

    /// Whole tokens in it.
    pub fn tokens(self, rate: Rate) -> u32 {
        u32::try_from((self.level / rate.price().max(1)).max(0)).unwrap_or(u32::MAX)
    }

    #[must_use]
    pub fn spent(self, rate: Rate, tokens: u32) -> Self {
        Bucket { level: self.level.saturating_sub(i64::from(tokens) * rate.price()), ..self }
    }

    /// When it will hold `tokens`.
    pub fn holds_at(self, rate: Rate, tokens: u32) -> Timestamp {
        let missing = (i64::from(tokens) * rate.price()).saturating_sub(self.level).max(0);
        let count = i64::from(rate.count.max(1));
        let micros = missing / count + i64::from(missing % count != 0);
        self.at + Duration::from_micros(micros.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let rate = Rate { count: 3, per_secs: 1, burst: 2 };
        let full = Bucket::full(rate, at(0));
        assert_eq!(full.tokens(rate), 2);
        let empty = full.spent(rate, 2);
        assert_eq!(empty.tokens(rate), 0);
        assert_eq!(empty.holds_at(rate, 1), at(333_334));
        assert_eq!(empty.refilled(rate, at(333_333)).tokens(rate), 0);
        assert_eq!(empty.refilled(rate, at(333_334)).tokens(rate), 1);
        assert_eq!(
            empty.refilled(rate, at(60_000_000)).tokens(rate),
            2,
            "never more than its burst"
        );
        assert_eq!(empty.refilled(rate, at(-5)), empty, "a clock that was set back");
    }

    proptest! {
        /// However it is asked, no window holds more than the burst and what the rate adds to it.
        #[test]
        fn no_window_holds_more_than_it_may(
            count in 1u32..50, per_secs in 1u32..100, share in 1u32..=100,
            steps in prop::collection::vec((0i64..20_000_000, 0u32..20), 1..60),
        ) {
            let rate = Rate { count, per_secs, burst: (count * share).div_ceil(100) };
            let (mut bucket, mut now, mut spent) = (Bucket::full(rate, at(0)), 0i64, 0u64);
            for (wait, wanted) in steps {
                now += wait;
                bucket = bucket.refilled(rate, at(now));
                let given = wanted.min(bucket.tokens(rate));
                bucket = bucket.spent(rate, given);
                spent += u64::from(given);
                let earned = i128::from(now) * i128::from(count) / (i128::from(per_secs) * 1_000_000);
                prop_assert!(i128::from(spent) <= earned + i128::from(rate.burst));
                let next = bucket.holds_at(rate, 1);
                prop_assert!(bucket.refilled(rate, next).tokens(rate) >= 1);
            }
        }
    }
}
