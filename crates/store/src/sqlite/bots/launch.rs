//! What the job that launches bots writes.

use roundsman_core::bots::{BotRecord, BotStatus, WorkloadId};
use roundsman_core::jobs::LeaseRef;
use rusqlite::{Connection, params};

use super::columns::{record, update_bot};
use crate::rows::bots::{begin_next_attempt, speaks_for};
use crate::sqlite::effects::is_held;
use crate::sqlite::error::Result;

pub(super) fn launched(
    conn: &Connection,
    workload: WorkloadId,
    handle: &str,
    guard: LeaseRef,
) -> Result<bool> {
    if !is_held(conn, guard)? {
        return Ok(false);
    }
    let id = workload.meeting_id.get();
    let named =
        conn.prepare_cached(NAME_CONTAINER)?.execute(params![id, workload.attempt, handle])?;
    Ok(named == 1)
}

pub(super) fn next_attempt(
    conn: &Connection,
    workload: WorkloadId,
    guard: LeaseRef,
) -> Result<Option<BotRecord>> {
    if !is_held(conn, guard)? {
        return Ok(None);
    }
    let Some(mut known) = record(conn, workload.meeting_id)? else { return Ok(None) };
    let current = speaks_for(&known.bot, workload, None).is_ok();
    if !current || known.status != BotStatus::Reserved {
        return Ok(None);
    }
    begin_next_attempt(&mut known);
    update_bot(conn, &known)?;
    conn.prepare_cached(FORGET_CONTAINER)?.execute([workload.meeting_id.get()])?;
    Ok(Some(known))
}

const FORGET_CONTAINER: &str = "-- forget_container
    UPDATE meetings SET bot_container_id = NULL WHERE id = ?1";

pub(super) const NAME_CONTAINER: &str = "-- name_container
    UPDATE meetings SET bot_container_id = ?3
     WHERE id = ?1
       AND EXISTS (SELECT 1 FROM bots WHERE meeting_id = ?1 AND attempt = ?2 AND live = 1)";
