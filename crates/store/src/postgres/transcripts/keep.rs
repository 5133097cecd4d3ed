//! Writing final segments.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::transcripts::Line;
use roundsman_core::users::UserId;
use tokio_postgres::Row;

use super::write::{SegmentColumns, put_words};
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

/// Writes lines as final ones of a meeting, which is this user's, and makes them searchable.
pub(super) async fn keep_final(
    session: &mut Session,
    (meeting, owner): (MeetingId, UserId),
    lines: &[Line],
    now: Timestamp,
) -> Result<(), Failure> {
    if lines.is_empty() {
        return Ok(());
    }
    let segments = || lines.iter().map(|line| &line.segment);
    let column = SegmentColumns::of(segments());
    let ids = insert_final(session, meeting, &column, now).await?;
    session
        .execute(
            INSERT_KEPT,
            &[
                &meeting.get(),
                &ids,
                &column.sessions,
                &column.fields,
                &column.segment_ids,
                &column.start_ms,
                &column.end_ms,
                &column.statuses,
                &column.completed,
                &column.versions,
                &column.updated,
                &column.seqs,
            ],
        )
        .await?;
    let texts = segments().map(|segment| segment.content.text.as_str());
    put_words(session, ids.iter().zip(texts).map(|(id, text)| (*id, owner, text))).await
}

/// Returns the numbers of the rows in the order of the segments.
async fn insert_final(
    session: &mut Session,
    meeting: MeetingId,
    column: &SegmentColumns<'_>,
    now: Timestamp,
) -> Result<Vec<i64>, Failure> {
    let rows = session
        .query(
            INSERT_FINAL,
            &[
                &meeting.get(),
                &column.sessions,
                &column.start_ms,
                &column.end_ms,
                &column.texts,
                &column.speakers,
                &column.languages,
                &Time(now),
            ],
        )
        .await?;
    let id = |row: &Row| Ok(row.try_get::<_, i64>(0)?);
    let mut ids = rows.iter().map(id).collect::<Result<Vec<_>, Failure>>()?;
    ids.sort_unstable();
    Ok(ids)
}

/// `ORDER BY` makes the numbers follow the order given: they are drawn as the rows come, and grow.
const INSERT_FINAL: &str = "-- insert_final
INSERT INTO public.transcriptions
    (meeting_id, session_uid, start_time, end_time, text, speaker, language, created_at)
SELECT $1::bigint, nullif(x.session_uid, ''), x.start_ms / 1000.0::double precision,
       x.end_ms / 1000.0::double precision, x.text, x.speaker, x.language,
       $8::timestamptz AT TIME ZONE 'UTC'
  FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[])
       WITH ORDINALITY AS x(session_uid, start_ms, end_ms, text, speaker, language, place)
 ORDER BY x.place
RETURNING id::bigint";

/// A row that is there already is about a transcription that somebody else has deleted: otherwise
/// the segment would have been known as final and not be live.
const INSERT_KEPT: &str = "-- insert_kept
INSERT INTO roundsman.kept_segments
    (transcription_id, meeting_id, session_uid, field, segment_id, start_ms, end_ms,
     speaker_status, completed, version, updated_at, seq)
SELECT x.id, $1, x.session_uid, x.field, x.segment_id, x.start_ms, x.end_ms, x.speaker_status,
       x.completed, x.version, x.updated_at, x.seq
  FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[],
              $8::text[], $9::boolean[], $10::bigint[], $11::timestamptz[], $12::bigint[])
       AS x(id, session_uid, field, segment_id, start_ms, end_ms, speaker_status, completed,
            version, updated_at, seq)
ON CONFLICT (meeting_id, session_uid, field) DO UPDATE
   SET transcription_id = excluded.transcription_id, segment_id = excluded.segment_id,
       start_ms = excluded.start_ms, end_ms = excluded.end_ms,
       speaker_status = excluded.speaker_status, completed = excluded.completed,
       version = excluded.version, updated_at = excluded.updated_at, seq = excluded.seq";
