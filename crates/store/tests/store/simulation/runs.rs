//! A worker's run of one job: it works, beats, and ends well, badly, late or never.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobError, Json, LeaseRef, Outcome};
use roundsman_testkit::SeededRandom;

use super::world::{chance, seconds_below};

pub(super) const TTL: Duration = Duration::from_secs(30);
pub(super) const BEAT_EVERY: Duration = Duration::from_secs(10);
pub(super) const DEADLINE: Duration = Duration::from_secs(90);

/// One run, as its worker sees it. The worker may be wrong about still holding the lease.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) lease: LeaseRef,
    pub(super) ends_at: Timestamp,
    pub(super) fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Beats and ends, as far as the network lets it.
    Ends,
    /// Its process dies: nothing more is heard of it.
    Crashes,
    /// Its process stands still and comes back, not knowing that time has passed.
    Pauses,
}

impl Run {
    /// Draws what will become of a run that begins now.
    pub(super) fn draw(random: &SeededRandom, calm: bool, lease: LeaseRef, now: Timestamp) -> Self {
        let fate = match random.next_u64() % 100 {
            _ if calm => Fate::Ends,
            0..15 => Fate::Crashes,
            15..30 => Fate::Pauses,
            _ => Fate::Ends,
        };
        let length = match fate {
            Fate::Pauses => TTL / 2 + seconds_below(random, 90),
            // Some run past their deadline.
            _ if !calm && chance(random, 5) => DEADLINE + seconds_below(random, 60),
            _ => seconds_below(random, 40),
        };
        Run { lease, ends_at: now + length, fate }
    }

    /// When something is next heard of it, if ever.
    pub(super) fn next_at(&self, now: Timestamp) -> Option<Timestamp> {
        match self.fate {
            Fate::Crashes => None,
            Fate::Pauses => Some(self.ends_at),
            Fate::Ends => Some(self.ends_at.min(now + BEAT_EVERY)),
        }
    }
}

/// How a run ends. Its result names the lease, so that it can be seen whose it was.
pub(super) fn draw_outcome(
    random: &SeededRandom,
    calm: bool,
    lease: LeaseRef,
    now: Timestamp,
) -> Outcome {
    let error = JobError::new("boom", "it broke");
    let done = Outcome::Done { result: Json::from_stored(lease.lease_no.get().to_string()) };
    match random.next_u64() % 100 {
        _ if calm => done,
        0..40 => done,
        40..50 => Outcome::Again { at: now + seconds_below(random, 20), payload: None },
        50..65 => Outcome::Retry { error, after: Some(seconds_below(random, 20)) },
        65..75 => Outcome::Retry { error, after: None },
        75..80 => Outcome::Fail { error },
        80..85 => Outcome::Cancelled,
        _ => Outcome::Release,
    }
}
