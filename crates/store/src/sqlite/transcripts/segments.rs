//! Segments: which are known, and how they are written.

use std::collections::BTreeSet;

use roundsman_core::bots::MeetingId;
use roundsman_core::transcripts::{Known, Line, Place, Reach, Segment, searchable, seconds_of};
use rusqlite::{Connection, Params, params};

use super::columns::{LIVE, final_columns, live_columns, read_final, read_live};
use super::search::put_words;
use crate::rows::told::joined_spans;
use crate::rows::transcripts::{SessionStarts, moved, session_to_column};
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

/// The segments of a session that messages may be about, wherever they are, in no order.
pub(super) fn read_within(
    conn: &Connection,
    meeting: MeetingId,
    session: Option<&str>,
    reaches: &[Reach],
) -> Result<Vec<Known>> {
    let session = session_to_column(session);
    let mut known = Vec::with_capacity(32);
    for (from_ms, to_ms) in joined_spans(reaches) {
        let range = (meeting.get(), session, from_ms, to_ms);
        live(conn, meeting, LIVE_WITHIN, range, &mut known)?;
        kept(conn, meeting, KEPT_WITHIN, range, &mut known)?;
    }
    let mut named: BTreeSet<&String> = reaches.iter().flat_map(|reach| &reach.ids).collect();
    for id in known.iter().filter_map(|known| known.segment.segment_id.as_ref()) {
        named.remove(id);
    }
    for id in named {
        let named = (meeting.get(), session, id);
        live(conn, meeting, LIVE_NAMED, named, &mut known)?;
        kept(conn, meeting, KEPT_NAMED, named, &mut known)?;
    }
    Ok(known)
}

/// The lines whose absolute times are others when the sessions started as in `after`, with these.
pub(super) fn moved_lines(
    conn: &Connection,
    meeting: MeetingId,
    before: &SessionStarts,
    after: &SessionStarts,
) -> Result<Vec<Line>> {
    let mut known = Vec::new();
    live(conn, meeting, LIVE_OF, [meeting.get()], &mut known)?;
    kept(conn, meeting, KEPT_OF, [meeting.get()], &mut known)?;
    Ok(moved(known, before, after))
}

/// Writes a segment that is new or different.
pub(super) fn put_segment(conn: &Connection, meeting: MeetingId, known: &Known) -> Result<()> {
    match known.place {
        Place::Kept => update_kept(conn, meeting, &known.segment),
        Place::Live | Place::Dropped => put_live(conn, meeting, &known.segment),
    }
}

/// Writes only which frame told of a line.
pub(super) fn put_place(conn: &Connection, meeting: MeetingId, line: &Line) -> Result<()> {
    let segment = &line.segment;
    let session = session_to_column(segment.key.session_uid.as_deref());
    let place = params![meeting.get(), session, segment.key.field, segment.seq];
    let statement = if line.kept { PLACE_KEPT } else { PLACE_LIVE };
    conn.prepare_cached(statement)?.execute(place)?;
    Ok(())
}

/// Remembers that a meeting has live segments.
pub(super) fn set_active(conn: &Connection, meeting: MeetingId) -> Result<()> {
    conn.prepare_cached(SET_ACTIVE)?.execute([meeting.get()])?;
    Ok(())
}

fn put_live(conn: &Connection, meeting: MeetingId, segment: &Segment) -> Result<()> {
    conn.prepare_cached(PUT_LIVE)?.execute(params![
        meeting.get(),
        session_to_column(segment.key.session_uid.as_deref()),
        segment.key.field,
        segment.segment_id,
        segment.start_ms,
        segment.content.end_ms,
        segment.content.text,
        segment.content.speaker,
        segment.content.language,
        segment.speaker_status.as_str(),
        segment.completed,
        segment.version,
        At(segment.created_at),
        At(segment.updated_at),
        segment.seq,
    ])?;
    Ok(())
}

fn update_kept(conn: &Connection, meeting: MeetingId, segment: &Segment) -> Result<()> {
    let content = &segment.content;
    let id: i64 = conn.prepare_cached(UPDATE_KEPT)?.query_row(
        params![
            meeting.get(),
            session_to_column(segment.key.session_uid.as_deref()),
            segment.key.field,
            content.end_ms,
            segment.speaker_status.as_str(),
            segment.completed,
            segment.version,
            At(segment.updated_at),
            segment.seq,
        ],
        |row| row.get(0),
    )?;
    conn.prepare_cached(UPDATE_FINAL)?.execute(params![
        id,
        seconds_of(content.end_ms),
        content.text,
        content.speaker,
        content.language,
    ])?;
    put_words(conn, id, &searchable(&content.text))
}

