//! Events that wait until their room has been quiet for a moment.
//!
//! Invariant: a room that waits is in the queue once, at or before the time at which it is due.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roundsman_core::ports::NewInboxEvent;
use roundsman_core::presence::{Hint, RoomName};

/// How long events of a room wait for each other, and how many may.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoomRules {
    /// After the last of them.
    pub(super) quiet: Duration,
    /// After the first of them.
    pub(super) wait_max: Duration,
    pub(super) rooms_max: usize,
    pub(super) hints_per_room_max: usize,
    pub(super) hints_max: usize,
}

/// What waits about one room.
#[derive(Debug)]
pub(super) struct Waiting {
    first: Duration,
    last: Duration,
    /// Until when it waits because the database is away.
    not_before: Duration,
    pub(super) hints: Vec<Hint>,
    /// Of those for which there is no place: that somebody asks for a look, and when last.
    surplus: Option<Hint>,
    /// The events as they came, to be kept when it is known what became of them.
    pub(super) events: Vec<NewInboxEvent>,
}

impl Waiting {
    fn since(now: Duration) -> Self {
        Waiting {
            first: now,
            last: now,
            not_before: Duration::ZERO,
            hints: Vec::new(),
            surplus: None,
            events: Vec::new(),
        }
    }

    fn due(&self, rules: &RoomRules) -> Duration {
        (self.last + rules.quiet).min(self.first + rules.wait_max).max(self.not_before)
    }

    /// Everything that the look should know.
    pub(super) fn told(&self) -> Vec<Hint> {
        self.hints.iter().chain(&self.surplus).cloned().collect()
    }
}

/// All rooms that wait.
#[derive(Debug)]
pub(super) struct Rooms {
    rules: RoomRules,
    waiting: BTreeMap<RoomName, Waiting>,
    /// When to look at which room whether it is due. A further event only moves that later, which is
    /// seen then: most events find their room here and cost no more than a push.
    queue: BTreeSet<(Duration, RoomName)>,
    hints: usize,
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    Waits,
    /// There is no place for another room.
    RoomsFull,
}

impl Rooms {
    pub(super) fn new(rules: RoomRules) -> Self {
        Rooms { rules, waiting: BTreeMap::new(), queue: BTreeSet::new(), hints: 0 }
    }

    pub(super) fn add(
        &mut self,
        room: RoomName,
        hint: Hint,
        event: Option<NewInboxEvent>,
        now: Duration,
    ) -> Added {
        let is_full = self.waiting.len() >= self.rules.rooms_max;
        let waiting = match self.waiting.entry(room) {
            Entry::Occupied(waiting) => waiting.into_mut(),
            Entry::Vacant(_) if is_full => return Added::RoomsFull,
            Entry::Vacant(place) => {
                let waiting = Waiting::since(now);
                self.queue.insert((waiting.due(&self.rules), place.key().clone()));
                place.insert(waiting)
            }
        };
        waiting.last = now;
        waiting.events.extend(event);
        let has_place = waiting.hints.len() < self.rules.hints_per_room_max;
        if has_place && self.hints < self.rules.hints_max {
            waiting.hints.push(hint);
            self.hints += 1;
        } else {
            waiting.surplus = Some(Hint::look(&hint.event, hint.heard_at));
        }
        Added::Waits
    }

    /// Takes rooms that are due, those that have waited longest first.
    pub(super) fn take_due(&mut self, now: Duration, rooms_max: usize) -> Vec<(RoomName, Waiting)> {
        let mut taken = Vec::new();
        while taken.len() < rooms_max
            && let Some((at, room)) = self.queue.pop_first()
        {
            if at > now {
                self.queue.insert((at, room));
                break;
            }
            match self.waiting.get(&room).map(|waiting| waiting.due(&self.rules)) {
                // Somebody came meanwhile.
                Some(due) if due > now => {
                    self.queue.insert((due, room));
                }
                Some(_) => taken.extend(self.take(room)),
                None => {}
            }
        }
        taken
    }

    /// Takes rooms whether or not they are due.
    pub(super) fn take_any(&mut self, rooms_max: usize) -> Vec<(RoomName, Waiting)> {
        let mut taken = Vec::new();
        while taken.len() < rooms_max
            && let Some((_, room)) = self.queue.pop_first()
        {
            taken.extend(self.take(room));
        }
        taken
    }

    /// Rooms that could not be sent on wait until then, together with what came meanwhile. They had a
    /// place and get it back, even if others have taken it meanwhile.
    pub(super) fn put_back(&mut self, rooms: Vec<(RoomName, Waiting)>, not_before: Duration) {
        for (room, mut old) in rooms {
            self.hints += old.hints.len();
            if let Some(newer) = self.waiting.remove(&room) {
                let places = self.rules.hints_per_room_max.saturating_sub(old.hints.len());
                let mut hints = newer.hints.into_iter();
                old.hints.extend(hints.by_ref().take(places));
                let dropped = hints.len();
                let last_dropped = hints.last().map(|hint| Hint::look(&hint.event, hint.heard_at));
                self.hints -= dropped;
                old.surplus = newer.surplus.or(last_dropped).or(old.surplus);
                old.events.extend(newer.events);
                old.last = newer.last;
            }
            old.not_before = not_before;
            self.queue.insert((not_before, room.clone()));
            self.waiting.insert(room, old);
        }
    }

