//! The frames of meetings: where their streams end, and which were handed to the bus.

use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, stream_of};
use roundsman_core::effects::{Frame, NewFrame};
use roundsman_core::transcripts::{Published, SeqRange};
use rusqlite::{Connection, OptionalExtension, params};

use crate::rows::transcripts::{by_stream, last_said, published};
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

/// Notes what was handed to the bus.
pub(super) fn note(conn: &Connection, ranges: &[(MeetingId, SeqRange)]) -> Result<()> {
    let mut read = conn.prepare_cached(PUBLISHED)?;
    let mut write = conn.prepare_cached(NOTE_PUBLISHED)?;
    for (stream, ranges) in by_stream(ranges) {
        let stored = read.query_row([&stream], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((up_to, ahead)): Option<(i64, String)> = stored else { continue };
        let before = published(&stream, up_to, &ahead)?;
        let mut after = before.clone();
        for range in ranges {
            after.note(range);
        }
        if after != before {
            write.execute(params![stream, after.up_to(), after.ahead_text()])?;
        }
    }
    Ok(())
}

/// Only what is missing is looked at: a frame that will never be found, because it is gone, must not
/// make every look walk past all that came after it.
pub(super) fn unpublished(
    conn: &Connection,
    from: Timestamp,
    until: Timestamp,
    rows_max: u32,
) -> Result<Vec<Frame>> {
    let rows_max = rows_max as usize;
    let mut behind = conn.prepare_cached(BEHIND)?;
    let mut streams = behind.query([])?;
    let mut within = conn.prepare_cached(FRAMES_WITHIN)?;
    let mut found = Vec::new();
    while let Some(row) = streams.next()? {
        let (stream, ahead): (String, String) = (row.get(0)?, row.get(2)?);
        let known: Published = published(&stream, row.get(1)?, &ahead)?;
        for range in known.missing(row.get(3)?) {
            let left = i64::try_from(rows_max - found.len()).unwrap_or(i64::MAX);
            let values = params![stream, range.first, range.last, At(from), At(until), left];
            for frame in within.query_map(values, read_frame)? {
                found.push(frame?);
            }
            if found.len() >= rows_max {
                return Ok(found);
            }
        }
    }
    Ok(found)
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

pub(super) const PUBLISHED: &str = "-- published
    SELECT published_seq, published_ahead FROM frame_streams WHERE stream = ?1";

const NOTE_PUBLISHED: &str = "-- note_published
    UPDATE frame_streams SET published_seq = ?2, published_ahead = ?3 WHERE stream = ?1";

/// The streams of meetings that are behind: they have names from `meeting:` to `meeting;`, the next
/// character.
pub(super) const BEHIND: &str = "-- behind
    SELECT stream, published_seq, published_ahead, last_seq
      FROM frame_streams INDEXED BY frame_streams_behind
     WHERE published_seq < last_seq AND stream > 'meeting:' AND stream < 'meeting;'
     ORDER BY stream";

pub(super) const FRAMES_WITHIN: &str = "-- frames_within
    SELECT stream, seq, body, at FROM frames
     WHERE stream = ?1 AND seq BETWEEN ?2 AND ?3 AND at BETWEEN ?4 AND ?5
     ORDER BY seq LIMIT ?6";

pub(super) const NEWEST: &str = "-- newest
    SELECT stream, seq, body, at FROM frames WHERE stream = ?1 ORDER BY seq DESC";

const DELETE_UP_TO: &str = "-- delete_up_to
    DELETE FROM frames WHERE stream = ?1 AND seq <= ?2";
