//! Meetings and their bots: one file per group of operations, and what several of them share.
//!
//! Invariants:
//! - the row in `roundsman.bots` is locked before the one in `public.meetings`, and rows of several
//!   bots in the order of their meetings' numbers, so that whoever meets waits and never deadlocks;
//!   what changes only a meeting (its data) locks nothing else afterwards;
//! - a lease that guards a change is held before either;
//! - `bots.live` is written with the status and never without it;
//! - `public.meetings` is locked with `FOR NO KEY UPDATE`, which lets rows that refer to it be made.

mod adopt;
pub(super) mod columns;
mod data;
mod event;
mod finish;
mod heartbeat;
mod launch;
mod read;
mod reserve;
mod runtime;
mod sweep;
mod wishes;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::{BotRecord, BotStatus, ConnectionId, MeetingId, NewBot, WorkloadId};
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{
    Announced, AnonymiseAnswer, BeatAnswer, BotBeat, BotHappened, BotStore, BotSweep, BotTarget,
    ConfigAnswer, ConfigChange, EventAnswer, MeetingFilter, MeetingPage, MeetingRow, ReserveAnswer,
    RuntimeNote, StopAnswer, StoreError,
};
use roundsman_core::users::UserId;
use serde_json::{Map, Value};

use self::columns::record_columns;
pub(super) use self::read::find_target;
use super::PostgresStore;
use super::error::Failure;
use super::session::Session;

#[async_trait]
impl BotStore for PostgresStore {
    async fn reserve_bot(&self, bot: NewBot, now: Timestamp) -> Result<ReserveAnswer, StoreError> {
        let catalog = &self.catalog;
        self.change("store.bot_reserve", &reserve::Reserve { bot, catalog, now }).await
    }

    async fn bot(&self, meeting: MeetingId) -> Result<Option<BotRecord>, StoreError> {
        self.pool.run(&read::BotOfMeeting { meeting }).await
    }

    async fn bot_by_connection(
        &self,
        connection: ConnectionId,
    ) -> Result<Option<BotRecord>, StoreError> {
        self.pool.run(&read::BotByConnection { connection }).await
    }

    async fn bot_event(
        &self,
        happened: BotHappened,
        guard: Option<LeaseRef>,
        now: Timestamp,
    ) -> Result<EventAnswer, StoreError> {
        let catalog = &self.catalog;
        self.change("store.bot_event", &event::Happen { happened, guard, catalog, now }).await
    }

    async fn bot_heartbeats(
        &self,
        beats: Vec<BotBeat>,
        now: Timestamp,
    ) -> Result<Vec<BeatAnswer>, StoreError> {
        self.change("store.bot_heartbeats", &heartbeat::Hear { beats: &beats, now }).await
    }

    async fn wish_stop(
        &self,
        user: UserId,
        target: BotTarget,
        by: &'static str,
        now: Timestamp,
    ) -> Result<StopAnswer, StoreError> {
        let catalog = &self.catalog;
        self.change("store.bot_stop", &wishes::WishStop { user, target, by, catalog, now }).await
    }

    async fn wish_config(
        &self,
        user: UserId,
        target: BotTarget,
        change: ConfigChange,
        now: Timestamp,
    ) -> Result<ConfigAnswer, StoreError> {
        let catalog = &self.catalog;
        let wish = wishes::WishConfig { user, target, change, catalog, now };
        self.change("store.bot_config", &wish).await
    }

    async fn bot_launched(
        &self,
        workload: WorkloadId,
        handle: String,
        guard: LeaseRef,
    ) -> Result<bool, StoreError> {
        self.change("store.bot_launched", &launch::Launched { workload, handle, guard }).await
    }

    async fn next_attempt(
        &self,
        workload: WorkloadId,
        guard: LeaseRef,
    ) -> Result<Option<BotRecord>, StoreError> {
        self.change("store.bot_next_attempt", &launch::NextAttempt { workload, guard }).await
    }

    async fn note_runtime(
        &self,
        notes: Vec<RuntimeNote>,
        misses_max: u32,
        now: Timestamp,
    ) -> Result<Vec<Announced>, StoreError> {
        let catalog = &self.catalog;
        let note = runtime::NoteRuntime { notes: &notes, misses_max, catalog, now };
        self.change("store.bot_runtime", &note).await
    }

