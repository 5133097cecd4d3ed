//! The one way in which documents change: taken in, stored, told.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use roundsman_core::failpoint;
use roundsman_core::ports::{AppendAnswer, DocumentError, RoomDocuments, StoreError};
use roundsman_core::rooms::{AppendedUpdate, NewUpdate, ProjectId, TaskCompletion, UpdateOrigin};
use roundsman_documents::{Document, ImportError, PatchError};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::message::News;
use super::registry::Membership;
use super::replica::{Imported, Refused, Replica};
use super::service::Rooms;
use crate::{Error, FieldError};

/// Why an update was not stored.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// It is no update of this document.
    #[error("not an update of this document: {0}")]
    Invalid(String),
    /// The document may not grow by this.
    #[error("the document may not grow by this")]
    TooLarge,
    /// The document was dropped from memory: the member joins again and sends what is missing.
    #[error("the document is loaded again")]
    Rejoin,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Updates that were taken in and are being stored.
pub struct Pending {
    storing: JoinHandle<Result<(), WriteError>>,
}

impl Pending {
    pub(super) fn new(storing: JoinHandle<Result<(), WriteError>>) -> Self {
        Pending { storing }
    }
}

impl Rooms {
    /// Takes updates of a member in, and begins to store them: whatever becomes of the member, what was
    /// taken in is stored, or the document in memory is dropped. What follows, [`Rooms::store_pending`],
    /// may wait for the database while the next ones are taken in.
    pub async fn take(
        &self,
        membership: &Membership,
        updates: Vec<Bytes>,
    ) -> Result<Pending, WriteError> {
        let replica = membership.replica.clone();
        let weight: u64 = updates.iter().map(|update| update.len() as u64).sum();
        if !self.has_room(&replica, weight).await? {
            self.metrics().limit_hit("room_document_bytes");
            return Err(WriteError::TooLarge);
        }
        let (taken, was_taken) = oneshot::channel();
        let (rooms, member) = (self.clone(), membership.id);
        let work = async move { rooms.take_and_store(replica, member, updates, taken).await };
        let storing = self.attendants().spawn(work);
        match was_taken.await {
            Ok(()) => Ok(Pending { storing }),
            // There is nothing to be stored.
            Err(_) => Err(self
                .store_pending(Pending { storing })
                .await
                .err()
                .unwrap_or(WriteError::Rejoin)),
        }
    }

    /// Returns when what was taken in is durable, and everybody else was told.
    pub async fn store_pending(&self, pending: Pending) -> Result<(), WriteError> {
        // It ends by itself or with the process.
        pending.storing.await.unwrap_or(Err(WriteError::Rejoin))
    }

    /// Whether the document may grow by this. What is known here only grows; what is stored is asked
    /// for before anybody is refused, because merging the log makes it smaller.
    async fn has_room(&self, replica: &Replica, weight: u64) -> Result<bool, StoreError> {
        let bytes_max = self.limits().rules.document_bytes_max;
        if replica.bytes() + weight <= bytes_max {
            return Ok(true);
        }
        if let Some(room) = self.store().room(replica.project.clone()).await? {
            replica.set_bytes(room.document_bytes());
        }
        Ok(replica.bytes() + weight <= bytes_max)
    }

    async fn take_and_store(
        &self,
        replica: Arc<Replica>,
        member: u64,
        mut updates: Vec<Bytes>,
        taken: oneshot::Sender<()>,
    ) -> Result<(), WriteError> {
        let Imported { count, refused, import } =
            replica.import(self.workshop(), updates.clone()).await;
        updates.truncate(count);
        let refused = match refused {
            None => None,
            Some(Refused::Lost) => {
                self.lose(&replica, "the document is loaded again");
                return Err(WriteError::Rejoin);
            }
            Some(Refused::Invalid(reason)) => Some(WriteError::Invalid(reason)),
        };
        if let (0, Some(refused)) = (count, &refused) {
            return Err(WriteError::Invalid(refused.to_string()));
        }
        // Whoever waits for this may be gone.
        let _ = taken.send(());
        self.store_taken(&replica, (member, import), updates).await?;
        refused.map_or(Ok(()), Err)
    }

