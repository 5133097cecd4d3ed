//! Which known segment a told one is.
//!
//! Invariants: whatever is told again finds what it has found before; what one message tells apart,
//! by its starts or ids, stays apart.

use std::collections::{BTreeMap, BTreeSet};

use super::{Known, START_SHIFT_MS_MAX};
use crate::transcripts::{Segment, ToldSegment};

/// What of one message was found.
pub(super) struct Matches {
    /// For each told segment: the one with its name.
    by_name: Vec<Option<usize>>,
    /// For those without a name of their own: the one that has moved to their start.
    by_start: BTreeMap<i64, usize>,
    /// Whoever was found is not looked for under another name.
    spoken_for: BTreeSet<usize>,
}

impl Matches {
    /// `as_it_was` says of a known segment whether the told one at that place is the same to
    /// everybody who looks.
    pub(super) fn new(
        known: &[Known],
        told: &[ToldSegment],
        as_it_was: impl Fn(&Known, usize) -> bool,
    ) -> Self {
        let by_name: Vec<_> = told.iter().map(|segment| named(known, segment)).collect();
        let spoken_for = by_name.iter().flatten().copied().collect();
        let mut matches = Matches { by_name, by_start: BTreeMap::new(), spoken_for };
        let mut moved: Vec<usize> =
            (0..told.len()).filter(|place| matches.by_name[*place].is_none()).collect();
        // What has moved before and is told again as it was comes first, because what others have
        // changed meanwhile may have made another one closer. In this order nobody takes the only
        // one that is left for somebody else. What a message tells twice is, in the end, what it
        // tells last.
        let is_last = |place: usize| {
            let mut later = told[place + 1..].iter().filter(|later| later.segment_id.is_none());
            !later.any(|later| later.start_ms == told[place].start_ms)
        };
        moved.sort_by_key(|place| (!is_last(*place), told[*place].start_ms));
        for place in moved {
            let start_ms = told[place].start_ms;
            if matches.by_start.contains_key(&start_ms) {
                continue;
            }
            let same = |(_, known): &(usize, &Known)| as_it_was(known, place);
            let candidates = matches.within_reach(known, &told[place]).filter(same);
            let earliest = candidates.min_by_key(|(_, known)| known.segment.start_ms);
            if let Some((index, _)) = earliest {
                matches.moved_to(start_ms, index);
            }
        }
        matches
    }

    /// `None` if nobody knows it; it is then the next that becomes known.
    pub(super) fn find(
        &mut self,
        known: &[Known],
        told: &ToldSegment,
        place: usize,
    ) -> Option<usize> {
        // One that an earlier segment of the same message has made may have the name, too.
        let found = self.by_name[place].or_else(|| named(known, told));
        if found.is_some() {
            return found;
        }
        if told.segment_id.is_none() && self.by_start.contains_key(&told.start_ms) {
            return self.by_start.get(&told.start_ms).copied();
        }
        // Of two as close the earlier one, in whatever order they are known.
        let closest = self.neighbours(known, told).min_by_key(|(_, Known { segment, .. })| {
            ((segment.start_ms - told.start_ms).abs(), segment.start_ms)
        });
        let Some((index, _)) = closest else {
            self.spoken_for.insert(known.len());
            return None;
        };
        self.moved_to(told.start_ms, index);
        Some(index)
    }

    fn moved_to(&mut self, start_ms: i64, index: usize) {
        self.spoken_for.insert(index);
        self.by_start.insert(start_ms, index);
    }

    /// Those that this may be, told with a start that has moved.
    fn neighbours<'a>(
        &'a self,
        known: &'a [Known],
        told: &'a ToldSegment,
    ) -> impl Iterator<Item = (usize, &'a Known)> {
        self.within_reach(known, told).filter(|(_, known)| overlaps(&known.segment, told))
    }

    /// Those whose start this may have moved from, wherever they end.
    fn within_reach<'a>(
        &'a self,
        known: &'a [Known],
        told: &'a ToldSegment,
    ) -> impl Iterator<Item = (usize, &'a Known)> {
        known.iter().enumerate().filter(|(index, Known { segment, .. })| {
            told.segment_id.is_none()
                && segment.segment_id.is_none()
                && !self.spoken_for.contains(index)
                && (segment.start_ms - told.start_ms).abs() <= START_SHIFT_MS_MAX
        })
    }
}

/// By the producer's id or, without one, by the start.
fn named(known: &[Known], told: &ToldSegment) -> Option<usize> {
    let same = |known: &Known| match (&told.segment_id, &known.segment.segment_id) {
        (Some(told), Some(known)) => told == known,
        (None, None) => known.segment.start_ms == told.start_ms,
        _ => false,
    };
    known.iter().position(same)
}

/// Most of the shorter one must be in both.
fn overlaps(segment: &Segment, told: &ToldSegment) -> bool {
    let end_ms = segment.content.end_ms;
    let both = end_ms.min(told.end_ms) - segment.start_ms.max(told.start_ms);
    let shorter = (end_ms - segment.start_ms).min(told.end_ms - told.start_ms);
    both * 2 > shorter
}
