//! What becomes of the provider's events.
//!
//! Invariants: hearing an event waits for nothing and writes nothing; of an event that comes several
//! times one is taken; events of one room within a moment become one wish for a look, with all that
//! they tell; everything that waits is bounded. What is lost with the memory of this process, or
//! beyond a limit, the comparison of all rooms finds.

mod heard;
mod inbox;
mod pace;
mod seen;
mod waiting;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::NewJob;
use roundsman_core::ports::{Clock, InboxOutcome, NewInboxEvent, Store, StoreError};
use roundsman_core::presence::{Hint, RoomName, poll_wish};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use self::heard::{HearAnswer, Heard, Matter};
use self::inbox::{Inbox, InboxLimits, bytes_of, row};
use self::pace::Pace;
use self::seen::{Seen, mark};
use self::waiting::{Added, RoomRules, Rooms, Waiting};
use super::PresenceLimits;
use super::work::{PresenceWork, enqueue};
use crate::health::Health;
use crate::wake::rest;

/// How long to wait after the database failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Events for the inbox wait this long for others.
const INBOX_EVERY: Duration = Duration::from_secs(1);
/// The loop shows that it lives at least this often, and sends on at most this often, so that under
/// load what is written is written together.
const IDLE_MAX: Duration = Duration::from_secs(5);
const IDLE_MIN: Duration = Duration::from_millis(20);
/// Steps of the last round, each of which writes many rows.
const FLUSH_STEPS_MAX: usize = 100;

/// Why an event of a room that nobody knows is not taken.
const UNKNOWN_ROOM: &str = "unknown_room";
/// The same for one that does not say which room it is about, or says it wrongly.
const NO_ROOM: &str = "no_room";

/// How events are waited for.
#[derive(Debug, Clone, Copy)]
pub struct IntakeOptions {
    /// A room is looked at when it has been quiet for so long.
    pub quiet: Duration,
    /// And at the latest this long after the first event.
    pub wait_max: Duration,
    /// How long it is remembered that an event came: the provider repeats some after many minutes.
    pub remembered_for: Duration,
}

impl Default for IntakeOptions {
    fn default() -> Self {
        IntakeOptions {
            quiet: Duration::from_secs(1),
            wait_max: Duration::from_secs(3),
            remembered_for: Duration::from_secs(3600),
        }
    }
}

/// Hears events and sends them on. One in each process.
pub struct Intake {
    work: PresenceWork,
    options: IntakeOptions,
    state: Mutex<State>,
    /// Something is due earlier than the loop knows.
    sooner: Notify,
}

struct State {
    seen: Seen,
    rooms: Rooms,
    pace: Pace,
    inbox: Inbox,
}

impl State {
    fn next_due(&self) -> Option<Duration> {
        let may_ask = if self.rooms.is_crowded() { Duration::ZERO } else { self.pace.next_step() };
        let look = self.rooms.next_look().map(|look| look.max(may_ask));
        look.into_iter().chain(self.inbox.next_due()).min()
    }

    /// Takes rooms that are due, as many as may be asked about at once. When most of the places for
    /// rooms are taken, those that come next matter more than the pace.
    fn take_due(&mut self, now: Duration, rooms_max: usize) -> Vec<(RoomName, Waiting)> {
        let in_pace = self.pace.rooms(now);
        let rooms = if self.rooms.is_crowded() { rooms_max } else { in_pace.min(rooms_max) };
        self.rooms.take_due(now, rooms)
    }
}

impl Intake {
    pub fn new(work: &PresenceWork, options: IntakeOptions) -> Arc<Self> {
        let limits = &work.limits;
        let rooms = Rooms::new(RoomRules {
            quiet: options.quiet,
            wait_max: options.wait_max,
            rooms_max: limits.rooms_buffered_max,
            hints_per_room_max: limits.hints_per_room_max,
            hints_max: limits.hints_buffered_max,
        });
        let pace = Pace::new(limits.looks_asked_per_sec_max);
        let state = State { seen: Seen::default(), rooms, pace, inbox: Inbox::default() };
        let (work, state, sooner) = (work.clone(), Mutex::new(state), Notify::new());
        Arc::new(Intake { work, options, state, sooner })
    }

    /// Takes an event, in memory.
    pub fn hear(&self, heard: Heard) -> HearAnswer {
        let answer = self.sort(heard);
        self.work.metrics.presence_event(answer.as_str());
        answer
    }

    /// Sends on what is due: asks for looks, keeps events. What the database does not take waits.
    pub async fn tick(&self) -> Result<(), StoreError> {
        let now = self.clock().monotonic();
        let asked = self.ask_for_looks(Some(now)).await;
        let kept = self.keep_events(Some(now)).await;
        self.work.metrics.presence_rooms_buffered(self.state().rooms.len());
        asked.and(kept)
    }

