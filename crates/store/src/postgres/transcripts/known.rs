//! What is known of the segments that messages may be about.

use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::bots::MeetingId;
use roundsman_core::transcripts::{Known, Place, Reach};
use tokio_postgres::Row;

use super::columns::{final_columns, finished, live, live_columns};
use crate::postgres::error::Failure;
use crate::postgres::session::{Session, Values};
use crate::rows::told::joined_spans;
use crate::rows::transcripts::session_to_column;

/// Segments that begin within the given spans, and those with the given names. Each span and each
/// name is one look at an index; a segment that is found twice is returned twice.
///
/// The session is spelt so that it does not lead to a row, because the key would be taken, which leads
/// to all of a session; the order is for the same end. `OFFSET 0` keeps the looks in this order.
pub(super) const LIVE_NEAR: &str = concat!(
    "-- live_near\nSELECT ",
    live_columns!(),
    "
  FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[])
       AS near(meeting, session, from_ms, to_ms)
 CROSS JOIN LATERAL (
    SELECT * FROM roundsman.live_segments
     WHERE meeting_id = near.meeting AND session_uid || '' = near.session
       AND start_ms BETWEEN near.from_ms AND near.to_ms
     ORDER BY start_ms OFFSET 0) l
UNION ALL
SELECT ",
    live_columns!(),
    "
  FROM unnest($5::bigint[], $6::text[], $7::text[]) AS named(meeting, session, id)
 CROSS JOIN LATERAL (
    SELECT * FROM roundsman.live_segments
     WHERE meeting_id = named.meeting AND session_uid || '' = named.session
       AND segment_id = named.id
    OFFSET 0) l"
);

pub(super) const KEPT_NEAR: &str = concat!(
    "-- kept_near\nSELECT ",
    final_columns!(),
    "
  FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[])
       AS near(meeting, session, from_ms, to_ms)
 CROSS JOIN LATERAL (
    SELECT * FROM roundsman.kept_segments
     WHERE meeting_id = near.meeting AND session_uid || '' = near.session
       AND start_ms BETWEEN near.from_ms AND near.to_ms
     ORDER BY start_ms OFFSET 0) k
 CROSS JOIN LATERAL (
    SELECT * FROM public.transcriptions WHERE id = k.transcription_id OFFSET 0) t
UNION ALL
SELECT ",
    final_columns!(),
    "
  FROM unnest($5::bigint[], $6::text[], $7::text[]) AS named(meeting, session, id)
 CROSS JOIN LATERAL (
    SELECT * FROM roundsman.kept_segments
     WHERE meeting_id = named.meeting AND session_uid || '' = named.session
       AND segment_id = named.id
    OFFSET 0) k
 CROSS JOIN LATERAL (
    SELECT * FROM public.transcriptions WHERE id = k.transcription_id OFFSET 0) t"
);

/// A session of a meeting, as the columns name it.
pub(super) type SessionPlace<'a> = (MeetingId, &'a str);

/// The parameters of [`LIVE_NEAR`] and [`KEPT_NEAR`].
#[derive(Debug, Default)]
pub(super) struct Near<'a> {
    meetings: Vec<i64>,
    sessions: Vec<&'a str>,
    from_ms: Vec<i64>,
    to_ms: Vec<i64>,
    named_meetings: Vec<i64>,
    named_sessions: Vec<&'a str>,
    names: Vec<&'a str>,
}

impl<'a> Near<'a> {
    /// What several messages reach.
    pub(super) fn of(reaches: &'a BTreeMap<SessionPlace<'a>, Vec<Reach>>) -> Self {
        let mut near = Near::default();
        for (&(meeting, session), reaches) in reaches {
            for span in joined_spans(reaches) {
                near.push_span((meeting, session), span);
            }
            // Messages repeat each other.
            let names: BTreeSet<&String> = reaches.iter().flat_map(|reach| &reach.ids).collect();
            for name in names {
                near.named_meetings.push(meeting.get());
                near.named_sessions.push(session);
                near.names.push(name);
            }
        }
        near
    }

    /// All there is of these sessions.
    pub(super) fn whole(sessions: impl IntoIterator<Item = SessionPlace<'a>>) -> Self {
        let mut near = Near::default();
        for session in sessions {
            near.push_span(session, (i64::MIN, i64::MAX));
        }
        near
    }

    fn push_span(&mut self, (meeting, session): SessionPlace<'a>, (from, to): (i64, i64)) {
        self.meetings.push(meeting.get());
        self.sessions.push(session);
        self.from_ms.push(from);
        self.to_ms.push(to);
    }

    pub(super) fn values(&self) -> [&(dyn postgres_types::ToSql + Sync); 7] {
        [
            &self.meetings,
            &self.sessions,
            &self.from_ms,
            &self.to_ms,
            &self.named_meetings,
            &self.named_sessions,
            &self.names,
        ]
    }

    pub(super) async fn read(&self, session: &mut Session) -> Result<Vec<KnownRow>, Failure> {
        let values = self.values();
        let values: Values<'_> = &values;
        let [live, kept] = session.query_all([(LIVE_NEAR, values), (KEPT_NEAR, values)]).await?;
        known_rows(&live, &kept)
    }
}

/// A segment that is known, and where.
pub(super) struct KnownRow {
    pub(super) meeting: MeetingId,
    /// Of its row in `public.transcriptions`, if it is final.
    pub(super) id: Option<i64>,
    pub(super) known: Known,
}

impl KnownRow {
    /// As the columns name it.
    pub(super) fn session(&self) -> &str {
        session_to_column(self.known.segment.key.session_uid.as_deref())
    }
}

/// Reads the rows of [`LIVE_NEAR`] and [`KEPT_NEAR`].
pub(super) fn known_rows(live_rows: &[Row], kept_rows: &[Row]) -> Result<Vec<KnownRow>, Failure> {
    let mut found = Vec::with_capacity(live_rows.len() + kept_rows.len());
    for row in live_rows {
        let row = live(row)?;
        let place = if row.dropped { Place::Dropped } else { Place::Live };
        let known = Known { segment: row.segment, place };
        found.push(KnownRow { meeting: row.meeting, id: None, known });
    }
    for row in kept_rows {
        let row = finished(row)?;
        let known = Known { segment: row.segment, place: Place::Kept };
        found.push(KnownRow { meeting: row.meeting, id: Some(row.id), known });
    }
    Ok(found)
}
