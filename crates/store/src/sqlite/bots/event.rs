//! What happens to a bot: the only way to a new status.

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotEvent, BotRecord, Source, change};
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::{Announced, BotHappened, EventAnswer, RuntimeNote, Seen};
use roundsman_core::transcripts::mutable_frames;
use rusqlite::{Connection, params};

use super::columns::{record, update_bot, update_meeting};
use crate::rows::bots::{event_of_gone, speaks_for};
use crate::sqlite::effects::{self, is_held};
use crate::sqlite::error::Result;
use crate::sqlite::time::At;
use crate::sqlite::transcripts::sessions;

pub(super) fn bot_event(
    conn: &Connection,
    catalog: &KindCatalog,
    happened: BotHappened,
    guard: Option<LeaseRef>,
    now: Timestamp,
) -> Result<EventAnswer> {
    if let Some(lease) = guard
        && !is_held(conn, lease)?
    {
        return Ok(EventAnswer::LeaseLost);
    }
    let BotHappened { workload, connection, event, source, beats } = happened;
    let Some(mut known) = record(conn, workload.meeting_id)? else {
        return Ok(EventAnswer::NoSuchBot);
    };
    if let Err(not_heard) = speaks_for(&known.bot, workload, connection.as_ref()) {
        return Ok(not_heard.of_event());
    }
    let begins_to_beat = beats && !known.bot.beats && !known.status.is_over();
    known.bot.beats |= begins_to_beat;
    let answer = happen(conn, catalog, known, event, source, now)?;
    if let EventAnswer::Unchanged(known) = &answer
        && begins_to_beat
    {
        update_bot(conn, known)?;
    }
    Ok(answer)
}

/// Lets an event happen to a bot and writes what follows, if anything does.
pub(super) fn happen(
    conn: &Connection,
    catalog: &KindCatalog,
    known: BotRecord,
    event: BotEvent,
    source: Source,
    now: Timestamp,
) -> Result<EventAnswer> {
    let change = match change(known, event, source, now) {
        Ok(change) => change,
        Err(refused) => return Ok(EventAnswer::Refused { current: refused.current }),
    };
    let record = change.record;
    if !change.changed {
        return Ok(EventAnswer::Unchanged(Box::new(record)));
    }
    update_meeting(conn, &record.meeting)?;
    update_bot(conn, &record)?;
    let (meeting, mut effects) = (record.meeting.id, change.effects);
    let mut moved = Vec::new();
    if change.begins_session {
        moved = sessions::begin(conn, meeting, record.bot.connection_id.as_str(), now)?;
        effects.frames.extend(mutable_frames(meeting, &moved, now));
    }
    let frames = effects::apply(conn, catalog, effects, now)?;
    sessions::tell_moved(conn, meeting, &mut moved, &frames)?;
    Ok(EventAnswer::Changed(Box::new(Announced { record, frames })))
}

pub(super) fn note_runtime(
    conn: &Connection,
    catalog: &KindCatalog,
    notes: &[RuntimeNote],
    misses_max: u32,
    now: Timestamp,
) -> Result<Vec<Announced>> {
    let mut seen = conn.prepare_cached(SEEN)?;
    let mut ended = Vec::new();
    for note in notes {
        if note.seen == Seen::Running {
            let workload = note.workload;
            seen.execute(params![workload.meeting_id.get(), workload.attempt, At(now)])?;
        } else {
            ended.extend(note_gone(conn, catalog, *note, misses_max, now)?);
        }
    }
    Ok(ended)
}

fn note_gone(
    conn: &Connection,
    catalog: &KindCatalog,
    note: RuntimeNote,
    misses_max: u32,
    now: Timestamp,
) -> Result<Option<Announced>> {
    let Some(mut known) = record(conn, note.workload.meeting_id)? else { return Ok(None) };
    if known.status.is_over() || speaks_for(&known.bot, note.workload, None).is_err() {
        return Ok(None);
    }
    known.bot.missed = known.bot.missed.saturating_add(1);
    if known.bot.missed < misses_max {
        update_bot(conn, &known)?;
        return Ok(None);
    }
    let event = event_of_gone(note.seen);
    match happen(conn, catalog, known, event, Source::Sweeper, now)? {
        EventAnswer::Changed(announced) => Ok(Some(*announced)),
        _ => Ok(None),
    }
}

pub(super) const SEEN: &str = "-- seen
    UPDATE bots SET seen_at = max(coalesce(seen_at, ?3), ?3), missed = 0
     WHERE meeting_id = ?1 AND attempt = ?2 AND live = 1";
