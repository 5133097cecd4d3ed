//! Recordings in the hands of a test: what is known of them, in memory, as the rules of the core say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{
    AnnounceAnswer, BeginAnswer, Fetched, FinishAnswer, MediaError, MediaFetcher, MediaStore,
    PresenceFilter, PresencePage, RecordingFilter, RecordingStore, Scope, Store, StoreError,
};
use roundsman_core::recordings::{
    Announcement, Consent, Media, Recording, RecordingId, RecordingStatus, SpokenSegment, announce,
};
use roundsman_engine::presence::PresenceWork;
use roundsman_engine::recordings::{RecordingOptions, RecordingWork, Recordings};

/// What goes wrong with the database.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Away,
    Full,
    Broken,
}

/// The rows, and a store that knows the meetings.
pub(crate) struct KeptRecordings {
    store: Arc<dyn Store>,
    rows: Mutex<Rows>,
}

#[derive(Default)]
struct Rows {
    recordings: BTreeMap<i64, Recording>,
    consents: BTreeMap<(i64, String), Consent>,
    fault: Option<Fault>,
}

impl KeptRecordings {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        KeptRecordings { store, rows: Mutex::default() }
    }

    pub(crate) fn break_with(&self, fault: Option<Fault>) {
        self.rows.lock().unwrap().fault = fault;
    }

    /// Something becomes of a recording.
    pub(crate) fn change(&self, id: &str, change: impl FnOnce(&mut Recording)) {
        let mut rows = self.rows.lock().unwrap();
        change(rows.recordings.values_mut().find(|known| known.id.as_str() == id).unwrap());
    }

    pub(crate) fn count(&self) -> usize {
        self.rows.lock().unwrap().recordings.len()
    }

    fn rows(&self) -> Result<MutexGuard<'_, Rows>, StoreError> {
        let rows = self.rows.lock().unwrap();
        match rows.fault {
            None => Ok(rows),
            Some(Fault::Away) => Err(StoreError::Unavailable("away".into())),
            Some(Fault::Full) => Err(StoreError::StorageFull("full".into())),
            Some(Fault::Broken) => Err(StoreError::Failed("broken".into())),
        }
    }
}

fn sees(scope: Scope, recording: &Recording) -> bool {
    match scope {
        Scope::All => true,
        Scope::User(user) => recording.user_id == Some(user),
    }
}

fn not_needed() -> StoreError {
    StoreError::Failed("nothing at the edge asks for this".into())
}

#[async_trait]
impl RecordingStore for KeptRecordings {
    async fn announce_recordings(
        &self,
        announcements: Vec<Announcement>,
        now: Timestamp,
    ) -> Result<Vec<AnnounceAnswer>, StoreError> {
        drop(self.rows()?);
        let mut answers = Vec::new();
        for announcement in announcements {
            let filter = PresenceFilter { active: None, room: Some(announcement.room.clone()) };
            let page = PresencePage { before: None, rows_max: 1 };
            let meeting = self.store.presence_meetings(Scope::All, filter, page).await?.pop();
            let mut rows = self.rows()?;
            let known = rows.recordings.values().find(|known| known.id == announcement.id).cloned();
            let last = rows.recordings.keys().last().copied().unwrap_or(0);
            let no = known.as_ref().map_or(last + 1, |known| known.no);
            let announced = announce(known, announcement, now);
            let recording = Recording {
                no,
                meeting_id: meeting.as_ref().map(|meeting| meeting.id),
                user_id: meeting.map(|meeting| meeting.user_id),
                ..announced.recording
            };
            rows.recordings.insert(no, recording.clone());
            answers.push(AnnounceAnswer { recording, is_repeated: announced.is_repeated });
        }
        Ok(answers)
    }

    async fn known_recordings(&self, ids: Vec<RecordingId>) -> Result<Vec<bool>, StoreError> {
        let rows = self.rows()?;
        let known = |id| rows.recordings.values().any(|recording| recording.id == id);
        Ok(ids.into_iter().map(known).collect())
    }

    async fn recording(
        &self,
        scope: Scope,
        id: RecordingId,
    ) -> Result<Option<Recording>, StoreError> {
        let rows = self.rows()?;
        let found = rows.recordings.values().find(|known| known.id == id && sees(scope, known));
        Ok(found.cloned())
    }

