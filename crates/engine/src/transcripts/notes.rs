//! Which frames were handed to the bus: written down now and then, so that what a crash has kept from
//! the bus is found and published after it.
//!
//! Invariant: what is noted of a meeting covers everything before it, so nothing is noted past a
//! frame that the bus did not take; the relay finds that one, publishes it again and notes it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::Clock;

/// Meetings of which something is noted or has failed. Of further ones nothing is noted: their
/// frames are published again, which is late but right.
const MEETINGS_NOTED_MAX: usize = 10_000;
/// Long enough for the relay to have found what failed.
const FAILED_FOR: Duration = Duration::from_secs(60);

pub(super) struct Notes {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    published: BTreeMap<MeetingId, i64>,
    /// When the bus last refused a frame of the meeting, by the monotonic clock.
    failed: BTreeMap<MeetingId, Duration>,
    /// When it did so for a meeting that there is no room for.
    others_failed: Option<Duration>,
}

impl Notes {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Notes { clock, state: Mutex::default() }
    }

    /// The bus has taken a frame.
    pub(super) fn sent(&self, meeting: MeetingId, seq: i64) {
        let mut state = self.state();
        let State { published, failed, others_failed } = &mut *state;
        let room = published.len() < MEETINGS_NOTED_MAX || published.contains_key(&meeting);
        if room && others_failed.is_none() && !failed.contains_key(&meeting) {
            let last = published.entry(meeting).or_insert(seq);
            *last = seq.max(*last);
        }
    }

    /// The bus has not taken a frame.
    pub(super) fn failed(&self, meeting: MeetingId) {
        let now = self.clock.monotonic();
        let mut state = self.state();
        if state.failed.len() < MEETINGS_NOTED_MAX || state.failed.contains_key(&meeting) {
            state.failed.insert(meeting, now);
        } else {
            state.others_failed = Some(now);
        }
    }

    /// What is to be written down. Whoever cannot write it puts it back.
    pub(super) fn take(&self) -> Vec<(MeetingId, i64)> {
        let now = self.clock.monotonic();
        let over = |at: Duration| now.saturating_sub(at) >= FAILED_FOR;
        let mut state = self.state();
        state.failed.retain(|_, at| !over(*at));
        state.others_failed = state.others_failed.filter(|at| !over(*at));
        std::mem::take(&mut state.published).into_iter().collect()
    }

    pub(super) fn put_back(&self, places: Vec<(MeetingId, i64)>) {
        let mut state = self.state();
        for (meeting, seq) in places {
            let last = state.published.entry(meeting).or_insert(seq);
            *last = seq.max(*last);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use roundsman_testkit::ManualClock;

    use super::*;

    #[test]
    fn nothing_is_noted_past_a_frame_that_was_not_sent() {
        let clock = Arc::new(ManualClock::default());
        let notes = Notes::new(clock.clone());
        let (a, b) = (MeetingId::new(1), MeetingId::new(2));
        notes.sent(a, 3);
        notes.sent(a, 4);
        notes.failed(a);
        notes.sent(a, 6);
        notes.sent(b, 1);
        let places = notes.take();
        assert_eq!(places, [(a, 4), (b, 1)]);
        notes.put_back(places.clone());
        assert_eq!(notes.take(), places);
        clock.advance(FAILED_FOR);
        notes.sent(a, 7);
        assert_eq!(notes.take(), [], "forgotten only now, after the relay had its time");
        notes.sent(a, 8);
        assert_eq!(notes.take(), [(a, 8)]);
    }
}