    /// Sends on everything, due or not: the process goes down.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.ask_for_looks(None).await?;
        self.keep_events(None).await
    }

    /// In how long something is due; `None` if nothing waits.
    pub fn due_in(&self) -> Option<Duration> {
        let now = self.clock().monotonic();
        self.state().next_due().map(|due| due.saturating_sub(now))
    }

    /// Ticks whenever something is due, until `stop`; then flushes.
    pub async fn run(self: Arc<Self>, health: Health, stop: CancellationToken) {
        let pulse = health.register("presence.intake", IDLE_MAX);
        loop {
            match self.tick().await {
                Ok(()) => pulse.beat(),
                Err(error) => {
                    pulse.failed(&error);
                    tracing::warn!(%error, "events wait for the database");
                }
            }
            let wait = self.due_in().unwrap_or(IDLE_MAX).clamp(IDLE_MIN, IDLE_MAX);
            tokio::select! {
                biased;
                () = self.sooner.notified() => {}
                rested = rest(wait, &stop) => if !rested { break },
            }
        }
        if let Err(error) = self.flush().await {
            tracing::warn!(%error, "events were not sent on; the next comparison finds what they say");
        }
    }

    fn sort(&self, mut heard: Heard) -> HearAnswer {
        let mark = mark(&heard.event);
        let (now, limits) = (self.clock().monotonic(), self.limits());
        let matter = std::mem::replace(&mut heard.matter, Matter::Taken);
        let mut state = self.state();
        let is_new = {
            let (keep, events_max) = (self.options.remembered_for, limits.events_remembered_max);
            state.seen.is_new(mark, now, keep, events_max)
        };
        if !is_new {
            return HearAnswer::Repeated;
        }
        let due_before = state.next_due();
        let answer = match matter {
            Matter::Look(hint) => self.buffer(&mut state, heard, hint, now),
            Matter::Taken => {
                self.note(&mut state, heard, InboxOutcome::Taken, None, now);
                HearAnswer::Taken
            }
            Matter::Ignored { reason } => {
                self.note(&mut state, heard, InboxOutcome::Ignored, Some(reason), now);
                HearAnswer::Ignored
            }
            Matter::Odd { reason } => {
                self.note(&mut state, heard, InboxOutcome::Odd, Some(&reason), now);
                HearAnswer::Odd
            }
        };
        let due = state.next_due();
        if due.is_some_and(|due| due_before.is_none_or(|before| due < before)) {
            self.sooner.notify_one();
        }
        answer
    }

    /// The event waits for others of its room.
    fn buffer(&self, state: &mut State, heard: Heard, hint: Hint, now: Duration) -> HearAnswer {
        let Some(room) = heard.room.as_deref().and_then(|room| RoomName::new(room).ok()) else {
            self.note(state, heard, InboxOutcome::Odd, Some(NO_ROOM), now);
            return HearAnswer::Odd;
        };
        let hint = Hint { event: plain(&hint.event), ..hint.sound() };
        // Whether somebody knows its room is only known later.
        let row = row(heard, InboxOutcome::Taken, None);
        let row = state.inbox.admit(&row, self.inbox_limits()).then_some(row);
        if row.is_none() {
            self.work.metrics.limit_hit("presence_inbox");
        }
        let bytes = row.as_ref().map(|row| bytes_of(std::slice::from_ref(row)));
        match state.rooms.add(room, hint, row, now) {
            Added::Waits => HearAnswer::Taken,
            Added::RoomsFull => {
                if let Some(bytes) = bytes {
                    state.inbox.free(1, bytes);
                }
                self.work.metrics.limit_hit("presence_rooms");
                HearAnswer::Full
            }
        }
    }

    /// The event is only kept.
    fn note(
        &self,
        state: &mut State,
        heard: Heard,
        outcome: InboxOutcome,
        reason: Option<&str>,
        now: Duration,
    ) {
        let row = row(heard, outcome, reason);
        if state.inbox.admit(&row, self.inbox_limits()) {
            state.inbox.push(row, now + INBOX_EVERY);
        } else {
            self.work.metrics.limit_hit("presence_inbox");
        }
    }

    /// Asks for looks at the rooms that are due at `now`, or at all.
    async fn ask_for_looks(&self, now: Option<Duration>) -> Result<(), StoreError> {
        let rows_max = self.limits().rows_per_step_max;
        for _ in 0..FLUSH_STEPS_MAX {
            let due = match now {
                Some(now) => self.state().take_due(now, rows_max),
                None => self.state().rooms.take_any(rows_max),
            };
            if due.is_empty() {
                break;
            }
            let meetings = match self.ask(&due).await {
                Ok(meetings) => meetings,
                Err(error) if error.is_transient() => {
                    let not_before = self.clock().monotonic() + RETRY_AFTER;
                    self.state().rooms.put_back(due, not_before);
                    return Err(error);
                }
                Err(error) => {
                    // Trying again will not help, and the comparison finds what they say.
                    tracing::error!(%error, rooms = due.len(), "looks cannot be asked for");
                    self.drop_events(&due);
                    continue;
                }
            };
            self.resolve(due, &meetings);
        }
        Ok(())
    }

    /// Finds the meetings of rooms and asks for looks at those that have one.
    async fn ask(&self, due: &[(RoomName, Waiting)]) -> Result<Vec<Option<MeetingId>>, StoreError> {
        let store: &Arc<dyn Store> = &self.work.store;
        let rooms = due.iter().map(|(room, _)| room.clone()).collect();
        let meetings = store.meetings_of_rooms(rooms).await?;
        let now = self.clock().now();
        let wish = |(meeting, (_, waiting)): (&Option<MeetingId>, &(RoomName, Waiting))| {
            Some(poll_wish((*meeting)?, &waiting.told(), now))
        };
        let wishes: Vec<NewJob> = meetings.iter().zip(due).filter_map(wish).collect();
        enqueue(&self.work, wishes).await?;
        Ok(meetings)
    }

    /// It is known what became of events: they are kept with it.
    fn resolve(&self, rooms: Vec<(RoomName, Waiting)>, meetings: &[Option<MeetingId>]) {
        let now = self.clock().monotonic();
        let (due, per_sec_max) = (now + INBOX_EVERY, self.limits().inbox_taken_per_sec_max);
        let mut state = self.state();
        // A room that nobody knows costs a look into the database, and nothing else.
        state.pace.spend(meetings.iter().flatten().count());
        for ((_, waiting), meeting) in rooms.into_iter().zip(meetings) {
            let is_known = meeting.is_some();
            if !is_known {
                self.work.metrics.presence_unknown_room(waiting.hints.len());
            }
            for event in waiting.events {
                if is_known && !state.inbox.wants_taken(now, per_sec_max) {
                    state.inbox.free(1, bytes_of(std::slice::from_ref(&event)));
                    self.work.metrics.limit_hit("presence_inbox_taken");
                } else if is_known {
                    state.inbox.push(event, due);
                } else {
                    let (outcome, reason) = (InboxOutcome::Ignored, Some(UNKNOWN_ROOM.to_owned()));
                    state.inbox.push(NewInboxEvent { outcome, reason, ..event }, due);
                }
            }
        }
    }

    fn drop_events(&self, rooms: &[(RoomName, Waiting)]) {
        self.work.metrics.limit_hit("presence_refused");
        let mut state = self.state();
        for (_, waiting) in rooms {
            state.inbox.free(waiting.events.len(), bytes_of(&waiting.events));
        }
    }

    /// Stores events that are due at `now`, or all.
    async fn keep_events(&self, now: Option<Duration>) -> Result<(), StoreError> {
        for _ in 0..FLUSH_STEPS_MAX {
            let events = self.state().inbox.take(now, self.limits().rows_per_step_max);
            if events.is_empty() {
                break;
            }
            let (rows, bytes) = (events.len(), bytes_of(&events));
            match self.work.store.keep_inbox(events.clone(), self.clock().now()).await {
                Ok(_) => {}
                Err(error) if error.is_transient() => {
                    let due = self.clock().monotonic() + RETRY_AFTER;
                    self.state().inbox.put_back(events, due);
                    return Err(error);
                }
                Err(error) => {
                    tracing::error!(%error, rows, "events cannot be kept");
                    self.work.metrics.limit_hit("presence_refused");
                }
            }
            self.state().inbox.free(rows, bytes);
        }
        Ok(())
    }

    fn inbox_limits(&self) -> InboxLimits {
        let limits = self.limits();
        InboxLimits {
            rows_max: limits.inbox_queued_rows_max,
            bytes_max: limits.inbox_queued_bytes_max,
        }
    }

    fn limits(&self) -> &PresenceLimits {
        &self.work.limits
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.work.clock
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Intake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Intake").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The name of an event as a hint may carry it.
fn plain(event: &str) -> String {
    const EVENT_CHARS_MAX: usize = 200;
    event.chars().filter(|c| !c.is_control()).take(EVENT_CHARS_MAX).collect()
}
