//! One document in memory, and who is in its room.
//!
//! Invariant: what it holds beyond the log is what is being stored at this moment. When storing fails
//! it is dropped, and its members join again and bring what they have.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use roundsman_core::ports::KeptPresence;
use roundsman_core::rooms::ProjectId;
use roundsman_documents::{Document, ImportError, PresenceState, UnknownVersion};
use tokio_util::sync::CancellationToken;

use super::applied::Applied;
use super::mailbox::Mailbox;
use super::workshop::Workshop;

pub(super) struct Replica {
    pub(super) project: ProjectId,
    document: Arc<tokio::sync::Mutex<Document>>,
    applied: Mutex<Applied>,
    /// How often something was taken in; changes only while the document is locked.
    imports: AtomicU64,
    /// What is stored of it, as far as is known here.
    bytes: AtomicU64,
    presence: Mutex<PresenceState>,
    /// What is kept of presence, once somebody has asked for it. One at a time changes it.
    pub(super) kept: tokio::sync::Mutex<Option<KeptPresence>>,
    members: Mutex<Members>,
    /// One at a time reads what is missing.
    pub(super) catching_up: tokio::sync::Mutex<()>,
    /// It is no longer to be used.
    pub(super) over: CancellationToken,
}

#[derive(Default)]
struct Members {
    /// Those who follow the document, those who follow presence, and those who follow what is kept of it.
    document: BTreeMap<u64, Arc<Mailbox>>,
    presence: BTreeMap<u64, Arc<Mailbox>>,
    kept: BTreeMap<u64, Arc<Mailbox>>,
    /// Since when there is nobody; `None` while there is.
    empty_since: Option<Duration>,
}

/// What somebody follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Document,
    Presence,
    Kept,
}

/// Why a document does not take an update.
#[derive(Debug)]
pub(super) enum Refused {
    Invalid(String),
    /// The document in memory is lost.
    Lost,
}

/// What became of updates that a member sent.
pub(super) struct Imported {
    /// So many were taken in,
    pub(super) count: usize,
    /// and the next one was not for this reason.
    pub(super) refused: Option<Refused>,
    /// Whoever came later has them.
    pub(super) import: u64,
}

/// What somebody who joins needs.
pub(super) struct Welcome {
    pub(super) version: Vec<u8>,
    pub(super) missing: Option<Bytes>,
}

impl Replica {
    pub(super) fn new(
        project: ProjectId,
        document: Document,
        seq: i64,
        bytes: u64,
        presence_keep: Duration,
        now: Duration,
    ) -> Self {
        let keep_millis = u32::try_from(presence_keep.as_millis()).unwrap_or(u32::MAX);
        let members = Members { empty_since: Some(now), ..Members::default() };
        Replica {
            project,
            document: Arc::new(tokio::sync::Mutex::new(document)),
            applied: Mutex::new(Applied::through(seq)),
            imports: AtomicU64::new(0),
            bytes: AtomicU64::new(bytes),
            presence: Mutex::new(PresenceState::new(keep_millis)),
            kept: tokio::sync::Mutex::default(),
            members: Mutex::new(members),
            catching_up: tokio::sync::Mutex::default(),
            over: CancellationToken::new(),
        }
    }

    /// Adds somebody and tells them what they lack. They hear everything that comes after it and nothing
    /// that is in it, because nothing is taken in meanwhile.
    pub(super) async fn welcome(
        &self,
        workshop: &Workshop,
        member: u64,
        mailbox: &Arc<Mailbox>,
        version: Bytes,
    ) -> Option<Result<Welcome, Vec<u8>>> {
        let document = self.document.clone().lock_owned().await;
        mailbox.begin_after(self.imports.load(Ordering::Relaxed));
        if !self.add(Part::Document, member, mailbox) {
            return None;
        }
        let answer = workshop.run(move || {
            let known = document.version();
            match document.updates_since(&version) {
                Ok(missing) => Ok(Welcome { version: known, missing }),
                Err(UnknownVersion) => Err(known),
            }
        });
        answer.await
    }

    /// Takes updates in, in order, up to the first that cannot be.
    pub(super) async fn import(&self, workshop: &Workshop, updates: Vec<Bytes>) -> Imported {
        let mut document = self.document.clone().lock_owned().await;
        let import = self.imports.fetch_add(1, Ordering::Relaxed) + 1;
        let lost = || (0, Some(Refused::Lost));
        if self.over.is_cancelled() {
            let (count, refused) = lost();
            return Imported { count, refused, import };
        }
        let work = workshop.run(move || {
            for (count, update) in updates.iter().enumerate() {
                match document.import(update) {
                    Ok(_) => {}
                    Err(ImportError::Invalid(reason)) => {
                        return (count, Some(Refused::Invalid(reason)));
                    }
                    Err(ImportError::Broken(_)) => return (count, Some(Refused::Lost)),
                }
            }
            (updates.len(), None)
        });
        let (count, refused) = work.await.unwrap_or_else(lost);
        Imported { count, refused, import }
    }

