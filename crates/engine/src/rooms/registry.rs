//! Which documents are in memory on this node, how they get there and how they leave.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use roundsman_core::ports::{BusSubscription, DocumentError, StoreError, StoredRoom};
use roundsman_core::rooms::ProjectId;
use roundsman_documents::Document;
use tokio::sync::{Notify, OnceCell};

use super::mailbox::Mailbox;
use super::message::topic;
use super::replica::{Part, Replica, Welcome};
use super::service::Rooms;

/// A document may be dropped while somebody joins; this often it is loaded again for them.
pub(super) const TRIES_MAX: usize = 5;

#[derive(Default)]
pub(super) struct Registry {
    /// A cell for each, so that those who come at once load it once.
    rooms: Mutex<BTreeMap<ProjectId, Arc<OnceCell<Arc<Replica>>>>>,
    member_last: AtomicU64,
}

/// Somebody in a room. Dropping it leaves.
pub struct Membership {
    rooms: Rooms,
    pub(super) replica: Arc<Replica>,
    part: Part,
    pub(super) id: u64,
    mailbox: Arc<Mailbox>,
}

/// Somebody who has just come.
pub struct Joined {
    pub membership: Membership,
    /// How far the document is.
    pub version: Vec<u8>,
    /// What they lack.
    pub missing: Option<Bytes>,
}

/// Why somebody is not let in, apart from their rights.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("the room has as many connections as it may")]
    RoomFull,
    /// What they say they have is no version; this is ours.
    #[error("not the version of a document")]
    UnknownVersion { ours: Vec<u8> },
}

impl From<StoreError> for JoinError {
    fn from(error: StoreError) -> Self {
        JoinError::Document(error.into())
    }
}

impl Membership {
    pub fn project(&self) -> &ProjectId {
        &self.replica.project
    }

    pub fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.replica.remove(self.part, self.id, self.rooms.clock().monotonic());
        self.rooms.metrics().room_member_removed();
    }
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Membership").field("project", self.project()).finish_non_exhaustive()
    }
}

impl Rooms {
    /// Lets somebody follow a document from the version they have. They are let in by the caller.
    pub async fn join(
        &self,
        project: &ProjectId,
        version: Bytes,
        bell: &Arc<Notify>,
    ) -> Result<Joined, JoinError> {
        for _ in 0..TRIES_MAX {
            let replica = self.replica(project).await?;
            let membership = self.admit(replica, Part::Document, bell)?;
            let replica = &membership.replica;
            let (id, mailbox) = (membership.id, &membership.mailbox);
            match replica.welcome(self.workshop(), id, mailbox, version.clone()).await {
                Some(Ok(Welcome { version, missing })) => {
                    return Ok(Joined { membership, version, missing });
                }
                Some(Err(ours)) => return Err(JoinError::UnknownVersion { ours }),
                None => self.forget(replica),
            }
        }
        Err(busy().into())
    }

    /// Lets somebody follow who is in a room. Answers with what is known of the others.
    pub async fn join_presence(
        &self,
        project: &ProjectId,
        bell: &Arc<Notify>,
    ) -> Result<(Membership, Option<Bytes>), JoinError> {
        for _ in 0..TRIES_MAX {
            let replica = self.replica(project).await?;
            let membership = self.admit(replica, Part::Presence, bell)?;
            let replica = &membership.replica;
            if replica.add(Part::Presence, membership.id, &membership.mailbox) {
                let known = replica.all_presence();
                return Ok((membership, known));
            }
            self.forget(replica);
        }
        Err(busy().into())
    }

    pub(super) fn admit(
        &self,
        replica: Arc<Replica>,
        part: Part,
        bell: &Arc<Notify>,
    ) -> Result<Membership, JoinError> {
        if replica.members_count() >= self.limits().members_max {
            self.metrics().limit_hit("room_members");
            return Err(JoinError::RoomFull);
        }
        let id = self.registry().member_last.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::new(Mailbox::new(bell.clone(), self.limits().mailbox_bytes_max));
        self.metrics().room_member_added();
        Ok(Membership { rooms: self.clone(), replica, part, id, mailbox })
    }

