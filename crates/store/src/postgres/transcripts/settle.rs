//! Moving segments that are stable to the final table.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{SettleRequest, SettledSegments};
use roundsman_core::transcripts::{Line, SPEAKER_EVENT_SLACK_MS, Segment, Speakers};
use roundsman_core::users::UserId;

use super::columns::{final_columns, finished, key_columns, live, live_columns};
use super::keep::keep_final;
use super::known::SessionPlace;
use super::lock_meeting;
use super::sessions::{sessions_of, starts_of};
use super::speakers::{EVENTS_NEAR, EventsNear, names_of};
use super::write::SegmentColumns;
use crate::postgres::effects::{holds_lease, write_frames};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::told::events_until;
use crate::rows::transcripts::{SettlePlan, session_to_column, spans_of};

pub(super) struct SettleSegments {
    pub(super) meeting: MeetingId,
    pub(super) request: SettleRequest,
    pub(super) guard: Option<LeaseRef>,
    pub(super) now: Timestamp,
}

impl Operation for SettleSegments {
    type Answer = SettledSegments;

    async fn run(&self, session: &mut Session) -> Result<SettledSegments, Failure> {
        session.begin();
        let settled = if holds_lease(session, self.guard).await? {
            lock_meeting(session, self.meeting).await?;
            self.settle(session).await?
        } else {
            SettledSegments::default()
        };
        session.commit().await?;
        Ok(settled)
    }
}

pub(super) const STABLE: &str = concat!(
    "-- stable\nSELECT ",
    live_columns!(),
    "
  FROM roundsman.live_segments l
 WHERE l.meeting_id = $1 AND NOT l.dropped
   AND ($2::timestamptz IS NULL OR l.updated_at <= $2)
 ORDER BY l.session_uid, l.start_ms, l.field
 LIMIT $3"
);

/// Final segments that the filter compares the stable ones with. The session is spelt so that only
/// the times lead to a row.
pub(super) const KEPT_BESIDE: &str = concat!(
    "-- kept_beside\nSELECT ",
    final_columns!(),
    "
  FROM unnest($2::text[], $3::bigint[], $4::bigint[]) AS span(session, start_ms, end_ms)
 CROSS JOIN LATERAL (
    SELECT * FROM roundsman.kept_segments
     WHERE meeting_id = $1 AND session_uid || '' = span.session
       AND start_ms <= span.end_ms AND end_ms >= span.start_ms
     ORDER BY start_ms OFFSET 0) k
 CROSS JOIN LATERAL (
    SELECT * FROM public.transcriptions WHERE id = k.transcription_id OFFSET 0) t
 ORDER BY k.session_uid, k.start_ms, k.field"
);

const LEFT_LIVE: &str = "-- left_live
SELECT count(*) FROM roundsman.live_segments WHERE meeting_id = $1 AND NOT dropped";

const DEACTIVATE: &str = "-- deactivate
DELETE FROM roundsman.active_transcripts WHERE meeting_id = $1";

const OWNER: &str = "-- owner
SELECT user_id::bigint FROM public.meetings WHERE id = $1::bigint";

impl SettleSegments {
    async fn settle(&self, session: &mut Session) -> Result<SettledSegments, Failure> {
        let stable = self.stable(session).await?;
        let mut plan = self.plan(session, stable).await?;
        let (frames, about_speakers) = plan.frames(self.meeting, self.now);
        let frames = write_frames(session, &frames.iter().collect::<Vec<_>>(), self.now).await?;
        plan.told_by(&frames, about_speakers);
        self.keep(session, &plan.keep).await?;
        self.drop(session, &plan.drop).await?;
        let row = session.query_opt(LEFT_LIVE, &[&self.meeting.get()]).await?;
        let left: i64 = row.ok_or(Failure::Raced)?.try_get(0)?;
        let mut sessions = Vec::new();
        if left == 0 {
            session.execute(DEACTIVATE, &[&self.meeting.get()]).await?;
            sessions = sessions_of(session, self.meeting).await?;
        }
        Ok(plan.answer(frames, u64::try_from(left).unwrap_or(0), sessions))
    }

    async fn stable(&self, session: &mut Session) -> Result<Vec<Segment>, Failure> {
        let before = self.request.stable_before.map(Time);
        let rows_max = i64::from(self.request.rows_max);
        let rows = session.query(STABLE, &[&self.meeting.get(), &before, &rows_max]).await?;
        rows.iter().map(|row| Ok(live(row)?.segment)).collect()
    }

