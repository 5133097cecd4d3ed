//! Hands waiting jobs to workers.
//!
//! PostgreSQL needs locks and re-checks here; SQLite has one writer, so what was selected a
//! statement ago is still so.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{Lease, LeaseNo, RunningJob};
use roundsman_core::ports::{ClaimAnswer, ClaimRequest, LaneDemand};
use rusqlite::{CachedStatement, Connection, params};

use super::columns::{FACTS, bind_row, fact_columns, read_facts};
use super::draw_numbers;
use crate::rows::{QUEUE, duration_to_us, owner_to_column};
use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

/// One claim promotes at most this many scheduled jobs, so that a crowd that comes due at once
/// delays nobody else's write for long. Whoever sees a `next_due_at` in the past comes again.
const PROMOTED_ROWS_MAX: i64 = 1000;

pub(super) fn claim(
    conn: &Connection,
    request: &ClaimRequest,
    now: Timestamp,
) -> Result<ClaimAnswer> {
    conn.prepare_cached(PROMOTE)?.execute(params![At(now), PROMOTED_ROWS_MAX])?;
    let chosen = choose(conn, request)?;
    let mut jobs = Vec::with_capacity(chosen.len());
    if !chosen.is_empty() {
        let first = draw_numbers(conn, "lease_no", chosen.len())?;
        let mut mover = Mover::prepare(conn)?;
        for (lease_no, candidate) in (first..).zip(chosen) {
            let demand = &request.demands[candidate.demand];
            let lease = lease(request, demand, LeaseNo::new(lease_no), now);
            jobs.push(mover.take(candidate.id, lease)?);
        }
    }
    let next_due_at = conn.prepare_cached(NEXT_DUE)?.query_row([], |row| row.get(0))?;
    Ok(ClaimAnswer { jobs, next_due_at: optional(next_due_at) })
}

pub(super) const PROMOTE: &str = "-- promote
    UPDATE job_queue SET state = 1
     WHERE id IN (SELECT id FROM job_queue WHERE state = 0 AND due_at <= ?1
                   ORDER BY due_at LIMIT ?2)";

pub(super) const NEXT_DUE: &str = "-- next_due
    SELECT min(due_at) FROM job_queue WHERE state = 0";

pub(super) const CANDIDATES: &str = "-- candidates
    SELECT q.id, q.rank
      FROM job_queue AS q
     WHERE q.lane = ?1 AND q.state = 1
       AND (q.key IS NULL
            OR NOT EXISTS (SELECT 1 FROM job_running AS r
                            WHERE r.user_id = q.user_id AND r.kind = q.kind AND r.key = q.key))
     ORDER BY q.rank, q.id
     LIMIT ?2";

struct Candidate {
    rank: i64,
    id: i64,
    /// Which demand of the request it answers.
    demand: usize,
}

/// The best of all lanes together. No key can be chosen twice: it waits at most once.
fn choose(conn: &Connection, request: &ClaimRequest) -> Result<Vec<Candidate>> {
    let total_max = usize::try_from(request.total_max).unwrap_or(usize::MAX);
    let mut statement = conn.prepare_cached(CANDIDATES)?;
    let mut candidates = Vec::new();
    let mut lanes_with_work = 0;
    for (demand, wanted) in request.demands.iter().enumerate() {
        let before = candidates.len();
        let rows_max = wanted.max.min(request.total_max);
        let mut rows = statement.query(params![wanted.lane.as_str(), rows_max])?;
        while let Some(row) = rows.next()? {
            candidates.push(Candidate { id: row.get(0)?, rank: row.get(1)?, demand });
        }
        lanes_with_work += usize::from(candidates.len() > before);
    }
    if lanes_with_work > 1 {
        candidates.sort_unstable_by_key(|candidate| (candidate.rank, candidate.id));
        // A lane that was named twice, against the contract, must not hand a job out twice.
        candidates.dedup_by_key(|candidate| candidate.id);
    }
    candidates.truncate(total_max);
    Ok(candidates)
}

const SELECT_CLAIMED: &str = concat!(
    "-- select_claimed
    SELECT ",
    fact_columns!(),
    " FROM job_queue WHERE id = ?1"
);

const INSERT_CLAIMED: &str = concat!(
    "-- insert_claimed
    INSERT INTO job_running (",
    fact_columns!(),
    ", lease_no, lease_until, lease_ttl_us, owner_process, claimed_at, heartbeat_at, deadline_at,
        worker)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 + 1, ?11, ?12,
        ?13, ?14, ?15, ?16, ?17, ?17, ?18, ?19)"
);

const DELETE_CLAIMED: &str = "-- delete_claimed
    DELETE FROM job_queue WHERE id = ?1";

fn lease(request: &ClaimRequest, demand: &LaneDemand, lease_no: LeaseNo, now: Timestamp) -> Lease {
    Lease {
        lease_no,
        until: now + demand.lease_ttl,
        ttl: demand.lease_ttl,
        worker: request.worker.clone(),
        owner: request.owner,
        claimed_at: now,
        heartbeat_at: now,
        deadline_at: demand.deadline.map(|deadline| now + deadline),
    }
}

/// Moves jobs from `job_queue` to `job_running`. Holds its statements: looking one up costs a good
/// part of running it.
struct Mover<'c> {
    select: CachedStatement<'c>,
    insert: CachedStatement<'c>,
    delete: CachedStatement<'c>,
}

impl<'c> Mover<'c> {
    fn prepare(conn: &'c Connection) -> Result<Self> {
        Ok(Mover {
            select: conn.prepare_cached(SELECT_CLAIMED)?,
            insert: conn.prepare_cached(INSERT_CLAIMED)?,
            delete: conn.prepare_cached(DELETE_CLAIMED)?,
        })
    }

    fn take(&mut self, id: i64, lease: Lease) -> Result<RunningJob> {
        let mut rows = self.select.query([id])?;
        let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        bind_row(&mut self.insert, row, FACTS)?;
        let mut facts = read_facts(row)?.into_facts(QUEUE)?;
        facts.attempt += 1;
        drop(rows);
        self.insert.raw_bind_parameter(FACTS + 1, lease.lease_no.get())?;
        self.insert.raw_bind_parameter(FACTS + 2, At(lease.until))?;
        self.insert.raw_bind_parameter(FACTS + 3, duration_to_us(lease.ttl))?;
        self.insert.raw_bind_parameter(FACTS + 4, owner_to_column(lease.owner))?;
        self.insert.raw_bind_parameter(FACTS + 5, At(lease.claimed_at))?;
        self.insert.raw_bind_parameter(FACTS + 6, lease.deadline_at.map(At))?;
        self.insert.raw_bind_parameter(FACTS + 7, lease.worker.as_str())?;
        self.insert.raw_execute()?;
        self.delete.execute([id])?;
        Ok(RunningJob { facts, lease, progress: None, cancel_requested: false })
    }
}
