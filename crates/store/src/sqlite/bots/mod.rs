//! Meetings and their bots: every method of the port is one closure over one transaction, and the
//! statements of each are in the module of its name.
//!
//! Invariant: `bots.live` is written together with `meetings.status`, and only by what
//! `roundsman_core::bots::change` says; adopting and reserving begin a bot's log.

mod adopt;
pub(super) mod columns;
mod event;
mod finish;
mod heartbeat;
mod launch;
#[cfg(test)]
mod plans;
pub(super) mod read;
mod reserve;
mod sweep;
#[cfg(test)]
mod tests;
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

use super::SqliteStore;

#[async_trait]
impl BotStore for SqliteStore {
    async fn reserve_bot(&self, bot: NewBot, now: Timestamp) -> Result<ReserveAnswer, StoreError> {
        self.write("store.bot_reserve", move |conn, catalog| {
            reserve::reserve(conn, catalog, bot, now)
        })
        .await
    }

    async fn bot(&self, meeting: MeetingId) -> Result<Option<BotRecord>, StoreError> {
        self.read(move |conn| columns::record(conn, meeting)).await
    }

    async fn bot_by_connection(
        &self,
        connection: ConnectionId,
    ) -> Result<Option<BotRecord>, StoreError> {
        self.read(move |conn| read::by_connection(conn, &connection)).await
    }

    async fn bot_event(
        &self,
        happened: BotHappened,
        guard: Option<LeaseRef>,
        now: Timestamp,
    ) -> Result<EventAnswer, StoreError> {
        self.write("store.bot_event", move |conn, catalog| {
            event::bot_event(conn, catalog, happened, guard, now)
        })
        .await
    }

    async fn bot_heartbeats(
        &self,
        beats: Vec<BotBeat>,
        now: Timestamp,
    ) -> Result<Vec<BeatAnswer>, StoreError> {
        self.write("store.bot_heartbeats", move |conn, _| heartbeat::heartbeats(conn, &beats, now))
            .await
    }

    async fn wish_stop(
        &self,
        user: UserId,
        target: BotTarget,
        by: &'static str,
        now: Timestamp,
    ) -> Result<StopAnswer, StoreError> {
        self.write("store.bot_stop", move |conn, catalog| {
            wishes::wish_stop(conn, catalog, user, &target, by, now)
        })
        .await
    }

    async fn wish_config(
        &self,
        user: UserId,
        target: BotTarget,
        change: ConfigChange,
        now: Timestamp,
    ) -> Result<ConfigAnswer, StoreError> {
        self.write("store.bot_config", move |conn, catalog| {
            wishes::wish_config(conn, catalog, user, &target, change, now)
        })
        .await
    }

    async fn bot_launched(
        &self,
        workload: WorkloadId,
        handle: String,
        guard: LeaseRef,
    ) -> Result<bool, StoreError> {
        self.write("store.bot_launched", move |conn, _| {
            launch::launched(conn, workload, &handle, guard)
        })
        .await
    }

    async fn next_attempt(
        &self,
        workload: WorkloadId,
        guard: LeaseRef,
    ) -> Result<Option<BotRecord>, StoreError> {
        self.write("store.bot_next_attempt", move |conn, _| {
            launch::next_attempt(conn, workload, guard)
        })
        .await
    }

    async fn note_runtime(
        &self,
        notes: Vec<RuntimeNote>,
        misses_max: u32,
        now: Timestamp,
    ) -> Result<Vec<Announced>, StoreError> {
        self.write("store.bot_runtime", move |conn, catalog| {
            event::note_runtime(conn, catalog, &notes, misses_max, now)
        })
        .await
    }

    async fn sweep_bots(
        &self,
        request: BotSweep,
        now: Timestamp,
    ) -> Result<Vec<Announced>, StoreError> {
        let suspects = self.read(move |conn| sweep::suspects(conn, request, now)).await?;
        if suspects.is_empty() {
            return Ok(Vec::new());
        }
        self.write("store.bot_sweep", move |conn, catalog| {
            sweep::sweep(conn, catalog, &suspects, request, now)
        })
        .await
    }

    async fn adopt_meetings(&self, rows_max: u32, now: Timestamp) -> Result<u32, StoreError> {
        let orphans = self.read(move |conn| adopt::orphans(conn, rows_max)).await?;
        if orphans.is_empty() {
            return Ok(0);
        }
        self.write("store.bot_adopt", move |conn, catalog| {
            adopt::adopt_all(conn, catalog, &orphans, now)
        })
        .await
    }

    async fn live_bots(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<BotRecord>, StoreError> {
        self.read(move |conn| read::live_bots(conn, after, rows_max)).await
    }

    async fn live_workloads(
        &self,
        workloads: Vec<WorkloadId>,
    ) -> Result<Vec<WorkloadId>, StoreError> {
        self.read(move |conn| read::live_workloads(conn, workloads)).await
    }

    async fn meetings(
        &self,
        user: UserId,
        filter: MeetingFilter,
        page: MeetingPage,
    ) -> Result<Vec<MeetingRow>, StoreError> {
        self.read(move |conn| read::meetings(conn, user, &filter, page)).await
    }

    async fn meeting(
        &self,
        user: UserId,
        target: BotTarget,
    ) -> Result<Option<MeetingRow>, StoreError> {
        self.read(move |conn| read::meeting(conn, user, &target)).await
    }

    async fn merge_meeting_data(
        &self,
        user: UserId,
        target: BotTarget,
        members: Map<String, Value>,
        now: Timestamp,
    ) -> Result<Option<MeetingRow>, StoreError> {
        self.write("store.bot_data", move |conn, _| {
            finish::merge_data(conn, user, &target, members, now)
        })
        .await
    }

    async fn anonymise_meeting(
        &self,
        user: UserId,
        target: BotTarget,
        now: Timestamp,
    ) -> Result<AnonymiseAnswer, StoreError> {
        self.write("store.bot_anonymise", move |conn, catalog| {
            finish::anonymise(conn, catalog, user, &target, now)
        })
        .await
    }

    async fn finish_meeting(
        &self,
        meeting: MeetingId,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write("store.bot_finish", move |conn, catalog| {
            finish::finish_meeting(conn, catalog, meeting, guard, now)
        })
        .await
    }

    async fn bot_counts(&self) -> Result<Vec<(BotStatus, u64)>, StoreError> {
        self.read(read::counts).await
    }
}
