//! When the client itself had no processor: what it would have sent then is no latency of whom it
//! measures.

use std::time::Duration;

/// Longer than a turn of the client takes: a request that is sent and all answers that are there.
const GAP_MIN: Duration = Duration::from_micros(300);

/// What the client has missed so far.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    last: Option<Duration>,
    all: Duration,
    longest: Duration,
}

impl Gaps {
    /// The client has a turn. How long it had none, if that is worth a word.
    pub(crate) fn turn(&mut self, now: Duration) -> Duration {
        let gap = self.last.replace(now).map_or(Duration::ZERO, |last| now.saturating_sub(last));
        if gap <= GAP_MIN {
            return Duration::ZERO;
        }
        self.all += gap;
        self.longest = self.longest.max(gap);
        gap
    }

    pub(crate) fn all(&self) -> Duration {
        self.all
    }

    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_longer_than_a_turn_is_a_gap() {
        let micros = Duration::from_micros;
        let mut gaps = Gaps::default();
        let told = [1000, 1300, 1601, 1602, 9602].map(|now| gaps.turn(micros(now)));
        assert_eq!(told, [0, 0, 301, 0, 8000].map(micros));
        assert_eq!((gaps.all(), gaps.longest()), (micros(8301), micros(8000)));
    }
}
