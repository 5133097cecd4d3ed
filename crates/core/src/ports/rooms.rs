//! Rooms in the database, and their documents in memory.
//!
//! Invariants: an update has a number only when it is stored, numbers of a room have no gaps, and
//! whoever reads the log sees them in order; the alarm `snapshot` is set in the transaction that makes
//! a document dirty; a snapshot replaces exactly the one it was made from.

use async_trait::async_trait;
use bytes::Bytes;

use super::{Scope, StoreError};
use crate::Timestamp;
use crate::jobs::LeaseRef;
use crate::rooms::{
    AppendedUpdate, DocumentFull, NewUpdate, ProjectId, Room, RoomToken, RoomTokenId,
    RoomTokenWish, RoomVersion, StoredUpdate, TaskCompletion,
};
use crate::users::UserId;

/// Stores documents as logs of updates, and who may see them.
#[async_trait]
pub trait RoomStore: Send + Sync {
    /// The room of a project, which is made if nobody has named the project before.
    async fn open_room(
        &self,
        user: UserId,
        project: ProjectId,
        now: Timestamp,
    ) -> Result<OpenRoomAnswer, StoreError>;

    async fn room(&self, project: ProjectId) -> Result<Option<Room>, StoreError>;

    /// Rooms by ascending name, those after `after`.
    async fn rooms(
        &self,
        scope: Scope,
        after: Option<ProjectId>,
        rows_max: u32,
    ) -> Result<Vec<Room>, StoreError>;

    /// Everything that makes the document of a room, as of one moment.
    async fn load_room(&self, project: ProjectId) -> Result<Option<StoredRoom>, StoreError>;

    /// The updates after `after_seq`, in order. If the snapshot has taken some of them in, the room is
    /// to be loaded instead: `snapshot_seq` says so.
    async fn room_updates(
        &self,
        project: ProjectId,
        after_seq: i64,
        rows_max: u32,
    ) -> Result<Option<RoomTail>, StoreError>;

    /// How far each room is; `None` for those that are not there.
    async fn room_heads(&self, projects: Vec<ProjectId>) -> Result<Vec<Option<i64>>, StoreError>;

    /// Stores updates in one transaction, each as [`crate::rooms::append`] says. Those of one room get
    /// their numbers in the order given. Answers in order.
    async fn append_updates(
        &self,
        updates: Vec<NewUpdate>,
        now: Timestamp,
    ) -> Result<Vec<AppendAnswer>, StoreError>;

