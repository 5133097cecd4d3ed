//! Signs of life.

use roundsman_core::Timestamp;
use roundsman_core::jobs::Json;
use roundsman_core::ports::{Heartbeat, HeartbeatAnswer};
use rusqlite::{Connection, OptionalExtension, params};

use crate::rows::duration_to_us;
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn heartbeat(
    conn: &Connection,
    beats: &[Heartbeat],
    now: Timestamp,
) -> Result<Vec<HeartbeatAnswer>> {
    beats.iter().map(|beat| extend(conn, beat, now)).collect()
}

const EXTEND: &str = "-- extend
    UPDATE job_running
       SET lease_until = min(?3 + coalesce(?4, lease_ttl_us), ?6), heartbeat_at = ?3,
           progress = coalesce(?5, progress)
     WHERE id = ?1 AND lease_no = ?2
    RETURNING lease_until, cancel_requested";

fn extend(conn: &Connection, beat: &Heartbeat, now: Timestamp) -> Result<HeartbeatAnswer> {
    let extended = conn
        .prepare_cached(EXTEND)?
        .query_row(
            params![
                beat.lease.id.get(),
                beat.lease.lease_no.get(),
                At(now),
                beat.ttl.map(duration_to_us),
                beat.progress.as_ref().map(Json::as_str),
                At(Timestamp::MAX),
            ],
            |row| {
                let At(until) = row.get(0)?;
                Ok(HeartbeatAnswer::Extended { until, cancel_requested: row.get(1)? })
            },
        )
        .optional()?;
    Ok(extended.unwrap_or(HeartbeatAnswer::LeaseLost))
}