    async fn recordings(
        &self,
        scope: Scope,
        filter: RecordingFilter,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<Recording>, StoreError> {
        let rows = self.rows()?;
        let wanted = |known: &&Recording| {
            sees(scope, known)
                && before.is_none_or(|before| known.no < before)
                && filter.status.is_none_or(|status| known.status == status)
                && filter.meeting.is_none_or(|meeting| known.meeting_id == Some(meeting))
        };
        let found = rows.recordings.values().rev().filter(wanted).take(rows_max as usize);
        Ok(found.cloned().collect())
    }

    async fn begin_recording(
        &self,
        _id: RecordingId,
        _guard: LeaseRef,
        _now: Timestamp,
    ) -> Result<BeginAnswer, StoreError> {
        Err(not_needed())
    }

    async fn keep_media(
        &self,
        _id: RecordingId,
        _media: Vec<Media>,
        _guard: LeaseRef,
        _now: Timestamp,
    ) -> Result<bool, StoreError> {
        Err(not_needed())
    }

    async fn finish_recording(
        &self,
        _id: RecordingId,
        _spoken: Vec<SpokenSegment>,
        _guard: LeaseRef,
        _now: Timestamp,
    ) -> Result<FinishAnswer, StoreError> {
        Err(not_needed())
    }

    async fn fail_recording(
        &self,
        _id: RecordingId,
        _error: String,
        _guard: LeaseRef,
        _now: Timestamp,
    ) -> Result<bool, StoreError> {
        Err(not_needed())
    }

    async fn retry_recordings(
        &self,
        scope: Scope,
        id: Option<RecordingId>,
        _rows_max: u32,
        now: Timestamp,
    ) -> Result<u32, StoreError> {
        let mut rows = self.rows()?;
        let failed = rows.recordings.values_mut().filter(|known| {
            let is_it = id.as_ref().is_none_or(|id| known.id == *id);
            known.status == RecordingStatus::Failed && is_it && sees(scope, known)
        });
        let mut count = 0;
        for recording in failed {
            (recording.status, recording.updated_at) = (RecordingStatus::Pending, now);
            count += 1;
        }
        Ok(count)
    }

    async fn set_consent(
        &self,
        scope: Scope,
        meeting: MeetingId,
        consent: Consent,
    ) -> Result<bool, StoreError> {
        if self.store.presence_meeting(scope, meeting).await?.is_none() {
            return Ok(false);
        }
        let key = (meeting.get(), consent.person.clone());
        self.rows()?.consents.insert(key, consent);
        Ok(true)
    }

    async fn consents(&self, meeting: MeetingId) -> Result<Vec<Consent>, StoreError> {
        let rows = self.rows()?;
        let of_it = rows.consents.iter().filter(|((of, _), _)| *of == meeting.get());
        Ok(of_it.map(|(_, consent)| consent.clone()).collect())
    }

    async fn recordings_to_erase(&self, _meeting: MeetingId) -> Result<Vec<Recording>, StoreError> {
        Err(not_needed())
    }

    async fn media_erased(
        &self,
        _id: RecordingId,
        _error: Option<String>,
        _guard: LeaseRef,
        _now: Timestamp,
    ) -> Result<bool, StoreError> {
        Err(not_needed())
    }

    async fn recording_cursor(&self) -> Result<Option<RecordingId>, StoreError> {
        Err(not_needed())
    }

    async fn set_recording_cursor(
        &self,
        _id: RecordingId,
        _now: Timestamp,
    ) -> Result<(), StoreError> {
        Err(not_needed())
    }

    async fn recording_counts(&self) -> Result<Vec<(RecordingStatus, u64)>, StoreError> {
        Err(not_needed())
    }
}

/// Nothing is downloaded here, and nothing is kept.
struct Nowhere;

#[async_trait]
impl MediaFetcher for Nowhere {
    async fn download(&self, _link: &str, _to: &Path) -> Result<Fetched, MediaError> {
        Err(MediaError::NotConfigured)
    }
}

#[async_trait]
impl MediaStore for Nowhere {
    async fn keep(&self, _file: &Path, _sha256: &str) -> Result<String, MediaError> {
        Err(MediaError::NotConfigured)
    }

    async fn read(&self, _blob: &str, _to: &Path) -> Result<(), MediaError> {
        Err(MediaError::NotConfigured)
    }

    async fn delete(&self, _blob: &str) -> Result<bool, MediaError> {
        Err(MediaError::NotConfigured)
    }
}

pub(crate) fn recordings_of(work: &PresenceWork, kept: &Arc<KeptRecordings>) -> Recordings {
    Recordings::new(&RecordingWork {
        store: work.store.clone(),
        recordings: kept.clone(),
        clock: work.clock.clone(),
        random: work.random.clone(),
        wakes: work.wakes.clone(),
        metrics: work.metrics.clone(),
        transcripts: work.transcripts.clone(),
        provider: None,
        fetcher: Arc::new(Nowhere),
        media: Arc::new(Nowhere),
        transcriber: None,
        options: RecordingOptions::new(PathBuf::new(), true),
    })
}
