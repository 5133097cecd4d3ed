//! The latest frames of one meeting, which all of its listeners share.
//!
//! Invariants: the places of the frames held follow each other without a gap; they are bounded in
//! number and in bytes, for one meeting and for all of a node together.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// However many meetings there are, each keeps this many frames.
const FRAMES_MIN: usize = 8;

/// A frame as listeners get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RingFrame {
    pub(super) seq: i64,
    pub(super) text: Bytes,
}

/// How much is held.
#[derive(Debug, Clone)]
pub(super) struct RingLimits {
    pub(super) frames_max: usize,
    pub(super) bytes_max: usize,
    /// Of all meetings together.
    pub(super) all_bytes_max: usize,
    pub(super) all_bytes: Arc<AtomicUsize>,
}

/// What a frame was to the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offered {
    /// Listeners have something to read.
    News,
    /// It changes nothing.
    Known,
    /// There are others before it, which the database has.
    Gap,
}

/// What a listener that has read up to some place reads next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pull {
    Nothing,
    Frames(Vec<RingFrame>),
    /// What follows is no longer held.
    Behind,
}

#[derive(Debug)]
pub(super) struct Ring {
    limits: RingLimits,
    /// The place before the first frame held; `None` until it is known where the stream is.
    base: Option<i64>,
    frames: VecDeque<RingFrame>,
    bytes: usize,
    /// Came before those that precede them.
    early: BTreeMap<i64, Bytes>,
}

impl Ring {
    pub(super) fn new(limits: RingLimits) -> Self {
        Ring { limits, base: None, frames: VecDeque::new(), bytes: 0, early: BTreeMap::new() }
    }

    /// The place of the last frame, held or not.
    pub(super) fn last(&self) -> Option<i64> {
        self.base.map(|base| self.frames.back().map_or(base, |frame| frame.seq))
    }

    /// The place before the first frame held.
    pub(super) fn base(&self) -> Option<i64> {
        self.base
    }

    /// Everything up to this place is behind us.
    pub(super) fn restart(&mut self, place: i64) {
        self.clear();
        self.base = Some(place);
        self.take_early();
    }

    /// A frame that was told.
    pub(super) fn offer(&mut self, frame: RingFrame) -> Offered {
        match self.last() {
            Some(last) if frame.seq <= last => Offered::Known,
            Some(last) if frame.seq == last + 1 => {
                self.push(frame);
                self.take_early();
                Offered::News
            }
            last => {
                if self.early.len() < self.limits.frames_max {
                    self.early.insert(frame.seq, frame.text);
                }
                if last.is_some() { Offered::Gap } else { Offered::Known }
            }
        }
    }

    /// Frames as the database has them: a place that is missing there is gone for good. Returns
    /// whether any were new.
    pub(super) fn absorb(&mut self, frames: Vec<RingFrame>) -> bool {
        let before = self.last();
        for frame in frames {
            match self.last() {
                Some(last) if frame.seq <= last => continue,
                Some(last) if frame.seq == last + 1 => {}
                _ => {
                    self.clear();
                    self.base = Some(frame.seq - 1);
                }
            }
            self.push(frame);
        }
        self.take_early();
        self.last() != before
    }

    pub(super) fn after(&self, place: i64) -> Pull {
        let (Some(base), Some(last)) = (self.base, self.last()) else { return Pull::Nothing };
        if place >= last {
            return Pull::Nothing;
        }
        match usize::try_from(place - base) {
            Ok(skipped) => Pull::Frames(self.frames.range(skipped..).cloned().collect()),
            Err(_) => Pull::Behind,
        }
    }

    /// The last frame that came too early.
    pub(super) fn early_last(&self) -> Option<i64> {
        self.early.last_key_value().map(|(seq, _)| *seq)
    }

    /// Forgets frames that came too early, up to this place.
    pub(super) fn forget_early(&mut self, upto: i64) {
        self.early.retain(|seq, _| *seq > upto);
    }

    fn push(&mut self, frame: RingFrame) {
        self.bytes += frame.text.len();
        self.limits.all_bytes.fetch_add(frame.text.len(), Ordering::Relaxed);
        self.frames.push_back(frame);
        while self.is_full() {
            let Some(frame) = self.frames.pop_front() else { break };
            self.base = Some(frame.seq);
            self.bytes -= frame.text.len();
            self.limits.all_bytes.fetch_sub(frame.text.len(), Ordering::Relaxed);
        }
    }

