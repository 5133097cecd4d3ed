//! Compares what the provider says of all its rooms with the record, and asks for a look at those
//! that differ: a periodic job, so that one node does it at a time.
//!
//! Invariants: all open meetings are compared, whatever is known about them; nothing is written but
//! wishes for looks, because the answer is older than it seems. If there is no answer, every room is
//! looked at by itself, in turn and no faster than the provider allows, so that those that differ do
//! not stand behind thousands that do not once there is one again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{Json, KindSpec, NewJob, Outcome, RetryPolicy};
use roundsman_core::ports::{OpenPresence, RoomsError, StoreError};
use roundsman_core::presence::{DomainLook, RECONCILE_KIND, RoomName, poll_wish};

use super::work::{PresenceWork, enqueue, storage_failed};
use crate::jobs::{Handler, HandlerResult, JobContext, periodic_spec};

/// Meetings read, and wishes written, with one statement.
const ROWS_PER_STEP_MAX: u32 = 1000;
/// A provider that asks for patience without saying for how long gets this much: it wants to be asked
/// about all rooms no more often than that.
const PATIENCE: Duration = Duration::from_secs(15);
/// Looks that a round asks for when nothing is known about any room. They are answered before the
/// next round, and leave some of the provider's limit to events.
const BLIND_LOOKS_MAX: u32 = 500;
/// What a look takes when there are many: the provider allows 20 a second, and reading and comparing
/// takes time too.
const LOOK_TAKES: Duration = Duration::from_millis(60);
/// Of so many open meetings one is expected to differ.
const ONE_DIFFERS_OF: usize = 100;
/// A room that is known to differ goes before those of which nothing is known, and after those of
/// which an event told.
const DIFFERS_PRIORITY: i16 = 5;

/// The policy of the job.
pub fn reconcile_spec() -> KindSpec {
    KindSpec {
        deadline: Some(Duration::from_secs(120)),
        retry: RetryPolicy { base: Duration::from_secs(1), cap: Duration::from_secs(15) },
        ..periodic_spec(RECONCILE_KIND)
    }
}

/// What one round came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Meetings that were compared.
    pub open: usize,
    /// Looks that were asked for.
    pub looks: usize,
    /// Of those, at meetings that are taken for over.
    pub over: usize,
    /// The provider said who is where.
    pub answered: bool,
    /// The provider asks not to be asked for so long.
    pub patience: Option<Duration>,
    /// The last meeting that was looked at because nothing was known; others are next.
    pub blind_until: Option<MeetingId>,
}

impl Reconciled {
    /// How long to wait for the next round. What it finds is to be in the record `every` after it could
    /// be seen, so it begins earlier by what the looks are expected to take.
    fn wait(&self, every: Duration) -> Duration {
        if let Some(patience) = self.patience {
            return patience.min(every);
        }
        // Rooms of which nothing is known are looked at at their own pace.
        if !self.answered {
            return every;
        }
        let looks = self.looks.max(self.open / ONE_DIFFERS_OF);
        let looks_take = LOOK_TAKES.saturating_mul(u32::try_from(looks).unwrap_or(u32::MAX));
        every.saturating_sub(Duration::from_secs(looks_take.as_secs()).min(every / 2))
    }
}

/// The comparison and what it needs.
#[derive(Debug)]
pub struct Reconciler {
    work: PresenceWork,
    every: Duration,
}

impl Reconciler {
    pub(super) fn new(work: &PresenceWork, every: Duration) -> Self {
        Reconciler { work: work.clone(), every }
    }

    /// The handler of the job.
    pub fn handler(self) -> Arc<dyn Handler> {
        Arc::new(ReconcileHandler(self))
    }

    /// One round.
    pub async fn tick(&self) -> Result<Reconciled, StoreError> {
        self.round(None).await
    }

    /// The same; `blind_after` is where the last one ended if it knew nothing.
    async fn round(&self, blind_after: Option<MeetingId>) -> Result<Reconciled, StoreError> {
        let PresenceWork { rooms, clock, metrics, store, .. } = &self.work;
        let began_at = clock.now();
        let domain = match rooms.domain_presence().await {
            Ok(domain) => domain,
            Err(RoomsError::RateLimited { after }) => {
                metrics.presence_domain_look("rate_limited");
                // Asking about each room would make it worse.
                let patience = Some(after.unwrap_or(PATIENCE));
                let blind_until = blind_after;
                return Ok(Reconciled { patience, blind_until, ..Reconciled::default() });
            }
            // Nobody could be asked about a room either.
            Err(RoomsError::NotConfigured) => return Ok(Reconciled::default()),
            Err(error) => {
                metrics.presence_domain_look("failed");
                tracing::warn!(%error, "every room is looked at by itself");
                return self.ask_about_some(blind_after).await;
            }
        };
        let mut round = self.compare(&domain).await?;
        metrics.presence_domain_look("seen");
        round.answered = true;
        store.note_domain_look(began_at).await?;
        metrics.presence_differing(round.looks);
        Ok(round)
    }

