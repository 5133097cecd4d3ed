//! Saving what was heard in a recording.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::FinishAnswer;
use roundsman_core::recordings::{
    Recording, RecordingId, RecordingStatus, SpokenSegment, abandon, finish, session_uid,
};

use super::HOLD_ROOM;
use super::columns::{LOCK_RECORDING, RECORDING_OF, recording_of, write};
use super::consent::IS_DENIED;
use crate::postgres::effects::HOLD_LEASE;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::transcripts::{keep_whole, lock_meeting, names_in};
use crate::rows::recordings::recorded_lines;

pub(super) struct Finish<'a> {
    pub(super) id: RecordingId,
    pub(super) spoken: Vec<SpokenSegment>,
    pub(super) guard: LeaseRef,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Finish<'_> {
    type Answer = FinishAnswer;

    async fn run(&self, session: &mut Session) -> Result<FinishAnswer, Failure> {
        session.begin();
        let answer = self.finish(session).await?;
        session.commit().await?;
        Ok(answer)
    }
}

impl Finish<'_> {
    async fn finish(&self, session: &mut Session) -> Result<FinishAnswer, Failure> {
        let (job, lease_no) = (self.guard.id.get(), self.guard.lease_no.get());
        let [lease, found] = session
            .query_all([(HOLD_LEASE, &[&job, &lease_no]), (RECORDING_OF, &[&self.id.as_str()])])
            .await?;
        if lease.is_empty() {
            return Ok(FinishAnswer::LeaseLost);
        }
        let seen = recording_of(&found)?;
        // Once it has one, it keeps its meeting.
        let Some(meeting) = seen.and_then(|recording| recording.meeting_id) else {
            return Ok(FinishAnswer::NotFound);
        };
        lock_meeting(session, meeting).await?;
        let [_, found, denied] = session
            .query_all([
                (HOLD_ROOM, &[&meeting.get()]),
                (LOCK_RECORDING, &[&self.id.as_str()]),
                (IS_DENIED, &[&meeting.get()]),
            ])
            .await?;
        let known = recording_of(&found)?.ok_or(Failure::Raced)?;
        if known.status == RecordingStatus::Completed {
            return Ok(FinishAnswer::Done);
        }
        if known.is_anonymous() {
            write(session, vec![abandon(known, self.now)], self.catalog, self.now).await?;
            return Ok(FinishAnswer::Saved { meeting, frames: Vec::new() });
        }
        self.save(session, known, meeting, !denied.is_empty()).await
    }

    /// Writes the transcript and that it is written.
    async fn save(
        &self,
        session: &mut Session,
        known: Recording,
        meeting: MeetingId,
        is_denied: bool,
    ) -> Result<FinishAnswer, Failure> {
        let owner = known.user_id.ok_or(Failure::Raced)?;
        let names = names_in(session, meeting).await?;
        let mut lines = recorded_lines(&known, &self.spoken, &names, self.now);
        let (uid, start) = (session_uid(&known.id), known.started_at);
        let frames =
            keep_whole(session, (meeting, owner), (&uid, start), &mut lines, self.now).await?;
        let segments = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        let finished = finish(known, segments, is_denied, self.now);
        write(session, vec![finished], self.catalog, self.now).await?;
        Ok(FinishAnswer::Saved { meeting, frames })
    }
}
