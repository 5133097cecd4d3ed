//! Between rows of segments and the types of `roundsman_core`.
//!
//! Invariant: readers go by position, in the order of the lists that the macros here spell out.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::transcripts::{Segment, SegmentKey};
use tokio_postgres::Row;

use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::rows::transcripts::{FinalColumns, LiveColumns, SegmentFacts, session_to_column};

/// A row of `roundsman.live_segments`, named `l`.
macro_rules! live_columns {
    () => {
        "l.meeting_id, l.session_uid, l.text, l.speaker, l.language, l.created_at, l.field, \
         l.segment_id, l.start_ms, l.end_ms, l.speaker_status, l.completed, l.version, \
         l.updated_at, l.seq, l.dropped"
    };
}

/// How many columns [`live_columns`] names.
pub(super) const LIVE_COLUMNS: usize = 16;

/// A row of `public.transcriptions`, named `t`, and what is known beside it, named `k`. The table
/// may be that of an existing Vexa database: its time is without a zone and means UTC, its numbers
/// have either width.
macro_rules! final_columns {
    () => {
        "t.id::bigint, t.meeting_id::bigint, t.session_uid::text, t.start_time, t.end_time, \
         t.text::text, t.speaker::text, t.language::text, t.created_at AT TIME ZONE 'UTC', \
         k.field, k.segment_id, k.start_ms, k.end_ms, k.speaker_status, k.completed, k.version, \
         k.updated_at, k.seq"
    };
}

/// How many columns [`final_columns`] names.
pub(super) const FINAL_COLUMNS: usize = 18;
/// How many of them are those of `t`.
const TRANSCRIPTION_COLUMNS: usize = 9;

pub(super) use {final_columns, live_columns};

/// A segment that is not final.
pub(super) struct LiveRow {
    pub(super) meeting: MeetingId,
    pub(super) segment: Segment,
    pub(super) dropped: bool,
}

/// Reads a row that begins with [`live_columns`].
pub(super) fn live(row: &Row) -> Result<LiveRow, Failure> {
    let mut reader = Reader::new(row);
    let meeting = MeetingId::new(reader.value()?);
    let columns = LiveColumns {
        session_uid: reader.value()?,
        text: reader.value()?,
        speaker: reader.value()?,
        language: reader.value()?,
        created_at: reader.time()?,
        facts: facts(&mut reader)?,
    };
    let dropped = reader.value()?;
    Ok(LiveRow { meeting, segment: columns.into_segment(meeting)?, dropped })
}

/// A segment that is final.
pub(super) struct FinalRow {
    /// Of the row in `public.transcriptions`.
    pub(super) id: i64,
    pub(super) meeting: MeetingId,
    pub(super) segment: Segment,
}

/// Reads a row that begins with [`final_columns`], of which those of `k` may be absent.
pub(super) fn finished(row: &Row) -> Result<FinalRow, Failure> {
    let mut reader = Reader::new(row);
    let id = reader.value()?;
    let meeting = MeetingId::new(reader.value()?);
    let columns = FinalColumns {
        session_uid: reader.value()?,
        start_time: reader.value()?,
        end_time: reader.value()?,
        text: reader.value()?,
        speaker: reader.value()?,
        language: reader.value()?,
        // Rows that others wrote may lack it.
        created_at: reader.time_opt()?.unwrap_or(Timestamp::EPOCH),
    };
    let is_ours = row.try_get::<_, Option<&str>>(TRANSCRIPTION_COLUMNS)?.is_some();
    let kept = if is_ours { Some(facts(&mut reader)?) } else { None };
    Ok(FinalRow { id, meeting, segment: columns.into_segment(meeting, kept)? })
}

fn facts(reader: &mut Reader<'_>) -> Result<SegmentFacts, Failure> {
    Ok(SegmentFacts {
        field: reader.value()?,
        segment_id: reader.value()?,
        start_ms: reader.value()?,
        end_ms: reader.value()?,
        speaker_status: reader.value()?,
        completed: reader.value()?,
        version: reader.value()?,
        updated_at: reader.time()?,
        seq: reader.value()?,
    })
}

/// Keys of segments, one vector per column, as `unnest` takes them.
pub(super) fn key_columns<'a>(
    keys: impl IntoIterator<Item = &'a SegmentKey>,
) -> (Vec<&'a str>, Vec<&'a str>) {
    let columns =
        |key: &'a SegmentKey| (session_to_column(key.session_uid.as_deref()), key.field.as_str());
    keys.into_iter().map(columns).unzip()
}
