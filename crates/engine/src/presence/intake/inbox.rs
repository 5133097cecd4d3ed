//! Events on their way into the inbox.
//!
//! Invariant: what is counted here has a place, in the queue or with its room, until it is stored or
//! dropped; nothing is taken beyond the limits.

use std::collections::VecDeque;
use std::time::Duration;

use roundsman_core::ports::{INBOX_PAYLOAD_BYTES_MAX, InboxOutcome, NewInboxEvent};

use super::Heard;

/// Who sends the events.
const SERVICE: &str = "daily";
/// Names of events and their kinds are cut here.
const WORD_BYTES_MAX: usize = 200;
const REASON_BYTES_MAX: usize = 500;

/// How many may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct InboxLimits {
    pub(super) rows_max: usize,
    pub(super) bytes_max: usize,
}

/// Events that wait to be stored.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    queue: VecDeque<NewInboxEvent>,
    /// When the next batch is stored; later than the first came, so that there is a batch.
    due: Duration,
    /// Of all that have a place.
    rows: usize,
    bytes: usize,
    /// Those that were understood, in the second that has begun.
    taken: (u64, u32),
}

impl Inbox {
    /// Gives an event a place. Those that were understood are wanted least: when half of the places
    /// are taken, the other half is for the others.
    pub(super) fn admit(&mut self, event: &NewInboxEvent, limits: InboxLimits) -> bool {
        let parts = if event.outcome == InboxOutcome::Taken { 2 } else { 1 };
        let bytes = self.bytes + size_of_row(event);
        if self.rows >= limits.rows_max / parts || bytes > limits.bytes_max / parts {
            return false;
        }
        self.rows += 1;
        self.bytes = bytes;
        true
    }

    /// Whether one more that was understood is to be stored. At a high rate a part of them shows
    /// whoever looks what comes, and writing all would cost more than acting on them.
    pub(super) fn wants_taken(&mut self, now: Duration, per_sec_max: u32) -> bool {
        let second = now.as_secs();
        if self.taken.0 != second {
            self.taken = (second, 0);
        }
        self.taken.1 += 1;
        self.taken.1 <= per_sec_max
    }

    /// An event that has a place is to be stored.
    pub(super) fn push(&mut self, event: NewInboxEvent, due: Duration) {
        if self.queue.is_empty() {
            self.due = due;
        }
        self.queue.push_back(event);
    }

    /// Takes events that are due, or whether or not they are.
    pub(super) fn take(&mut self, now: Option<Duration>, rows_max: usize) -> Vec<NewInboxEvent> {
        if now.is_some_and(|now| now < self.due) {
            return Vec::new();
        }
        let rows = self.queue.len().min(rows_max);
        self.queue.drain(..rows).collect()
    }

    /// Events could not be stored; they wait, in front of the others.
    pub(super) fn put_back(&mut self, events: Vec<NewInboxEvent>, due: Duration) {
        self.due = due;
        for event in events.into_iter().rev() {
            self.queue.push_front(event);
        }
    }

    /// Events were stored or dropped: their places are free.
    pub(super) fn free(&mut self, rows: usize, bytes: usize) {
        self.rows -= rows;
        self.bytes -= bytes;
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        (!self.queue.is_empty()).then_some(self.due)
    }

    /// Whether everything was stored or dropped.
    #[cfg(test)]
    pub(super) fn is_free(&self) -> bool {
        (self.queue.len(), self.rows, self.bytes) == (0, 0, 0)
    }
}

pub(super) fn bytes_of(events: &[NewInboxEvent]) -> usize {
    events.iter().map(size_of_row).sum()
}

/// What an event takes in memory, without what becomes of it.
fn size_of_row(event: &NewInboxEvent) -> usize {
    let room = event.room.as_ref().map_or(0, String::len);
    size_of::<NewInboxEvent>() + event.event.len() + event.kind.len() + room + event.payload.len()
}

