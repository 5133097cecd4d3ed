//! Recordings in the database.
//!
//! Invariants: one row for each of the provider's ids; what is written about a recording that is
//! being processed is written under the lease of its job; a transcript is saved once, together with
//! the state that says so; every step is logged under [`crate::recordings::RECORDING_ENTITY`] and the
//! recording's number. Anonymising a meeting deletes its consents and does to its recordings, found
//! or still to be found, what [`crate::recordings::forget`] says.

use async_trait::async_trait;

use super::{Scope, StoreError};
use crate::Timestamp;
use crate::bots::MeetingId;
use crate::effects::Frame;
use crate::jobs::LeaseRef;
use crate::recordings::{
    Announcement, Consent, Media, Recording, RecordingId, RecordingStatus, SpokenSegment,
};

/// Stores recordings and what people say about being recorded.
#[async_trait]
pub trait RecordingStore: Send + Sync {
    /// Recordings can be had, in the order given, each as [`crate::recordings::announce`] decides.
    /// Durable when this returns, together with the jobs that process them.
    async fn announce_recordings(
        &self,
        announcements: Vec<Announcement>,
        now: Timestamp,
    ) -> Result<Vec<AnnounceAnswer>, StoreError>;

    /// Which of these are known, in the order given.
    async fn known_recordings(&self, ids: Vec<RecordingId>) -> Result<Vec<bool>, StoreError>;

    async fn recording(
        &self,
        scope: Scope,
        id: RecordingId,
    ) -> Result<Option<Recording>, StoreError>;

    /// Recordings, newest first, those with a lower number than `before`. A user has those of their
    /// meetings; those without one are the operator's.
    async fn recordings(
        &self,
        scope: Scope,
        filter: RecordingFilter,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<Recording>, StoreError>;

    /// Begins to process one: finds its meeting ([`crate::recordings::nearest`] of the room's
    /// meetings, by when they began or were made) if it has none yet, and notes that it is being
    /// processed. One whose meeting was anonymised is [`crate::recordings::abandon`]ed, and done.
    async fn begin_recording(
        &self,
        id: RecordingId,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<BeginAnswer, StoreError>;

    /// Its files are ours. Replaces what was kept of the same tracks. `false` if the lease is lost, or
    /// there is no such recording.
    async fn keep_media(
        &self,
        id: RecordingId,
        media: Vec<Media>,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Saves the transcript as final segments of the meeting's session
    /// [`crate::recordings::session_uid`], with the session's start, searchable, told in frames, and
    /// completes the recording: see [`crate::recordings::finish`]. If somebody has denied consent, a
    /// job erases the media. Speakers have the names that users gave them in this meeting. If the
    /// meeting was anonymised, nothing is saved.
    async fn finish_recording(
        &self,
        id: RecordingId,
        spoken: Vec<SpokenSegment>,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<FinishAnswer, StoreError>;

    /// It could not be processed. One that is completed stays so. `false` if the lease is lost, or
    /// there is no such recording.
    async fn fail_recording(
        &self,
        id: RecordingId,
        error: String,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Makes those that have failed wait again, with their jobs, oldest first: one, or at most
    /// `rows_max`. Returns how many.
    async fn retry_recordings(
        &self,
        scope: Scope,
        id: Option<RecordingId>,
        rows_max: u32,
        now: Timestamp,
    ) -> Result<u32, StoreError>;

    /// What somebody says about being recorded; the latest word of each person counts. A denial
    /// enqueues [`crate::recordings::erase_wish`]. `false` if there is no such meeting in a room, or it
    /// was anonymised.
    async fn set_consent(
        &self,
        scope: Scope,
        meeting: MeetingId,
        consent: Consent,
    ) -> Result<bool, StoreError>;

    /// The word of each person, by their names.
    async fn consents(&self, meeting: MeetingId) -> Result<Vec<Consent>, StoreError>;

    /// Recordings of a meeting whose media are to be erased, by their numbers: somebody has denied, or
    /// the meeting was anonymised, and they are not erased yet.
    async fn recordings_to_erase(&self, meeting: MeetingId) -> Result<Vec<Recording>, StoreError>;

    /// The media are gone, or why they are not. `false` if the lease is lost, or there is no such
    /// recording.
    async fn media_erased(
        &self,
        id: RecordingId,
        error: Option<String>,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// The newest recording up to which the provider's list was read whole.
    async fn recording_cursor(&self) -> Result<Option<RecordingId>, StoreError>;

    async fn set_recording_cursor(&self, id: RecordingId, now: Timestamp)
    -> Result<(), StoreError>;

    /// How many there are in each state, for metrics. Counts of those that are completed may be left
    /// out.
    async fn recording_counts(&self) -> Result<Vec<(RecordingStatus, u64)>, StoreError>;
}

/// What an announcement came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnounceAnswer {
    pub recording: Recording,
    pub is_repeated: bool,
}

/// Which recordings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordingFilter {
    pub meeting: Option<MeetingId>,
    pub status: Option<RecordingStatus>,
}

/// What beginning came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeginAnswer {
    Begun(Box<Recording>),
    /// It is completed: a duplicate.
    Done,
    /// No meeting of its room is near it.
    NoMeeting,
    NotFound,
    LeaseLost,
}

/// What saving came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishAnswer {
    Saved {
        meeting: MeetingId,
        frames: Vec<Frame>,
    },
    /// It was saved before.
    Done,
    NotFound,
    LeaseLost,
}
