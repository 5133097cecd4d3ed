//! A slot for a bot.

use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, NewBot, reservation_effects};
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::{Announced, ReserveAnswer};
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{insert_bot, insert_meeting};
use crate::rows::bots::{live_statuses, refused_reservation};
use crate::sqlite::effects;
use crate::sqlite::error::Result;

/// Nobody else writes meanwhile, so what is counted here is true until it is committed.
pub(super) fn reserve(
    conn: &Connection,
    catalog: &KindCatalog,
    bot: NewBot,
    now: Timestamp,
) -> Result<ReserveAnswer> {
    let user = bot.user_id.get();
    let limit = conn.prepare_cached(LIMIT)?.query_row([user], |row| row.get(0)).optional()?;
    let Some(limit) = limit else { return Ok(ReserveAnswer::NoSuchUser) };
    let live = conn.prepare_cached(COUNT_LIVE)?.query_row([user], |row| row.get(0))?;
    let in_same_meeting = conn
        .prepare_cached(LIVE_AT)?
        .query_row(params![user, bot.platform.as_str(), bot.native_id], |row| row.get(0))
        .optional()?;
    if let Some(refused) = refused_reservation(live, limit, in_same_meeting.map(MeetingId::new)) {
        return Ok(refused);
    }
    let mut record = bot.record(UNNUMBERED, now);
    record.meeting.id = insert_meeting(conn, &record.meeting)?;
    insert_bot(conn, &record)?;
    let effects = reservation_effects(&record, now);
    let frames = effects::apply(conn, catalog, effects, now)?;
    Ok(ReserveAnswer::Reserved(Box::new(Announced { record, frames })))
}

/// What a meeting's number is until the database gives one.
const UNNUMBERED: MeetingId = MeetingId::new(0);

const LIMIT: &str = "-- limit
    SELECT max_concurrent_bots FROM users WHERE id = ?1";

pub(super) const COUNT_LIVE: &str = concat!(
    "-- count_live
    SELECT count(*) FROM meetings WHERE user_id = ?1 AND status IN ",
    live_statuses!()
);

pub(super) const LIVE_AT: &str = concat!(
    "-- live_at
    SELECT id FROM meetings
     WHERE user_id = ?1 AND platform = ?2 AND platform_specific_id = ?3 AND status IN ",
    live_statuses!(),
    " LIMIT 1"
);
