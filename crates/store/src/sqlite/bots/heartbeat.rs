//! Signs of life of bots.

use roundsman_core::Timestamp;
use roundsman_core::ports::{BeatAnswer, BotBeat};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use super::columns::{read_config, record};
use crate::rows::bots::{ConfigColumns, speaks_for, stage_from_text, status_from_text};
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn heartbeats(
    conn: &Connection,
    beats: &[BotBeat],
    now: Timestamp,
) -> Result<Vec<BeatAnswer>> {
    let mut hear = conn.prepare_cached(HEAR)?;
    let mut touch = conn.prepare_cached(TOUCH)?;
    beats.iter().map(|beat| heartbeat(conn, &mut hear, &mut touch, beat, now)).collect()
}

/// Only a number that has grown is progress; the first one is.
pub(super) const HEAR: &str = "-- hear
    UPDATE bots
       SET heartbeat_at = max(coalesce(heartbeat_at, ?4), ?4), beats = 1,
           media_at = CASE WHEN ?5 IS NOT NULL AND coalesce(?5 > media_progress, TRUE) THEN ?4
                           ELSE media_at END,
           media_progress = coalesce(max(media_progress, ?5), media_progress, ?5),
           config_applied = max(config_applied, coalesce(?6, 0))
     WHERE meeting_id = ?1 AND attempt = ?2 AND connection_id = ?3 AND live = 1
    RETURNING stop_wanted_at IS NOT NULL, stage, config_version, config_applied, language, task";

pub(super) const TOUCH: &str = "-- touch_meeting
    UPDATE meetings SET updated_at = ?2 WHERE id = ?1 RETURNING status";

fn heartbeat(
    conn: &Connection,
    hear: &mut CachedStatement<'_>,
    touch: &mut CachedStatement<'_>,
    beat: &BotBeat,
    now: Timestamp,
) -> Result<BeatAnswer> {
    let id = beat.workload.meeting_id.get();
    let heard: Option<(bool, Option<String>, ConfigColumns)> = hear
        .query_row(
            params![
                id,
                beat.workload.attempt,
                beat.connection.as_str(),
                At(now),
                beat.media_progress,
                beat.config_applied,
            ],
            |row| Ok((row.get(0)?, row.get(1)?, read_config(row, 2)?)),
        )
        .optional()?;
    let Some((stop_wanted, stage, config)) = heard else { return not_heard(conn, beat) };
    let status: String = touch.query_row(params![id, At(now)], |row| row.get(0))?;
    Ok(BeatAnswer::Heard {
        status: status_from_text(&status, id)?,
        stage: stage_from_text(stage.as_deref(), id)?,
        stop_wanted,
        config: config.into_config(id)?,
    })
}

/// Why nothing of the bot was changed.
fn not_heard(conn: &Connection, beat: &BotBeat) -> Result<BeatAnswer> {
    let Some(known) = record(conn, beat.workload.meeting_id)? else {
        return Ok(BeatAnswer::NoSuchBot);
    };
    Ok(match speaks_for(&known.bot, beat.workload, Some(&beat.connection)) {
        Ok(()) => BeatAnswer::Over { status: known.status },
        Err(not_heard) => not_heard.of_beat(),
    })
}