    /// Takes in an update that is in the log under this number, 0 for several, and tells the members,
    /// unless it is here already: then they know of it, or are about to be told. Nobody joins in
    /// between, and whoever waits for this may be gone: what was begun is done.
    pub(super) async fn take_in(
        self: &Arc<Self>,
        workshop: &Workshop,
        seq: i64,
        update: Bytes,
    ) -> Result<(), Refused> {
        let mut document = self.document.clone().lock_owned().await;
        if self.over.is_cancelled() {
            return Err(Refused::Lost);
        }
        if seq > 0 && self.applied().has(seq) {
            return Ok(());
        }
        let replica = self.clone();
        let work = workshop.run(move || {
            let before = document.version();
            let waits = match document.import(&update) {
                Ok(imported) => imported.waits,
                Err(ImportError::Invalid(reason)) => return Err(Refused::Invalid(reason)),
                Err(ImportError::Broken(_)) => return Err(Refused::Lost),
            };
            replica.grow(update.len() as u64);
            replica.applied().note(seq);
            let import = replica.imports.fetch_add(1, Ordering::Relaxed) + 1;
            if waits || document.version() != before {
                replica.tell_update(&update, None, import);
            }
            Ok(())
        });
        work.await.unwrap_or(Err(Refused::Lost))
    }

    pub(super) async fn version(&self) -> Vec<u8> {
        self.document.lock().await.version()
    }

    /// Tells everybody but the one it came from, and those who came after it was taken in.
    pub(super) fn tell_update(&self, update: &Bytes, from: Option<u64>, import: u64) {
        let members = self.members();
        let others = members.document.iter().filter(|(id, _)| Some(**id) != from);
        for (_, mailbox) in others.filter(|(_, mailbox)| mailbox.lacks(import)) {
            mailbox.update(update);
        }
    }

    /// Somebody has said something of themselves. `false` if it says nothing.
    pub(super) fn tell_presence(&self, update: &Bytes, from: Option<u64>) -> bool {
        if self.presence().apply(update).is_err() {
            return false;
        }
        for (_, mailbox) in self.members().presence.iter().filter(|(id, _)| Some(**id) != from) {
            mailbox.presence(update);
        }
        true
    }

    /// Something more is kept of presence.
    pub(super) fn tell_kept(&self, said: &Bytes, from: Option<u64>) {
        for (_, mailbox) in self.members().kept.iter().filter(|(id, _)| Some(**id) != from) {
            mailbox.update(said);
        }
    }

    /// What is known of those who are here.
    pub(super) fn all_presence(&self) -> Option<Bytes> {
        self.presence().all()
    }

    /// Everybody is to show again that they may be here.
    pub(super) fn recheck(&self) {
        for mailbox in self.members().all() {
            mailbox.recheck();
        }
    }

    /// It may differ from the log: nobody uses it any more.
    pub(super) fn drop_out(&self, why: &'static str) {
        self.over.cancel();
        for mailbox in self.members().all() {
            mailbox.rejoin(why);
        }
    }

    /// One of them is to join again.
    pub(super) fn rejoin(&self, part: Part, member: u64, why: &'static str) {
        if let Some(mailbox) = self.members().part(part).get(&member) {
            mailbox.rejoin(why);
        }
    }

    pub(super) fn has_members(&self, part: Part) -> bool {
        !self.members().part(part).is_empty()
    }

    /// `false` if it is no longer to be used.
    pub(super) fn add(&self, part: Part, member: u64, mailbox: &Arc<Mailbox>) -> bool {
        let mut members = self.members();
        if self.over.is_cancelled() {
            return false;
        }
        members.empty_since = None;
        members.part(part).insert(member, mailbox.clone());
        true
    }

    pub(super) fn remove(&self, part: Part, member: u64, now: Duration) {
        let mut members = self.members();
        members.part(part).remove(&member);
        if members.count() == 0 {
            members.empty_since.get_or_insert(now);
        }
    }

    pub(super) fn members_count(&self) -> usize {
        self.members().count()
    }

    /// Ends it if nobody has been here for so long. From then on nobody can come.
    pub(super) fn end_if_idle(&self, idle: Duration, now: Duration) -> bool {
        let members = self.members();
        let is_idle = members.empty_since.is_some_and(|since| now.saturating_sub(since) >= idle);
        if is_idle {
            self.over.cancel();
        }
        is_idle
    }

    pub(super) fn grow(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn applied(&self) -> MutexGuard<'_, Applied> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn presence(&self) -> MutexGuard<'_, PresenceState> {
        self.presence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    fn part(&mut self, part: Part) -> &mut BTreeMap<u64, Arc<Mailbox>> {
        match part {
            Part::Document => &mut self.document,
            Part::Presence => &mut self.presence,
            Part::Kept => &mut self.kept,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Mailbox>> {
        self.document.values().chain(self.presence.values()).chain(self.kept.values())
    }

    fn count(&self) -> usize {
        self.all().count()
    }
}
