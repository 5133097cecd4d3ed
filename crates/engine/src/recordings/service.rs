//! The recording service: what the provider's events and users ask for.

use std::sync::Arc;

use roundsman_core::bots::MeetingId;
use roundsman_core::limits::PAGE_ROWS_MAX;
use roundsman_core::ports::{RecordingFilter, RecordingStore, Scope, StoreError};
use roundsman_core::recordings::{
    Announcement, Consent, ERASE_KIND, PROCESS_KIND, Recording, RecordingId, RecordingStatus,
};
use tokio_util::task::TaskTracker;

use super::work::RecordingWork;
use crate::jobs::Batcher;
use crate::{Error, FieldError};

/// A person's name is at most this long; it is part of a key.
const PERSON_BYTES_MAX: usize = 200;
/// Announcements in one transaction.
const BATCH_ANNOUNCEMENTS_MAX: usize = 500;

/// Takes announcements, shows recordings and tries them again, hears what people say about them.
/// Cheap to clone.
#[derive(Clone)]
pub struct Recordings {
    work: RecordingWork,
    announcements: Batcher<Announcement, AnnounceReply>,
}

/// What an announcement came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnnounceReply {
    /// It is stored, with the job that processes it.
    New(Box<Recording>),
    /// It was known, as it is: nothing is begun.
    Repeated(Box<Recording>),
    /// We never had a meeting in its room: it is somebody else's.
    UnknownRoom,
}

impl AnnounceReply {
    pub fn as_str(&self) -> &'static str {
        match self {
            AnnounceReply::New(_) => "new",
            AnnounceReply::Repeated(_) => "repeated",
            AnnounceReply::UnknownRoom => "unknown_room",
        }
    }
}

/// What trying again by hand came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryReply {
    /// It waits to be processed.
    Waits(Box<Recording>),
    /// It has not failed; this is how it is.
    NotFailed(Box<Recording>),
}

/// What somebody says about being recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConsentWish {
    /// `None` for somebody without a name, who is counted by themselves.
    pub person: Option<String>,
    pub given: bool,
}

impl Recordings {
    pub fn new(work: &RecordingWork) -> Self {
        let announces = work.clone();
        // Not the process's tracker: this task lives as long as somebody can still call.
        let tasks = TaskTracker::new();
        let announcements =
            Batcher::start_up_to(BATCH_ANNOUNCEMENTS_MAX, &tasks, move |announcements| {
                let work = announces.clone();
                async move { work.announce(announcements).await }
            });
        Recordings { work: work.clone(), announcements }
    }

    /// A recording can be had. It is in the database, with its job, when this returns.
    pub async fn announce(&self, announcement: Announcement) -> Result<AnnounceReply, Error> {
        Ok(self.announcements.try_submit(announcement).await?)
    }

    /// `None` if there is none for whoever asks.
    pub async fn get(&self, scope: Scope, id: &str) -> Result<Option<Recording>, Error> {
        let Some(id) = RecordingId::new(id) else { return Ok(None) };
        Ok(self.store().recording(scope, id).await?)
    }

    /// Recordings, newest first, those with a lower number than `before`.
    pub async fn list(
        &self,
        scope: Scope,
        filter: RecordingFilter,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<Recording>, Error> {
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        Ok(self.store().recordings(scope, filter, before, rows_max).await?)
    }

    /// Tries one that has failed again, now.
    pub async fn retry(&self, scope: Scope, id: &str) -> Result<RetryReply, Error> {
        let missing = Error::NotFound { what: "recording" };
        let Some(id) = RecordingId::new(id) else { return Err(missing) };
        let now = self.work.clock.now();
        let retried = self.store().retry_recordings(scope, Some(id.clone()), 1, now).await?;
        let recording = self.store().recording(scope, id).await?.ok_or(missing)?;
        if retried == 0 {
            return Ok(RetryReply::NotFailed(recording.into()));
        }
        self.work.wake(PROCESS_KIND, 1);
        Ok(RetryReply::Waits(recording.into()))
    }

    /// Keeps what somebody says about being recorded in a meeting. If they do not agree, media are
    /// deleted: at once, or when a recording that is being processed is done.
    pub async fn consent(
        &self,
        scope: Scope,
        meeting: MeetingId,
        wish: ConsentWish,
    ) -> Result<Consent, Error> {
        let person = match wish.person {
            Some(person) => checked(&person)?,
            None => format!("anonymous-{:016x}", self.work.random.below(u64::MAX)),
        };
        let consent = Consent { person, given: wish.given, at: self.work.clock.now() };
        if !self.store().set_consent(scope, meeting, consent.clone()).await? {
            return Err(Error::NotFound { what: "meeting" });
        }
        if !consent.given {
            self.work.wake(ERASE_KIND, 1);
        }
        Ok(consent)
    }

    /// What people have said about being recorded in a meeting.
    pub async fn consents(&self, scope: Scope, meeting: MeetingId) -> Result<Vec<Consent>, Error> {
        let found = self.work.store.presence_meeting(scope, meeting).await?;
        found.ok_or(Error::NotFound { what: "meeting" })?;
        Ok(self.store().consents(meeting).await?)
    }

    /// How many recordings there are in each state.
    pub async fn counts(&self) -> Result<Vec<(RecordingStatus, u64)>, Error> {
        Ok(self.store().recording_counts().await?)
    }

    /// Clears away what runs that died or were given up on this machine have left of recordings that
    /// are done with. Every node does this, now and then.
    pub async fn tidy(&self) -> Result<(), StoreError> {
        self.work.clear_left().await
    }

    fn store(&self) -> &Arc<dyn RecordingStore> {
        &self.work.recordings
    }
}

impl std::fmt::Debug for Recordings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recordings").finish_non_exhaustive()
    }
}

fn checked(person: &str) -> Result<String, Error> {
    let person = person.trim();
    let fits = !person.is_empty()
        && person.len() <= PERSON_BYTES_MAX
        && !person.chars().any(char::is_control);
    let problem = || {
        let said = format!("must be 1 to {PERSON_BYTES_MAX} bytes without control characters");
        Error::Invalid(vec![FieldError::new("person", said)])
    };
    fits.then(|| person.to_owned()).ok_or_else(problem)
}
