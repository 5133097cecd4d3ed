//! Rooms: every method of the port is one closure over one transaction, and the statements of each
//! are in the module of its name.
//!
//! Invariants: a number of an update is given by the statement that moves `head_seq`, in the
//! transaction that stores the update; there is one writer, so nothing that is read in a write changes
//! before it is written.

mod append;
pub(super) mod check;
mod compact;
mod open;
#[cfg(test)]
mod plans;
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
use super::SqliteStore;

#[async_trait]
impl RoomStore for SqliteStore {
    async fn open_room(
        &self,
        user: UserId,
        project: ProjectId,
        now: Timestamp,
    ) -> Result<OpenRoomAnswer, StoreError> {
        self.write("store.room_open", move |conn, _| open::open(conn, user, project, now)).await
    }

    async fn room(&self, project: ProjectId) -> Result<Option<Room>, StoreError> {
        self.read(move |conn| read::room(conn, &project)).await
    }

    async fn rooms(
        &self,
        scope: Scope,
        after: Option<ProjectId>,
        rows_max: u32,
    ) -> Result<Vec<Room>, StoreError> {
        self.read(move |conn| read::rooms(conn, scope, after.as_ref(), rows_max)).await
    }

    async fn load_room(&self, project: ProjectId) -> Result<Option<StoredRoom>, StoreError> {
        self.read(move |conn| read::load(conn, &project)).await
    }

    async fn room_updates(
        &self,
        project: ProjectId,
        after_seq: i64,
        rows_max: u32,
    ) -> Result<Option<RoomTail>, StoreError> {
        self.read(move |conn| read::tail(conn, &project, after_seq, rows_max)).await
    }

    async fn room_heads(&self, projects: Vec<ProjectId>) -> Result<Vec<Option<i64>>, StoreError> {
        self.read(move |conn| projects.iter().map(|project| read::head(conn, project)).collect())
            .await
    }

    async fn append_updates(
        &self,
        updates: Vec<NewUpdate>,
        now: Timestamp,
    ) -> Result<Vec<AppendAnswer>, StoreError> {
        self.write("store.room_append", move |conn, catalog| {
            updates.iter().map(|update| append::append(conn, catalog, update, now)).collect()
        })
        .await
    }

    async fn compact_room(
        &self,
        project: ProjectId,
        snapshot: NewSnapshot,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<CompactAnswer, StoreError> {
        self.write("store.room_compact", move |conn, _| {
            compact::compact(conn, &project, &snapshot, guard, now)
        })
        .await
    }

    async fn stale_rooms(
        &self,
        before: Timestamp,
        after: Option<ProjectId>,
        rows_max: u32,
    ) -> Result<Vec<ProjectId>, StoreError> {
        self.read(move |conn| read::stale(conn, before, after.as_ref(), rows_max)).await
    }

    async fn keep_version(
        &self,
        project: ProjectId,
        version: RoomVersion,
    ) -> Result<bool, StoreError> {
        self.write("store.room_version", move |conn, _| {
            if read::head(conn, &project)?.is_none() {
                return Ok(false);
            }
            versions::keep(conn, &project, &version)?;
            Ok(true)
        })
        .await
    }

    async fn room_versions(
        &self,
        project: ProjectId,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<RoomVersion>, StoreError> {
        self.read(move |conn| versions::list(conn, &project, before, rows_max)).await
    }

    async fn room_version(
        &self,
        project: ProjectId,
        seq: i64,
    ) -> Result<Option<RoomVersion>, StoreError> {
        self.read(move |conn| versions::one(conn, &project, seq)).await
    }

    async fn create_room_token(
        &self,
        wish: RoomTokenWish,
        now: Timestamp,
    ) -> Result<Option<RoomToken>, StoreError> {
        self.write("store.room_token", move |conn, _| tokens::create(conn, &wish, now)).await
    }

    async fn room_token(&self, id: RoomTokenId) -> Result<Option<RoomToken>, StoreError> {
        self.read(move |conn| tokens::one(conn, id)).await
    }

    async fn room_tokens(
        &self,
        project: ProjectId,
        now: Timestamp,
        rows_max: u32,
    ) -> Result<Vec<RoomToken>, StoreError> {
        self.read(move |conn| tokens::list(conn, &project, now, rows_max)).await
    }

    async fn extend_room_token(
        &self,
        project: ProjectId,
        id: RoomTokenId,
        expires_at: Timestamp,
    ) -> Result<Option<RoomToken>, StoreError> {
        self.write("store.room_token", move |conn, _| {
            tokens::extend(conn, &project, id, expires_at)
        })
        .await
    }

    async fn revoke_room_token(
        &self,
        project: ProjectId,
        id: RoomTokenId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write("store.room_token", move |conn, _| tokens::revoke(conn, &project, id, now)).await
    }

    async fn kept_presence(&self, project: ProjectId) -> Result<Option<KeptPresence>, StoreError> {
        self.read(move |conn| presence::kept(conn, &project)).await
    }

    async fn kept_presence_versions(
        &self,
        projects: Vec<ProjectId>,
    ) -> Result<Vec<i64>, StoreError> {
        self.read(move |conn| {
            projects.iter().map(|project| presence::version(conn, project)).collect()
        })
        .await
    }

    async fn keep_presence(
        &self,
        project: ProjectId,
        from_version: i64,
        bytes: Bytes,
    ) -> Result<KeepPresenceAnswer, StoreError> {
        self.write("store.room_presence", move |conn, _| {
            presence::keep(conn, &project, from_version, &bytes)
        })
        .await
    }

    async fn prune_rooms(
        &self,
        tokens_before: Timestamp,
        versions_max: u32,
        rows_max: u32,
    ) -> Result<u64, StoreError> {
        self.write("store.room_prune", move |conn, _| {
            prune::prune(conn, tokens_before, versions_max, rows_max)
        })
        .await
    }

    async fn room_counts(&self) -> Result<RoomCounts, StoreError> {
        self.read(read::counts).await
    }
}
