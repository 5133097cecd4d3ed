//! The jobs of recordings, as a node puts them together.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::failpoint;
use roundsman_core::jobs::{Json, KindName, KindSpec, Lane, NewJob, Outcome};
use roundsman_core::ports::{
    Clock, MediaFetcher, MediaStore, PresenceFilter, PresencePage, Random, RecordingStore, Scope,
    Store, StoreError, Transcriber, VideoRecordings,
};
use roundsman_core::presence::RoomName;
use roundsman_core::recordings::{
    Announcement, POLL_KIND, PROCESS_KIND, RETRY_KIND, Recording, RecordingStatus,
};
use roundsman_core::users::UserId;

use super::AnnounceReply;
use super::erase::{erase_spec, eraser};
use super::folder::WorkFolder;
use super::poll::{RecordingPoller, poll_spec};
use super::process::{process_spec, processor};
use super::retry::{next_night, retrier, retry_spec};
use crate::jobs::{Handler, periodic_wish};
use crate::metrics::Metrics;
use crate::transcripts::Transcripts;
use crate::wake::Wakes;

/// How often the provider's list is read, when its events tell of recordings and when they do not.
pub const POLL_EVERY_WITH_EVENTS: Duration = Duration::from_secs(180);
pub const POLL_EVERY_WITHOUT_EVENTS: Duration = Duration::from_secs(15);

/// What the jobs of recordings are made of.
#[derive(Clone)]
pub struct RecordingWork {
    pub store: Arc<dyn Store>,
    pub recordings: Arc<dyn RecordingStore>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub wakes: Wakes,
    pub metrics: Metrics,
    /// Where whoever listens to a meeting hears what was said.
    pub transcripts: Transcripts,
    /// `None` if nobody is configured.
    pub provider: Option<Arc<dyn VideoRecordings>>,
    pub fetcher: Arc<dyn MediaFetcher>,
    pub media: Arc<dyn MediaStore>,
    /// `None` if nobody is configured.
    pub transcriber: Option<Arc<dyn Transcriber>>,
    pub options: RecordingOptions,
}

/// How recordings are processed.
#[derive(Debug, Clone)]
pub struct RecordingOptions {
    /// Where files are while they are worked on.
    pub work_folder: PathBuf,
    pub poll_every: Duration,
    /// So many tries, before the night's.
    pub attempts_max: u32,
    /// Recordings that are processed at once in one process.
    pub at_once_max: usize,
    /// What is spoken, if that is known.
    pub language: Option<String>,
}

impl RecordingOptions {
    pub fn new(work_folder: PathBuf, has_events: bool) -> Self {
        let poll_every =
            if has_events { POLL_EVERY_WITH_EVENTS } else { POLL_EVERY_WITHOUT_EVENTS };
        RecordingOptions {
            work_folder,
            poll_every,
            attempts_max: 8,
            at_once_max: 2,
            language: None,
        }
    }
}

/// The policies of all kinds of jobs about recordings.
pub fn recording_specs(at_once_max: usize) -> Vec<KindSpec> {
    vec![process_spec(at_once_max), poll_spec(), retry_spec(), erase_spec()]
}

/// The wishes that keep the periodic jobs alive; every start repeats them.
pub fn recording_wishes(now: Timestamp) -> Vec<NewJob> {
    vec![periodic_wish(POLL_KIND, now), periodic_wish(RETRY_KIND, next_night(now))]
}

impl RecordingWork {
    /// The handlers of all kinds of jobs about recordings.
    pub fn handlers(&self) -> Vec<Arc<dyn Handler>> {
        vec![self.processor(), self.poller().handler(), self.retrier(), self.eraser()]
    }

    /// Makes the transcript of one recording.
    pub fn processor(&self) -> Arc<dyn Handler> {
        processor(self)
    }

    /// Finds recordings whose event was lost.
    pub fn poller(&self) -> RecordingPoller {
        RecordingPoller::new(self)
    }

    /// Tries failed ones again every night.
    pub fn retrier(&self) -> Arc<dyn Handler> {
        retrier(self)
    }

    /// Deletes what people have not agreed to.
    pub fn eraser(&self) -> Arc<dyn Handler> {
        eraser(self)
    }

