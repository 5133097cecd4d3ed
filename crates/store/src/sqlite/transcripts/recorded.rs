//! A transcript that comes whole and is final at once: that of a recording.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::Frame;
use roundsman_core::transcripts::{KnownStart, Line, mutable_frames};
use rusqlite::Connection;

use super::frames::append;
use super::sessions::put_start;
use super::settle::keep;
use super::speakers::names;
use crate::rows::transcripts::told_by;
use crate::sqlite::error::Result;

/// The names that users gave to the speakers of a meeting.
pub(in crate::sqlite) fn names_in(
    conn: &Connection,
    meeting: MeetingId,
) -> Result<BTreeMap<String, String>> {
    names(conn, meeting)
}

/// Writes the lines of a session and its start, searchable and told by frames, which are returned.
/// Nobody else speaks in the session, so its start moves nothing that was said.
pub(in crate::sqlite) fn keep_whole(
    conn: &Connection,
    meeting: MeetingId,
    (uid, start): (&str, Timestamp),
    lines: &mut [Line],
    now: Timestamp,
) -> Result<Vec<Frame>> {
    put_start(conn, meeting, uid, KnownStart { start, declared_by: None })?;
    let frames = append(conn, mutable_frames(meeting, lines, now), now)?;
    told_by(lines, &frames);
    keep(conn, meeting, lines, now)?;
    Ok(frames)
}
