//! The job that makes a transcript of a recording.
//!
//! Invariant: everything it writes is written under its lease, and in steps that may be repeated; the
//! last of them saves the transcript together with the state that says so, once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::Effects;
use roundsman_core::failpoint;
use roundsman_core::jobs::{JobError, KindName, KindSpec, MergeRule, Outcome, RetryPolicy};
use roundsman_core::ports::{BeginAnswer, FinishAnswer, Scope};
use roundsman_core::recordings::{
    ERASE_KIND, PROCESS_KIND, Recording, RecordingId, SpokenSegment, erase_wish,
};
use roundsman_core::webhooks::DELIVER_KIND;

use super::folder::WorkFolder;
use super::gather::Gathering;
use super::hear::Hearing;
use super::trouble::{Stopped, Trouble};
use super::work::{RecordingWork, done};
use crate::jobs::{Handler, HandlerResult, JobContext};

/// The policy of the job. How often it is tried is the handler's to say, because the recording is to
/// be marked as failed when it is given up.
pub fn process_spec(at_once_max: usize) -> KindSpec {
    KindSpec {
        lease_ttl: Duration::from_secs(600),
        heartbeat_every: Duration::from_secs(60),
        deadline: Some(Duration::from_secs(6 * 3600)),
        max_attempts: None,
        retry: RetryPolicy { base: Duration::from_secs(60), cap: Duration::from_secs(3600) },
        merge: MergeRule::Keep,
        concurrency: Some(at_once_max),
        lease_name: Some("recording:{key}"),
        ..KindSpec::new(KindName::new(PROCESS_KIND).expect("a built-in kind has a valid name"))
    }
}

pub(super) fn processor(work: &RecordingWork) -> Arc<dyn Handler> {
    Arc::new(Processor { work: work.clone() })
}

struct Processor {
    work: RecordingWork,
}

#[async_trait]
impl Handler for Processor {
    fn spec(&self) -> KindSpec {
        process_spec(self.work.options.at_once_max)
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let key = context.job.key.as_ref();
        let Some(id) = key.and_then(|key| RecordingId::new(key.as_str())) else {
            return done().into();
        };
        let ended = match self.process(&id, &context).await {
            Ok(()) => Ok(done().into()),
            Err(Stopped::For(trouble)) => self.in_trouble(&id, &context, &trouble).await,
            Err(stopped) => Err(stopped),
        };
        match ended {
            Ok(result) => result,
            // Whoever has the lease now goes on.
            Err(Stopped::LeaseLost) => Outcome::Release.into(),
            Err(Stopped::Store(error)) => {
                let error = JobError::new("storage", error.to_string());
                Outcome::Retry { error, after: None }.into()
            }
            Err(Stopped::For(trouble)) => retry(&trouble).into(),
        }
    }
}

impl Processor {
    async fn process(&self, id: &RecordingId, context: &JobContext) -> Result<(), Stopped> {
        let RecordingWork { recordings, clock, options, .. } = &self.work;
        if context.job.attempt > options.attempts_max {
            let tries = options.attempts_max;
            let said = format!("it did not come to an end in {tries} attempts");
            return Err(Trouble::for_good("gave_up", said).into());
        }
        let begun = recordings.begin_recording(id.clone(), context.lease, clock.now()).await?;
        let recording = match begun {
            BeginAnswer::Begun(recording) => recording,
            BeginAnswer::Done => {
                self.suppressed(id);
                // Whoever has done it may have died before it was cleared away.
                WorkFolder::clear(&options.work_folder, id).await;
                return Ok(());
            }
            BeginAnswer::NotFound => return Ok(()),
            BeginAnswer::LeaseLost => return Err(Stopped::LeaseLost),
            BeginAnswer::NoMeeting => {
                let said = "no meeting of its room is near it in time";
                return Err(Trouble::later("no_meeting", said).into());
            }
        };
        let folder = WorkFolder::open(&options.work_folder, id, context.lease).await?;
        let ended = self.work_on(&recording, &folder, context).await;
        // Whoever has the lease now has files of their own.
        if matches!(ended, Ok(()) | Err(Stopped::LeaseLost)) {
            folder.remove().await;
        }
        ended
    }

    async fn work_on(
        &self,
        recording: &Recording,
        folder: &WorkFolder,
        context: &JobContext,
    ) -> Result<(), Stopped> {
        let spoken = self.transcript(recording, folder, context).await?;
        self.save(&recording.id, spoken, context).await
    }