    /// When there may be something to do.
    pub(super) fn next_look(&self) -> Option<Duration> {
        self.queue.first().map(|(at, _)| *at)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether rooms that come next might soon find no place.
    pub(super) fn is_crowded(&self) -> bool {
        self.waiting.len() > self.rules.rooms_max - self.rules.rooms_max / 4
    }

    fn take(&mut self, room: RoomName) -> Option<(RoomName, Waiting)> {
        let waiting = self.waiting.remove(&room)?;
        self.hints -= waiting.hints.len();
        Some((room, waiting))
    }
}

#[cfg(test)]
mod tests {
    use roundsman_core::Timestamp;

    use super::*;

    const RULES: RoomRules = RoomRules {
        quiet: Duration::from_secs(1),
        wait_max: Duration::from_secs(3),
        rooms_max: 3,
        hints_per_room_max: 4,
        hints_max: 6,
    };

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn room(name: &str) -> RoomName {
        RoomName::new(name).unwrap()
    }

    fn hear(rooms: &mut Rooms, name: &str, event: &str, at: u64) -> Added {
        let heard_at = Timestamp::EPOCH + millis(at);
        rooms.add(room(name), Hint::look(event, heard_at), None, millis(at))
    }

    /// The rooms that are due, with their events.
    fn due(rooms: &mut Rooms, at: u64) -> Vec<(String, Vec<String>)> {
        let shown = |(room, waiting): (RoomName, Waiting)| {
            let events = waiting.told().into_iter().map(|hint| hint.event).collect();
            (room.as_str().to_owned(), events)
        };
        rooms.take_due(millis(at), 10).into_iter().map(shown).collect()
    }

    fn one(name: &str, events: &[&str]) -> Vec<(String, Vec<String>)> {
        vec![(name.to_owned(), events.iter().map(ToString::to_string).collect())]
    }

    #[test]
    fn a_room_is_due_a_second_after_its_last_event() {
        let mut rooms = Rooms::new(RULES);
        for (event, at) in [("a", 0), ("b", 500), ("c", 1300)] {
            assert_eq!(due(&mut rooms, at), []);
            hear(&mut rooms, "r", event, at);
        }
        assert_eq!(due(&mut rooms, 2299), []);
        assert_eq!(rooms.next_look(), Some(millis(2300)));
        assert_eq!(due(&mut rooms, 2300), one("r", &["a", "b", "c"]));
        assert_eq!((rooms.next_look(), rooms.len(), rooms.hints), (None, 0, 0));
    }

    #[test]
    fn a_room_that_is_never_quiet_is_due_after_three_seconds() {
        let mut rooms = Rooms::new(RULES);
        for event in 0..6 {
            hear(&mut rooms, "r", &event.to_string(), event * 500);
            assert_eq!(due(&mut rooms, event * 500), []);
        }
        assert_eq!(due(&mut rooms, 2999), []);
        // There were places for four; the last one says until when to look.
        assert_eq!(due(&mut rooms, 3000), one("r", &["0", "1", "2", "3", "5"]));
    }

    #[test]
    fn places_are_bounded() {
        let mut rooms = Rooms::new(RULES);
        for name in ["a", "b", "c"] {
            for event in 0..3 {
                assert_eq!(hear(&mut rooms, name, &format!("{name}{event}"), 0), Added::Waits);
            }
        }
        assert_eq!(hear(&mut rooms, "d", "d", 0), Added::RoomsFull);
        let all = due(&mut rooms, 1000);
        assert_eq!(all[2], one("c", &["c2"])[0], "a look is asked for all the same");
        assert_eq!((all.len(), rooms.hints), (3, 0));
    }

    #[test]
    fn what_could_not_be_sent_on_waits_with_what_came_meanwhile() {
        let mut rooms = Rooms::new(RULES);
        for event in ["a", "b", "c"] {
            hear(&mut rooms, "r", event, 0);
        }
        let taken = rooms.take_due(millis(1000), 10);
        hear(&mut rooms, "r", "d", 1100);
        hear(&mut rooms, "r", "e", 1200);
        rooms.put_back(taken, millis(2500));
        assert_eq!((rooms.len(), rooms.hints), (1, 4));
        assert_eq!(due(&mut rooms, 2499), []);
        assert_eq!(due(&mut rooms, 2500), one("r", &["a", "b", "c", "d", "e"]));
        assert_eq!((rooms.hints, rooms.next_look()), (0, None));
    }
}
