//! Takes jobs from holders that are silent or over their deadline.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobState, KindCatalog, LeaseOwner, Rescue, RunningJob, rescue, spread};
use roundsman_core::ports::{SweepReport, SweepRequest};
use rusqlite::{Connection, params};

use super::columns::{fact_columns, read_running, running_columns};
use super::settle::{delete_running, place};
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn sweep(
    conn: &Connection,
    catalog: &KindCatalog,
    request: SweepRequest,
    now: Timestamp,
) -> Result<SweepReport> {
    let mut statement = conn.prepare_cached(SELECT_OVERDUE)?;
    let overdue = statement
        .query_map(params![At(now), At(request.serving_since), request.rows_max], read_running)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut report = SweepReport::default();
    for (number, columns) in overdue.into_iter().enumerate() {
        let job = columns.into_job()?;
        let why = reason(&job, request.serving_since, now);
        let kind = job.facts.kind.clone();
        let jitter = spread(request.jitter, number);
        report.rescued.push((kind, rescue_one(conn, catalog, job, why, jitter, now)?));
    }
    Ok(report)
}

/// Takes a job from its holder and writes what follows.
pub(super) fn rescue_one(
    conn: &Connection,
    catalog: &KindCatalog,
    job: RunningJob,
    why: Rescue,
    jitter: u64,
    now: Timestamp,
) -> Result<JobState> {
    let retry = catalog.retry(&job.facts.kind);
    delete_running(conn, job.facts.id.get())?;
    place(conn, catalog, rescue(job, why, retry, jitter, now), now)
}

/// Looks at every running job. They are as many as there are workers, and an index on the lease's
/// end would be written at every heartbeat.
const SELECT_OVERDUE: &str = concat!(
    "-- overdue
    SELECT ",
    running_columns!(),
    " FROM job_running
     WHERE (lease_until < ?1 AND (owner_process IS NOT NULL OR ?2 + lease_ttl_us <= ?1))
        OR deadline_at < ?1
     ORDER BY id
     LIMIT ?3"
);

/// A silent holder is taken for dead even when it is over its deadline too.
fn reason(job: &RunningJob, serving_since: Timestamp, now: Timestamp) -> Rescue {
    let heard = match job.lease.owner {
        LeaseOwner::Process(_) => true,
        LeaseOwner::Outside => serving_since + job.lease.ttl <= now,
    };
    if job.lease.until < now && heard { Rescue::LeaseExpired } else { Rescue::DeadlineExceeded }
}
