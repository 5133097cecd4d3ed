//! How often an event is sent, and when it is given up.

use std::time::Duration;

use crate::Timestamp;

/// An event that could not be delivered for this long is given up.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(24 * 3600);
/// How long to wait after each failed try; the last one repeats.
const DELAYS_SECS: [u64; 10] = [5, 30, 120, 600, 1800, 3600, 7200, 10_800, 14_400, 18_000];
/// What an endpoint answers that wants nothing any more.
const GONE: u16 = 410;

/// How the delivery of an event stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    Pending,
    Delivered,
    /// Given up.
    Failed,
    /// There was nobody to tell.
    Skipped,
}

impl DeliveryState {
    pub const ALL: [DeliveryState; 4] = [
        DeliveryState::Pending,
        DeliveryState::Delivered,
        DeliveryState::Failed,
        DeliveryState::Skipped,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            DeliveryState::Pending => "pending",
            DeliveryState::Delivered => "delivered",
            DeliveryState::Failed => "failed",
            DeliveryState::Skipped => "skipped",
        }
    }

    /// `None` for a word that is none of ours.
    pub fn parse(text: &str) -> Option<Self> {
        DeliveryState::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// One try to deliver an event, as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub at: Timestamp,
    pub url: String,
    /// `None` when no answer came.
    pub status: Option<u16>,
    pub error: Option<String>,
    pub duration: Duration,
}

/// What a try comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Delivered,
    /// Try again after this long.
    Retry(Duration),
    /// Tried for long enough.
    GiveUp,
    /// The endpoint wants nothing any more: it is not told of anything until it is set anew.
    Disable,
}

/// What an answer (`None`: there was none) means after `attempts` tries since `since`.
pub fn judge(status: Option<u16>, attempts: u32, since: Timestamp, now: Timestamp) -> Verdict {
    match status {
        Some(200..=299) => Verdict::Delivered,
        Some(GONE) => Verdict::Disable,
        _ => {
            let delay = retry_delay(attempts);
            if now + delay > since + GIVE_UP_AFTER {
                Verdict::GiveUp
            } else {
                Verdict::Retry(delay)
            }
        }
    }
}

/// How long to wait after `attempts` failed tries.
pub fn retry_delay(attempts: u32) -> Duration {
    let last = DELAYS_SECS.len() - 1;
    let index = usize::try_from(attempts.saturating_sub(1)).unwrap_or(last).min(last);
    Duration::from_secs(DELAYS_SECS[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_tried_for_a_day_and_no_longer() {
        let mut now = Timestamp::EPOCH;
        let mut tries = 0;
        while let Verdict::Retry(delay) = judge(Some(500), tries + 1, Timestamp::EPOCH, now) {
            tries += 1;
            now = now + delay;
            assert!(tries < 100);
        }
        assert!(now.since(Timestamp::EPOCH) <= GIVE_UP_AFTER);
        assert!(now.since(Timestamp::EPOCH) > GIVE_UP_AFTER / 2, "gave up after {now}");
        assert!(tries >= 9);
    }

    #[test]
    fn answers_are_judged() {
        let at = Timestamp::EPOCH;
        assert_eq!(judge(Some(204), 1, at, at), Verdict::Delivered);
        assert_eq!(judge(Some(410), 1, at, at), Verdict::Disable);
        for status in [None, Some(302), Some(400), Some(404), Some(429), Some(503)] {
            assert_eq!(judge(status, 1, at, at), Verdict::Retry(Duration::from_secs(5)));
        }
    }
}