    async fn transcript(
        &self,
        recording: &Recording,
        folder: &WorkFolder,
        context: &JobContext,
    ) -> Result<Vec<SpokenSegment>, Stopped> {
        let work = &self.work;
        if recording.erased_at.is_some() {
            let said = "its media were deleted because somebody did not agree to the recording";
            return Err(Trouble::for_good("erased", said).into());
        }
        let provider = work.provider.as_deref();
        let provider = provider.ok_or_else(|| Trouble::not_configured("provider of recordings"))?;
        let transcriber = work.transcriber.as_deref();
        let transcriber = transcriber.ok_or_else(|| Trouble::not_configured("transcriber"))?;
        let files = Gathering { work, provider, recording, folder, context }.run().await?;
        Hearing { work, transcriber, recording, folder, context }.run(&files).await
    }

    async fn save(
        &self,
        id: &RecordingId,
        spoken: Vec<SpokenSegment>,
        context: &JobContext,
    ) -> Result<(), Stopped> {
        let RecordingWork { recordings, clock, metrics, transcripts, .. } = &self.work;
        let segments = spoken.len();
        let now = clock.now();
        match recordings.finish_recording(id.clone(), spoken, context.lease, now).await? {
            FinishAnswer::Saved { meeting, frames } => {
                failpoint::hit("recordings.saved");
                transcripts.announce(meeting, &frames);
                metrics.recording_completed(segments);
                let meeting = meeting.get();
                tracing::info!(recording = id.as_str(), meeting, segments, "a recording is heard");
                // The meeting's owner is told, and what somebody has denied is deleted.
                self.work.wake(ERASE_KIND, 1);
                self.work.wake(DELIVER_KIND, 1);
                Ok(())
            }
            FinishAnswer::Done => {
                self.suppressed(id);
                Ok(())
            }
            FinishAnswer::NotFound => Ok(()),
            FinishAnswer::LeaseLost => Err(Stopped::LeaseLost),
        }
    }

    /// Tries again, or gives up and says so in the record.
    async fn in_trouble(
        &self,
        id: &RecordingId,
        context: &JobContext,
        trouble: &Trouble,
    ) -> Result<HandlerResult, Stopped> {
        let RecordingWork { recordings, clock, metrics, options, .. } = &self.work;
        let (recording, code) = (id.as_str(), trouble.code);
        if !trouble.is_final && context.job.attempt < options.attempts_max {
            let attempt = context.job.attempt;
            tracing::warn!(
                recording,
                code,
                attempt,
                "a recording is tried again: {}",
                trouble.message
            );
            return Ok(retry(trouble).into());
        }
        let now = clock.now();
        if !recordings.fail_recording(id.clone(), trouble.told(), context.lease, now).await? {
            return Err(Stopped::LeaseLost);
        }
        metrics.recording_failed(code);
        tracing::error!(recording, code, "a recording cannot be processed: {}", trouble.message);
        WorkFolder::clear(&options.work_folder, id).await;
        let effects = self.effects_of_failing(id).await?;
        Ok(HandlerResult { outcome: Outcome::Fail { error: trouble.error() }, effects })
    }

    /// What somebody has denied while it was being processed is deleted now.
    async fn effects_of_failing(&self, id: &RecordingId) -> Result<Effects, Stopped> {
        let recording = self.work.recordings.recording(Scope::All, id.clone()).await?;
        let meeting = recording.and_then(|recording| recording.meeting_id);
        let mut effects = Effects::default();
        if let Some(meeting) = meeting
            && self.is_denied(meeting).await?
        {
            effects.jobs.push(erase_wish(meeting, self.work.clock.now()));
        }
        Ok(effects)
    }

    async fn is_denied(&self, meeting: MeetingId) -> Result<bool, Stopped> {
        let consents = self.work.recordings.consents(meeting).await?;
        Ok(consents.iter().any(|consent| !consent.given))
    }

    fn suppressed(&self, id: &RecordingId) {
        self.work.metrics.recording_suppressed();
        tracing::warn!(recording = id.as_str(), "a recording that is done was not done again");
    }
}

fn retry(trouble: &Trouble) -> Outcome {
    Outcome::Retry { error: trouble.error(), after: trouble.after }
}
