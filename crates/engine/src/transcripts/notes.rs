//! Which frames were handed to the bus: written down now and then, so that what a crash or the bus
//! has kept from listeners is found and published after it.
//!
//! Invariant: a frame is noted only if the bus has taken it. One that it did not take leaves a hole,
//! which the relay finds.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use roundsman_core::bots::MeetingId;
use roundsman_core::transcripts::{SeqRange, SeqRanges};

/// Meetings of which something is noted. Of further ones nothing is: their frames are published
/// again, which is late but right.
const MEETINGS_NOTED_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct Notes {
    sent: Mutex<BTreeMap<MeetingId, SeqRanges>>,
}

impl Notes {
    /// The bus has taken a frame.
    pub(super) fn sent(&self, meeting: MeetingId, seq: i64) {
        note(&mut self.lock(), meeting, SeqRange::one(seq));
    }

    /// What is to be written down. Whoever cannot write it puts it back.
    pub(super) fn take(&self) -> Vec<(MeetingId, SeqRange)> {
        flat(std::mem::take(&mut *self.lock()))
    }

    pub(super) fn put_back(&self, ranges: Vec<(MeetingId, SeqRange)>) {
        let mut sent = self.lock();
        for (meeting, range) in ranges {
            note(&mut sent, meeting, range);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<MeetingId, SeqRanges>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As the store takes them.
fn flat(sent: BTreeMap<MeetingId, SeqRanges>) -> Vec<(MeetingId, SeqRange)> {
    let of_meeting = |(meeting, ranges): (MeetingId, SeqRanges)| {
        ranges.into_iter().map(move |range| (meeting, range))
    };
    sent.into_iter().flat_map(of_meeting).collect()
}

fn note(sent: &mut BTreeMap<MeetingId, SeqRanges>, meeting: MeetingId, range: SeqRange) {
    if sent.len() < MEETINGS_NOTED_MAX || sent.contains_key(&meeting) {
        sent.entry(meeting).or_default().add(range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_sent_leaves_a_hole() {
        let notes = Notes::default();
        let (a, b) = (MeetingId::new(1), MeetingId::new(2));
        for seq in [3, 4, 6, 7] {
            notes.sent(a, seq);
        }
        notes.sent(b, 1);
        let ranges = notes.take();
        let range = SeqRange::new;
        assert_eq!(ranges, [(a, range(3, 4)), (a, range(6, 7)), (b, range(1, 1))]);
        assert_eq!(notes.take(), []);
        // Put back, they join what was noted meanwhile.
        notes.sent(a, 8);
        notes.put_back(ranges);
        assert_eq!(notes.take(), [(a, range(3, 4)), (a, range(6, 8)), (b, range(1, 1))]);
    }

    #[test]
    fn of_more_meetings_than_there_is_room_for_nothing_is_noted() {
        let notes = Notes::default();
        for number in 1..=MEETINGS_NOTED_MAX + 1 {
            notes.sent(MeetingId::new(i64::try_from(number).unwrap()), 1);
        }
        notes.sent(MeetingId::new(1), 2);
        let ranges = notes.take();
        assert_eq!(ranges.len(), MEETINGS_NOTED_MAX);
        assert_eq!(ranges[0], (MeetingId::new(1), SeqRange::new(1, 2)));
    }
}
