//! Beginning to process a recording: the meeting is found to which it belongs.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::BeginAnswer;
use roundsman_core::recordings::{
    Recording, RecordingId, RecordingStatus, abandon, begin, nearest,
};
use roundsman_core::users::UserId;

use super::HOLD_ROOM;
use super::columns::{RECORDING_OF, lock_recording, recording_of, write};
use crate::postgres::columns::Reader;
use crate::postgres::effects::HOLD_LEASE;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::recordings::match_window;

/// As in the list of meetings: the first column of the index is named as a range. The table of meetings
/// may be one of an existing Vexa database: its times are without a zone and mean UTC.
pub(super) const MEETINGS_NEAR: &str = "-- meetings_near
SELECT p.meeting_id, p.user_id, coalesce(m.start_time, p.created_at)
  FROM (SELECT meeting_id, user_id, created_at FROM roundsman.presence
         WHERE room >= $1 AND room <= $1
         ORDER BY room, meeting_id OFFSET 0) p
 CROSS JOIN LATERAL (
    SELECT start_time AT TIME ZONE 'UTC' AS start_time FROM public.meetings
     WHERE id = p.meeting_id
    OFFSET 0) m
 WHERE coalesce(m.start_time, p.created_at) BETWEEN $2 AND $3";

/// A meeting of a room.
#[derive(Debug, Clone, Copy)]
pub(super) struct NearMeeting {
    pub(super) id: MeetingId,
    pub(super) owner: UserId,
    pub(super) began_at: Timestamp,
}

/// The meetings of a room that recordings may be of that began within these times.
pub(super) async fn meetings_near(
    session: &mut Session,
    room: &str,
    (first, last): (Timestamp, Timestamp),
) -> Result<Vec<NearMeeting>, Failure> {
    let (from, until) = (Time(match_window(first).0), Time(match_window(last).1));
    let mut near = Vec::new();
    for row in session.query(MEETINGS_NEAR, &[&room, &from, &until]).await? {
        let mut reader = Reader::new(&row);
        near.push(NearMeeting {
            id: MeetingId::new(reader.value()?),
            owner: UserId::new(reader.value()?),
            began_at: reader.time()?,
        });
    }
    Ok(near)
}

/// The one of these meetings that a recording is of.
pub(super) fn meant(recording: &Recording, near: &[NearMeeting]) -> Option<NearMeeting> {
    let began = near.iter().map(|meeting| (meeting.id, meeting.began_at));
    let id = nearest(recording.started_at, began)?;
    near.iter().find(|meeting| meeting.id == id).copied()
}

pub(super) struct Begin<'a> {
    pub(super) id: RecordingId,
    pub(super) guard: LeaseRef,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Begin<'_> {
    type Answer = BeginAnswer;

    async fn run(&self, session: &mut Session) -> Result<BeginAnswer, Failure> {
        session.begin();
        let answer = self.begin(session).await?;
        session.commit().await?;
        Ok(answer)
    }
}

impl Begin<'_> {
    async fn begin(&self, session: &mut Session) -> Result<BeginAnswer, Failure> {
        let (job, lease_no) = (self.guard.id.get(), self.guard.lease_no.get());
        let [lease, found] = session
            .query_all([(HOLD_LEASE, &[&job, &lease_no]), (RECORDING_OF, &[&self.id.as_str()])])
            .await?;
        if lease.is_empty() {
            return Ok(BeginAnswer::LeaseLost);
        }
        let Some(seen) = recording_of(&found)? else {
            return Ok(BeginAnswer::NotFound);
        };
        let mut meeting = None;
        if seen.meeting_id.is_none() {
            meeting = self.hold_meeting(session, &seen).await?;
        }
        let known = lock_recording(session, &self.id).await?.ok_or(Failure::Raced)?;
        if known.status == RecordingStatus::Completed {
            return Ok(BeginAnswer::Done);
        }
        if known.is_anonymous() {
            write(session, vec![abandon(known, self.now)], self.catalog, self.now).await?;
            return Ok(BeginAnswer::Done);
        }
        // What was found before stays, whoever has found it meanwhile.
        let found = known.meeting_id.zip(known.user_id);
        let Some((meeting, owner)) = found.or(meeting) else {
            return Ok(BeginAnswer::NoMeeting);
        };
        let begun = begin(known, meeting, owner, self.now);
        let mut written = write(session, vec![begun], self.catalog, self.now).await?;
        Ok(BeginAnswer::Begun(Box::new(written.remove(0))))
    }

    /// The meeting that is nearest, which from here on cannot be anonymised.
    async fn hold_meeting(
        &self,
        session: &mut Session,
        recording: &Recording,
    ) -> Result<Option<(MeetingId, UserId)>, Failure> {
        let at = recording.started_at;
        let near = meetings_near(session, recording.room.as_str(), (at, at)).await?;
        let Some(meeting) = meant(recording, &near) else {
            return Ok(None);
        };
        let held = session.query_opt(HOLD_ROOM, &[&meeting.id.get()]).await?;
        let room: String = held.ok_or(Failure::Raced)?.try_get(0)?;
        // It was anonymised while we waited, and another one is meant, or none.
        if room != recording.room.as_str() {
            return Err(Failure::Raced);
        }
        Ok(Some((meeting.id, meeting.owner)))
    }
}
