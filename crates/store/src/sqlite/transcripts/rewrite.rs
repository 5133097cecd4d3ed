//! What a user changes in what was said: who said it, or that it was said at all.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{BotTarget, Rename, Rewritten};
use roundsman_core::transcripts::{Line, mutable_frames, retracted_frames};
use roundsman_core::users::UserId;
use rusqlite::{Connection, params};

use super::read::{finals, live_since};
use super::sessions::{all_names_of, names_of, starts};
use super::speakers::{names, put_names};
use super::{frames, search, shares, speakers};
use crate::rows::transcripts::{rename_lines, renamed, told_by};
use crate::sqlite::bots::read::meeting;
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn rename(
    conn: &Connection,
    user: UserId,
    target: &BotTarget,
    rename: &Rename,
    now: Timestamp,
) -> Result<Option<Rewritten>> {
    let Some(row) = meeting(conn, user, target)? else { return Ok(None) };
    let id = row.meeting.id;
    let mut rewritten = Rewritten {
        meeting_id: id,
        changed: 0,
        frames: Vec::new(),
        live: Vec::new(),
        sessions: Vec::new(),
    };
    if rename.from == rename.to {
        return Ok(Some(rewritten));
    }
    put_names(conn, id, &renamed(names(conn, id)?, rename))?;
    let mut lines = rename_lines(lines(conn, id)?, rename, now);
    let frames = frames::append(conn, mutable_frames(id, &lines, now), now)?;
    told_by(&mut lines, &frames);
    if let Some(last) = frames.last() {
        let change = params![id.get(), rename.from, rename.to, At(now), last.seq];
        conn.prepare_cached(RENAME_LIVE)?.execute(change)?;
        let told = params![id.get(), rename.from, At(now), last.seq];
        conn.prepare_cached(TELL_KEPT)?.execute(told)?;
        let said = params![id.get(), rename.from, rename.to];
        conn.prepare_cached(RENAME_FINAL)?.execute(said)?;
    }
    // Otherwise what is told again as it was would be a change, and come back.
    let dropped = params![id.get(), rename.from, rename.to];
    conn.prepare_cached(RENAME_DROPPED)?.execute(dropped)?;
    rewritten.changed = lines.len() as u64;
    rewritten.frames = frames;
    rewritten.live = lines.into_iter().filter(|line| !line.kept).collect();
    Ok(Some(rewritten))
}

pub(super) fn delete(
    conn: &Connection,
    user: UserId,
    target: &BotTarget,
    now: Timestamp,
) -> Result<Option<Rewritten>> {
    let Some(row) = meeting(conn, user, target)? else { return Ok(None) };
    let id = row.meeting.id;
    let lines = lines(conn, id)?;
    let sessions = forget(conn, user, id)?;
    let frames = frames::append(conn, retracted_frames(id, &lines, now), now)?;
    let changed = lines.len() as u64;
    Ok(Some(Rewritten { meeting_id: id, changed, frames, live: Vec::new(), sessions }))
}

/// Deletes all that was said in a meeting and what was kept for it. Returns the names of its
/// sessions.
pub(in crate::sqlite) fn forget(
    conn: &Connection,
    user: UserId,
    meeting: MeetingId,
) -> Result<Vec<String>> {
    let sessions = names_of(conn, meeting)?;
    search::forget(conn, meeting)?;
    speakers::forget(conn, meeting, &all_names_of(conn, meeting)?)?;
    shares::forget(conn, user, meeting)?;
    for statement in [FORGET_KEPT, FORGET_FINAL, FORGET_LIVE, FORGET_SESSIONS, FORGET_ACTIVE] {
        conn.prepare_cached(statement)?.execute([meeting.get()])?;
    }
    frames::forget(conn, meeting)?;
    Ok(sessions)
}

/// All that can be read of a meeting: live lines by their keys, then final ones by their numbers.
fn lines(conn: &Connection, meeting: MeetingId) -> Result<Vec<Line>> {
    let starts = starts(conn, meeting)?;
    let mut lines = live_since(conn, meeting, &starts, None)?.lines;
    lines.extend(finals(conn, meeting, &starts)?);
    Ok(lines)
}

pub(super) const RENAME_LIVE: &str = "-- rename_live
    UPDATE live_segments SET speaker = ?3, updated_at = ?4, seq = ?5
     WHERE meeting_id = ?1 AND speaker = ?2 AND dropped = 0";

pub(super) const RENAME_DROPPED: &str = "-- rename_dropped
    UPDATE live_segments SET speaker = ?3
     WHERE meeting_id = ?1 AND speaker = ?2 AND dropped = 1";

/// Before the rows themselves, by which they are found.
pub(super) const TELL_KEPT: &str = "-- tell_kept
    UPDATE kept_segments SET updated_at = ?3, seq = ?4
     WHERE transcription_id IN
           (SELECT id FROM transcriptions WHERE meeting_id = ?1 AND speaker = ?2)";

pub(super) const RENAME_FINAL: &str = "-- rename_final
    UPDATE transcriptions SET speaker = ?3 WHERE meeting_id = ?1 AND speaker = ?2";

const FORGET_KEPT: &str = "-- forget_kept
    DELETE FROM kept_segments WHERE meeting_id = ?1";

const FORGET_FINAL: &str = "-- forget_final
    DELETE FROM transcriptions WHERE meeting_id = ?1";

const FORGET_LIVE: &str = "-- forget_live
    DELETE FROM live_segments WHERE meeting_id = ?1";

const FORGET_SESSIONS: &str = "-- forget_sessions
    DELETE FROM transcript_sessions WHERE meeting_id = ?1";

const FORGET_ACTIVE: &str = "-- forget_active
    DELETE FROM active_transcripts WHERE meeting_id = ?1";
