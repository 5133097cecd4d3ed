//! The one way in: messages are stored, then told, then mirrored, and only then answered.
//!
//! Invariant: a bus or a cache that fails changes no answer.

use std::sync::Arc;

use roundsman_core::bots::MeetingId;
use roundsman_core::effects::Frame;
use roundsman_core::failpoint;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{
    Clock, MessageAnswer, NewMessage, SettleRequest, SettledSegments, Store, StoreError,
};
use roundsman_core::transcripts::{MessageBody, SpeakerEvent};

use super::cache::{Mirror, Mirrored};
use super::publish::FramePublisher;
use crate::metrics::Metrics;

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Collector {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Metrics,
    pub(super) frames: FramePublisher,
    pub(super) mirror: Mirror,
}

/// What is to be known of a message when it was taken.
struct Told {
    meeting: MeetingId,
    session: Option<String>,
    is_end: bool,
    segments: u64,
}

impl Collector {
    /// Takes messages and answers each.
    pub(super) async fn take(
        &self,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<MessageAnswer>, StoreError> {
        let told: Vec<Told> = messages.iter().map(Told::by).collect();
        let answers = self.store.take_messages(messages, self.clock.now()).await?;
        failpoint::hit("transcripts.taken");
        self.frames.publish(answers.iter().flat_map(frames_of));
        self.count(&told, &answers);
        if self.mirror.exists() {
            let changes: Vec<Mirrored<'_>> = told
                .iter()
                .zip(&answers)
                .filter_map(|(told, answer)| told.mirrored(answer))
                .collect();
            self.mirror.taken(&changes).await;
        }
        failpoint::hit("transcripts.published");
        Ok(answers)
    }

    /// Keeps who spoke when.
    pub(super) async fn hear(
        &self,
        events: Vec<(Option<MeetingId>, SpeakerEvent)>,
    ) -> Result<(), StoreError> {
        let mut mirrored = Vec::new();
        if self.mirror.exists() {
            mirrored.extend(events.iter().map(|(_, event)| event.clone()));
        }
        self.store.keep_speaker_events(events, self.clock.now()).await?;
        self.mirror.heard(&mirrored).await;
        Ok(())
    }

    /// Makes segments of a meeting final.
    pub(super) async fn settle(
        &self,
        meeting: MeetingId,
        request: SettleRequest,
        guard: Option<LeaseRef>,
    ) -> Result<SettledSegments, StoreError> {
        let now = self.clock.now();
        let settled = self.store.settle_segments(meeting, request, guard, now).await?;
        failpoint::hit("transcripts.settled");
        self.frames.publish(&settled.frames);
        self.metrics.segments_settled(&settled);
        self.metrics.transcript_frames(settled.frames.len());
        self.mirror.gone(meeting, &settled.gone).await;
        Ok(settled)
    }

    fn count(&self, told: &[Told], answers: &[MessageAnswer]) {
        let (mut segments, mut changed, mut frames) = (0, 0, 0);
        for (told, answer) in told.iter().zip(answers) {
            segments += told.segments;
            let outcome = match answer {
                MessageAnswer::Taken(taken) => {
                    changed += u64::from(taken.changed);
                    frames += taken.frames.len();
                    if taken.changed > 0 { "changed" } else { "unchanged" }
                }
                MessageAnswer::NoSuchMeeting => "no_such_meeting",
            };
            self.metrics.message_ingested(outcome);
        }
        self.metrics.segments_ingested(segments, changed);
        self.metrics.transcript_frames(frames);
    }
}

impl Told {
    fn by(message: &NewMessage) -> Self {
        let (session, is_end, segments) = match &message.body {
            MessageBody::SessionStart { uid, .. } => (Some(uid), false, 0),
            MessageBody::SessionEnd { uid } => (Some(uid), true, 0),
            MessageBody::Transcription { uid, segments, .. } => {
                (uid.as_ref(), false, segments.len())
            }
            MessageBody::Speaker(event) => (Some(&event.session_uid), false, 0),
        };
        let session = session.cloned();
        Told { meeting: message.meeting_id, session, is_end, segments: segments as u64 }
    }

    fn mirrored<'a>(&'a self, answer: &'a MessageAnswer) -> Option<Mirrored<'a>> {
        let MessageAnswer::Taken(taken) = answer else { return None };
        Some(Mirrored {
            meeting: self.meeting,
            session: self.session.as_deref(),
            session_start: taken.session_start,
            session_ended: self.is_end,
            lines: &taken.live,
        })
    }
}

fn frames_of(answer: &MessageAnswer) -> &[Frame] {
    match answer {
        MessageAnswer::Taken(taken) => &taken.frames,
        MessageAnswer::NoSuchMeeting => &[],
    }
}
