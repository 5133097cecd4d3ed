//! Who spoke when, and what users call them.

use std::collections::{BTreeMap, HashSet};

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::transcripts::{
    SPEAKER_EVENTS_PER_SESSION_MAX, SPEAKER_EVENTS_READ_MAX, SpeakerEvent,
};
use tokio_postgres::Row;

use super::known::SessionPlace;
use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::transcripts::speaker_event;

/// `speaker_events.meeting_id` of events that came without a meeting.
const ANY_MEETING: i64 = 0;

/// The latest events of a session up to the first of two times, and all between the two: with these
/// the latest up to any time between them are known. They follow the primary key backwards.
pub(super) const EVENTS_NEAR: &str = "-- events_near
SELECT near.place - 1, e.at_ms, e.kind, e.participant, e.name
  FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY
       AS near(session, meeting, first_ms, last_ms, place)
 CROSS JOIN LATERAL (
    (SELECT at_ms, kind, participant, name FROM roundsman.speaker_events
      WHERE session_uid = near.session AND meeting_id = near.meeting AND at_ms <= near.first_ms
      ORDER BY at_ms DESC, kind DESC, participant DESC
      LIMIT $5)
    UNION ALL
    (SELECT at_ms, kind, participant, name FROM roundsman.speaker_events
      WHERE session_uid = near.session AND meeting_id = near.meeting
        AND at_ms > near.first_ms AND at_ms <= near.last_ms
      ORDER BY at_ms DESC, kind DESC, participant DESC
      LIMIT $6)) e";

/// The parameters of [`EVENTS_NEAR`].
#[derive(Debug, Default)]
pub(super) struct EventsNear<'a> {
    sessions: Vec<&'a str>,
    meetings: Vec<i64>,
    first_ms: Vec<i64>,
    last_ms: Vec<i64>,
    /// Whose events the rows of each look are.
    asked_by: Vec<SessionPlace<'a>>,
    latest_max: i64,
    between_max: i64,
}

impl<'a> EventsNear<'a> {
    /// Sessions, each with the first and the last of the times up to which events are wanted.
    pub(super) fn of(wanted: &BTreeMap<SessionPlace<'a>, (i64, i64)>) -> Self {
        let mut near = EventsNear {
            latest_max: i64::from(SPEAKER_EVENTS_READ_MAX),
            between_max: i64::from(SPEAKER_EVENTS_PER_SESSION_MAX),
            ..EventsNear::default()
        };
        for (&(meeting, session), &(first, last)) in wanted {
            for heard_in in [meeting.get(), ANY_MEETING] {
                near.sessions.push(session);
                near.meetings.push(heard_in);
                near.first_ms.push(first);
                near.last_ms.push(last);
                near.asked_by.push((meeting, session));
            }
        }
        near
    }

    pub(super) fn values(&self) -> [&(dyn postgres_types::ToSql + Sync); 6] {
        [
            &self.sessions,
            &self.meetings,
            &self.first_ms,
            &self.last_ms,
            &self.latest_max,
            &self.between_max,
        ]
    }

    /// Reads the rows of [`EVENTS_NEAR`].
    pub(super) fn events(
        &self,
        rows: &[Row],
    ) -> Result<BTreeMap<SessionPlace<'a>, Vec<SpeakerEvent>>, Failure> {
        let mut events: BTreeMap<SessionPlace<'a>, Vec<SpeakerEvent>> = BTreeMap::new();
        for row in rows {
            let mut reader = Reader::new(row);
            let place = usize::try_from(reader.value::<i64>()?).unwrap_or(usize::MAX);
            let Some(&(meeting, session)) = self.asked_by.get(place) else { continue };
            let (at_ms, kind) = (reader.value()?, reader.value()?);
            let (participant, name) = (reader.value()?, reader.value()?);
            let event = speaker_event(session, at_ms, kind, participant, name, meeting)?;
            events.entry((meeting, session)).or_default().push(event);
        }
        Ok(events)
    }
}

