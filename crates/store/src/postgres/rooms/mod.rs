//! Rooms: one file per group of operations.
//!
//! Invariants: whoever changes a room holds the lock of its row, and of several rooms takes the locks
//! in the order of their names. So the numbers of updates are given and committed in one order, and
//! whoever reads the log sees no gap that is filled later.

mod append;
pub(super) mod check;
mod compact;
mod open;
mod presence;
mod prune;
mod read;
mod tokens;
mod versions;

use async_trait::async_trait;
use bytes::Bytes;
use roundsman_core::Timestamp;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{
    AppendAnswer, CompactAnswer, KeepPresenceAnswer, KeptPresence, NewSnapshot, OpenRoomAnswer,
    RoomCounts, RoomStore, RoomTail, Scope, StoreError, StoredRoom,
};
use roundsman_core::rooms::{
    NewUpdate, ProjectId, Room, RoomToken, RoomTokenId, RoomTokenWish, RoomVersion,
};
use roundsman_core::users::UserId;

pub(super) use self::append::append_one;
use super::PostgresStore;

#[async_trait]
impl RoomStore for PostgresStore {
    async fn open_room(
        &self,
        user: UserId,
        project: ProjectId,
        now: Timestamp,
    ) -> Result<OpenRoomAnswer, StoreError> {
        self.change("store.room_open", &open::OpenRoom { user, project, now }).await
    }

    async fn room(&self, project: ProjectId) -> Result<Option<Room>, StoreError> {
        self.pool.run(&read::OneRoom { project }).await
    }

    async fn rooms(
        &self,
        scope: Scope,
        after: Option<ProjectId>,
        rows_max: u32,
    ) -> Result<Vec<Room>, StoreError> {
        self.pool.run(&read::Rooms { scope, after, rows_max }).await
    }

    async fn load_room(&self, project: ProjectId) -> Result<Option<StoredRoom>, StoreError> {
        self.pool.run(&read::Load { project }).await
    }

    async fn room_updates(
        &self,
        project: ProjectId,
        after_seq: i64,
        rows_max: u32,
    ) -> Result<Option<RoomTail>, StoreError> {
        self.pool.run(&read::Tail { project, after_seq, rows_max }).await
    }

    async fn room_heads(&self, projects: Vec<ProjectId>) -> Result<Vec<Option<i64>>, StoreError> {
        self.pool.run(&read::Heads { projects }).await
    }

    async fn append_updates(
        &self,
        updates: Vec<NewUpdate>,
        now: Timestamp,
    ) -> Result<Vec<AppendAnswer>, StoreError> {
        let catalog = &self.catalog;
        self.change("store.room_append", &append::Append { updates, catalog, now }).await
    }

    async fn compact_room(
        &self,
        project: ProjectId,
        snapshot: NewSnapshot,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<CompactAnswer, StoreError> {
        let compact = compact::Compact { project, snapshot, guard, now };
        self.change("store.room_compact", &compact).await
    }

    async fn stale_rooms(
        &self,
        before: Timestamp,
        after: Option<ProjectId>,
        rows_max: u32,
    ) -> Result<Vec<ProjectId>, StoreError> {
        self.pool.run(&read::Stale { before, after, rows_max }).await
    }

    async fn keep_version(
        &self,
        project: ProjectId,
        version: RoomVersion,
    ) -> Result<bool, StoreError> {
        self.change("store.room_version", &versions::Keep { project, version }).await
    }

    async fn room_versions(
        &self,
        project: ProjectId,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<RoomVersion>, StoreError> {
        self.pool.run(&versions::Versions { project, before, rows_max }).await
    }

    async fn room_version(
        &self,
        project: ProjectId,
        seq: i64,
    ) -> Result<Option<RoomVersion>, StoreError> {
        self.pool.run(&versions::OneVersion { project, seq }).await
    }

    async fn create_room_token(
        &self,
        wish: RoomTokenWish,
        now: Timestamp,
    ) -> Result<Option<RoomToken>, StoreError> {
        self.change("store.room_token", &tokens::Create { wish, now }).await
    }

    async fn room_token(&self, id: RoomTokenId) -> Result<Option<RoomToken>, StoreError> {
        self.pool.run(&tokens::OneToken { id }).await
    }

    async fn room_tokens(
        &self,
        project: ProjectId,
        now: Timestamp,
        rows_max: u32,
    ) -> Result<Vec<RoomToken>, StoreError> {
        self.pool.run(&tokens::Tokens { project, now, rows_max }).await
    }

    async fn extend_room_token(
        &self,
        project: ProjectId,
        id: RoomTokenId,
        expires_at: Timestamp,
    ) -> Result<Option<RoomToken>, StoreError> {
        self.change("store.room_token", &tokens::Extend { project, id, expires_at }).await
    }

    async fn revoke_room_token(
        &self,
        project: ProjectId,
        id: RoomTokenId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.change("store.room_token", &tokens::Revoke { project, id, now }).await
    }

    async fn kept_presence(&self, project: ProjectId) -> Result<Option<KeptPresence>, StoreError> {
        self.pool.run(&presence::Kept { project }).await
    }

    async fn kept_presence_versions(
        &self,
        projects: Vec<ProjectId>,
    ) -> Result<Vec<i64>, StoreError> {
        self.pool.run(&presence::Versions { projects }).await
    }

    async fn keep_presence(
        &self,
        project: ProjectId,
        from_version: i64,
        bytes: Bytes,
    ) -> Result<KeepPresenceAnswer, StoreError> {
        let keep = presence::Keep { project, from_version, bytes };
        self.change("store.room_presence", &keep).await
    }

    async fn prune_rooms(
        &self,
        tokens_before: Timestamp,
        versions_max: u32,
        rows_max: u32,
    ) -> Result<u64, StoreError> {
        let prune = prune::Prune { tokens_before, versions_max, rows_max };
        self.change("store.room_prune", &prune).await
    }

    async fn room_counts(&self) -> Result<RoomCounts, StoreError> {
        self.pool.run(&read::Counts).await
    }
}

/// The statements whose plans are tested.
#[cfg(test)]
pub(super) fn hot_statements() -> Vec<&'static str> {
    vec![
        read::ROOM,
        read::ROOMS_OF_USER,
        read::ROOM_SNAPSHOT,
        read::ROOM_UPDATES,
        read::ROOM_HEADS,
        append::LOCK_ROOMS,
        append::UPDATE_ROOMS,
        compact::FORGET_UPDATES,
        compact::LOG_WEIGHT,
        versions::ROOM_VERSIONS,
        presence::KEPT_PRESENCE,
        presence::KEPT_PRESENCE_VERSIONS,
        tokens::ROOM_TOKENS,
        prune::PRUNE_ROOM_TOKENS,
    ]
}
