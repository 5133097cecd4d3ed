//! Which updates of the log a document in memory has.

use std::collections::BTreeSet;

/// Everything up to a number, and some beyond it that came early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Applied {
    through: i64,
    beyond: BTreeSet<i64>,
}

impl Applied {
    pub(super) fn through(seq: i64) -> Self {
        Applied { through: seq, beyond: BTreeSet::new() }
    }

    /// Up to where nothing is missing.
    pub(super) fn known(&self) -> i64 {
        self.through
    }

    pub(super) fn has(&self, seq: i64) -> bool {
        seq <= self.through || self.beyond.contains(&seq)
    }

    pub(super) fn note(&mut self, seq: i64) {
        if seq > self.through {
            self.beyond.insert(seq);
        }
        while self.beyond.remove(&(self.through + 1)) {
            self.through += 1;
        }
    }

    /// Everything up to here was taken in at once.
    pub(super) fn note_through(&mut self, seq: i64) {
        self.through = self.through.max(seq);
        self.beyond.retain(|early| *early > seq);
        self.note(self.through);
    }

    /// Something is known to be missing.
    pub(super) fn has_gap(&self) -> bool {
        !self.beyond.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_come_in_any_order() {
        let mut applied = Applied::through(3);
        applied.note(5);
        assert_eq!((applied.known(), applied.has_gap()), (3, true));
        assert!(applied.has(5) && applied.has(2) && !applied.has(4));
        applied.note(4);
        assert_eq!((applied.known(), applied.has_gap()), (5, false));
        applied.note(2);
        assert_eq!(applied.known(), 5);
        applied.note(8);
        applied.note_through(7);
        assert_eq!((applied.known(), applied.has_gap()), (8, false));
    }
}