pub(super) const NAMES: &str = "-- names
SELECT meeting_id, name, shown_as FROM roundsman.speaker_names WHERE meeting_id = ANY ($1::bigint[])";

/// What speakers are called, by meeting.
pub(super) type Names = BTreeMap<MeetingId, BTreeMap<String, String>>;

/// Reads the rows of [`NAMES`].
pub(super) fn names(rows: &[Row]) -> Result<Names, Failure> {
    let mut names = Names::new();
    for row in rows {
        let mut reader = Reader::new(row);
        let meeting = MeetingId::new(reader.value()?);
        names.entry(meeting).or_default().insert(reader.value()?, reader.value()?);
    }
    Ok(names)
}

/// What speakers of one meeting are called.
pub(super) async fn names_of(
    session: &mut Session,
    meeting: MeetingId,
) -> Result<BTreeMap<String, String>, Failure> {
    let rows = session.query(NAMES, &[&vec![meeting.get()]]).await?;
    Ok(names(&rows)?.remove(&meeting).unwrap_or_default())
}

/// New events as long as their session has room. Two batches at once may each fill the same room,
/// which makes the limit softer by one batch; it is there against floods.
pub(super) const KEEP_EVENTS: &str = "-- keep_events
WITH told AS MATERIALIZED (
    SELECT told.*
      FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[])
           WITH ORDINALITY AS told(session, meeting, at_ms, kind, participant, name, place)
     WHERE NOT EXISTS (
        SELECT FROM roundsman.speaker_events e
         WHERE e.session_uid = told.session AND e.meeting_id = told.meeting
           AND e.at_ms = told.at_ms AND e.kind = told.kind AND e.participant = told.participant)
), room AS MATERIALIZED (
    SELECT session, meeting,
           $8 - (SELECT count(*)
                   FROM (SELECT FROM roundsman.speaker_events e
                          WHERE e.session_uid = s.session AND e.meeting_id = s.meeting
                          LIMIT $8) known) AS rows
      FROM (SELECT DISTINCT session, meeting FROM told) s
)
INSERT INTO roundsman.speaker_events
    (session_uid, meeting_id, at_ms, kind, participant, name, heard_at)
SELECT session, meeting, at_ms, kind, participant, name, $7
  FROM (SELECT told.*, row_number() OVER (PARTITION BY session, meeting ORDER BY place) AS rank
          FROM told) ranked
  JOIN room USING (session, meeting)
 WHERE ranked.rank <= room.rows
ON CONFLICT DO NOTHING";

pub(super) struct KeepEvents<'a> {
    pub(super) events: &'a [(Option<MeetingId>, SpeakerEvent)],
    pub(super) now: Timestamp,
}

impl Operation for KeepEvents<'_> {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> Result<(), Failure> {
        // What is told twice in one batch must not take the room of two.
        let mut seen = HashSet::new();
        let (mut sessions, mut meetings, mut times) = (Vec::new(), Vec::new(), Vec::new());
        let (mut kinds, mut participants, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (meeting, event) in self.events {
            let meeting = meeting.map_or(ANY_MEETING, MeetingId::get);
            let SpeakerEvent { session_uid, kind, participant, name, at_ms } = event;
            if !seen.insert((session_uid, meeting, at_ms, kind, participant)) {
                continue;
            }
            sessions.push(session_uid.as_str());
            meetings.push(meeting);
            times.push(*at_ms);
            kinds.push(kind.as_str());
            participants.push(participant.as_str());
            names.push(name.as_str());
        }
        if sessions.is_empty() {
            return Ok(());
        }
        let rows_max = i64::from(SPEAKER_EVENTS_PER_SESSION_MAX);
        session
            .execute(
                KEEP_EVENTS,
                &[
                    &sessions,
                    &meetings,
                    &times,
                    &kinds,
                    &participants,
                    &names,
                    &Time(self.now),
                    &rows_max,
                ],
            )
            .await?;
        Ok(())
    }
}
