//! Forgets what is past its retention, a bounded piece at a time.

use roundsman_core::Timestamp;
use roundsman_core::ports::{PruneReport, PruneRequest};
use rusqlite::{Connection, params};

use crate::rows::{CANCELLED, COMPLETED, FAILED};
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn prune(conn: &Connection, request: PruneRequest) -> Result<PruneReport> {
    let rows_max = u64::from(request.rows_max);
    let mut jobs = 0;
    for (state, before) in [
        (COMPLETED, request.completed_before),
        (FAILED, request.failed_before),
        (CANCELLED, request.cancelled_before),
    ] {
        jobs += prune_jobs(conn, state, before, rows_max - jobs)?;
    }
    let idempotency_keys =
        delete_before(conn, PRUNE_IDEMPOTENCY, request.idempotency_before, rows_max)?;
    let frames = delete_before(conn, PRUNE_FRAMES, request.frames_before, rows_max)?;
    delete_before(conn, PRUNE_BUCKETS, request.buckets_before, rows_max)?;
    let more = [jobs, idempotency_keys, frames].contains(&rows_max);
    Ok(PruneReport { jobs, idempotency_keys, frames, more })
}

pub(super) const PRUNE_JOBS: &str = "-- prune_jobs
    DELETE FROM job_finished
     WHERE id IN (SELECT id FROM job_finished WHERE state = ?1 AND finished_at < ?2
                   ORDER BY finished_at LIMIT ?3)";

pub(super) const PRUNE_BUCKETS: &str = "-- prune_buckets
    DELETE FROM job_buckets
     WHERE (gate, tenant) IN (SELECT gate, tenant FROM job_buckets WHERE at < ?1
                               ORDER BY at LIMIT ?2)";

pub(super) const PRUNE_IDEMPOTENCY: &str = "-- prune_idempotency
    DELETE FROM idempotency
     WHERE (user_id, route, key) IN
           (SELECT user_id, route, key FROM idempotency WHERE created_at < ?1
             ORDER BY created_at LIMIT ?2)";

/// In the order of the index: within a stream the lowest numbers go first, so no hole appears.
pub(super) const PRUNE_FRAMES: &str = "-- prune_frames
    DELETE FROM frames
     WHERE (stream, seq) IN
           (SELECT stream, seq FROM frames WHERE at < ?1 ORDER BY at, stream, seq LIMIT ?2)";

fn prune_jobs(conn: &Connection, state: i16, before: Timestamp, rows_max: u64) -> Result<u64> {
    let rows_max = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let deleted = conn.prepare_cached(PRUNE_JOBS)?.execute(params![state, At(before), rows_max])?;
    Ok(deleted as u64)
}

fn delete_before(
    conn: &Connection,
    statement: &str,
    before: Timestamp,
    rows_max: u64,
) -> Result<u64> {
    let rows_max = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let deleted = conn.prepare_cached(statement)?.execute(params![At(before), rows_max])?;
    Ok(deleted as u64)
}
