//! How fast looks are asked for.
//!
//! The provider answers some twenty looks a second. Whatever is asked for beyond that waits in the
//! database, where every further event of a room rewrites what waits there; in memory it joins the
//! others for nothing. So what comes faster stays here until it is its turn.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{Bucket, Rate};

/// What was not used is saved for this long: a few rooms at once never wait.
const SAVED_SECS: u32 = 2;
/// A step is worth its commit from so many rooms on. So there are at most ten in a second at the
/// usual pace, and each is soon done: whoever is answered on the same processor does not notice.
const STEP_ROOMS: u32 = 5;

/// The rooms that may be asked about.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Rate,
    bucket: Bucket,
}

impl Pace {
    pub(super) fn new(rooms_per_sec_max: u32) -> Self {
        let count = rooms_per_sec_max.max(1).saturating_mul(SAVED_SECS);
        let rate = Rate { count, per_secs: SAVED_SECS, burst: count };
        Pace { rate, bucket: Bucket::full(rate, Timestamp::EPOCH) }
    }

    /// How many rooms may be asked about at `now`: as many as make a step, or none.
    pub(super) fn rooms(&mut self, now: Duration) -> usize {
        self.bucket = self.bucket.refilled(self.rate, Timestamp::EPOCH + now);
        let tokens = self.bucket.tokens(self.rate);
        if tokens < self.step() { 0 } else { usize::try_from(tokens).unwrap_or(usize::MAX) }
    }

    /// So many were asked about.
    pub(super) fn spend(&mut self, rooms: usize) {
        let rooms = u32::try_from(rooms).unwrap_or(u32::MAX);
        self.bucket = self.bucket.spent(self.rate, rooms);
    }

    /// From when on a step may be made.
    pub(super) fn next_step(&self) -> Duration {
        self.bucket.holds_at(self.rate, self.step()).since(Timestamp::EPOCH)
    }

    fn step(&self) -> u32 {
        STEP_ROOMS.min(self.rate.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_few_rooms_never_wait_and_many_are_asked_about_in_small_steps() {
        let mut pace = Pace::new(50);
        assert_eq!((pace.rooms(millis(0)), pace.next_step()), (100, millis(0)));
        pace.spend(100);
        assert_eq!((pace.rooms(millis(99)), pace.next_step()), (0, millis(100)));
        for step in 1..=20 {
            assert_eq!(pace.rooms(millis(step * 100)), 5);
            pace.spend(5);
        }
        assert_eq!(pace.rooms(millis(60_000)), 100, "no more is saved");
    }

    #[test]
    fn a_step_is_never_more_than_is_saved() {
        let mut pace = Pace::new(0);
        assert_eq!(pace.rooms(millis(0)), 2, "one in a second at least");
        pace.spend(2);
        assert_eq!((pace.rooms(millis(1999)), pace.rooms(millis(2000))), (0, 2));
    }

    #[test]
    fn what_was_asked_beyond_the_pace_is_made_up_for() {
        let mut pace = Pace::new(50);
        pace.spend(150);
        assert_eq!((pace.rooms(millis(1000)), pace.next_step()), (0, millis(1100)));
        assert_eq!(pace.rooms(millis(1100)), 5);
    }
}