/// Reads rows of `live_segments` and whether they are dropped.
fn live(
    conn: &Connection,
    meeting: MeetingId,
    statement: &str,
    params: impl Params,
    known: &mut Vec<Known>,
) -> Result<()> {
    let mut statement = conn.prepare_cached(statement)?;
    let mut rows = statement.query(params)?;
    while let Some(row) = rows.next()? {
        let place = if row.get(LIVE)? { Place::Dropped } else { Place::Live };
        known.push(Known { segment: read_live(row, meeting)?, place });
    }
    Ok(())
}

fn kept(
    conn: &Connection,
    meeting: MeetingId,
    statement: &str,
    params: impl Params,
    known: &mut Vec<Known>,
) -> Result<()> {
    let mut statement = conn.prepare_cached(statement)?;
    let mut rows = statement.query(params)?;
    while let Some(row) = rows.next()? {
        known.push(Known { segment: read_final(row, meeting)?, place: Place::Kept });
    }
    Ok(())
}

macro_rules! live_where {
    ($name:literal, $index:literal, $rest:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT ",
            live_columns!(),
            ", l.dropped FROM live_segments AS l ",
            $index,
            " WHERE l.meeting_id = ?1 ",
            $rest
        )
    };
}

/// What is known of final segments leads to them, never the other way round.
macro_rules! kept_where {
    ($name:literal, $index:literal, $rest:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT ",
            final_columns!(),
            " FROM kept_segments AS k ",
            $index,
            " CROSS JOIN transcriptions AS t ON t.id = k.transcription_id
             WHERE k.meeting_id = ?1 ",
            $rest
        )
    };
}

pub(super) const LIVE_WITHIN: &str = live_where!(
    "live_within",
    "INDEXED BY live_segments_start",
    "AND l.session_uid = ?2 AND l.start_ms BETWEEN ?3 AND ?4"
);
pub(super) const LIVE_NAMED: &str = live_where!(
    "live_named",
    "INDEXED BY live_segments_id",
    "AND l.session_uid = ?2 AND l.segment_id = ?3"
);
pub(super) const LIVE_OF: &str = live_where!("live_of", "", "ORDER BY l.session_uid, l.field");
pub(super) const KEPT_WITHIN: &str = kept_where!(
    "kept_within",
    "INDEXED BY kept_segments_start",
    "AND k.session_uid = ?2 AND k.start_ms BETWEEN ?3 AND ?4"
);
pub(super) const KEPT_NAMED: &str = kept_where!(
    "kept_named",
    "INDEXED BY kept_segments_id",
    "AND k.session_uid = ?2 AND k.segment_id = ?3"
);
pub(super) const KEPT_OF: &str =
    kept_where!("kept_of", "INDEXED BY kept_segments_key", "ORDER BY k.transcription_id");
/// Those that overlap or touch what is between two times.
pub(super) const KEPT_AROUND: &str = kept_where!(
    "kept_around",
    "INDEXED BY kept_segments_start",
    "AND k.session_uid = ?2 AND k.start_ms <= ?4 AND k.end_ms >= ?3"
);

pub(super) const PUT_LIVE: &str = "-- put_live
    INSERT INTO live_segments (meeting_id, session_uid, field, segment_id, start_ms, end_ms, text,
        speaker, language, speaker_status, completed, version, created_at, updated_at, seq)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
    ON CONFLICT (meeting_id, session_uid, field) DO UPDATE
       SET end_ms = excluded.end_ms, text = excluded.text, speaker = excluded.speaker,
           language = excluded.language, speaker_status = excluded.speaker_status,
           completed = excluded.completed, version = excluded.version,
           updated_at = excluded.updated_at, seq = excluded.seq, dropped = 0";

pub(super) const UPDATE_KEPT: &str = "-- update_kept
    UPDATE kept_segments
       SET end_ms = ?4, speaker_status = ?5, completed = ?6, version = ?7, updated_at = ?8, seq = ?9
     WHERE meeting_id = ?1 AND session_uid = ?2 AND field = ?3
    RETURNING transcription_id";

const UPDATE_FINAL: &str = "-- update_final
    UPDATE transcriptions SET end_time = ?2, text = ?3, speaker = ?4, language = ?5 WHERE id = ?1";

pub(super) const PLACE_LIVE: &str = "-- place_live
    UPDATE live_segments SET seq = ?4 WHERE meeting_id = ?1 AND session_uid = ?2 AND field = ?3";

pub(super) const PLACE_KEPT: &str = "-- place_kept
    UPDATE kept_segments SET seq = ?4 WHERE meeting_id = ?1 AND session_uid = ?2 AND field = ?3";

const SET_ACTIVE: &str = "-- set_active
    INSERT INTO active_transcripts (meeting_id) VALUES (?1) ON CONFLICT DO NOTHING";
