//! The frames of meetings: where their streams end, and up to where they were handed to the bus.

use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, stream_of};
use roundsman_core::effects::{Frame, NewFrame};
use rusqlite::{Connection, OptionalExtension, params};

use crate::rows::transcripts::last_said;
use crate::sqlite::effects::{append_frame, read_frame};
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

/// Stores frames and returns them with their places.
pub(super) fn append(
    conn: &Connection,
    frames: Vec<NewFrame>,
    now: Timestamp,
) -> Result<Vec<Frame>> {
    frames.into_iter().map(|frame| append_frame(conn, frame, now)).collect()
}

pub(super) fn stream_end(conn: &Connection, meeting: MeetingId) -> Result<i64> {
    let mut statement = conn.prepare_cached(STREAM_END)?;
    let end = statement.query_row([stream_of(meeting)], |row| row.get(0)).optional()?;
    Ok(end.unwrap_or(0))
}

pub(super) fn published(conn: &Connection, places: &[(MeetingId, i64)]) -> Result<()> {
    let mut statement = conn.prepare_cached(PUBLISHED)?;
    for (meeting, seq) in places {
        statement.execute(params![stream_of(*meeting), seq])?;
    }
    Ok(())
}

pub(super) fn unpublished(
    conn: &Connection,
    from: Timestamp,
    until: Timestamp,
    rows_max: u32,
) -> Result<Vec<Frame>> {
    let mut statement = conn.prepare_cached(UNPUBLISHED)?;
    let rows = statement.query_map(params![At(from), At(until), rows_max], read_frame)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Deletes the frames that tell of what was said in a meeting. Their numbers stay used.
pub(super) fn forget(conn: &Connection, meeting: MeetingId) -> Result<()> {
    let stream = stream_of(meeting);
    let mut statement = conn.prepare_cached(NEWEST)?;
    let mut rows = statement.query_map([&stream], read_frame)?;
    let mut failed = None;
    let frames = std::iter::from_fn(|| match rows.next()? {
        Ok(frame) => Some(frame),
        Err(error) => {
            failed = Some(error);
            None
        }
    });
    let last = last_said(frames);
    if let Some(error) = failed {
        return Err(error.into());
    }
    if let Some(last) = last {
        conn.prepare_cached(DELETE_UP_TO)?.execute(params![stream, last])?;
    }
    Ok(())
}

const STREAM_END: &str = "-- stream_end
    SELECT last_seq FROM frame_streams WHERE stream = ?1";

const PUBLISHED: &str = "-- published
    UPDATE frame_streams SET published_seq = ?2 WHERE stream = ?1 AND published_seq < ?2";

/// The streams that are behind lead to their frames. Those of meetings have names from `meeting:`
/// to `meeting;`, the next character.
pub(super) const UNPUBLISHED: &str = "-- unpublished
    SELECT f.stream, f.seq, f.body, f.at
      FROM frame_streams AS s INDEXED BY frame_streams_behind
      CROSS JOIN frames AS f ON f.stream = s.stream AND f.seq > s.published_seq
     WHERE s.published_seq < s.last_seq AND s.stream > 'meeting:' AND s.stream < 'meeting;'
       AND f.at BETWEEN ?1 AND ?2
     ORDER BY s.stream, f.seq LIMIT ?3";

pub(super) const NEWEST: &str = "-- newest
    SELECT stream, seq, body, at FROM frames WHERE stream = ?1 ORDER BY seq DESC";

const DELETE_UP_TO: &str = "-- delete_up_to
    DELETE FROM frames WHERE stream = ?1 AND seq <= ?2";
