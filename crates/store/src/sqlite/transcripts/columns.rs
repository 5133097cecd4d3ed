//! The columns of segments, in the order in which every statement names them, and how they are
//! read. Statements call `live_segments` `l`, `transcriptions` `t` and `kept_segments` `k`.

use roundsman_core::bots::MeetingId;
use roundsman_core::transcripts::Segment;
use rusqlite::Row;

use crate::rows::transcripts::{FinalColumns, LiveColumns, SegmentFacts};
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

macro_rules! live_columns {
    () => {
        "l.session_uid, l.text, l.speaker, l.language, l.created_at, l.field, l.segment_id, \
         l.start_ms, l.end_ms, l.speaker_status, l.completed, l.version, l.updated_at, l.seq"
    };
}

/// A final segment's columns and then, NULL if somebody else wrote it, what we know of it.
macro_rules! final_columns {
    () => {
        "t.session_uid, t.start_time, t.end_time, t.text, t.speaker, t.language, t.created_at, \
         k.field, k.segment_id, k.start_ms, k.end_ms, k.speaker_status, k.completed, k.version, \
         k.updated_at, k.seq"
    };
}

pub(super) use {final_columns, live_columns};

/// How many columns `live_columns!` and `final_columns!` name.
pub(super) const LIVE: usize = 14;
pub(super) const FINAL: usize = 16;

pub(super) fn read_live(row: &Row<'_>, meeting: MeetingId) -> Result<Segment> {
    let columns = LiveColumns {
        session_uid: row.get(0)?,
        text: row.get(1)?,
        speaker: row.get(2)?,
        language: row.get(3)?,
        created_at: row.get(4).map(|At(at)| at)?,
        facts: read_facts(row, 5)?,
    };
    Ok(columns.into_segment(meeting)?)
}

/// Reads a row of `transcriptions` that may have one of `kept_segments`.
pub(super) fn read_final(row: &Row<'_>, meeting: MeetingId) -> Result<Segment> {
    const FACTS: usize = 7;
    let columns = FinalColumns {
        session_uid: row.get(0)?,
        start_time: row.get(1)?,
        end_time: row.get(2)?,
        text: row.get(3)?,
        speaker: row.get(4)?,
        language: row.get(5)?,
        created_at: row.get(6).map(|At(at)| at)?,
    };
    let is_ours = row.get::<_, Option<i64>>(FINAL - 1)?.is_some();
    let facts = if is_ours { Some(read_facts(row, FACTS)?) } else { None };
    Ok(columns.into_segment(meeting, facts)?)
}

fn read_facts(row: &Row<'_>, first: usize) -> rusqlite::Result<SegmentFacts> {
    Ok(SegmentFacts {
        field: row.get(first)?,
        segment_id: row.get(first + 1)?,
        start_ms: row.get(first + 2)?,
        end_ms: row.get(first + 3)?,
        speaker_status: row.get(first + 4)?,
        completed: row.get(first + 5)?,
        version: row.get(first + 6)?,
        updated_at: row.get(first + 7).map(|At(at)| at)?,
        seq: row.get(first + 8)?,
    })
}
