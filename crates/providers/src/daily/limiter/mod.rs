//! Who may ask next. Calls stand in lines, one for each urgency; only the first of each line waits
//! for time to pass, so that ten thousand cost no more than two.
//!
//! Invariants:
//! - Within a line, who came first goes first. Events go before the timer's calls, but not for ever:
//!   after [`EVENTS_IN_ROW_MAX`] of them one of the others goes.
//! - Nobody waits longer than they were told, and a line has an end.

mod budget;

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roundsman_core::ports::{Clock, RoomsError, Urgency};
use tokio::sync::Notify;

use super::DailyLimits;
use crate::wait;
use budget::Budget;

/// So many events before a call of the timer's has its turn.
const EVENTS_IN_ROW_MAX: u32 = 15;

/// How dear a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Most,
    /// Lists of recordings, and deletions of rooms.
    Scarce,
}

pub(super) struct Limiter {
    clock: Arc<dyn Clock>,
    limits: DailyLimits,
    state: Mutex<State>,
    lines: [[tokio::sync::Mutex<()>; 2]; 2],
    /// Somebody has left a line, or time has passed.
    moved: Notify,
}

struct State {
    budget: Budget,
    queues: [Queue; 2],
}

/// The two lines of one class.
#[derive(Default)]
struct Queue {
    waiting: [usize; 2],
    events_in_row: u32,
}

/// The right to send one request.
#[derive(Debug)]
pub(super) struct Ticket {
    sent_at: Duration,
}

enum Turn {
    Mine(Ticket),
    In(Duration),
}

impl Limiter {
    pub(super) fn new(limits: DailyLimits, clock: Arc<dyn Clock>) -> Self {
        let budget = Budget::new(&limits);
        let state = Mutex::new(State { budget, queues: Default::default() });
        Limiter { clock, limits, state, lines: Default::default(), moved: Notify::new() }
    }

    /// Waits for the turn to send one request.
    pub(super) async fn enter(&self, class: Class, urgency: Urgency) -> Result<Ticket, RoomsError> {
        let until = self.clock.monotonic() + self.limits.wait_max;
        let _place = self.stand_in_line(class, urgency)?;
        let _first = self.lines[class.index()][index(urgency)].lock().await;
        loop {
            let mut moved = pin!(self.moved.notified());
            moved.as_mut().enable();
            match self.look(class, urgency, until)? {
                Turn::Mine(ticket) => return Ok(ticket),
                Turn::In(time) => tokio::select! {
                    () = moved => {}
                    () = wait::rest(time) => {}
                },
            }
        }
    }

    /// The provider refused a request because there were too many.
    pub(super) fn refused(&self, ticket: &Ticket, asked: Option<Duration>) {
        let now = self.clock.monotonic();
        let pause = self.state().budget.refused(ticket.sent_at, now, asked);
        tracing::warn!(?pause, "Daily asks for patience");
        self.moved.notify_waiters();
    }

    /// The provider did anything else.
    pub(super) fn answered(&self, ticket: &Ticket) {
        self.state().budget.answered(ticket.sent_at);
    }

    /// Time has passed without anybody having slept.
    pub(super) fn recheck(&self) {
        self.moved.notify_waiters();
    }

    pub(super) fn waiting(&self) -> usize {
        self.state().queues.iter().flat_map(|queue| queue.waiting).sum()
    }

    fn stand_in_line(&self, class: Class, urgency: Urgency) -> Result<Place<'_>, RoomsError> {
        let mut state = self.state();
        let now = self.clock.monotonic();
        self.check_pause(&state, now)?;
        let waiting = &mut state.queues[class.index()].waiting[index(urgency)];
        if *waiting >= self.limits.queued_max {
            let longest = self.limits.most.iter().map(|rate| rate.within).max();
            return Err(RoomsError::RateLimited { after: longest });
        }
        *waiting += 1;
        Ok(Place { limiter: self, class, urgency })
    }

    /// Asked by the first of a line.
    fn look(&self, class: Class, urgency: Urgency, until: Duration) -> Result<Turn, RoomsError> {
        let mut state = self.state();
        let now = self.clock.monotonic();
        self.check_pause(&state, now)?;
        let free_at = state.budget.free_at(class);
        if now >= until {
            return Err(RoomsError::RateLimited { after: Some(free_at.saturating_sub(now)) });
        }
        let queue = &mut state.queues[class.index()];
        if queue.next() != urgency {
            // The other one says when it has gone.
            return Ok(Turn::In(until.saturating_sub(now)));
        }
        if free_at > now {
            return Ok(Turn::In(free_at.min(until).saturating_sub(now)));
        }
        queue.has_gone(urgency);
        state.budget.spend(class, now);
        Ok(Turn::Mine(Ticket { sent_at: now }))
    }

    /// Nobody is kept for a silence that lasts longer than they may wait.
    fn check_pause(&self, state: &State, now: Duration) -> Result<(), RoomsError> {
        let pause = state.budget.paused_until().saturating_sub(now);
        if pause > self.limits.wait_max {
            return Err(RoomsError::RateLimited { after: Some(pause) });
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Whose turn it is.
    fn next(&self) -> Urgency {
        let [routine, events] = self.waiting;
        let is_fair = routine == 0 || self.events_in_row < EVENTS_IN_ROW_MAX;
        if events > 0 && is_fair { Urgency::Event } else { Urgency::Routine }
    }

    fn has_gone(&mut self, urgency: Urgency) {
        self.events_in_row = match urgency {
            Urgency::Routine => 0,
            Urgency::Event => self.events_in_row.saturating_add(1),
        };
    }
}

impl Class {
    fn index(self) -> usize {
        match self {
            Class::Most => 0,
            Class::Scarce => 1,
        }
    }
}

fn index(urgency: Urgency) -> usize {
    match urgency {
        Urgency::Routine => 0,
        Urgency::Event => 1,
    }
}

/// A place in a line; also given up by who stops waiting.
struct Place<'a> {
    limiter: &'a Limiter,
    class: Class,
    urgency: Urgency,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.state();
        let waiting = &mut state.queues[self.class.index()].waiting[index(self.urgency)];
        *waiting = waiting.saturating_sub(1);
        drop(state);
        self.limiter.moved.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
