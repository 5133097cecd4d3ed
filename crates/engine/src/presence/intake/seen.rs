//! Which events came before.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use sha2::{Digest, Sha256};

/// As much of an event's name as is remembered: enough that no two are taken for each other.
pub(super) type EventMark = [u8; 16];

pub(super) fn mark(event: &str) -> EventMark {
    let digest: [u8; 32] = Sha256::digest(event).into();
    let mut mark = EventMark::default();
    mark.copy_from_slice(&digest[..size_of::<EventMark>()]);
    mark
}

/// Events by their marks, the oldest forgotten first.
#[derive(Debug, Default)]
pub(super) struct Seen {
    marks: HashSet<EventMark>,
    /// In the order in which they came, with when.
    order: VecDeque<(Duration, EventMark)>,
}

impl Seen {
    /// Remembers an event. `false` if it came before, no longer ago than `keep`.
    pub(super) fn is_new(
        &mut self,
        mark: EventMark,
        now: Duration,
        keep: Duration,
        events_max: usize,
    ) -> bool {
        while self.order.front().is_some_and(|(at, _)| now.saturating_sub(*at) > keep) {
            self.forget_oldest();
        }
        if self.order.is_empty() {
            // All places at once, and twice as many as needed for those that are freed and taken in
            // turn: to find more while events come is to move all of them, which takes milliseconds.
            self.order.reserve(events_max + 1);
            self.marks.reserve(2 * events_max);
        }
        if !self.marks.insert(mark) {
            return false;
        }
        self.order.push_back((now, mark));
        while self.order.len() > events_max {
            self.forget_oldest();
        }
        true
    }

    fn forget_oldest(&mut self) {
        if let Some((_, mark)) = self.order.pop_front() {
            self.marks.remove(&mark);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn an_event_is_new_once_until_it_is_forgotten() {
        let mut seen = Seen::default();
        let mut is_new =
            |event: &str, secs| seen.is_new(mark(event), Duration::from_secs(secs), HOUR, 3);
        assert!(is_new("a", 0) && is_new("b", 1));
        assert!(!is_new("a", 3600) && !is_new("b", 3600));
        assert!(is_new("a", 3601), "an hour is over");
        assert!(is_new("c", 3602) && is_new("d", 3602) && is_new("e", 3602));
        assert!(is_new("a", 3603), "there is room for three");
        assert!(!is_new("e", 3603));
        assert_eq!((seen.marks.len(), seen.order.len()), (3, 3));
    }

    #[test]
    fn nothing_is_moved_while_events_come() {
        const EVENTS_MAX: usize = 1000;
        let mut seen = Seen::default();
        assert_eq!(seen.marks.capacity(), 0, "who hears nothing needs no places");
        let mut places = BTreeSet::new();
        for number in 0..20 * EVENTS_MAX {
            assert!(seen.is_new(mark(&number.to_string()), HOUR, HOUR, EVENTS_MAX));
            places.insert((seen.order.capacity(), seen.marks.capacity() / EVENTS_MAX));
        }
        assert_eq!(seen.marks.len(), EVENTS_MAX);
        assert_eq!(places.len(), 1, "{places:?}");
    }
}
