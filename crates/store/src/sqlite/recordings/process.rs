//! What becomes of recordings: each step under the lease of a job, but for a second try.

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::{BeginAnswer, FinishAnswer, Scope};
use roundsman_core::recordings::{
    Changed, Media, Recording, RecordingId, RecordingStatus, SpokenSegment, abandon, begin, erase,
    fail, finish, keep, nearest, retry, session_uid,
};
use roundsman_core::users::UserId;
use rusqlite::{Connection, params};

use super::columns::{all, recording, recording_columns, update_recording};
use super::consent::is_denied;
use super::read::{one, user_of};
use crate::rows::recordings::{match_window, recorded_lines, storable};
use crate::sqlite::effects::{self, is_held};
use crate::sqlite::error::Result;
use crate::sqlite::time::At;
use crate::sqlite::transcripts::recorded::{keep_whole, names_in};

pub(super) fn begin_one(
    conn: &Connection,
    catalog: &KindCatalog,
    id: &RecordingId,
    guard: LeaseRef,
    now: Timestamp,
) -> Result<BeginAnswer> {
    if !is_held(conn, guard)? {
        return Ok(BeginAnswer::LeaseLost);
    }
    let Some(known) = recording(conn, id)? else { return Ok(BeginAnswer::NotFound) };
    if known.status == RecordingStatus::Completed {
        return Ok(BeginAnswer::Done);
    }
    if known.is_anonymous() {
        write(conn, catalog, abandon(known, now), now)?;
        return Ok(BeginAnswer::Done);
    }
    let Some((meeting, owner)) = meeting_of(conn, &known)? else {
        return Ok(BeginAnswer::NoMeeting);
    };
    let begun = write(conn, catalog, begin(known, meeting, owner, now), now)?;
    Ok(BeginAnswer::Begun(Box::new(begun)))
}

pub(super) fn keep_media(
    conn: &Connection,
    id: &RecordingId,
    media: Vec<Media>,
    guard: LeaseRef,
    now: Timestamp,
) -> Result<bool> {
    let Some(known) = held(conn, id, guard)? else { return Ok(false) };
    update_recording(conn, &keep(known, media, now))?;
    Ok(true)
}

pub(super) fn finish_one(
    conn: &Connection,
    catalog: &KindCatalog,
    id: &RecordingId,
    spoken: &[SpokenSegment],
    guard: LeaseRef,
    now: Timestamp,
) -> Result<FinishAnswer> {
    if !is_held(conn, guard)? {
        return Ok(FinishAnswer::LeaseLost);
    }
    let Some(known) = recording(conn, id)? else { return Ok(FinishAnswer::NotFound) };
    if known.status == RecordingStatus::Completed {
        return Ok(FinishAnswer::Done);
    }
    let Some(meeting) = known.meeting_id else { return Ok(FinishAnswer::NotFound) };
    if known.is_anonymous() {
        write(conn, catalog, abandon(known, now), now)?;
        return Ok(FinishAnswer::Saved { meeting, frames: Vec::new() });
    }
    let mut lines = recorded_lines(&known, spoken, &names_in(conn, meeting)?, now);
    let (uid, start) = (session_uid(id), known.started_at);
    let frames = keep_whole(conn, meeting, (&uid, start), &mut lines, now)?;
    let segments = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    let finished = finish(known, segments, is_denied(conn, meeting)?, now);
    write(conn, catalog, finished, now)?;
    Ok(FinishAnswer::Saved { meeting, frames })
}

pub(super) fn fail_one(
    conn: &Connection,
    catalog: &KindCatalog,
    id: &RecordingId,
    error: String,
    guard: LeaseRef,
    now: Timestamp,
) -> Result<bool> {
    let Some(known) = held(conn, id, guard)? else { return Ok(false) };
    if known.status != RecordingStatus::Completed {
        let changed = if known.is_anonymous() {
            abandon(known, now)
        } else {
            fail(known, storable(error), now)
        };
        write(conn, catalog, changed, now)?;
    }
    Ok(true)
}

pub(super) fn retry_some(
    conn: &Connection,
    catalog: &KindCatalog,
    scope: Scope,
    id: Option<&RecordingId>,
    rows_max: u32,
    now: Timestamp,
) -> Result<u32> {
    let failed: Vec<Recording> = match id {
        Some(id) => {
            let is_failed = |known: &Recording| known.status == RecordingStatus::Failed;
            one(conn, scope, id)?.filter(is_failed).into_iter().take(rows_max as usize).collect()
        }
        None => all(conn, OLDEST_FAILED, params![user_of(scope), rows_max])?,
    };
    let count = u32::try_from(failed.len()).unwrap_or(u32::MAX);
    for known in failed {
        write(conn, catalog, retry(known, now), now)?;
    }
    Ok(count)
}

pub(super) fn media_erased(
    conn: &Connection,
    id: &RecordingId,
    error: Option<String>,
    guard: LeaseRef,
    now: Timestamp,
) -> Result<bool> {
    let Some(known) = held(conn, id, guard)? else { return Ok(false) };
    update_recording(conn, &erase(known, error.map(storable), now))?;
    Ok(true)
}

/// Writes what the rules have decided, with all it brings.
pub(super) fn write(
    conn: &Connection,
    catalog: &KindCatalog,
    Changed { recording, effects }: Changed,
    now: Timestamp,
) -> Result<Recording> {
    update_recording(conn, &recording)?;
    effects::apply(conn, catalog, effects, now)?;
    Ok(recording)
}

/// The recording, if the lease is held.
fn held(conn: &Connection, id: &RecordingId, guard: LeaseRef) -> Result<Option<Recording>> {
    if is_held(conn, guard)? { recording(conn, id) } else { Ok(None) }
}

/// The meeting of a recording and whose it is: the one that is known, or the nearest.
pub(super) fn meeting_of(
    conn: &Connection,
    recording: &Recording,
) -> Result<Option<(MeetingId, UserId)>> {
    if let (Some(meeting), Some(owner)) = (recording.meeting_id, recording.user_id) {
        return Ok(Some((meeting, owner)));
    }
    let (from, until) = match_window(recording.started_at);
    let mut statement = conn.prepare_cached(MEETINGS_NEAR)?;
    let room = params![recording.room.as_str(), At(from), At(until)];
    let rows = statement.query_map(room, |row| {
        let At(began_at) = row.get(2)?;
        Ok((MeetingId::new(row.get(0)?), UserId::new(row.get(1)?), began_at))
    })?;
    let meetings = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let began = meetings.iter().map(|(meeting, _, began_at)| (*meeting, *began_at));
    let meant = nearest(recording.started_at, began);
    let owner = |meeting| meetings.iter().find(|(id, ..)| *id == meeting).map(|(_, of, _)| *of);
    Ok(meant.and_then(|meeting| Some((meeting, owner(meeting)?))))
}

pub(super) const MEETINGS_NEAR: &str = "-- meetings_near
    SELECT p.meeting_id, p.user_id, coalesce(m.start_time, p.created_at)
      FROM presence AS p INDEXED BY presence_room CROSS JOIN meetings AS m ON m.id = p.meeting_id
     WHERE p.room = ?1 AND coalesce(m.start_time, p.created_at) BETWEEN ?2 AND ?3";

pub(super) const OLDEST_FAILED: &str = concat!(
    "-- oldest_failed
    SELECT ",
    recording_columns!(),
    " FROM recordings AS r INDEXED BY recordings_unfinished
     WHERE r.status = 'failed' AND r.status <> 'completed' AND (?1 IS NULL OR r.user_id = ?1)
     ORDER BY r.no LIMIT ?2"
);