    /// Puts a snapshot in the place of the one it was made from and of the updates it has taken in,
    /// while the lease is held.
    async fn compact_room(
        &self,
        project: ProjectId,
        snapshot: NewSnapshot,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<CompactAnswer, StoreError>;

    /// Rooms that have been dirty since before `before` by ascending name: the alarm of theirs was
    /// lost, or fails.
    async fn stale_rooms(
        &self,
        before: Timestamp,
        after: Option<ProjectId>,
        rows_max: u32,
    ) -> Result<Vec<ProjectId>, StoreError>;

    /// Notes a version. One that is there keeps its place and gets the name, if there is a new one.
    /// `false` if there is no such room.
    async fn keep_version(
        &self,
        project: ProjectId,
        version: RoomVersion,
    ) -> Result<bool, StoreError>;

    /// Versions, newest first, those with a lower number than `before`.
    async fn room_versions(
        &self,
        project: ProjectId,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<RoomVersion>, StoreError>;

    async fn room_version(
        &self,
        project: ProjectId,
        seq: i64,
    ) -> Result<Option<RoomVersion>, StoreError>;

    /// `None` if there is no such room.
    async fn create_room_token(
        &self,
        wish: RoomTokenWish,
        now: Timestamp,
    ) -> Result<Option<RoomToken>, StoreError>;

    async fn room_token(&self, id: RoomTokenId) -> Result<Option<RoomToken>, StoreError>;

    /// The tokens of a room that hold, newest first.
    async fn room_tokens(
        &self,
        project: ProjectId,
        now: Timestamp,
        rows_max: u32,
    ) -> Result<Vec<RoomToken>, StoreError>;

    /// Lets a token that was not revoked hold until then. `None` if there is none.
    async fn extend_room_token(
        &self,
        project: ProjectId,
        id: RoomTokenId,
        expires_at: Timestamp,
    ) -> Result<Option<RoomToken>, StoreError>;

    /// `false` if the room has no such token, or it was revoked before.
    async fn revoke_room_token(
        &self,
        project: ProjectId,
        id: RoomTokenId,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// What is kept of the presence of a room; `None` if nothing is, or there is no such room.
    async fn kept_presence(&self, project: ProjectId) -> Result<Option<KeptPresence>, StoreError>;

    /// The versions of what is kept of presence; 0 where nothing is.
    async fn kept_presence_versions(
        &self,
        projects: Vec<ProjectId>,
    ) -> Result<Vec<i64>, StoreError>;

    /// Puts what is to be kept of presence in the place of the version it was made from, which is 0 if
    /// nothing was kept.
    async fn keep_presence(
        &self,
        project: ProjectId,
        from_version: i64,
        bytes: Bytes,
    ) -> Result<KeepPresenceAnswer, StoreError>;

    /// Deletes tokens that ended before `tokens_before` and, beyond `versions_max` of a room, its
    /// oldest versions without a name. At most `rows_max` of each. Returns how many.
    async fn prune_rooms(
        &self,
        tokens_before: Timestamp,
        versions_max: u32,
        rows_max: u32,
    ) -> Result<u64, StoreError>;

    /// For metrics.
    async fn room_counts(&self) -> Result<RoomCounts, StoreError>;
}

/// What naming a project came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenRoomAnswer {
    /// The user's own; `is_new` if it was made just now.
    Open {
        room: Room,
        is_new: bool,
    },
    /// Somebody else named it first.
    Foreign,
    NoSuchUser,
}

/// Everything that makes a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRoom {
    pub room: Room,
    /// `None` before the first.
    pub snapshot: Option<Bytes>,
    /// All after the snapshot, in order.
    pub updates: Vec<StoredUpdate>,
}

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomTail {
    pub head_seq: i64,
    pub snapshot_seq: i64,
    pub updates: Vec<StoredUpdate>,
}

/// What became of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendAnswer {
    Appended { seq: i64 },
    Full(DocumentFull),
    NoSuchRoom,
}

/// A snapshot to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSnapshot {
    /// The `snapshot_seq` of the room as it was loaded.
    pub from_seq: i64,
    /// Everything up to here is in it.
    pub through_seq: i64,
    pub bytes: Bytes,
    /// Where in the document's history this is: noted as a version.
    pub frontiers: Vec<u8>,
}

/// What became of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactAnswer {
    /// The room as it is now.
    Compacted(Box<Room>),
    /// Another snapshot was stored meanwhile; nothing was written.
    Superseded,
    LeaseLost,
    NoSuchRoom,
}

/// What is kept of the presence of a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPresence {
    /// Grows by one with every change.
    pub version: i64,
    pub bytes: Bytes,
}

/// What became of presence that is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepPresenceAnswer {
    Kept {
        version: i64,
    },
    /// Something else was kept meanwhile; nothing was written.
    Superseded,
    NoSuchRoom,
}

/// How rooms are, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoomCounts {
    pub rooms: u64,
    pub dirty: u64,
}

/// Writes what became of tasks into documents. Whoever ends a task asks for the update, hands it to
/// the operation of the store that ends the task, which stores both in one transaction, and then says
/// that it was stored. An update that was asked for and not stored is as if it had never been.
#[async_trait]
pub trait RoomDocuments: Send + Sync {
    /// The update that writes a completion into the document of its project. `None` if the document
    /// says so already.
    async fn completion_update(
        &self,
        completion: &TaskCompletion,
    ) -> Result<Option<NewUpdate>, DocumentError>;

    /// Tells whoever is connected, here and on other nodes. To be called after the commit; if it is
    /// not, they learn of it when they next compare.
    async fn appended(&self, update: AppendedUpdate);
}

/// Why there is no update.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no room of the project {0}")]
    NoSuchRoom(ProjectId),
    /// What is stored cannot be read. It is left as it is.
    #[error("the document of {project} cannot be read: {reason}")]
    Unreadable { project: ProjectId, reason: String },
}