    async fn sweep_bots(
        &self,
        request: BotSweep,
        now: Timestamp,
    ) -> Result<Vec<Announced>, StoreError> {
        let catalog = &self.catalog;
        self.change("store.bot_sweep", &sweep::SweepBots { request, catalog, now }).await
    }

    async fn adopt_meetings(&self, rows_max: u32, now: Timestamp) -> Result<u32, StoreError> {
        let catalog = &self.catalog;
        self.change("store.bot_adopt", &adopt::Adopt { rows_max, catalog, now }).await
    }

    async fn live_bots(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<BotRecord>, StoreError> {
        self.pool.run(&read::LiveBots { after, rows_max }).await
    }

    async fn live_workloads(
        &self,
        workloads: Vec<WorkloadId>,
    ) -> Result<Vec<WorkloadId>, StoreError> {
        self.pool.run(&read::LiveWorkloads { workloads: &workloads }).await
    }

    async fn meetings(
        &self,
        user: UserId,
        filter: MeetingFilter,
        page: MeetingPage,
    ) -> Result<Vec<MeetingRow>, StoreError> {
        self.pool.run(&read::Meetings { user, filter, page }).await
    }

    async fn meeting(
        &self,
        user: UserId,
        target: BotTarget,
    ) -> Result<Option<MeetingRow>, StoreError> {
        self.pool.run(&read::OneMeeting { user, target }).await
    }

    async fn merge_meeting_data(
        &self,
        user: UserId,
        target: BotTarget,
        members: Map<String, Value>,
        now: Timestamp,
    ) -> Result<Option<MeetingRow>, StoreError> {
        self.change("store.bot_data", &data::MergeData { user, target, members, now }).await
    }

    async fn anonymise_meeting(
        &self,
        user: UserId,
        target: BotTarget,
        now: Timestamp,
    ) -> Result<AnonymiseAnswer, StoreError> {
        let anonymise = data::Anonymise { user, target, catalog: &self.catalog, now };
        self.change("store.bot_anonymise", &anonymise).await
    }

    async fn finish_meeting(
        &self,
        meeting: MeetingId,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let catalog = &self.catalog;
        self.change("store.bot_finish", &finish::Finish { meeting, guard, catalog, now }).await
    }

    async fn bot_counts(&self) -> Result<Vec<(BotStatus, u64)>, StoreError> {
        self.pool.run(&read::BotCounts).await
    }
}

/// First the bots, in order, as they are once nobody else changes them; then their meetings, which
/// the second lock reads anew for the same reason. A lateral look with a lock in it cannot be turned
/// into a join that begins with all meetings.
const LOCK_RECORDS: &str = concat!(
    "-- lock_records
WITH held AS MATERIALIZED (
    SELECT * FROM roundsman.bots
     WHERE meeting_id = ANY ($1::bigint[])
     ORDER BY meeting_id
       FOR NO KEY UPDATE
)
SELECT ",
    record_columns!(),
    "
  FROM held b
 CROSS JOIN LATERAL (SELECT * FROM public.meetings
                      WHERE id = b.meeting_id FOR NO KEY UPDATE) m
 ORDER BY b.meeting_id"
);

/// Locks and returns bots with their meetings, in the order of their numbers.
async fn lock_records(session: &mut Session, ids: &[i64]) -> Result<Vec<BotRecord>, Failure> {
    let rows = session.query(LOCK_RECORDS, &[&ids]).await?;
    rows.iter().map(columns::record).collect()
}

/// Locks and returns one bot with its meeting.
async fn lock_record(
    session: &mut Session,
    meeting: MeetingId,
) -> Result<Option<BotRecord>, Failure> {
    Ok(lock_records(session, &[meeting.get()]).await?.into_iter().next())
}

/// The statements whose plans are tested.
#[cfg(test)]
pub(super) fn hot_statements() -> [&'static str; 9] {
    [
        LOCK_RECORDS,
        heartbeat::HEAR,
        heartbeat::NOT_HEARD,
        sweep::OVERDUE,
        reserve::LIVE_OF_USER,
        read::LIVE_BOTS,
        read::LIVE_WORKLOADS,
        read::MEETINGS,
        read::LATEST,
    ]
}