    /// The document, loaded if it is not in memory.
    pub(super) async fn replica(&self, project: &ProjectId) -> Result<Arc<Replica>, DocumentError> {
        let cell = self.registry().cells().entry(project.clone()).or_default().clone();
        let loaded = cell.get_or_try_init(|| self.load_replica(project)).await;
        if loaded.is_err() {
            // Whoever comes next tries anew; a cell that somebody else fills meanwhile stays.
            let mut cells = self.registry().cells();
            if cells
                .get(project)
                .is_some_and(|found| Arc::ptr_eq(found, &cell) && !found.initialized())
            {
                cells.remove(project);
            }
        }
        loaded.cloned()
    }

    /// The one in memory, if there is one.
    pub(super) fn loaded(&self, project: &ProjectId) -> Option<Arc<Replica>> {
        let found = self.registry().cells().get(project)?.get().cloned();
        found.filter(|replica| !replica.over.is_cancelled())
    }

    /// The one in memory, or the one that somebody is about to have there: it may have been read before
    /// what was stored just now.
    pub(super) async fn loaded_or_loading(&self, project: &ProjectId) -> Option<Arc<Replica>> {
        let cell = self.registry().cells().get(project).cloned()?;
        if cell.get().is_none() {
            // If it cannot be read, nobody has it.
            self.replica(project).await.ok()?;
        }
        self.loaded(project)
    }

    async fn load_replica(&self, project: &ProjectId) -> Result<Arc<Replica>, DocumentError> {
        // Whatever is stored after this is heard, or is in what is read now.
        let subscription = self.bus().subscribe(&topic(project)).await.ok();
        let (document, stored) = self.load(project).await?;
        let room = stored.room;
        let replica = Arc::new(Replica::new(
            project.clone(),
            document,
            room.head_seq,
            room.document_bytes(),
            self.limits().presence_keep,
            self.clock().monotonic(),
        ));
        self.metrics().room_loaded();
        self.attend(replica.clone(), subscription);
        Ok(replica)
    }

    fn attend(&self, replica: Arc<Replica>, subscription: Option<Box<dyn BusSubscription>>) {
        let rooms = self.clone();
        self.attendants().spawn(async move {
            rooms.listen(&replica, subscription).await;
            rooms.metrics().room_unloaded();
        });
    }

    /// The document as it is stored. What cannot be read is an error, and stays as it is.
    pub(super) async fn load(
        &self,
        project: &ProjectId,
    ) -> Result<(Document, StoredRoom), DocumentError> {
        let Some(stored) = self.store().load_room(project.clone()).await? else {
            return Err(DocumentError::NoSuchRoom(project.clone()));
        };
        let peer = self.draw_peer();
        let work = self.workshop().run(move || {
            let updates = stored.updates.iter().map(|update| &update.payload[..]);
            let loaded = Document::load(stored.snapshot.as_deref(), updates, peer);
            loaded.map(|document| (document, stored))
        });
        let reason = match work.await {
            Some(Ok(loaded)) => return Ok(loaded),
            Some(Err(error)) => error.to_string(),
            None => "loading it panicked".to_owned(),
        };
        self.metrics().room_unreadable();
        tracing::error!(%project, reason, "a document cannot be read; it is left as it is");
        Err(DocumentError::Unreadable { project: project.clone(), reason })
    }

    /// Forgets a document that is not to be used any more.
    pub(super) fn forget(&self, replica: &Arc<Replica>) {
        let mut cells = self.registry().cells();
        let same = cells.get(&replica.project).and_then(|cell| cell.get());
        if same.is_some_and(|found| Arc::ptr_eq(found, replica)) {
            cells.remove(&replica.project);
        }
    }

    /// A document in memory may differ from the log.
    pub(super) fn lose(&self, replica: &Arc<Replica>, why: &'static str) {
        self.metrics().room_lost();
        self.forget(replica);
        replica.drop_out(why);
    }

    /// All that are in memory.
    pub(super) fn all_loaded(&self) -> Vec<Arc<Replica>> {
        self.registry().cells().values().filter_map(|cell| cell.get().cloned()).collect()
    }
}

impl Registry {
    fn cells(&self) -> MutexGuard<'_, BTreeMap<ProjectId, Arc<OnceCell<Arc<Replica>>>>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn busy() -> StoreError {
    StoreError::Unavailable("the document is being loaded again and again".into())
}
