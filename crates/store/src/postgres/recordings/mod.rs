//! Recordings of rooms: one file per group of operations, and what several of them share.
//!
//! Invariants:
//! - whoever changes a recording holds the lock of its row, and several rows are locked in the order
//!   of the provider's ids; a lease that guards a change is held before;
//! - before a recording's row come the locks of its meeting: of what is said in it, then of its room
//!   ([`HOLD_ROOM`]). Under the latter a meeting is found, consents are given, and looked at when a
//!   recording is completed, so that nobody misses a denial or finds a meeting that is being
//!   anonymised;
//! - a recording is changed only as `roundsman_core::recordings` says, with the log of its steps; its
//!   transcript is written with the state that says so.

mod announce;
mod begin;
pub(super) mod check;
mod columns;
mod consent;
mod finish;
mod forget;
mod process;
mod read;
mod retry;

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

pub(super) use self::forget::forget_recordings;
use super::PostgresStore;

#[async_trait]
impl RecordingStore for PostgresStore {
    async fn announce_recordings(
        &self,
        announcements: Vec<Announcement>,
        now: Timestamp,
    ) -> Result<Vec<AnnounceAnswer>, StoreError> {
        let announce = announce::Announce::new(announcements, &self.catalog, now);
        self.change("store.recording_announce", &announce).await
    }

    async fn known_recordings(&self, ids: Vec<RecordingId>) -> Result<Vec<bool>, StoreError> {
        self.pool.run(&read::Known { ids: &ids }).await
    }

    async fn recording(
        &self,
        scope: Scope,
        id: RecordingId,
    ) -> Result<Option<Recording>, StoreError> {
        self.pool.run(&read::OneRecording { scope, id }).await
    }

    async fn recordings(
        &self,
        scope: Scope,
        filter: RecordingFilter,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<Recording>, StoreError> {
        self.pool.run(&read::Recordings { scope, filter, before, rows_max }).await
    }

    async fn begin_recording(
        &self,
        id: RecordingId,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<BeginAnswer, StoreError> {
        let begin = begin::Begin { id, guard, catalog: &self.catalog, now };
        self.change("store.recording_begin", &begin).await
    }

    async fn keep_media(
        &self,
        id: RecordingId,
        media: Vec<Media>,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let keep = process::KeepMedia { id, media, guard, now };
        self.change("store.recording_media", &keep).await
    }

    async fn finish_recording(
        &self,
        id: RecordingId,
        spoken: Vec<SpokenSegment>,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<FinishAnswer, StoreError> {
        let finish = finish::Finish { id, spoken, guard, catalog: &self.catalog, now };
        self.change("store.recording_finish", &finish).await
    }

    async fn fail_recording(
        &self,
        id: RecordingId,
        error: String,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let fail = process::Fail { id, error, guard, catalog: &self.catalog, now };
        self.change("store.recording_fail", &fail).await
    }

    async fn retry_recordings(
        &self,
        scope: Scope,
        id: Option<RecordingId>,
        rows_max: u32,
        now: Timestamp,
    ) -> Result<u32, StoreError> {
        let retry = retry::Retry { scope, id, rows_max, catalog: &self.catalog, now };
        self.change("store.recording_retry", &retry).await
    }

    async fn set_consent(
        &self,
        scope: Scope,
        meeting: MeetingId,
        consent: Consent,
    ) -> Result<bool, StoreError> {
        let set = consent::SetConsent::new(scope, meeting, consent, &self.catalog);
        self.change("store.recording_consent", &set).await
    }

    async fn consents(&self, meeting: MeetingId) -> Result<Vec<Consent>, StoreError> {
        self.pool.run(&consent::Consents { meeting }).await
    }

    async fn recordings_to_erase(&self, meeting: MeetingId) -> Result<Vec<Recording>, StoreError> {
        self.pool.run(&consent::ToErase { meeting }).await
    }

    async fn media_erased(
        &self,
        id: RecordingId,
        error: Option<String>,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let erased = process::Erased { id, error, guard, now };
        self.change("store.recording_erased", &erased).await
    }

    async fn recording_cursor(&self) -> Result<Option<RecordingId>, StoreError> {
        self.pool.run(&read::Cursor).await
    }

    async fn set_recording_cursor(
        &self,
        id: RecordingId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.change("store.recording_cursor", &read::SetCursor { id, now }).await
    }

    async fn recording_counts(&self) -> Result<Vec<(RecordingStatus, u64)>, StoreError> {
        self.pool.run(&read::Counts).await
    }
}

/// The room of a meeting and whose it is, which stay so until the transaction ends. The lock is the
/// one of whoever changes or anonymises the meeting: a row that was changed while we waited is read
/// as it is now.
const HOLD_ROOM: &str = "-- hold_room
SELECT room, user_id FROM roundsman.presence WHERE meeting_id = $1 FOR NO KEY UPDATE";

/// The statements whose plans are tested.
#[cfg(test)]
pub(super) fn hot_statements() -> Vec<&'static str> {
    vec![
        HOLD_ROOM,
        columns::RECORDING_OF,
        columns::LOCK_RECORDING,
        columns::UPDATE_RECORDINGS,
        announce::ANNOUNCE,
        announce::ANNOUNCED,
        begin::MEETINGS_NEAR,
        consent::CONSENTS,
        consent::IS_DENIED,
        consent::TO_ERASE,
        forget::OF_MEETING,
        forget::LOCK_RECORDINGS,
        read::KNOWN,
        read::ALL_RECORDINGS,
        read::RECORDINGS_OF_MEETING,
        read::RECORDINGS_OF_USER,
        read::RECORDINGS_UNFINISHED,
        read::COUNTS,
        retry::LOCK_FAILED,
    ]
}
