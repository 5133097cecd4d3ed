//! Bots for live meetings that somebody else began.

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotRecord, Meeting, MeetingId};
use roundsman_core::jobs::KindCatalog;
use rusqlite::{Connection, OptionalExtension};

use super::columns::{insert_bot, meeting_columns, read_meeting};
use crate::rows::bots::{self as rows, live_statuses};
use crate::sqlite::effects;
use crate::sqlite::error::Result;

/// Live meetings without a bot, at most `rows_max`.
pub(super) fn orphans(conn: &Connection, rows_max: u32) -> Result<Vec<MeetingId>> {
    let mut statement = conn.prepare_cached(ORPHANS)?;
    let ids = statement.query_map([rows_max], |row| row.get(0).map(MeetingId::new))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// Gives these meetings bots, unless they have one by now or are over. Returns how many it gave.
pub(super) fn adopt_all(
    conn: &Connection,
    catalog: &KindCatalog,
    ids: &[MeetingId],
    now: Timestamp,
) -> Result<u32> {
    let mut adopted = 0;
    for id in ids {
        let orphan = conn.prepare_cached(ORPHAN)?.query_row([id.get()], read_meeting).optional()?;
        if let Some(meeting) = orphan {
            adopt(conn, catalog, meeting, now)?;
            adopted += 1;
        }
    }
    Ok(adopted)
}

/// Gives a live meeting that has none a bot.
pub(super) fn adopt(
    conn: &Connection,
    catalog: &KindCatalog,
    meeting: Meeting,
    now: Timestamp,
) -> Result<BotRecord> {
    let session = conn
        .prepare_cached(FREE_SESSION)?
        .query_row([meeting.id.get()], |row| row.get(0))
        .optional()?
        .flatten();
    let (record, effects) = rows::adopt(meeting, session, now)?;
    insert_bot(conn, &record)?;
    effects::apply(conn, catalog, effects, now)?;
    Ok(record)
}

pub(super) const ORPHANS: &str = concat!(
    "-- orphans
    SELECT m.id FROM meetings AS m INDEXED BY meetings_live
     WHERE m.status IN ",
    live_statuses!(),
    "  AND NOT EXISTS (SELECT 1 FROM bots AS b WHERE b.meeting_id = m.id)
     LIMIT ?1"
);

const ORPHAN: &str = concat!(
    "-- orphan
    SELECT ",
    meeting_columns!(),
    " FROM meetings AS m
     WHERE m.id = ?1 AND m.status IN ",
    live_statuses!(),
    "  AND NOT EXISTS (SELECT 1 FROM bots AS b WHERE b.meeting_id = m.id)"
);

/// The latest session's name, NULL if another bot has it already: one name cannot mean two.
const FREE_SESSION: &str = "-- free_session
    SELECT CASE WHEN EXISTS (SELECT 1 FROM bots WHERE connection_id = s.session_uid) THEN NULL
                ELSE s.session_uid END
      FROM meeting_sessions AS s
     WHERE s.meeting_id = ?1
     ORDER BY s.session_start_time DESC, s.id DESC LIMIT 1";