    async fn plan(
        &self,
        session: &mut Session,
        stable: Vec<Segment>,
    ) -> Result<SettlePlan, Failure> {
        let spans = spans_of(&stable);
        let kept = self.kept_beside(session, &spans).await?;
        let speakers = self.speakers(session, &spans).await?;
        let starts = starts_of(session, self.meeting).await?;
        Ok(SettlePlan::new(stable, &kept, &speakers, &self.request.filter, &starts, self.now))
    }

    async fn kept_beside(
        &self,
        session: &mut Session,
        spans: &BTreeMap<Option<String>, (i64, i64)>,
    ) -> Result<Vec<Segment>, Failure> {
        let sessions: Vec<&str> =
            spans.keys().map(|uid| session_to_column(uid.as_deref())).collect();
        let (starts, ends): (Vec<i64>, Vec<i64>) = spans.values().copied().unzip();
        let values: [&(dyn postgres_types::ToSql + Sync); 4] =
            [&self.meeting.get(), &sessions, &starts, &ends];
        let rows = session.query(KEPT_BESIDE, &values).await?;
        rows.iter().map(|row| Ok(finished(row)?.segment)).collect()
    }

    async fn speakers(
        &self,
        session: &mut Session,
        spans: &BTreeMap<Option<String>, (i64, i64)>,
    ) -> Result<BTreeMap<Option<String>, Speakers>, Failure> {
        let mut wanted: BTreeMap<SessionPlace<'_>, (i64, i64)> = BTreeMap::new();
        for (uid, (_, end_ms)) in spans {
            if let Some(uid) = uid {
                let until = end_ms.saturating_add(SPEAKER_EVENT_SLACK_MS);
                wanted.insert((self.meeting, uid), (until, until));
            }
        }
        let near = EventsNear::of(&wanted);
        let rows = session.query(EVENTS_NEAR, &near.values()).await?;
        let heard = near.events(&rows)?;
        let names = names_of(session, self.meeting).await?;
        let speakers = |(uid, (_, end_ms)): (&Option<String>, &(i64, i64))| {
            let place = (self.meeting, session_to_column(uid.as_deref()));
            let heard = heard.get(&place).map_or(&[][..], Vec::as_slice);
            let events = events_until(heard, end_ms.saturating_add(SPEAKER_EVENT_SLACK_MS));
            (uid.clone(), Speakers { events, names: names.clone() })
        };
        Ok(spans.iter().map(speakers).collect())
    }

    async fn keep(&self, session: &mut Session, lines: &[Line]) -> Result<(), Failure> {
        if lines.is_empty() {
            return Ok(());
        }
        let meeting = self.meeting.get();
        let row = session.query_opt(OWNER, &[&meeting]).await?.ok_or(Failure::Raced)?;
        let owner = UserId::new(row.try_get(0)?);
        keep_final(session, (self.meeting, owner), lines, self.now).await?;
        let (sessions, fields) = key_columns(lines.iter().map(|line| &line.segment.key));
        session.execute(REMOVE_LIVE, &[&meeting, &sessions, &fields]).await?;
        Ok(())
    }

    async fn drop(&self, session: &mut Session, lines: &[Line]) -> Result<(), Failure> {
        if lines.is_empty() {
            return Ok(());
        }
        let column = SegmentColumns::of(lines.iter().map(|line| &line.segment));
        session
            .execute(
                MARK_DROPPED,
                &[
                    &self.meeting.get(),
                    &column.sessions,
                    &column.fields,
                    &column.speakers,
                    &column.statuses,
                    &column.updated,
                    &column.seqs,
                ],
            )
            .await?;
        Ok(())
    }
}

pub(super) const REMOVE_LIVE: &str = "-- remove_live
DELETE FROM roundsman.live_segments l
 USING unnest($2::text[], $3::text[]) AS gone(session_uid, field)
 WHERE l.meeting_id = $1 AND l.session_uid = gone.session_uid AND l.field = gone.field";

/// With the speaker that was found at the last look, so that telling it again changes nothing.
pub(super) const MARK_DROPPED: &str = "-- mark_dropped
UPDATE roundsman.live_segments l
   SET dropped = true, speaker = gone.speaker, speaker_status = gone.speaker_status,
       updated_at = gone.updated_at, seq = gone.seq
  FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::bigint[])
       AS gone(session_uid, field, speaker, speaker_status, updated_at, seq)
 WHERE l.meeting_id = $1 AND l.session_uid = gone.session_uid AND l.field = gone.field";
