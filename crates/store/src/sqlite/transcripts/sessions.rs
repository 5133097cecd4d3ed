//! The sessions of a meeting: when they started, who said so, and when they ended.
//!
//! Invariant: whoever writes a start tells of all lines that it moves ([`start`], [`tell_moved`]).

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::Frame;
use roundsman_core::transcripts::{KnownStart, Line};
use rusqlite::{Connection, OptionalExtension, params};

use super::segments::{moved_lines, put_place};
use crate::rows::transcripts::{SessionStarts, told_by};
use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

/// When all sessions of a meeting started.
pub(super) fn starts(conn: &Connection, meeting: MeetingId) -> Result<SessionStarts> {
    let mut statement = conn.prepare_cached(STARTS)?;
    let rows = statement.query_map([meeting.get()], |row| {
        let At(start) = row.get(1)?;
        Ok((row.get(0)?, start))
    })?;
    Ok(SessionStarts::new(rows.collect::<rusqlite::Result<Vec<_>>>()?))
}

/// When one session started: the others are read only if it has no row of its own.
pub(super) fn start_of(
    conn: &Connection,
    meeting: MeetingId,
    uid: &str,
) -> Result<Option<Timestamp>> {
    let mut statement = conn.prepare_cached(START)?;
    let start = statement.query_row(params![meeting.get(), uid], |row| row.get(0)).optional()?;
    match start {
        Some(At(start)) => Ok(Some(start)),
        None => Ok(starts(conn, meeting)?.of(Some(uid))),
    }
}

/// The start that is written for a session, and who declared it.
pub(super) fn declared(
    conn: &Connection,
    meeting: MeetingId,
    uid: &str,
) -> Result<Option<KnownStart>> {
    let mut statement = conn.prepare_cached(DECLARED)?;
    let known = statement
        .query_row(params![meeting.get(), uid], |row| {
            let At(start) = row.get(0)?;
            Ok(KnownStart { start, declared_by: optional(row.get(1)?) })
        })
        .optional()?;
    Ok(known)
}

pub(super) fn put_start(
    conn: &Connection,
    meeting: MeetingId,
    uid: &str,
    known: KnownStart,
) -> Result<()> {
    let start = params![meeting.get(), uid, At(known.start)];
    conn.prepare_cached(PUT_START)?.execute(start)?;
    if let Some(by) = known.declared_by {
        conn.prepare_cached(PUT_DECLARED)?.execute(params![meeting.get(), uid, At(by)])?;
    }
    Ok(())
}

/// Writes a start. Returns the lines that have other absolute times since: frames must tell of them.
pub(super) fn start(
    conn: &Connection,
    meeting: MeetingId,
    uid: &str,
    known: KnownStart,
) -> Result<Vec<Line>> {
    let before = starts(conn, meeting)?;
    put_start(conn, meeting, uid, known)?;
    moved_lines(conn, meeting, &before, &before.with(uid, known.start))
}

/// A session begins as its bot does, unless its start is known: a guess, until its producer says
/// when it was. Returns the lines that have other absolute times since: frames must tell of them.
pub(in crate::sqlite) fn begin(
    conn: &Connection,
    meeting: MeetingId,
    uid: &str,
    now: Timestamp,
) -> Result<Vec<Line>> {
    if declared(conn, meeting, uid)?.is_some() {
        return Ok(Vec::new());
    }
    start(conn, meeting, uid, KnownStart { start: now, declared_by: None })
}

/// Gives lines that were moved the place of the last of these frames, which tells of them.
pub(in crate::sqlite) fn tell_moved(
    conn: &Connection,
    meeting: MeetingId,
    lines: &mut [Line],
    frames: &[Frame],
) -> Result<()> {
    told_by(lines, frames);
    lines.iter().try_for_each(|line| put_place(conn, meeting, line))
}

/// Told once more, the first end stands.
pub(super) fn end(conn: &Connection, meeting: MeetingId, uid: &str, now: Timestamp) -> Result<()> {
    conn.prepare_cached(PUT_END)?.execute(params![meeting.get(), uid, At(now)])?;
    Ok(())
}

/// The names of a meeting's sessions.
pub(super) fn names_of(conn: &Connection, meeting: MeetingId) -> Result<Vec<String>> {
    names(conn, meeting, NAMES)
}

/// The names of all sessions that a meeting was ever told of, by whomever.
pub(super) fn all_names_of(conn: &Connection, meeting: MeetingId) -> Result<Vec<String>> {
    names(conn, meeting, ALL_NAMES)
}

fn names(conn: &Connection, meeting: MeetingId, statement: &str) -> Result<Vec<String>> {
    let mut statement = conn.prepare_cached(statement)?;
    let rows = statement.query_map([meeting.get()], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

const STARTS: &str = "-- starts
    SELECT session_uid, session_start_time FROM meeting_sessions WHERE meeting_id = ?1";

pub(super) const START: &str = "-- start
    SELECT session_start_time FROM meeting_sessions WHERE meeting_id = ?1 AND session_uid = ?2";

const DECLARED: &str = "-- declared
    SELECT s.session_start_time, d.declared_by
      FROM meeting_sessions AS s
      LEFT JOIN transcript_sessions AS d
        ON d.meeting_id = s.meeting_id AND d.session_uid = s.session_uid
     WHERE s.meeting_id = ?1 AND s.session_uid = ?2";

const PUT_START: &str = "-- put_start
    INSERT INTO meeting_sessions (meeting_id, session_uid, session_start_time) VALUES (?1, ?2, ?3)
    ON CONFLICT (meeting_id, session_uid)
        DO UPDATE SET session_start_time = excluded.session_start_time";

const PUT_DECLARED: &str = "-- put_declared
    INSERT INTO transcript_sessions (meeting_id, session_uid, declared_by) VALUES (?1, ?2, ?3)
    ON CONFLICT (meeting_id, session_uid) DO UPDATE SET declared_by = excluded.declared_by";

const PUT_END: &str = "-- put_end
    INSERT INTO transcript_sessions (meeting_id, session_uid, ended_at) VALUES (?1, ?2, ?3)
    ON CONFLICT (meeting_id, session_uid) DO UPDATE SET ended_at = excluded.ended_at
     WHERE ended_at IS NULL";

pub(super) const NAMES: &str = "-- names
    SELECT session_uid FROM meeting_sessions WHERE meeting_id = ?1 AND session_uid <> ''
    UNION SELECT session_uid FROM live_segments WHERE meeting_id = ?1 AND session_uid <> ''
    UNION SELECT session_uid FROM kept_segments WHERE meeting_id = ?1 AND session_uid <> ''
    ORDER BY 1";

pub(super) const ALL_NAMES: &str = "-- all_names
    SELECT session_uid FROM meeting_sessions WHERE meeting_id = ?1
    UNION SELECT session_uid FROM live_segments WHERE meeting_id = ?1
    UNION SELECT session_uid FROM transcript_sessions WHERE meeting_id = ?1
    UNION SELECT session_uid FROM transcriptions WHERE meeting_id = ?1 AND session_uid <> ''";
