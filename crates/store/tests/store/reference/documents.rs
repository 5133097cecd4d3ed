//! Rooms with their documents, in the order in which the port lists its methods.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::{
    AppendAnswer, CompactAnswer, KeepPresenceAnswer, KeptPresence, NewSnapshot, OpenRoomAnswer,
    RoomCounts, RoomStore, RoomTail, Scope, StoreError, StoredRoom,
};
use roundsman_core::rooms::{
    NewUpdate, ProjectId, Room, RoomToken, RoomTokenId, RoomTokenWish, RoomVersion, StoredUpdate,
    TokenState, append, compacted,
};
use roundsman_core::users::UserId;

use super::{Reference, State, sees};

/// Rooms and what belongs to them.
#[derive(Default)]
pub(super) struct Documents {
    rooms: BTreeMap<ProjectId, Kept>,
    tokens: BTreeMap<i64, RoomToken>,
    last_token: i64,
}

struct Kept {
    room: Room,
    snapshot: Option<Bytes>,
    updates: Vec<StoredUpdate>,
    versions: BTreeMap<i64, RoomVersion>,
    presence: Option<KeptPresence>,
}

impl State {
    /// Stores one update, with the alarm that it brings.
    pub(super) fn append_update(
        &mut self,
        rules: &KindCatalog,
        update: NewUpdate,
        now: Timestamp,
    ) -> AppendAnswer {
        let NewUpdate { project, payload, origin, rules: limits } = update;
        let Some(kept) = self.documents.rooms.get_mut(&project) else {
            return AppendAnswer::NoSuchRoom;
        };
        match append(&kept.room, payload.len() as u64, &limits, now) {
            Ok((room, effects)) => {
                let seq = room.head_seq;
                kept.room = room;
                kept.updates.push(StoredUpdate { seq, payload, origin });
                self.apply(rules, effects, now);
                AppendAnswer::Appended { seq }
            }
            Err(full) => AppendAnswer::Full(full),
        }
    }
}

fn keep(kept: &mut Kept, version: RoomVersion) {
    match kept.versions.get_mut(&version.seq) {
        Some(known) => known.name = version.name.or_else(|| known.name.take()),
        None => drop(kept.versions.insert(version.seq, version)),
    }
}

#[async_trait]
impl RoomStore for Reference {
    async fn open_room(
        &self,
        user: UserId,
        project: ProjectId,
        now: Timestamp,
    ) -> Result<OpenRoomAnswer, StoreError> {
        let mut state = self.lock();
        if let Some(kept) = state.documents.rooms.get(&project) {
            let room = kept.room.clone();
            let is_theirs = room.owner == user;
            return Ok(if is_theirs {
                OpenRoomAnswer::Open { room, is_new: false }
            } else {
                OpenRoomAnswer::Foreign
            });
        }
        if !state.users.iter().any(|known| known.id == user) {
            return Ok(OpenRoomAnswer::NoSuchUser);
        }
        let room = Room::new(project.clone(), user, now);
        let (snapshot, updates, versions) = (None, Vec::new(), BTreeMap::new());
        let kept = Kept { room: room.clone(), snapshot, updates, versions, presence: None };
        state.documents.rooms.insert(project, kept);
        Ok(OpenRoomAnswer::Open { room, is_new: true })
    }

    async fn room(&self, project: ProjectId) -> Result<Option<Room>, StoreError> {
        Ok(self.lock().documents.rooms.get(&project).map(|kept| kept.room.clone()))
    }

    async fn rooms(
        &self,
        scope: Scope,
        after: Option<ProjectId>,
        rows_max: u32,
    ) -> Result<Vec<Room>, StoreError> {
        let state = self.lock();
        let rooms = state.documents.rooms.values().map(|kept| &kept.room);
        let wanted = rooms.filter(|room| {
            sees(scope, room.owner) && after.as_ref().is_none_or(|after| room.project > *after)
        });
        Ok(wanted.take(rows_max as usize).cloned().collect())
    }

    async fn load_room(&self, project: ProjectId) -> Result<Option<StoredRoom>, StoreError> {
        Ok(self.lock().documents.rooms.get(&project).map(|kept| StoredRoom {
            room: kept.room.clone(),
            snapshot: kept.snapshot.clone(),
            updates: kept.updates.clone(),
        }))
    }

