//! Moves segments that are stable to the final table.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{SettleRequest, SettledSegments};
use roundsman_core::transcripts::{Line, SPEAKER_EVENT_SLACK_MS, Segment, searchable, seconds_of};
use rusqlite::{Connection, params};

use super::columns::{live_columns, read_final, read_live};
use super::frames::append;
use super::search::put_words;
use super::segments::KEPT_AROUND;
use super::sessions::{names_of, starts};
use super::speakers::speakers;
use crate::rows::transcripts::{SettlePlan, session_to_column, spans_of};
use crate::sqlite::effects::is_held;
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn settle_segments(
    conn: &Connection,
    meeting: MeetingId,
    request: &SettleRequest,
    guard: Option<LeaseRef>,
    now: Timestamp,
) -> Result<SettledSegments> {
    if let Some(lease) = guard
        && !is_held(conn, lease)?
    {
        return Ok(SettledSegments::default());
    }
    let stable = stable(conn, meeting, request)?;
    let (mut kept, mut who) = (Vec::new(), BTreeMap::new());
    for (session, (from_ms, to_ms)) in spans_of(&stable) {
        kept.extend(kept_around(conn, meeting, session.as_deref(), from_ms, to_ms)?);
        let heard_until = to_ms.saturating_add(SPEAKER_EVENT_SLACK_MS);
        let speakers = speakers(conn, meeting, session.as_deref(), heard_until)?;
        who.insert(session, speakers);
    }
    let starts = starts(conn, meeting)?;
    let mut plan = SettlePlan::new(stable, &kept, &who, &request.filter, &starts, now);
    let (frames, about_speakers) = plan.frames(meeting, now);
    let frames = append(conn, frames, now)?;
    plan.told_by(&frames, about_speakers);
    keep(conn, meeting, &plan.keep, now)?;
    drop_all(conn, meeting, &plan.drop)?;
    let left: u32 =
        conn.prepare_cached(COUNT_LEFT)?.query_row([meeting.get()], |row| row.get(0))?;
    let mut sessions = Vec::new();
    if left == 0 {
        conn.prepare_cached(SET_INACTIVE)?.execute([meeting.get()])?;
        sessions = names_of(conn, meeting)?;
    }
    Ok(plan.answer(frames, left.into(), sessions))
}

fn stable(conn: &Connection, meeting: MeetingId, request: &SettleRequest) -> Result<Vec<Segment>> {
    let before = request.stable_before.unwrap_or(Timestamp::MAX);
    let mut statement = conn.prepare_cached(STABLE)?;
    let mut rows = statement.query(params![meeting.get(), At(before), request.rows_max])?;
    let mut stable = Vec::new();
    while let Some(row) = rows.next()? {
        stable.push(read_live(row, meeting)?);
    }
    Ok(stable)
}

fn kept_around(
    conn: &Connection,
    meeting: MeetingId,
    session: Option<&str>,
    from_ms: i64,
    to_ms: i64,
) -> Result<Vec<Segment>> {
    let mut statement = conn.prepare_cached(KEPT_AROUND)?;
    let around = params![meeting.get(), session_to_column(session), from_ms, to_ms];
    let mut rows = statement.query(around)?;
    let mut kept = Vec::new();
    while let Some(row) = rows.next()? {
        kept.push(read_final(row, meeting)?);
    }
    Ok(kept)
}

/// Writes lines as final ones, searchable; they are live no more.
pub(super) fn keep(
    conn: &Connection,
    meeting: MeetingId,
    lines: &[Line],
    now: Timestamp,
) -> Result<()> {
    let mut insert_final = conn.prepare_cached(INSERT_FINAL)?;
    let mut insert_kept = conn.prepare_cached(INSERT_KEPT)?;
    let mut delete_live = conn.prepare_cached(DELETE_LIVE)?;
    for Line { segment, .. } in lines {
        let content = &segment.content;
        let session = segment.key.session_uid.as_deref();
        let id: i64 = insert_final.query_row(
            params![
                meeting.get(),
                seconds_of(segment.start_ms),
                seconds_of(content.end_ms),
                content.text,
                content.speaker,
                content.language,
                At(now),
                session,
            ],
            |row| row.get(0),
        )?;
        let session = session_to_column(session);
        insert_kept.execute(params![
            id,
            meeting.get(),
            session,
            segment.key.field,
            segment.segment_id,
            segment.start_ms,
            content.end_ms,
            segment.speaker_status.as_str(),
            segment.completed,
            segment.version,
            At(segment.updated_at),
            segment.seq,
        ])?;
        put_words(conn, id, &searchable(&content.text))?;
        delete_live.execute(params![meeting.get(), session, segment.key.field])?;
    }
    Ok(())
}

fn drop_all(conn: &Connection, meeting: MeetingId, lines: &[Line]) -> Result<()> {
    let mut statement = conn.prepare_cached(DROP)?;
    for Line { segment, .. } in lines {
        statement.execute(params![
            meeting.get(),
            session_to_column(segment.key.session_uid.as_deref()),
            segment.key.field,
            segment.content.speaker,
            segment.speaker_status.as_str(),
            At(segment.updated_at),
            segment.seq,
        ])?;
    }
    Ok(())
}

/// By the index of starts, which is in the order wanted.
pub(super) const STABLE: &str = concat!(
    "-- stable
    SELECT ",
    live_columns!(),
    " FROM live_segments AS l INDEXED BY live_segments_start
     WHERE l.meeting_id = ?1 AND l.dropped = 0 AND l.updated_at <= ?2
     ORDER BY l.session_uid, l.start_ms, l.field LIMIT ?3"
);

const INSERT_FINAL: &str = "-- insert_final
    INSERT INTO transcriptions (meeting_id, start_time, end_time, text, speaker, language,
        created_at, session_uid)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    RETURNING id";

const INSERT_KEPT: &str = "-- insert_kept
    INSERT INTO kept_segments (transcription_id, meeting_id, session_uid, field, segment_id,
        start_ms, end_ms, speaker_status, completed, version, updated_at, seq)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";

const DELETE_LIVE: &str = "-- delete_live
    DELETE FROM live_segments WHERE meeting_id = ?1 AND session_uid = ?2 AND field = ?3";

/// With the speaker that was found at the last look, so that telling it again changes nothing.
const DROP: &str = "-- drop
    UPDATE live_segments
       SET dropped = 1, speaker = ?4, speaker_status = ?5, updated_at = ?6, seq = ?7
     WHERE meeting_id = ?1 AND session_uid = ?2 AND field = ?3";

pub(super) const COUNT_LEFT: &str = "-- count_left
    SELECT count(*) FROM live_segments WHERE meeting_id = ?1 AND dropped = 0";

const SET_INACTIVE: &str = "-- set_inactive
    DELETE FROM active_transcripts WHERE meeting_id = ?1";
