//! Looks at what was said.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{BotTarget, LiveMeeting, Transcript};
use roundsman_core::transcripts::Line;
use roundsman_core::users::UserId;
use rusqlite::{Connection, Params, params};

use super::columns::{LIVE, final_columns, live_columns, read_final, read_live};
use super::frames::stream_end;
use super::sessions::starts;
use crate::rows::transcripts::SessionStarts;
use crate::sqlite::bots::read::meeting;
use crate::sqlite::error::Result;
use crate::sqlite::time::optional;

pub(super) fn live_meetings(
    conn: &Connection,
    after: Option<MeetingId>,
    rows_max: u32,
) -> Result<Vec<LiveMeeting>> {
    let mut statement = conn.prepare_cached(LIVE_MEETINGS)?;
    let after = after.map_or(i64::MIN, MeetingId::get);
    let rows = statement.query_map(params![after, rows_max], |row| {
        Ok(LiveMeeting {
            meeting_id: MeetingId::new(row.get(0)?),
            segments: row.get::<_, u32>(1)?.into(),
            unchanged_since: optional(row.get(2)?).unwrap_or(Timestamp::EPOCH),
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn live_lines(conn: &Connection, meeting: MeetingId) -> Result<Vec<Line>> {
    let starts = starts(conn, meeting)?;
    Ok(live_since(conn, meeting, &starts, None)?.lines)
}

pub(super) fn live_segment_count(conn: &Connection) -> Result<u64> {
    let count: u32 = conn.prepare_cached(COUNT_LIVE)?.query_row([], |row| row.get(0))?;
    Ok(count.into())
}

pub(super) fn transcript(
    conn: &Connection,
    user: UserId,
    target: &BotTarget,
    since: Option<i64>,
) -> Result<Option<Transcript>> {
    let Some(row) = meeting(conn, user, target)? else { return Ok(None) };
    let id = row.meeting.id;
    let starts = starts(conn, id)?;
    let LiveSince { mut lines, retracted } = live_since(conn, id, &starts, since)?;
    let finals = match since {
        Some(since) => final_lines(conn, id, &starts, KEPT_SINCE, params![id.get(), since])?,
        None => final_lines(conn, id, &starts, FINAL_OF, params![id.get()])?,
    };
    lines.extend(finals);
    Ok(Some(Transcript { row, seq: stream_end(conn, id)?, lines, retracted }))
}

/// All final lines of a meeting, by their numbers.
pub(super) fn finals(
    conn: &Connection,
    meeting: MeetingId,
    starts: &SessionStarts,
) -> Result<Vec<Line>> {
    final_lines(conn, meeting, starts, FINAL_BY_NUMBER, params![meeting.get()])
}

fn final_lines(
    conn: &Connection,
    meeting: MeetingId,
    starts: &SessionStarts,
    statement: &str,
    params: impl Params,
) -> Result<Vec<Line>> {
    let mut statement = conn.prepare_cached(statement)?;
    let mut rows = statement.query(params)?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        lines.push(starts.kept_line(read_final(row, meeting)?));
    }
    Ok(lines)
}

/// Live segments of a meeting, by whether they were dropped.
pub(super) struct LiveSince {
    pub(super) lines: Vec<Line>,
    /// Only if a place was asked for.
    retracted: Vec<Line>,
}

/// In the order of their keys.
pub(super) fn live_since(
    conn: &Connection,
    meeting: MeetingId,
    starts: &SessionStarts,
    since: Option<i64>,
) -> Result<LiveSince> {
    let mut statement = conn.prepare_cached(LIVE_OF)?;
    let mut rows = statement.query([meeting.get(), since.unwrap_or(i64::MIN)])?;
    let (mut lines, mut retracted) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let dropped: bool = row.get(LIVE)?;
        if !dropped || since.is_some() {
            let line = starts.live_line(read_live(row, meeting)?);
            if dropped { &mut retracted } else { &mut lines }.push(line);
        }
    }
    Ok(LiveSince { lines, retracted })
}

pub(super) const LIVE_MEETINGS: &str = "-- live_meetings
    SELECT a.meeting_id, count(l.updated_at), min(l.updated_at)
      FROM active_transcripts AS a
      LEFT JOIN live_segments AS l ON l.meeting_id = a.meeting_id AND l.dropped = 0
     WHERE a.meeting_id > ?1
     GROUP BY a.meeting_id ORDER BY a.meeting_id LIMIT ?2";

pub(super) const LIVE_OF: &str = concat!(
    "-- live_of
    SELECT ",
    live_columns!(),
    ", l.dropped FROM live_segments AS l WHERE l.meeting_id = ?1 AND l.seq > ?2
     ORDER BY l.session_uid, l.field"
);

/// In no order: whoever reads it sorts it by the starts of sessions.
pub(super) const FINAL_OF: &str = concat!(
    "-- final_of
    SELECT ",
    final_columns!(),
    " FROM transcriptions AS t LEFT JOIN kept_segments AS k ON k.transcription_id = t.id
     WHERE t.meeting_id = ?1"
);

/// For what happens seldom, and must happen in the same order in both databases.
pub(super) const FINAL_BY_NUMBER: &str = concat!(
    "-- final_by_number
    SELECT ",
    final_columns!(),
    " FROM transcriptions AS t INDEXED BY ix_transcription_meeting_start
      LEFT JOIN kept_segments AS k ON k.transcription_id = t.id
     WHERE t.meeting_id = ?1
     ORDER BY t.id"
);

pub(super) const KEPT_SINCE: &str = concat!(
    "-- kept_since
    SELECT ",
    final_columns!(),
    " FROM kept_segments AS k CROSS JOIN transcriptions AS t ON t.id = k.transcription_id
     WHERE k.meeting_id = ?1 AND k.seq > ?2"
);

/// All without those that were dropped: the indexes know both numbers.
pub(super) const COUNT_LIVE: &str = "-- count_live
    SELECT (SELECT count(*) FROM live_segments)
         - (SELECT count(*) FROM live_segments WHERE dropped = 1)";
