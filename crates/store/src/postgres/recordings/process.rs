//! The small steps of a job about one recording: a file is kept, it fails, its media are erased.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::recordings::{
    Media, Recording, RecordingId, RecordingStatus, abandon, erase, fail, keep,
};

use super::columns::{LOCK_RECORDING, recording_of, update_recordings, write};
use crate::postgres::effects::HOLD_LEASE;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::rows::recordings::storable;

/// The recording, locked, if the lease is held.
async fn hold(
    session: &mut Session,
    id: &RecordingId,
    guard: LeaseRef,
) -> Result<Option<Recording>, Failure> {
    let (job, lease_no) = (guard.id.get(), guard.lease_no.get());
    let [lease, found] = session
        .query_all([(HOLD_LEASE, &[&job, &lease_no]), (LOCK_RECORDING, &[&id.as_str()])])
        .await?;
    if lease.is_empty() {
        return Ok(None);
    }
    recording_of(&found)
}

pub(super) struct KeepMedia {
    pub(super) id: RecordingId,
    pub(super) media: Vec<Media>,
    pub(super) guard: LeaseRef,
    pub(super) now: Timestamp,
}

impl Operation for KeepMedia {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        session.begin();
        let held = hold(session, &self.id, self.guard).await?;
        let kept = held.map(|known| keep(known, self.media.clone(), self.now));
        update_recordings(session, kept.as_slice()).await?;
        session.commit().await?;
        Ok(kept.is_some())
    }
}

pub(super) struct Fail<'a> {
    pub(super) id: RecordingId,
    pub(super) error: String,
    pub(super) guard: LeaseRef,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Fail<'_> {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        session.begin();
        let Some(known) = hold(session, &self.id, self.guard).await? else {
            session.commit().await?;
            return Ok(false);
        };
        if known.status != RecordingStatus::Completed {
            let changed = if known.is_anonymous() {
                abandon(known, self.now)
            } else {
                fail(known, storable(self.error.clone()), self.now)
            };
            write(session, vec![changed], self.catalog, self.now).await?;
        }
        session.commit().await?;
        Ok(true)
    }
}

pub(super) struct Erased {
    pub(super) id: RecordingId,
    pub(super) error: Option<String>,
    pub(super) guard: LeaseRef,
    pub(super) now: Timestamp,
}

impl Operation for Erased {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        session.begin();
        let held = hold(session, &self.id, self.guard).await?;
        let erased = held.map(|known| erase(known, self.error.clone().map(storable), self.now));
        update_recordings(session, erased.as_slice()).await?;
        session.commit().await?;
        Ok(erased.is_some())
    }
}
