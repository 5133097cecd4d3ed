//! A store of recordings each of whose calls is a step.

use std::sync::Arc;

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

use super::steps::Steps;

pub(super) struct SteppedRecordings {
    pub(super) inner: Arc<dyn RecordingStore>,
    pub(super) steps: Arc<Steps>,
}

macro_rules! stepped {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl RecordingStore for SteppedRecordings {
            $(
                async fn $name(&self, $($argument: $type),*) -> Result<$answer, StoreError> {
                    let work = self.inner.$name($($argument),*);
                    self.steps.step(stringify!($name), work).await
                }
            )*
        }
    };
}

stepped! {
    announce_recordings(announcements: Vec<Announcement>, now: Timestamp) -> Vec<AnnounceAnswer>;
    known_recordings(ids: Vec<RecordingId>) -> Vec<bool>;
    recording(scope: Scope, id: RecordingId) -> Option<Recording>;
    recordings(scope: Scope, filter: RecordingFilter, before: Option<i64>, rows_max: u32)
        -> Vec<Recording>;
    begin_recording(id: RecordingId, guard: LeaseRef, now: Timestamp) -> BeginAnswer;
    keep_media(id: RecordingId, media: Vec<Media>, guard: LeaseRef, now: Timestamp) -> bool;
    finish_recording(
        id: RecordingId, spoken: Vec<SpokenSegment>, guard: LeaseRef, now: Timestamp
    ) -> FinishAnswer;
    fail_recording(id: RecordingId, error: String, guard: LeaseRef, now: Timestamp) -> bool;
    retry_recordings(scope: Scope, id: Option<RecordingId>, rows_max: u32, now: Timestamp) -> u32;
    set_consent(scope: Scope, meeting: MeetingId, consent: Consent) -> bool;
    consents(meeting: MeetingId) -> Vec<Consent>;
    recordings_to_erase(meeting: MeetingId) -> Vec<Recording>;
    media_erased(id: RecordingId, error: Option<String>, guard: LeaseRef, now: Timestamp) -> bool;
    recording_cursor() -> Option<RecordingId>;
    set_recording_cursor(id: RecordingId, now: Timestamp) -> ();
    recording_counts() -> Vec<(RecordingStatus, u64)>;
}
