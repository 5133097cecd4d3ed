//! The job that deletes the media of a meeting because somebody does not agree to being recorded.
//!
//! Invariants: a recording that is being processed is left to its job, which asks for this one when
//! it ends; media are said to be deleted when all of them are, ours and the provider's.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::bots::MeetingId;
use roundsman_core::failpoint;
use roundsman_core::jobs::{JobError, KindName, KindSpec, MergeRule, Outcome, RetryPolicy};
use roundsman_core::ports::StoreError;
use roundsman_core::recordings::{ERASE_KIND, Recording, RecordingStatus};

use super::folder::WorkFolder;
use super::trouble::Trouble;
use super::work::{RecordingWork, done};
use crate::jobs::{Handler, HandlerResult, JobContext};

/// The policy of the job: it is tried until it is done.
pub fn erase_spec() -> KindSpec {
    KindSpec {
        lease_ttl: Duration::from_secs(60),
        heartbeat_every: Duration::from_secs(20),
        deadline: Some(Duration::from_secs(1800)),
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(30), cap: Duration::from_secs(3600) },
        merge: MergeRule::Keep,
        ..KindSpec::new(KindName::new(ERASE_KIND).expect("a built-in kind has a valid name"))
    }
}

pub(super) fn eraser(work: &RecordingWork) -> Arc<dyn Handler> {
    Arc::new(Eraser { work: work.clone() })
}

struct Eraser {
    work: RecordingWork,
}

#[async_trait]
impl Handler for Eraser {
    fn spec(&self) -> KindSpec {
        erase_spec()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let key = context.job.key.as_ref();
        let Some(meeting) = key.and_then(|key| key.as_str().parse().ok()) else {
            return done().into();
        };
        let outcome = self.erase(MeetingId::new(meeting), &context).await;
        let outcome = outcome.unwrap_or_else(|error| {
            let error = JobError::new("storage", error.to_string());
            Outcome::Retry { error, after: None }
        });
        outcome.into()
    }
}

impl Eraser {
    async fn erase(&self, meeting: MeetingId, context: &JobContext) -> Result<Outcome, StoreError> {
        let RecordingWork { recordings, clock, metrics, .. } = &self.work;
        let mut first = None;
        for recording in recordings.recordings_to_erase(meeting).await? {
            if !is_ended(recording.status) {
                continue;
            }
            let trouble = self.delete(&recording).await;
            failpoint::hit("recordings.erased");
            let told = trouble.as_ref().map(Trouble::told);
            let id = recording.id.clone();
            if !recordings.media_erased(id, told, context.lease, clock.now()).await? {
                // Whoever has the lease now goes on.
                return Ok(Outcome::Release);
            }
            let (recording, meeting) = (recording.id.as_str(), meeting.get());
            if let Some(trouble) = trouble {
                metrics.recording_erased(false);
                tracing::error!(
                    recording,
                    meeting,
                    "media are not deleted yet: {}",
                    trouble.message
                );
                first.get_or_insert(trouble);
            } else {
                metrics.recording_erased(true);
                tracing::info!(recording, meeting, "media were deleted: somebody did not agree");
            }
        }
        Ok(match first {
            None => done(),
            Some(trouble) => Outcome::Retry { error: trouble.error(), after: trouble.after },
        })
    }

    /// Deletes what can be deleted; returns why not all of it could.
    async fn delete(&self, recording: &Recording) -> Option<Trouble> {
        let RecordingWork { media, provider, options, .. } = &self.work;
        let mut first = None;
        for kept in &recording.media {
            // One that is gone already is as good.
            if let Err(error) = media.delete(&kept.blob).await {
                first.get_or_insert(Trouble::of_media("deleting what was kept", &error));
            }
        }
        WorkFolder::clear(&options.work_folder, &recording.id).await;
        let Some(provider) = provider else {
            return first.or(Some(Trouble::not_configured("provider of recordings")));
        };
        let tracks = provider.delete_tracks(&recording.tracks).await;
        let deleted = provider.delete_recording(&recording.id).await;
        let refused = tracks.err().or(deleted.err());
        first.or(refused.map(|error| Trouble::of_provider(&error)))
    }
}

fn is_ended(status: RecordingStatus) -> bool {
    matches!(status, RecordingStatus::Completed | RecordingStatus::Failed)
}
