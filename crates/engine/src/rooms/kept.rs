//! Presence that outlives those it is about: told like presence, kept like a document.
//!
//! Invariants: what is acknowledged is in the database; what is in memory is a copy of one version of
//! it, and whoever changes it names the version they have seen; what cannot be read is an error and
//! stays as it is.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use roundsman_core::ports::{DocumentError, KeepPresenceAnswer, KeptPresence, StoreError};
use roundsman_core::rooms::ProjectId;
use roundsman_documents::{KeptError, keep_presence};
use tokio::sync::Notify;

use super::message::News;
use super::registry::{JoinError, Membership, TRIES_MAX, busy};
use super::replica::{Part, Replica};
use super::service::Rooms;
use super::write::{Pending, WriteError};

/// What is kept of one room. Each change writes all of it.
const KEPT_BYTES_MAX: usize = 256 * 1024;
/// What was said longer ago is forgotten with the next change.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// Other nodes may be faster; this often it is tried again.
const KEEP_TRIES_MAX: usize = 10;

impl Rooms {
    /// Lets somebody follow the presence of a room that is kept. Answers with all of it.
    pub async fn join_kept_presence(
        &self,
        project: &ProjectId,
        bell: &Arc<Notify>,
    ) -> Result<(Membership, Option<Bytes>), JoinError> {
        for _ in 0..TRIES_MAX {
            let replica = self.replica(project).await?;
            let membership = self.admit(replica, Part::Kept, bell)?;
            let replica = &membership.replica;
            if replica.add(Part::Kept, membership.id, membership.mailbox()) {
                // Whatever is kept from here on is in what is read now, or told.
                let mut known = replica.kept.lock().await;
                let kept = self.known_presence(replica, &mut known).await?;
                let all = Some(kept.bytes.clone()).filter(|bytes| !bytes.is_empty());
                drop(known);
                return Ok((membership, all));
            }
            self.forget(replica);
        }
        Err(busy().into())
    }

    /// Begins to keep what a member says of themselves; [`Rooms::store_pending`] returns when it is
    /// durable, and everybody else was told.
    pub fn keep_presence(&self, membership: &Membership, said: Vec<Bytes>) -> Pending {
        let (rooms, replica) = (self.clone(), membership.replica.clone());
        let member = membership.id;
        Pending::new(self.attendants().spawn(async move {
            let kept = rooms.keep_said(&replica, member, &said).await;
            if matches!(kept, Err(WriteError::Store(_) | WriteError::Rejoin)) {
                // With the next join it is said again.
                replica.rejoin(Part::Kept, member, "what was said is not kept");
            }
            kept
        }))
    }

    async fn keep_said(
        &self,
        replica: &Replica,
        member: u64,
        said: &[Bytes],
    ) -> Result<(), WriteError> {
        if said.iter().map(Bytes::len).sum::<usize>() > KEPT_BYTES_MAX {
            return Err(WriteError::TooLarge);
        }
        let mut known = replica.kept.lock().await;
        for _ in 0..KEEP_TRIES_MAX {
            let kept = self.known_presence(replica, &mut known).await.map_err(write_error)?;
            let Some(bytes) = self.merged(&kept.bytes, said).await? else { return Ok(()) };
            if bytes.len() > KEPT_BYTES_MAX {
                self.metrics().limit_hit("room_kept_presence_bytes");
                return Err(WriteError::TooLarge);
            }
            let (project, from) = (replica.project.clone(), kept.version);
            match self.store().keep_presence(project, from, bytes.clone()).await? {
                KeepPresenceAnswer::Kept { version } => {
                    *known = Some(KeptPresence { version, bytes });
                    for update in said {
                        replica.tell_kept(update, Some(member));
                    }
                    self.publish(replica, News::Kept { version, said: joined(said) }).await;
                    return Ok(());
                }
                KeepPresenceAnswer::Superseded => {
                    let read = self.read_presence(replica).await.map_err(write_error)?;
                    replica.tell_kept(&read.bytes, None);
                    *known = Some(read);
                }
                KeepPresenceAnswer::NoSuchRoom => return Err(WriteError::Rejoin),
            }
        }
        Err(busy().into())
    }

