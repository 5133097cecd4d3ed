//! Recordings of rooms: every method of the port is one closure over one transaction, and the
//! statements of each are in the module of its name.
//!
//! Invariants: a recording is changed only as `roundsman_core::recordings` says, with the log of its
//! steps; its transcript is written with the state that says so. There is one writer, so nothing that
//! is read in a write changes before it is written.

mod announce;
pub(super) mod check;
mod columns;
mod consent;
pub(super) mod forget;
#[cfg(test)]
mod plans;
mod process;
mod read;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{
    AnnounceAnswer, BeginAnswer, FinishAnswer, RecordingFilter, RecordingStore, Scope, StoreError,
};
use roundsman_core::recordings::{
    Announcement, Consent, Media, Recording, RecordingId, RecordingStatus, SpokenSegment,
};

use super::SqliteStore;

#[async_trait]
impl RecordingStore for SqliteStore {
    async fn announce_recordings(
        &self,
        announcements: Vec<Announcement>,
        now: Timestamp,
    ) -> Result<Vec<AnnounceAnswer>, StoreError> {
        self.write("store.recording_announce", move |conn, catalog| {
            announce::announce_all(conn, catalog, announcements, now)
        })
        .await
    }

    async fn known_recordings(&self, ids: Vec<RecordingId>) -> Result<Vec<bool>, StoreError> {
        self.read(move |conn| ids.iter().map(|id| read::is_known(conn, id)).collect()).await
    }

    async fn recording(
        &self,
        scope: Scope,
        id: RecordingId,
    ) -> Result<Option<Recording>, StoreError> {
        self.read(move |conn| read::one(conn, scope, &id)).await
    }

    async fn recordings(
        &self,
        scope: Scope,
        filter: RecordingFilter,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<Recording>, StoreError> {
        self.read(move |conn| read::list(conn, scope, &filter, before, rows_max)).await
    }

    async fn begin_recording(
        &self,
        id: RecordingId,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<BeginAnswer, StoreError> {
        self.write("store.recording_begin", move |conn, catalog| {
            process::begin_one(conn, catalog, &id, guard, now)
        })
        .await
    }

    async fn keep_media(
        &self,
        id: RecordingId,
        media: Vec<Media>,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write("store.recording_media", move |conn, _| {
            process::keep_media(conn, &id, media, guard, now)
        })
        .await
    }

    async fn finish_recording(
        &self,
        id: RecordingId,
        spoken: Vec<SpokenSegment>,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<FinishAnswer, StoreError> {
        self.write("store.recording_finish", move |conn, catalog| {
            process::finish_one(conn, catalog, &id, &spoken, guard, now)
        })
        .await
    }

    async fn fail_recording(
        &self,
        id: RecordingId,
        error: String,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write("store.recording_fail", move |conn, catalog| {
            process::fail_one(conn, catalog, &id, error, guard, now)
        })
        .await
    }

    async fn retry_recordings(
        &self,
        scope: Scope,
        id: Option<RecordingId>,
        rows_max: u32,
        now: Timestamp,
    ) -> Result<u32, StoreError> {
        self.write("store.recording_retry", move |conn, catalog| {
            process::retry_some(conn, catalog, scope, id.as_ref(), rows_max, now)
        })
        .await
    }

    async fn set_consent(
        &self,
        scope: Scope,
        meeting: MeetingId,
        consent: Consent,
    ) -> Result<bool, StoreError> {
        self.write("store.recording_consent", move |conn, catalog| {
            consent::set(conn, catalog, scope, meeting, consent)
        })
        .await
    }

    async fn consents(&self, meeting: MeetingId) -> Result<Vec<Consent>, StoreError> {
        self.read(move |conn| consent::list(conn, meeting)).await
    }

    async fn recordings_to_erase(&self, meeting: MeetingId) -> Result<Vec<Recording>, StoreError> {
        self.read(move |conn| consent::to_erase(conn, meeting)).await
    }

    async fn media_erased(
        &self,
        id: RecordingId,
        error: Option<String>,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write("store.recording_erased", move |conn, _| {
            process::media_erased(conn, &id, error, guard, now)
        })
        .await
    }

    async fn recording_cursor(&self) -> Result<Option<RecordingId>, StoreError> {
        self.read(read::cursor).await
    }

    async fn set_recording_cursor(
        &self,
        id: RecordingId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.write("store.recording_cursor", move |conn, _| read::set_cursor(conn, &id, now)).await
    }

    async fn recording_counts(&self) -> Result<Vec<(RecordingStatus, u64)>, StoreError> {
        self.read(read::counts).await
    }
}