    async fn store_taken(
        &self,
        replica: &Arc<Replica>,
        from: (u64, u64),
        updates: Vec<Bytes>,
    ) -> Result<(), WriteError> {
        let new = updates.iter().map(|payload| NewUpdate {
            project: replica.project.clone(),
            payload: payload.clone(),
            origin: UpdateOrigin::Client,
            rules: self.limits().rules,
        });
        let answers = match self.append(new.collect()).await {
            Ok(answers) => answers,
            Err(error) => {
                self.lose(replica, "the database did not answer");
                return Err(error.into());
            }
        };
        failpoint::hit("rooms.appended");
        for (update, answer) in updates.into_iter().zip(answers) {
            match answer {
                AppendAnswer::Appended { seq } => {
                    self.stored(replica, seq, &update, from).await;
                }
                AppendAnswer::Full(_) => {
                    self.lose(replica, "the document is full");
                    return Err(WriteError::TooLarge);
                }
                AppendAnswer::NoSuchRoom => {
                    self.lose(replica, "the room is gone");
                    return Err(WriteError::Rejoin);
                }
            }
        }
        failpoint::hit("rooms.published");
        Ok(())
    }

    /// An update that this document has taken in is in the log: of which member, and with which import.
    async fn stored(
        &self,
        replica: &Arc<Replica>,
        seq: i64,
        update: &Bytes,
        (member, import): (u64, u64),
    ) {
        self.metrics().room_update_stored(UpdateOrigin::Client);
        replica.grow(update.len() as u64);
        replica.applied().note(seq);
        replica.tell_update(update, Some(member), import);
        // Another one may have been loaded meanwhile, from before this was stored.
        if let Some(other) = self.loaded_or_loading(&replica.project).await
            && !Arc::ptr_eq(&other, replica)
        {
            self.take_in(&other, seq, update.clone()).await;
        }
        self.publish(replica, News::Update { seq, payload: Some(update.clone()) }).await;
    }

    /// Somebody says something of themselves. `false` if it says nothing.
    pub async fn tell_presence(&self, membership: &Membership, update: Bytes) -> bool {
        let replica = &membership.replica;
        if !replica.tell_presence(&update, Some(membership.id)) {
            return false;
        }
        self.publish(replica, News::Presence(update)).await;
        true
    }

    /// Changes a document as it is stored. Answers with the number of the update; `None` if nothing
    /// changed. One at a time for each project, so that all can write under one name: every name is part
    /// of every version for ever.
    pub(super) async fn change(
        &self,
        project: &ProjectId,
        origin: UpdateOrigin,
        change: impl FnOnce(&mut Document) -> Result<Option<Bytes>, PatchError> + Send + 'static,
    ) -> Result<Option<i64>, Error> {
        let writer = self.writers().of(project);
        let mut peer = writer.lock().await;
        let name = *peer.get_or_insert_with(|| self.draw_peer());
        let (mut document, _) = self.load(project).await.map_err(document_error)?;
        let work = move || {
            document.write_as(name);
            change(&mut document)
        };
        let changed = self.workshop().run(work).await;
        let changed = changed.ok_or_else(|| failed("changing the document panicked"))?;
        let update = changed
            .map_err(|error| Error::Invalid(vec![FieldError::new("body", error.to_string())]))?;
        let Some(payload) = update else { return Ok(None) };
        // Until it is known to be stored, nobody may write under this name.
        peer.take();
        let seq = self.write(project, origin, payload).await?;
        *peer = Some(name);
        Ok(Some(seq))
    }

