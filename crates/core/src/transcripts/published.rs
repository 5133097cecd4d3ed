//! Which frames of a stream were handed to the bus.
//!
//! Invariant: a place counts only if somebody has noted it, never because a later one was noted: a
//! process may die with a frame that nobody has heard of while another one goes on. What is forgotten
//! is handed on once more, which is late but right.

use std::fmt::Write as _;

/// Ranges of one stream that are remembered. Beyond that the lowest are forgotten: whoever looks for
/// what is missing begins there, and then finds a whole.
pub const SEQ_RANGES_MAX: usize = 32;

/// Places that follow each other, both ends included. Empty if the last is before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeqRange {
    pub first: i64,
    pub last: i64,
}

impl SeqRange {
    pub fn new(first: i64, last: i64) -> Self {
        SeqRange { first, last }
    }

    /// One place.
    pub fn one(seq: i64) -> Self {
        SeqRange::new(seq, seq)
    }

    /// Every place up to this one: places count from 1.
    pub fn up_to(last: i64) -> Self {
        SeqRange::new(1, last)
    }

    pub fn contains(self, seq: i64) -> bool {
        (self.first..=self.last).contains(&seq)
    }
}

/// Ranges in their order, at most [`SEQ_RANGES_MAX`], that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeqRanges(Vec<SeqRange>);

impl SeqRanges {
    pub fn add(&mut self, range: SeqRange) {
        if range.first > range.last {
            return;
        }
        let from = self.0.partition_point(|known| known.last < range.first.saturating_sub(1));
        let to = self.0.partition_point(|known| known.first <= range.last.saturating_add(1));
        let mut joined = range;
        if let [lowest, ..] = &self.0[from..to] {
            joined.first = joined.first.min(lowest.first);
        }
        if let [.., highest] = &self.0[from..to] {
            joined.last = joined.last.max(highest.last);
        }
        self.0.splice(from..to, [joined]);
        if self.0.len() > SEQ_RANGES_MAX {
            self.0.remove(0);
        }
    }

    fn iter(&self) -> impl Iterator<Item = SeqRange> {
        self.0.iter().copied()
    }
}

impl IntoIterator for SeqRanges {
    type Item = SeqRange;
    type IntoIter = std::vec::IntoIter<SeqRange>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// What is known of a stream: everything up to a place, and what was handed on ahead of a frame
/// that is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Published {
    up_to: i64,
    ahead: SeqRanges,
}

/// A text that does not name ranges.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no range of places")]
pub struct InvalidSeqRange(String);

impl Published {
    /// As it was stored: see [`Published::ahead_text`].
    pub fn from_stored(up_to: i64, ahead: &str) -> Result<Self, InvalidSeqRange> {
        let mut published = Published { up_to, ahead: SeqRanges::default() };
        for text in ahead.split(',').filter(|text| !text.is_empty()) {
            let ends = text.split_once('-').and_then(|(first, last)| {
                let range = SeqRange::new(first.parse().ok()?, last.parse().ok()?);
                (range.first <= range.last).then_some(range)
            });
            published.note(ends.ok_or_else(|| InvalidSeqRange(text.to_owned()))?);
        }
        Ok(published)
    }

    /// Everything up to this place was handed on.
    pub fn up_to(&self) -> i64 {
        self.up_to
    }

    /// What was handed on beyond that, as a database keeps it: `7-9,12-12`.
    pub fn ahead_text(&self) -> String {
        let mut text = String::new();
        for SeqRange { first, last } in self.ahead.iter() {
            let comma = if text.is_empty() { "" } else { "," };
            // Writing to a text cannot fail.
            let _ = write!(text, "{comma}{first}-{last}");
        }
        text
    }

    /// These were handed on.
    pub fn note(&mut self, range: SeqRange) {
        if range.first > self.up_to.saturating_add(1) {
            return self.ahead.add(range);
        }
        self.up_to = self.up_to.max(range.last);
        let reached =
            self.ahead.0.partition_point(|known| known.first <= self.up_to.saturating_add(1));
        // They do not touch each other, so only the last of them can reach any further.
        for known in self.ahead.0.drain(..reached) {
            self.up_to = self.up_to.max(known.last);
        }
    }

    pub fn contains(&self, seq: i64) -> bool {
        seq <= self.up_to || self.ahead.iter().any(|range| range.contains(seq))
    }

