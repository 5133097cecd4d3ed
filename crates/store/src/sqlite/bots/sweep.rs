//! Gives up bots that have been silent for too long.
//!
//! All live bots are looked at by a reader, so that nobody waits for that; only those that seem
//! overdue are looked at again by the writer, where a heartbeat that came meanwhile wins.

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotClock, BotEvent, MeetingId, Source, overdue};
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::{Announced, BotSweep, EventAnswer};
use rusqlite::{Connection, Row};

use super::columns::record;
use super::event::happen;
use crate::rows::bots::status_from_text;
use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

/// So many more than may be given up are looked for, because some may be heard before the write:
/// a sweep that finds none left must not leave overdue ones behind.
const SPARE_SUSPECTS: usize = 256;

/// Bots that are overdue as far as this snapshot tells, and not many more than may be given up.
pub(super) fn suspects(
    conn: &Connection,
    request: BotSweep,
    now: Timestamp,
) -> Result<Vec<MeetingId>> {
    let suspects_max = rows_max(request).saturating_add(SPARE_SUSPECTS);
    let mut statement = conn.prepare_cached(CLOCKS)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while found.len() < suspects_max
        && let Some(row) = rows.next()?
    {
        let clock = read_clock(row, request.runtime_answered)?;
        if overdue(clock, &request.timeouts, request.serving_since, now).is_some() {
            found.push(MeetingId::new(row.get(0)?));
        }
    }
    Ok(found)
}

pub(super) fn sweep(
    conn: &Connection,
    catalog: &KindCatalog,
    suspects: &[MeetingId],
    request: BotSweep,
    now: Timestamp,
) -> Result<Vec<Announced>> {
    let rows_max = rows_max(request);
    let mut swept = Vec::new();
    for id in suspects {
        if swept.len() == rows_max {
            break;
        }
        let Some(known) = record(conn, *id)? else { continue };
        let clock = BotClock::of(&known, request.runtime_answered);
        let Some(why) = overdue(clock, &request.timeouts, request.serving_since, now) else {
            continue;
        };
        let event = BotEvent::TimedOut { reason: why.reason };
        if let EventAnswer::Changed(announced) =
            happen(conn, catalog, known, event, Source::Sweeper, now)?
        {
            swept.push(*announced);
        }
    }
    Ok(swept)
}

pub(super) const CLOCKS: &str = "-- clocks
    SELECT b.meeting_id, m.status, b.beats, b.reserved_at, b.entered_at,
           CASE WHEN b.beats THEN b.heartbeat_at ELSE b.seen_at END, b.media_at
      FROM bots AS b INDEXED BY bots_live CROSS JOIN meetings AS m ON m.id = b.meeting_id
     WHERE b.live = 1
     ORDER BY b.meeting_id";

fn rows_max(request: BotSweep) -> usize {
    usize::try_from(request.rows_max).unwrap_or(usize::MAX)
}

/// As [`BotClock::of`], without reading the rest of the rows.
fn read_clock(row: &Row<'_>, runtime_answered: bool) -> Result<BotClock> {
    let status: String = row.get(1)?;
    let beats: bool = row.get(2)?;
    Ok(BotClock {
        status: status_from_text(&status, row.get(0)?)?,
        reserved_at: row.get(3).map(|At(at)| at)?,
        entered_at: row.get(4).map(|At(at)| at)?,
        heard_at: optional(row.get(5)?),
        media_at: optional(row.get(6)?),
        silence_is_ours: !beats && !runtime_answered,
    })
}