    fn is_full(&self) -> bool {
        let RingLimits { frames_max, bytes_max, all_bytes_max, all_bytes } = &self.limits;
        let frames = self.frames.len();
        let too_many = frames > *frames_max || self.bytes > *bytes_max;
        let all_too_many = all_bytes.load(Ordering::Relaxed) > *all_bytes_max;
        // The newest stays, however large it is.
        frames > 1 && (too_many || frames > FRAMES_MIN && all_too_many)
    }

    fn take_early(&mut self) {
        let Some(mut last) = self.last() else { return };
        while let Some((seq, text)) = self.early.pop_first() {
            if seq > last + 1 {
                self.early.insert(seq, text);
                return;
            }
            if seq == last + 1 {
                last = seq;
                self.push(RingFrame { seq, text });
            }
        }
    }

    fn clear(&mut self) {
        self.limits.all_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = 0;
        self.frames.clear();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(frames_max: usize, bytes_max: usize) -> Ring {
        let all_bytes = Arc::default();
        Ring::new(RingLimits { frames_max, bytes_max, all_bytes_max: usize::MAX, all_bytes })
    }

    fn frame(seq: i64) -> RingFrame {
        RingFrame { seq, text: Bytes::from(vec![b'x'; 10]) }
    }

    fn seqs(pull: Pull) -> Vec<i64> {
        match pull {
            Pull::Nothing => vec![],
            Pull::Frames(frames) => frames.into_iter().map(|frame| frame.seq).collect(),
            Pull::Behind => panic!("behind"),
        }
    }

    #[test]
    fn frames_are_read_from_any_place_that_is_held() {
        let mut ring = ring(3, 1000);
        assert_eq!(ring.offer(frame(6)), Offered::Known, "nobody knows yet where the stream is");
        assert_eq!(ring.after(0), Pull::Nothing);
        ring.restart(5);
        assert_eq!(seqs(ring.after(5)), [6], "what came before that was kept");
        assert_eq!(ring.offer(frame(6)), Offered::Known);
        assert_eq!(ring.offer(frame(8)), Offered::Gap);
        assert_eq!(seqs(ring.after(5)), [6]);
        assert_eq!(ring.offer(frame(7)), Offered::News);
        assert_eq!(seqs(ring.after(5)), [6, 7, 8]);
        assert_eq!(ring.offer(frame(9)), Offered::News);
        assert_eq!(seqs(ring.after(6)), [7, 8, 9]);
        assert_eq!(ring.after(5), Pull::Behind);
        assert_eq!(ring.after(9), Pull::Nothing);
        assert_eq!(ring.after(99), Pull::Nothing, "read elsewhere, and not here yet");
    }

    #[test]
    fn a_hole_in_the_database_starts_it_anew() {
        let mut ring = ring(10, 1000);
        ring.restart(0);
        assert!(ring.absorb(vec![frame(1), frame(2), frame(5), frame(6)]));
        assert_eq!(seqs(ring.after(4)), [5, 6]);
        assert_eq!(ring.after(1), Pull::Behind);
        assert!(!ring.absorb(vec![frame(5)]));
    }

    #[test]
    fn bytes_are_bounded_for_one_and_for_all() {
        let mut small = ring(100, 35);
        small.restart(0);
        (1..=10).for_each(|seq| assert_eq!(small.offer(frame(seq)), Offered::News));
        assert_eq!(seqs(small.after(7)), [8, 9, 10]);
        let huge = RingFrame { seq: 11, text: Bytes::from(vec![b'x'; 1000]) };
        small.offer(huge.clone());
        assert_eq!(small.after(10), Pull::Frames(vec![huge]));

        let all_bytes: Arc<AtomicUsize> = Arc::default();
        let limits = RingLimits {
            frames_max: 100,
            bytes_max: 10_000,
            all_bytes_max: 500,
            all_bytes: all_bytes.clone(),
        };
        let mut rings: Vec<Ring> = (0..10).map(|_| Ring::new(limits.clone())).collect();
        for ring in &mut rings {
            ring.restart(0);
            (1..=50).for_each(|seq| assert_eq!(ring.offer(frame(seq)), Offered::News));
        }
        assert!(all_bytes.load(Ordering::Relaxed) <= 500 + 10 * FRAMES_MIN * 10);
        assert_eq!(seqs(rings[9].after(42)).len(), FRAMES_MIN);
        drop(rings);
        assert_eq!(all_bytes.load(Ordering::Relaxed), 0);
    }
}
