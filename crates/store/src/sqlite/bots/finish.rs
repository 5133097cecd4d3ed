//! What becomes of a meeting's data: users add to it, the work after a meeting completes it, and
//! who wants to be forgotten takes it away.

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotStatus, BotWish, MeetingId, finish};
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::{AnonymiseAnswer, BotTarget, MeetingRow};
use roundsman_core::users::UserId;
use rusqlite::{Connection, params};
use serde_json::{Map, Value};

use super::columns::{record, update_bot, update_meeting};
use super::read::meeting;
use crate::rows::bots::{
    SpokenGroup, anonymous_data, is_anonymous, merged_data, summarise, wish_to_text,
};
use crate::sqlite::effects::{self, is_held};
use crate::sqlite::error::Result;
use crate::sqlite::presence::forget::forget as forget_people;
use crate::sqlite::recordings::forget::forget as forget_recordings;
use crate::sqlite::time::At;
use crate::sqlite::transcripts::rewrite::forget;

pub(super) fn merge_data(
    conn: &Connection,
    user: UserId,
    target: &BotTarget,
    members: Map<String, Value>,
    now: Timestamp,
) -> Result<Option<MeetingRow>> {
    let Some(mut row) = meeting(conn, user, target)? else { return Ok(None) };
    row.meeting.data = merged_data(&row.meeting.data, members);
    row.meeting.updated_at = now;
    conn.prepare_cached(SET_DATA)?.execute(params![
        row.meeting.id.get(),
        row.meeting.data.as_str(),
        At(now),
    ])?;
    Ok(Some(row))
}

pub(super) fn anonymise(
    conn: &Connection,
    catalog: &KindCatalog,
    user: UserId,
    target: &BotTarget,
    now: Timestamp,
) -> Result<AnonymiseAnswer> {
    let Some(row) = meeting(conn, user, target)? else { return Ok(AnonymiseAnswer::NotFound) };
    if !row.meeting.bot_status().is_ok_and(BotStatus::is_over) {
        return Ok(AnonymiseAnswer::NotOver(Box::new(row)));
    }
    if is_anonymous(&row.meeting.data) {
        return Ok(AnonymiseAnswer::Already);
    }
    let id = row.meeting.id.get();
    forget(conn, user, row.meeting.id)?;
    // Those that nobody has begun to process are found by the room, which is forgotten next.
    forget_recordings(conn, catalog, row.meeting.id, now)?;
    forget_people(conn, row.meeting.id)?;
    let data = anonymous_data(&row.meeting.data);
    conn.prepare_cached(FORGET_MEETING)?.execute(params![id, data.as_str(), At(now)])?;
    // The address of the meeting may be in the wish too.
    let wish = wish_to_text(&BotWish::default());
    conn.prepare_cached(FORGET_WISH)?.execute(params![id, wish])?;
    Ok(AnonymiseAnswer::Done)
}

pub(super) fn finish_meeting(
    conn: &Connection,
    catalog: &KindCatalog,
    id: MeetingId,
    guard: LeaseRef,
    now: Timestamp,
) -> Result<bool> {
    if !is_held(conn, guard)? {
        return Ok(false);
    }
    let Some(known) = record(conn, id)? else { return Ok(false) };
    if !known.status.is_over() || known.bot.finished_at.is_some() {
        return Ok(false);
    }
    let groups = conn
        .prepare_cached(SAID)?
        .query_map([id.get()], |row| {
            Ok(SpokenGroup {
                speaker: row.get(0)?,
                language: row.get(1)?,
                segments: row.get(2)?,
                spoken_secs: row.get(3)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let (finished, effects) = finish(known, &summarise(groups), now);
    update_meeting(conn, &finished.meeting)?;
    update_bot(conn, &finished)?;
    effects::apply(conn, catalog, effects, now)?;
    Ok(true)
}

const SET_DATA: &str = "-- set_data
    UPDATE meetings SET data = ?2, updated_at = ?3 WHERE id = ?1";

const FORGET_MEETING: &str = "-- forget_meeting
    UPDATE meetings SET platform_specific_id = NULL, data = ?2, updated_at = ?3 WHERE id = ?1";

const FORGET_WISH: &str = "-- forget_wish
    UPDATE bots SET wish = ?2 WHERE meeting_id = ?1";

pub(super) const SAID: &str = "-- said
    SELECT speaker, language, count(*), total(max(end_time - start_time, 0))
      FROM transcriptions WHERE meeting_id = ?1
     GROUP BY speaker, language";