/// The row of an event, in a form that every database can store.
pub(super) fn row(heard: Heard, outcome: InboxOutcome, reason: Option<&str>) -> NewInboxEvent {
    NewInboxEvent {
        service: SERVICE,
        event: storable(heard.event, WORD_BYTES_MAX),
        kind: storable(heard.kind, WORD_BYTES_MAX),
        room: heard.room.map(|room| storable(room, WORD_BYTES_MAX)),
        outcome,
        reason: reason.map(|reason| storable(reason.to_owned(), REASON_BYTES_MAX)),
        payload: storable(heard.payload, INBOX_PAYLOAD_BYTES_MAX),
    }
}

fn storable(text: String, bytes_max: usize) -> String {
    let mut text = if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text };
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

#[cfg(test)]
mod tests {
    use super::super::Matter;
    use super::*;

    fn event(payload: &str, outcome: InboxOutcome) -> NewInboxEvent {
        let heard = Heard {
            event: "e".to_owned(),
            kind: "k".to_owned(),
            room: None,
            matter: Matter::Taken,
            payload: payload.to_owned(),
        };
        row(heard, outcome, None)
    }

    #[test]
    fn what_was_understood_is_wanted_least() {
        let limits = InboxLimits { rows_max: 4, bytes_max: 1 << 20 };
        let mut inbox = Inbox::default();
        let taken = event("", InboxOutcome::Taken);
        let odd = event("", InboxOutcome::Odd);
        assert!(inbox.admit(&taken, limits) && inbox.admit(&taken, limits));
        assert!(!inbox.admit(&taken, limits), "half of the places are for the others");
        assert!(inbox.admit(&odd, limits) && inbox.admit(&odd, limits));
        assert!(!inbox.admit(&odd, limits));
        inbox.free(4, bytes_of(&[taken.clone(), taken, odd.clone(), odd]));
        assert!(inbox.is_free());
    }

    #[test]
    fn so_many_of_those_that_were_understood_are_stored_in_a_second() {
        let mut inbox = Inbox::default();
        let mut wanted = |millis| inbox.wants_taken(Duration::from_millis(millis), 2);
        assert_eq!(
            [0, 500, 999, 1000, 1001, 1999].map(&mut wanted),
            [true, true, false, true, true, false]
        );
    }

    #[test]
    fn bytes_are_bounded_too() {
        let limits = InboxLimits { rows_max: 100, bytes_max: 10_000 };
        let mut inbox = Inbox::default();
        let long = event(&"x".repeat(6000), InboxOutcome::Odd);
        assert!(inbox.admit(&long, limits) && !inbox.admit(&long, limits));
    }

    #[test]
    fn events_are_stored_together_and_in_order() {
        let mut inbox = Inbox::default();
        let secs = Duration::from_secs;
        for payload in ["1", "2", "3"] {
            inbox.push(event(payload, InboxOutcome::Odd), secs(1));
        }
        assert_eq!(inbox.take(Some(Duration::ZERO), 10), []);
        let first = inbox.take(Some(secs(1)), 2);
        assert_eq!(first.len(), 2);
        inbox.put_back(first, secs(2));
        assert_eq!((inbox.take(Some(secs(1)), 10), inbox.next_due()), (vec![], Some(secs(2))));
        let all = inbox.take(None, 10);
        let payloads: Vec<&str> = all.iter().map(|event| event.payload.as_str()).collect();
        assert_eq!((payloads, inbox.next_due()), (vec!["1", "2", "3"], None));
    }

    #[test]
    fn rows_are_cut_to_what_can_be_stored() {
        let heard = Heard {
            event: "e\0".repeat(200),
            kind: "ü".repeat(200),
            room: Some("r".repeat(999)),
            matter: Matter::Taken,
            payload: format!("x{}", "ü".repeat(INBOX_PAYLOAD_BYTES_MAX)),
        };
        let row = row(heard, InboxOutcome::Odd, Some("\0why"));
        assert!(row.event.starts_with("e\u{fffd}e") && row.event.len() <= WORD_BYTES_MAX);
        assert_eq!(row.kind.len(), WORD_BYTES_MAX);
        assert_eq!(row.room.map(|room| room.len()), Some(WORD_BYTES_MAX));
        assert_eq!(row.payload.len(), INBOX_PAYLOAD_BYTES_MAX - 1);
        assert_eq!(row.reason.as_deref(), Some("\u{fffd}why"));
    }
}