    /// What nobody has noted, up to the end of the stream, in order.
    pub fn missing(&self, end: i64) -> Vec<SeqRange> {
        let mut missing = Vec::new();
        let mut known_to = self.up_to;
        for range in self.ahead.iter() {
            missing.push(SeqRange::new(known_to + 1, end.min(range.first - 1)));
            known_to = range.last;
        }
        if known_to < end {
            missing.push(SeqRange::new(known_to + 1, end));
        }
        missing.retain(|range| range.first <= range.last);
        missing
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn noted(up_to: i64, ranges: &[(i64, i64)]) -> Published {
        let mut published = Published { up_to, ahead: SeqRanges::default() };
        for (first, last) in ranges {
            published.note(SeqRange::new(*first, *last));
        }
        published
    }

    fn state(published: &Published) -> (i64, String) {
        (published.up_to(), published.ahead_text())
    }

    #[test]
    fn a_later_frame_does_not_hide_an_earlier_one() {
        let mut published = noted(4, &[(6, 6)]);
        assert_eq!(state(&published), (4, "6-6".to_owned()));
        assert_eq!(published.missing(7), [SeqRange::one(5), SeqRange::one(7)]);
        assert!(!published.contains(5) && published.contains(6) && published.contains(4));
        published.note(SeqRange::one(5));
        assert_eq!(state(&published), (6, String::new()));
        assert_eq!(published.missing(6), []);
    }

    #[test]
    fn ranges_that_meet_are_one() {
        type Row<'a> = (&'a [(i64, i64)], i64, &'a str);
        let table: [Row<'_>; 8] = [
            (&[(1, 3), (4, 4)], 4, ""),
            (&[(3, 4), (7, 8), (5, 6)], 0, "3-8"),
            (&[(7, 8), (3, 4), (2, 9)], 0, "2-9"),
            (&[(3, 4), (3, 4), (4, 4)], 0, "3-4"),
            (&[(3, 4), (7, 8), (1, 2)], 4, "7-8"),
            (&[(3, 4), (7, 8), (1, 6)], 8, ""),
            (&[(3, 4), (7, 8), (1, 7)], 8, ""),
            (&[(5, 4), (1, 0), (-3, -1)], 0, ""),
        ];
        for (ranges, up_to, ahead) in table {
            assert_eq!(state(&noted(0, ranges)), (up_to, ahead.to_owned()), "{ranges:?}");
        }
    }

    #[test]
    fn beyond_the_limit_the_lowest_is_forgotten_and_found_with_its_neighbours() {
        let mut published = Published::default();
        let even = |nth: usize| i64::try_from(nth * 2).unwrap();
        for nth in 1..=SEQ_RANGES_MAX + 2 {
            published.note(SeqRange::one(even(nth)));
        }
        assert_eq!(published.ahead.0.len(), SEQ_RANGES_MAX);
        let missing = published.missing(even(SEQ_RANGES_MAX + 2));
        assert_eq!(missing[0], SeqRange::new(1, 5), "2 and 4 were forgotten");
        // Whoever hands on what is missing from there is done in one go.
        for range in missing {
            published.note(range);
        }
        assert_eq!(state(&published), (even(SEQ_RANGES_MAX + 2), String::new()));
    }

    #[test]
    fn what_was_stored_is_read_and_nothing_else() {
        let published = noted(4, &[(7, 9), (12, 12)]);
        assert_eq!(published.ahead_text(), "7-9,12-12");
        assert_eq!(Published::from_stored(4, "7-9,12-12").unwrap(), published);
        assert_eq!(Published::from_stored(4, "").unwrap(), noted(4, &[]));
        for text in ["7", "7-", "-7", "9-7", "7-9;12-12", "a-b", " 7-9", "7-9-12"] {
            assert!(Published::from_stored(4, text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_ends_of_all_numbers_are_no_trouble() {
        let mut published = noted(0, &[(i64::MAX, i64::MAX), (i64::MIN, 0)]);
        assert_eq!(published.missing(i64::MAX), [SeqRange::new(1, i64::MAX - 1)]);
        published.note(SeqRange::new(1, i64::MAX));
        assert_eq!(state(&published), (i64::MAX, String::new()));
        published.note(SeqRange::one(i64::MAX));
        assert_eq!(published.missing(i64::MAX), []);
    }

    proptest! {
        /// Nothing counts that was not noted, in whatever order; below the limit everything does.
        #[test]
        fn what_is_noted_is_what_counts(notes in vec((1..80i64, 0..4i64), 0..60)) {
            let mut published = Published::default();
            let mut all = BTreeSet::new();
            let mut forgot = false;
            for (first, more) in notes {
                published.note(SeqRange::new(first, first + more));
                all.extend(first..=first + more);
                let runs = all.iter().filter(|seq| !all.contains(&(*seq - 1))).count();
                forgot |= runs >= SEQ_RANGES_MAX;
                let text = published.ahead_text();
                prop_assert_eq!(&Published::from_stored(published.up_to(), &text).unwrap(), &published);
                prop_assert!(published.ahead.0.len() <= SEQ_RANGES_MAX);
            }
            let counts: BTreeSet<i64> = (1..100).filter(|seq| published.contains(*seq)).collect();
            prop_assert!(counts.is_subset(&all));
            prop_assert!(forgot || counts == all);
            let missing: BTreeSet<i64> =
                published.missing(99).iter().flat_map(|range| range.first..=range.last).collect();
            prop_assert_eq!(missing, &(1..100).collect::<BTreeSet<i64>>() - &counts);
            if let Some(first) = published.ahead.iter().next() {
                prop_assert!(first.first > published.up_to() + 1, "what touches is one");
            }
        }

        /// Whoever hands on what is missing needs one round, whatever was forgotten.
        #[test]
        fn one_round_makes_it_whole(notes in vec(1..400i64, 0..200)) {
            let mut published = Published::default();
            for seq in notes {
                published.note(SeqRange::one(seq));
            }
            for range in published.missing(400) {
                published.note(range);
            }
            prop_assert_eq!(state(&published), (400, String::new()));
        }
    }
}
