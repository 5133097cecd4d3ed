//! What users wish of a bot. Never touches `meetings`.

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotRecord, BotStatus, StopWish, supervise_wish};
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::{BotTarget, ConfigAnswer, ConfigChange, MeetingRow, StopAnswer};
use roundsman_core::users::UserId;
use rusqlite::{Connection, params};

use super::adopt::adopt;
use super::columns::{bot_columns, meeting_columns, read_row, record_columns, update_bot};
use super::read::meeting;
use crate::rows::bots::{bot_record, live_statuses};
use crate::sqlite::error::Result;
use crate::sqlite::jobs::enqueue::insert_jobs;

pub(super) fn wish_stop(
    conn: &Connection,
    catalog: &KindCatalog,
    user: UserId,
    target: &BotTarget,
    by: &'static str,
    now: Timestamp,
) -> Result<StopAnswer> {
    let live = live_at(conn, user, target)?;
    if live.is_empty() {
        let latest = meeting(conn, user, target)?;
        return Ok(latest.map_or(StopAnswer::NotFound, |row| StopAnswer::Over(Box::new(row))));
    }
    let mut wished = Vec::with_capacity(live.len());
    for row in live {
        let mut known = bot_of(conn, catalog, row, now)?;
        if known.bot.stop.is_none() {
            known.bot.stop = Some(StopWish { at: now, by: by.to_owned() });
            update_bot(conn, &known)?;
        }
        wished.push(known);
    }
    let jobs = wished.iter().map(|known| supervise_wish(known, now)).collect();
    insert_jobs(conn, catalog, jobs, now)?;
    Ok(StopAnswer::Wished(wished))
}

pub(super) fn wish_config(
    conn: &Connection,
    catalog: &KindCatalog,
    user: UserId,
    target: &BotTarget,
    change: ConfigChange,
    now: Timestamp,
) -> Result<ConfigAnswer> {
    let Some(row) = meeting(conn, user, target)? else { return Ok(ConfigAnswer::NotFound) };
    let takes_it = row.meeting.bot_status().is_ok_and(|status| {
        !status.is_over() && (status == BotStatus::Active || !change.only_active)
    });
    if !takes_it {
        return Ok(ConfigAnswer::WrongState(Box::new(row)));
    }
    let mut known = bot_of(conn, catalog, row, now)?;
    let config = &mut known.bot.config;
    config.version = config.version.saturating_add(1);
    config.language = change.language.or(config.language.take());
    config.task = change.task.or(config.task.take());
    update_bot(conn, &known)?;
    Ok(ConfigAnswer::Wished(Box::new(known)))
}

pub(super) const LIVE_AT_ADDRESS: &str = concat!(
    "-- live_at_address
    SELECT ",
    record_columns!(),
    " FROM meetings AS m LEFT JOIN bots AS b ON b.meeting_id = m.id
     WHERE m.user_id = ?1 AND m.platform = ?2 AND m.platform_specific_id = ?3 AND m.status IN ",
    live_statuses!()
);

/// The live meetings that are meant, by ascending number.
fn live_at(conn: &Connection, user: UserId, target: &BotTarget) -> Result<Vec<MeetingRow>> {
    let mut live = Vec::new();
    match target {
        BotTarget::Meeting(_) => live.extend(meeting(conn, user, target)?),
        BotTarget::Address { platform, native_id } => {
            let mut statement = conn.prepare_cached(LIVE_AT_ADDRESS)?;
            let mut rows = statement.query(params![user.get(), platform.as_str(), native_id])?;
            while let Some(row) = rows.next()? {
                live.push(read_row(row)?);
            }
        }
    }
    live.retain(|row| row.meeting.bot_status().is_ok_and(|status| !status.is_over()));
    live.sort_unstable_by_key(|row| row.meeting.id);
    Ok(live)
}

/// The bot of a live meeting: a wish gives one to a meeting that has none, rather than get lost.
fn bot_of(
    conn: &Connection,
    catalog: &KindCatalog,
    row: MeetingRow,
    now: Timestamp,
) -> Result<BotRecord> {
    match row.bot {
        Some(bot) => Ok(bot_record(row.meeting, bot)?),
        None => adopt(conn, catalog, row.meeting, now),
    }
}