    /// Asks for a look at every meeting that differs: open ones, and those that are taken for over
    /// although people are in their rooms.
    async fn compare(&self, domain: &DomainLook) -> Result<Reconciled, StoreError> {
        let peopled = domain.rooms.iter().filter(|(_, people)| !people.is_empty());
        let mut others: BTreeSet<&str> = peopled.map(|(room, _)| room.as_str()).collect();
        let mut round = self
            .ask_about_open(|open| {
                others.remove(open.room.as_str());
                domain.differs(open.room.as_str(), &open.open)
            })
            .await?;
        round.over = self.ask_about_over(others).await?;
        round.looks += round.over;
        Ok(round)
    }

    /// Nothing is known, and every open meeting may differ: asks about those whose turn it is.
    async fn ask_about_some(&self, after: Option<MeetingId>) -> Result<Reconciled, StoreError> {
        let store = &self.work.store;
        let mut page = store.open_presences(after, BLIND_LOOKS_MAX).await?;
        // All have had their turn.
        if page.is_empty() && after.is_some() {
            page = store.open_presences(None, BLIND_LOOKS_MAX).await?;
        }
        let is_end = page.len() < BLIND_LOOKS_MAX as usize;
        let blind_until = page.last().map(|open| open.meeting_id).filter(|_| !is_end);
        let looks = page.len();
        self.ask(page.into_iter().map(|open| open.meeting_id), 0).await?;
        Ok(Reconciled { open: looks, looks, blind_until, ..Reconciled::default() })
    }

    async fn ask_about_open(
        &self,
        mut differs: impl FnMut(&OpenPresence) -> bool + Send,
    ) -> Result<Reconciled, StoreError> {
        let mut round = Reconciled::default();
        let mut after = None;
        loop {
            let mut page = self.work.store.open_presences(after, ROWS_PER_STEP_MAX).await?;
            let count = page.len();
            after = page.last().map(|open| open.meeting_id);
            page.retain(&mut differs);
            round.open += count;
            round.looks += page.len();
            self.ask(page.into_iter().map(|open| open.meeting_id), DIFFERS_PRIORITY).await?;
            if count < ROWS_PER_STEP_MAX as usize {
                return Ok(round);
            }
        }
    }

    /// Asks for looks at the meetings of rooms in which no meeting is open. Returns how many there
    /// are: others use the domain too.
    async fn ask_about_over(&self, rooms: BTreeSet<&str>) -> Result<usize, StoreError> {
        let rooms: Vec<RoomName> =
            rooms.into_iter().filter_map(|room| RoomName::new(room).ok()).collect();
        let mut asked = 0;
        for step in rooms.chunks(ROWS_PER_STEP_MAX as usize) {
            let meetings = self.work.store.meetings_of_rooms(step.to_vec()).await?;
            let meetings: Vec<MeetingId> = meetings.into_iter().flatten().collect();
            asked += meetings.len();
            self.ask(meetings, DIFFERS_PRIORITY).await?;
        }
        Ok(asked)
    }

    async fn ask(
        &self,
        meetings: impl IntoIterator<Item = MeetingId>,
        priority: i16,
    ) -> Result<(), StoreError> {
        let now = self.work.clock.now();
        let wish = |id| NewJob { priority, ..poll_wish(id, &[], now) };
        enqueue(&self.work, meetings.into_iter().map(wish).collect()).await
    }
}

struct ReconcileHandler(Reconciler);

#[async_trait]
impl Handler for ReconcileHandler {
    fn spec(&self) -> KindSpec {
        reconcile_spec()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let Reconciler { work, every } = &self.0;
        let began_at = work.clock.now();
        let blind_after = context.job.payload.to_value().as_i64().map(MeetingId::new);
        match self.0.round(blind_after).await {
            Ok(round) => {
                // No jitter: one node asks, and whoever waits for a lost event waits for this.
                let wait = round.wait(*every);
                let until = round.blind_until.map(|id| Json::from_stored(id.to_string()));
                let payload = Some(until.unwrap_or_else(Json::null));
                Outcome::Again { at: began_at + wait, payload }.into()
            }
            Err(error) => storage_failed(&error).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_round_begins_earlier_by_what_its_looks_take() {
        let every = Duration::from_secs(30);
        let wait = |open, looks| {
            let round = Reconciled { open, looks, answered: true, ..Reconciled::default() };
            round.wait(every).as_secs()
        };
        assert_eq!((wait(100, 0), wait(100, 10)), (30, 30));
        assert_eq!((wait(10_000, 0), wait(10_000, 50), wait(10_000, 200)), (24, 24, 18));
        assert_eq!(wait(10_000, 10_000), 15, "no more often than the provider wants to be asked");
        let blind = Reconciled { open: 500, looks: 500, ..Reconciled::default() };
        assert_eq!(blind.wait(every), every);
    }

    #[test]
    fn patience_is_never_longer_than_a_round() {
        let every = Duration::from_secs(30);
        let wait = |secs| {
            let patience = Some(Duration::from_secs(secs));
            Reconciled { patience, open: 10_000, ..Reconciled::default() }.wait(every).as_secs()
        };
        assert_eq!((wait(5), wait(90)), (5, 30));
    }
}
