//! T-5: a segment that changes while it is made final, in all orders of all steps.
//!
//! The model has one segment, a producer that changes it and repeats itself, the round that makes it
//! final, and the cache with writes that are late, lost or overtaken. It is what the stores and the
//! mirror are built to do: their own tests show that they do it, this one that it is enough. Each
//! rule is left out once, to see that it would be missed.

use roundsman_testkit::explore::{Model, Violation, explore};

/// The producer tells so many versions of the segment.
const VERSIONS_MAX: u8 = 3;
/// Processes die so often.
const CRASHES_MAX: u8 = 2;
/// Writes to the cache that are on their way.
const LATE_WRITES_MAX: usize = 2;

/// Which rule is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// What is final is removed from the live table whatever it is by then.
    VersionAtRemoval,
    /// A message is acknowledged before it is committed.
    CommitBeforeAck,
    /// Nobody compares the cache with the table.
    Repair,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Seen {
    /// The last version that the producer has told, and that it was told is taken.
    told: u8,
    acknowledged: u8,
    /// In `live_segments`, and in `transcriptions`.
    live: Option<u8>,
    kept: Option<u8>,
    /// What the round has looked at and not yet moved.
    looked: Option<u8>,
    cache: Option<u8>,
    /// Writes to the cache of what was committed: a version, or its removal.
    late: Vec<Option<u8>>,
    /// What a repair has seen in the table and in the cache.
    repairing: Option<(Option<u8>, Option<u8>)>,
    crashes: u8,
}

#[derive(Debug)]
struct Settling(Without);

impl Settling {
    fn tell(&self, state: &Seen) -> Option<Seen> {
        let version = state.told + 1;
        let fits = version <= VERSIONS_MAX && state.late.len() < LATE_WRITES_MAX;
        (fits && state.acknowledged == state.told).then(|| {
            let mut next = Seen { told: version, ..state.clone() };
            if self.0 == Without::CommitBeforeAck {
                next.acknowledged = version;
            }
            next
        })
    }

    /// A message is committed, for the first time or again.
    fn commit(state: &Seen) -> Option<Seen> {
        // What is told again as it is known changes nothing.
        let is_known = state.live.or(state.kept) == Some(state.told);
        let fits = state.told > 0 && state.late.len() < LATE_WRITES_MAX && !is_known;
        fits.then(|| {
            let mut next = state.clone();
            if state.live.is_none() && state.kept.is_some() {
                // What is final changes where it is.
                next.kept = Some(state.told);
            } else {
                next.live = Some(state.told);
                next.late.push(Some(state.told));
            }
            next
        })
    }

    fn acknowledge(state: &Seen) -> Option<Seen> {
        let is_committed = state.live.or(state.kept) == Some(state.told);
        (is_committed && state.acknowledged < state.told)
            .then(|| Seen { acknowledged: state.told, ..state.clone() })
    }

    fn look(state: &Seen) -> Option<Seen> {
        (state.looked.is_none() && state.live.is_some())
            .then(|| Seen { looked: state.live, ..state.clone() })
    }

    fn settle(&self, state: &Seen) -> Option<Seen> {
        let version = state.looked.filter(|_| state.late.len() < LATE_WRITES_MAX)?;
        let mut next = Seen { looked: None, ..state.clone() };
        if self.0 == Without::VersionAtRemoval || state.live == Some(version) {
            (next.kept, next.live) = (Some(version), None);
            next.late.push(None);
        }
        Some(next)
    }

    /// Any of the writes to the cache arrives: they come from several nodes, so any may be first.
    fn arrive(state: &Seen, place: usize) -> Seen {
        let mut next = state.clone();
        next.cache = next.late.remove(place);
        next
    }

    fn crash(state: &Seen) -> Option<Seen> {
        (state.crashes < CRASHES_MAX).then(|| Seen {
            looked: None,
            late: Vec::new(),
            repairing: None,
            crashes: state.crashes + 1,
            ..state.clone()
        })
    }

    fn begin_repair(&self, state: &Seen) -> Option<Seen> {
        let is_wanted = state.repairing.is_none() && state.cache != state.live;
        (is_wanted && self.0 != Without::Repair)
            .then(|| Seen { repairing: Some((state.live, state.cache)), ..state.clone() })
    }

    /// What somebody has written since the look stays.
    fn end_repair(state: &Seen) -> Option<Seen> {
        let (live, cache) = state.repairing?;
        let cache = if state.cache == cache { live } else { state.cache };
        Some(Seen { repairing: None, cache, ..state.clone() })
    }
}

impl Model for Settling {
    type State = Seen;
    type Step = &'static str;

    fn first(&self) -> Seen {
        Seen {
            told: 0,
            acknowledged: 0,
            live: None,
            kept: None,
            looked: None,
            cache: None,
            late: Vec::new(),
            repairing: None,
            crashes: 0,
        }
    }

    fn steps(&self, state: &Seen) -> Vec<(&'static str, Seen)> {
        let named = [
            ("tell", self.tell(state)),
            ("commit", Settling::commit(state)),
            ("acknowledge", Settling::acknowledge(state)),
            ("look", Settling::look(state)),
            ("settle", self.settle(state)),
            ("crash", Settling::crash(state)),
            ("begin repair", self.begin_repair(state)),
            ("end repair", Settling::end_repair(state)),
        ];
        let arriving =
            (0..state.late.len()).map(|place| ("arrive", Settling::arrive(state, place)));
        named.into_iter().filter_map(|(name, next)| Some((name, next?))).chain(arriving).collect()
    }

    fn wrong(&self, state: &Seen, is_end: bool) -> Option<String> {
        let newest = state.live.or(state.kept).unwrap_or(0);
        if newest < state.acknowledged {
            return Some("what was acknowledged is lost".to_owned());
        }
        if state.live.is_some_and(|live| state.kept.is_some_and(|kept| kept >= live)) {
            return Some("what is final is newer than what is live".to_owned());
        }
        (is_end && state.cache != state.live).then(|| "the cache stays wrong".to_owned())
    }
}

fn violation(without: Without) -> Violation<Settling> {
    match explore(&Settling(without)) {
        Ok(explored) => panic!("{without:?} is not missed in {explored:?}"),
        Err(violation) => violation,
    }
}

#[test]
fn t_5_nothing_is_lost_in_any_order() {
    match explore(&Settling(Without::Nothing)) {
        Ok(explored) => assert!(explored.states > 1_000 && explored.ends > 0, "{explored:?}"),
        Err(violation) => panic!("{violation:?}"),
    }
}

#[test]
fn t_5_every_rule_would_be_missed() {
    assert_eq!(violation(Without::VersionAtRemoval).what, "what was acknowledged is lost");
    assert_eq!(violation(Without::CommitBeforeAck).what, "what was acknowledged is lost");
    assert_eq!(violation(Without::Repair).what, "the cache stays wrong");
}