    /// Clears away what runs that died or were given up have left here of recordings that others have
    /// brought to their end.
    pub(super) async fn clear_left(&self) -> Result<(), StoreError> {
        let root = &self.options.work_folder;
        for id in WorkFolder::left(root).await {
            let known = self.recordings.recording(Scope::All, id.clone()).await?;
            if known.is_none_or(|recording| recording.status == RecordingStatus::Completed) {
                WorkFolder::clear(root, &id).await;
            }
        }
        Ok(())
    }

    /// Recordings can be had. Those of rooms in which we never had a meeting belong to somebody
    /// else who uses the same account of the provider.
    pub(super) async fn announce(
        &self,
        announcements: Vec<Announcement>,
    ) -> Result<Vec<AnnounceReply>, StoreError> {
        let ours = self.rooms_of_ours(&announcements).await?;
        let which: Vec<bool> =
            announcements.iter().map(|announced| ours.contains(&announced.room)).collect();
        let vias: Vec<&'static str> = announcements.iter().map(|a| a.via.as_str()).collect();
        let wanted = announcements.into_iter().filter(|announced| ours.contains(&announced.room));
        let wanted: Vec<Announcement> = wanted.collect();
        let answers = if wanted.is_empty() {
            Vec::new()
        } else {
            let now = self.clock.now();
            let answers = self.recordings.announce_recordings(wanted, now).await?;
            failpoint::hit("recordings.announced");
            answers
        };
        let mut answers = answers.into_iter();
        let replies = which.into_iter().map(|is_ours| {
            let Some(answer) = is_ours.then(|| answers.next()).flatten() else {
                return AnnounceReply::UnknownRoom;
            };
            let recording = Box::new(answer.recording);
            if answer.is_repeated {
                AnnounceReply::Repeated(recording)
            } else {
                AnnounceReply::New(recording)
            }
        });
        let replies: Vec<AnnounceReply> = replies.collect();
        self.count(vias.into_iter().zip(&replies));
        Ok(replies)
    }

    /// There is this much new work of a kind.
    pub(super) fn wake(&self, kind: &str, jobs: usize) {
        if jobs > 0 {
            let kind = KindName::new(kind).expect("a built-in kind has a valid name");
            self.wakes.signal([(Lane::of(UserId::SYSTEM, &kind), jobs)]);
        }
    }

    /// The rooms among these in which there was a meeting.
    async fn rooms_of_ours(
        &self,
        announcements: &[Announcement],
    ) -> Result<BTreeSet<RoomName>, StoreError> {
        let rooms: BTreeSet<&RoomName> = announcements.iter().map(|a| &a.room).collect();
        let mut ours = BTreeSet::new();
        for room in rooms {
            let filter = PresenceFilter { active: None, room: Some(room.clone()) };
            let page = PresencePage { before: None, rows_max: 1 };
            if !self.store.presence_meetings(Scope::All, filter, page).await?.is_empty() {
                ours.insert(room.clone());
            }
        }
        Ok(ours)
    }

    fn count<'a>(&self, replies: impl Iterator<Item = (&'static str, &'a AnnounceReply)>) {
        let mut new = 0;
        for (via, reply) in replies {
            self.metrics.recording_announced(via, reply.as_str());
            match reply {
                AnnounceReply::New(recording) => {
                    new += 1;
                    let Recording { no, room, .. } = recording.as_ref();
                    let (recording, room) = (recording.id.as_str(), room.as_str());
                    tracing::info!(recording, no, room, via, "a recording can be had");
                }
                AnnounceReply::Repeated(recording) => {
                    self.metrics.recording_suppressed();
                    let (id, status) = (recording.id.as_str(), recording.status.as_str());
                    tracing::warn!(recording = id, status, via, "a recording was announced again");
                }
                AnnounceReply::UnknownRoom => {}
            }
        }
        self.wake(PROCESS_KIND, new);
    }
}

impl std::fmt::Debug for RecordingWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingWork").field("options", &self.options).finish_non_exhaustive()
    }
}

pub(super) fn done() -> Outcome {
    Outcome::Done { result: Json::null() }
}
