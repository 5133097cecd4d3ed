//! The start of a server process.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{KindCatalog, LeaseOwner, Rescue, spread};
use roundsman_core::ports::ProcessStart;
use rusqlite::Connection;

use super::columns::{fact_columns, read_running, running_columns};
use super::draw_numbers;
use super::sweep::rescue_one;
use crate::sqlite::error::Result;

/// One process at a time has the file, so whoever else held leases from inside one is dead.
pub(super) fn begin_process(
    conn: &Connection,
    catalog: &KindCatalog,
    jitter: u64,
    now: Timestamp,
) -> Result<ProcessStart> {
    let number = draw_numbers(conn, "process_no", 1)?;
    let orphans = conn
        .prepare_cached(SELECT_ORPHANS)?
        .query_map([number], read_running)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let rescued = u32::try_from(orphans.len()).unwrap_or(u32::MAX);
    for (number, columns) in orphans.into_iter().enumerate() {
        let (job, jitter) = (columns.into_job()?, spread(jitter, number));
        rescue_one(conn, catalog, job, Rescue::OwnerGone, jitter, now)?;
    }
    Ok(ProcessStart { owner: LeaseOwner::Process(number), rescued })
}

const SELECT_ORPHANS: &str = concat!(
    "-- orphans
    SELECT ",
    running_columns!(),
    " FROM job_running
     WHERE owner_process IS NOT NULL AND owner_process <> ?1
     ORDER BY id"
);