    /// What another node has kept: taken in if it follows what is known here, else read.
    pub(super) async fn hear_kept(
        &self,
        replica: &Replica,
        version: i64,
        said: Option<Bytes>,
    ) -> Result<(), DocumentError> {
        let mut known = replica.kept.lock().await;
        let Some(kept) = &*known else { return Ok(()) };
        if version <= kept.version {
            return Ok(());
        }
        if let Some(said) = said.filter(|_| version == kept.version + 1)
            && let Ok(bytes) = self.merged(&kept.bytes, std::slice::from_ref(&said)).await
        {
            let bytes = bytes.unwrap_or_else(|| kept.bytes.clone());
            *known = Some(KeptPresence { version, bytes });
            replica.tell_kept(&said, None);
            return Ok(());
        }
        let read = self.read_presence(replica).await?;
        replica.tell_kept(&read.bytes, None);
        *known = Some(read);
        Ok(())
    }

    /// Compares what is known here with what is kept. For [`Rooms::look`].
    pub(super) async fn look_at_presence(
        &self,
        replicas: &[Arc<Replica>],
    ) -> Result<(), StoreError> {
        let follows = |replica: &&Arc<Replica>| replica.has_members(Part::Kept);
        let followed: Vec<&Arc<Replica>> = replicas.iter().filter(follows).collect();
        if followed.is_empty() {
            return Ok(());
        }
        let projects = followed.iter().map(|replica| replica.project.clone()).collect();
        let versions = self.store().kept_presence_versions(projects).await?;
        for (replica, version) in followed.into_iter().zip(versions) {
            if let Err(error) = self.hear_kept(replica, version, None).await {
                let project = &replica.project;
                tracing::warn!(%project, %error, "presence that others have kept is not known yet");
            }
        }
        Ok(())
    }

    async fn known_presence<'a>(
        &self,
        replica: &Replica,
        known: &'a mut Option<KeptPresence>,
    ) -> Result<&'a KeptPresence, DocumentError> {
        let kept = match known.take() {
            Some(kept) => kept,
            None => self.read_presence(replica).await?,
        };
        Ok(known.insert(kept))
    }

    async fn read_presence(&self, replica: &Replica) -> Result<KeptPresence, DocumentError> {
        let project = replica.project.clone();
        let stored = self.store().kept_presence(project.clone()).await?;
        let kept = stored.unwrap_or(KeptPresence { version: 0, bytes: Bytes::new() });
        if let Err(WriteError::Invalid(reason)) = self.merged(&kept.bytes, &[]).await {
            self.metrics().room_unreadable();
            tracing::error!(%project, reason, "kept presence cannot be read; it is left as it is");
            return Err(DocumentError::Unreadable { project, reason });
        }
        Ok(kept)
    }

    /// What is to be kept when this was said, too; `None` if that is nothing new.
    async fn merged(&self, kept: &Bytes, said: &[Bytes]) -> Result<Option<Bytes>, WriteError> {
        let keep_millis = u32::try_from(KEPT_FOR.as_millis()).unwrap_or(u32::MAX);
        let (kept, said) = (kept.clone(), said.to_vec());
        let work = self.workshop().run(move || keep_presence(&kept, &said, keep_millis));
        let invalid = |error: KeptError| WriteError::Invalid(error.to_string());
        work.await.unwrap_or(Err(KeptError::Unreadable)).map_err(invalid)
    }
}

/// One word can be told as it is; of several, others read what they came to.
fn joined(said: &[Bytes]) -> Option<Bytes> {
    match said {
        [one] => Some(one.clone()),
        _ => None,
    }
}

fn write_error(error: DocumentError) -> WriteError {
    match error {
        DocumentError::Store(error) => WriteError::Store(error),
        DocumentError::NoSuchRoom(_) => WriteError::Rejoin,
        error @ DocumentError::Unreadable { .. } => {
            WriteError::Store(StoreError::Failed(error.to_string().into()))
        }
    }
}