    /// Brings an update into a document, as if a client had sent it.
    pub async fn import(&self, project: &ProjectId, update: Bytes) -> Result<i64, Error> {
        let (mut document, _) = self.load(project).await.map_err(document_error)?;
        let given = update.clone();
        let imported = self.workshop().run(move || document.import(&given)).await;
        match imported {
            Some(Ok(_)) => self.write(project, UpdateOrigin::Request, update).await,
            Some(Err(ImportError::Invalid(reason) | ImportError::Broken(reason))) => {
                let message = format!("not an update or snapshot of this document: {reason}");
                Err(Error::Invalid(vec![FieldError::new("body", message)]))
            }
            None => Err(failed("taking the update in panicked")),
        }
    }

    /// Applies a JSON merge patch. Answers with the number of the update; `None` if nothing changed.
    pub async fn patch(&self, project: &ProjectId, patch: Value) -> Result<Option<i64>, Error> {
        self.change(project, UpdateOrigin::Request, move |document| document.patch(&patch)).await
    }

    async fn write(
        &self,
        project: &ProjectId,
        origin: UpdateOrigin,
        payload: Bytes,
    ) -> Result<i64, Error> {
        let rules = self.limits().rules;
        let bytes = payload.len();
        let new = NewUpdate { project: project.clone(), payload: payload.clone(), origin, rules };
        match self.append(vec![new]).await?.first() {
            Some(AppendAnswer::Appended { seq }) => {
                self.metrics().room_update_stored(origin);
                let update = AppendedUpdate { project: project.clone(), seq: *seq, payload };
                RoomDocuments::appended(self, update).await;
                Ok(*seq)
            }
            Some(AppendAnswer::Full(full)) => {
                self.metrics().limit_hit("room_document_bytes");
                let bytes_max = usize::try_from(full.bytes_max).unwrap_or(usize::MAX);
                let bytes = usize::try_from(full.bytes).unwrap_or(bytes);
                Err(Error::TooLarge { field: "document", bytes, bytes_max })
            }
            Some(AppendAnswer::NoSuchRoom) => Err(Error::NotFound { what: "room" }),
            None => Err(failed("the store gave no answer")),
        }
    }
}

#[async_trait]
impl RoomDocuments for Rooms {
    async fn completion_update(
        &self,
        completion: &TaskCompletion,
    ) -> Result<Option<NewUpdate>, DocumentError> {
        let project = completion.project.clone();
        // Before the document is read: it then has what was written under this name.
        let name = self.names().take(&project).unwrap_or_else(|| self.draw_peer());
        let (mut document, _) = self.load(&project).await?;
        let completion = completion.clone();
        let work = move || {
            document.write_as(name);
            document.complete(&completion)
        };
        let written = self.workshop().run(work).await;
        let unreadable =
            |reason: String| DocumentError::Unreadable { project: project.clone(), reason };
        let payload = match written {
            Some(Ok(payload)) => payload,
            Some(Err(error)) => return Err(unreadable(error.to_string())),
            None => return Err(unreadable("writing to it panicked".to_owned())),
        };
        match &payload {
            Some(payload) => self.names().lend(&project, name, payload),
            None => self.names().give_back(&project, name),
        }
        let rules = self.limits().rules.without_limit();
        let origin = UpdateOrigin::Task;
        Ok(payload.map(|payload| NewUpdate { project: project.clone(), payload, origin, rules }))
    }

    async fn appended(&self, update: AppendedUpdate) {
        let AppendedUpdate { project, seq, payload } = update;
        self.names().stored(&project, &payload);
        if let Some(replica) = self.loaded_or_loading(&project).await {
            self.take_in(&replica, seq, payload.clone()).await;
        }
        self.publish_to(&project, News::Update { seq, payload: Some(payload) }).await;
    }
}

/// How callers of the service hear of a document that is not there.
pub(super) fn document_error(error: DocumentError) -> Error {
    match error {
        DocumentError::Store(error) => Error::Store(error),
        DocumentError::NoSuchRoom(_) => Error::NotFound { what: "room" },
        error @ DocumentError::Unreadable { .. } => failed(error.to_string()),
    }
}

fn failed(message: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Store(StoreError::Failed(message.into()))
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}