    async fn room_updates(
        &self,
        project: ProjectId,
        after_seq: i64,
        rows_max: u32,
    ) -> Result<Option<RoomTail>, StoreError> {
        Ok(self.lock().documents.rooms.get(&project).map(|kept| {
            let after = kept.updates.iter().filter(|update| update.seq > after_seq);
            RoomTail {
                head_seq: kept.room.head_seq,
                snapshot_seq: kept.room.snapshot_seq,
                updates: after.take(rows_max as usize).cloned().collect(),
            }
        }))
    }

    async fn room_heads(&self, projects: Vec<ProjectId>) -> Result<Vec<Option<i64>>, StoreError> {
        let state = self.lock();
        let head = |project| state.documents.rooms.get(project).map(|kept| kept.room.head_seq);
        Ok(projects.iter().map(head).collect())
    }

    async fn append_updates(
        &self,
        updates: Vec<NewUpdate>,
        now: Timestamp,
    ) -> Result<Vec<AppendAnswer>, StoreError> {
        let mut state = self.lock();
        let append = |update| state.append_update(&self.rules, update, now);
        Ok(updates.into_iter().map(append).collect())
    }

    async fn compact_room(
        &self,
        project: ProjectId,
        snapshot: NewSnapshot,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<CompactAnswer, StoreError> {
        let mut state = self.lock();
        if !state.holds(guard) {
            return Ok(CompactAnswer::LeaseLost);
        }
        let Some(kept) = state.documents.rooms.get_mut(&project) else {
            return Ok(CompactAnswer::NoSuchRoom);
        };
        let Room { snapshot_seq, head_seq, .. } = kept.room;
        if snapshot_seq != snapshot.from_seq || head_seq < snapshot.through_seq {
            return Ok(CompactAnswer::Superseded);
        }
        let NewSnapshot { through_seq, bytes, frontiers, .. } = snapshot;
        kept.updates.retain(|update| update.seq > through_seq);
        let left = kept.updates.iter().map(|update| update.payload.len() as u64).sum();
        kept.room = compacted(&kept.room, through_seq, bytes.len() as u64, left, now);
        kept.snapshot = Some(bytes);
        keep(kept, RoomVersion { seq: through_seq, frontiers, name: None, at: now });
        Ok(CompactAnswer::Compacted(Box::new(kept.room.clone())))
    }

    async fn stale_rooms(
        &self,
        before: Timestamp,
        after: Option<ProjectId>,
        rows_max: u32,
    ) -> Result<Vec<ProjectId>, StoreError> {
        let state = self.lock();
        let rooms = state.documents.rooms.values().map(|kept| &kept.room);
        let stale = rooms.filter(|room| {
            room.dirty_since.is_some_and(|since| since < before)
                && after.as_ref().is_none_or(|after| room.project > *after)
        });
        Ok(stale.take(rows_max as usize).map(|room| room.project.clone()).collect())
    }

    async fn keep_version(
        &self,
        project: ProjectId,
        version: RoomVersion,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let Some(kept) = state.documents.rooms.get_mut(&project) else { return Ok(false) };
        keep(kept, version);
        Ok(true)
    }

    async fn room_versions(
        &self,
        project: ProjectId,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<RoomVersion>, StoreError> {
        let state = self.lock();
        let Some(kept) = state.documents.rooms.get(&project) else { return Ok(Vec::new()) };
        let newest = kept.versions.values().rev();
        let wanted = newest.filter(|version| before.is_none_or(|before| version.seq < before));
        Ok(wanted.take(rows_max as usize).cloned().collect())
    }

    async fn room_version(
        &self,
        project: ProjectId,
        seq: i64,
    ) -> Result<Option<RoomVersion>, StoreError> {
        let state = self.lock();
        Ok(state.documents.rooms.get(&project).and_then(|kept| kept.versions.get(&seq).cloned()))
    }

    async fn create_room_token(
        &self,
        wish: RoomTokenWish,
        now: Timestamp,
    ) -> Result<Option<RoomToken>, StoreError> {
        let mut state = self.lock();
        if !state.documents.rooms.contains_key(&wish.project) {
            return Ok(None);
        }
        state.documents.last_token += 1;
        let id = state.documents.last_token;
        let RoomTokenWish { project, permission, name, hash, expires_at } = wish;
        let token = RoomToken {
            id: RoomTokenId::new(id),
            project,
            permission,
            name,
            hash,
            created_at: now,
            expires_at,
            revoked_at: None,
        };
        state.documents.tokens.insert(id, token.clone());
        Ok(Some(token))
    }

    async fn room_token(&self, id: RoomTokenId) -> Result<Option<RoomToken>, StoreError> {
        Ok(self.lock().documents.tokens.get(&id.get()).cloned())
    }

    async fn room_tokens(
        &self,
        project: ProjectId,
        now: Timestamp,
        rows_max: u32,
    ) -> Result<Vec<RoomToken>, StoreError> {
        let state = self.lock();
        let holds =
            |token: &&RoomToken| token.project == project && token.state(now) == TokenState::Holds;
        let newest = state.documents.tokens.values().rev().filter(holds);
        Ok(newest.take(rows_max as usize).cloned().collect())
    }

    async fn extend_room_token(
        &self,
        project: ProjectId,
        id: RoomTokenId,
        expires_at: Timestamp,
    ) -> Result<Option<RoomToken>, StoreError> {
        let mut state = self.lock();
        let token = state.documents.tokens.get_mut(&id.get());
        let token = token.filter(|token| token.project == project && token.revoked_at.is_none());
        Ok(token.map(|token| {
            token.expires_at = expires_at;
            token.clone()
        }))
    }

    async fn revoke_room_token(
        &self,
        project: ProjectId,
        id: RoomTokenId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let token = state.documents.tokens.get_mut(&id.get());
        let token = token.filter(|token| token.project == project && token.revoked_at.is_none());
        Ok(token.map(|token| token.revoked_at = Some(now)).is_some())
    }

    async fn kept_presence(&self, project: ProjectId) -> Result<Option<KeptPresence>, StoreError> {
        Ok(self.lock().documents.rooms.get(&project).and_then(|kept| kept.presence.clone()))
    }

    async fn kept_presence_versions(
        &self,
        projects: Vec<ProjectId>,
    ) -> Result<Vec<i64>, StoreError> {
        let state = self.lock();
        let kept = |project| state.documents.rooms.get(project)?.presence.as_ref();
        Ok(projects.iter().map(|project| kept(project).map_or(0, |kept| kept.version)).collect())
    }

    async fn keep_presence(
        &self,
        project: ProjectId,
        from_version: i64,
        bytes: Bytes,
    ) -> Result<KeepPresenceAnswer, StoreError> {
        let mut state = self.lock();
        let Some(kept) = state.documents.rooms.get_mut(&project) else {
            return Ok(KeepPresenceAnswer::NoSuchRoom);
        };
        if kept.presence.as_ref().map_or(0, |known| known.version) != from_version {
            return Ok(KeepPresenceAnswer::Superseded);
        }
        let version = from_version + 1;
        kept.presence = Some(KeptPresence { version, bytes });
        Ok(KeepPresenceAnswer::Kept { version })
    }

    async fn prune_rooms(
        &self,
        tokens_before: Timestamp,
        versions_max: u32,
        rows_max: u32,
    ) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let tokens = state.documents.tokens.values();
        let mut ended: Vec<(Timestamp, i64)> = tokens
            .filter(|token| token.expires_at < tokens_before)
            .map(|token| (token.expires_at, token.id.get()))
            .collect();
        ended.sort();
        ended.truncate(rows_max as usize);
        for (_, id) in &ended {
            state.documents.tokens.remove(id);
        }
        let mut pruned = ended.len();
        let mut left = rows_max as usize;
        for kept in state.documents.rooms.values_mut() {
            let unnamed = kept.versions.values().rev().filter(|version| version.name.is_none());
            let old: Vec<i64> =
                unnamed.skip(versions_max as usize).map(|version| version.seq).take(left).collect();
            for seq in &old {
                kept.versions.remove(seq);
            }
            left -= old.len();
            pruned += old.len();
        }
        Ok(pruned as u64)
    }

    async fn room_counts(&self) -> Result<RoomCounts, StoreError> {
        let state = self.lock();
        let rooms = state.documents.rooms.values();
        Ok(RoomCounts {
            rooms: rooms.len() as u64,
            dirty: rooms.filter(|kept| kept.room.is_dirty()).count() as u64,
        })
    }
}
