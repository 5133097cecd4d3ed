//! Hands waiting jobs to workers.
//!
//! PostgreSQL needs locks and re-checks here; SQLite has one writer, so what was selected a
//! statement ago is still so.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{Lane, Lease, LeaseNo, RunningJob};
use roundsman_core::ports::{ClaimAnswer, ClaimRequest, LaneDemand};
use rusqlite::{CachedStatement, Connection, params};

use super::columns::{FACTS, bind_row, fact_columns, read_facts};
use super::{draw_numbers, gated};
use crate::rows::gates::{gated_share, rest_of};
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
    let gates = gated::gates_for(conn, request)?;
    let mut claim = Claiming { conn, request, now, jobs: Vec::new() };
    let mut open_at = None;
    if gates.is_empty() {
        let demands: Vec<&LaneDemand> = request.demands.iter().collect();
        claim.plain(&demands, request.total_max)?;
    } else {
        let ungated = |demand: &&LaneDemand| !gates.keys().any(|gate| gate.covers(&demand.lane));
        let plain: Vec<&LaneDemand> = request.demands.iter().filter(ungated).collect();
        let lease_no = conn.prepare_cached(LEASE_NO)?.query_row([], |row| row.get::<_, i64>(0))?;
        let kept = gated_share(request.total_max, lease_no.unsigned_abs());
        claim.plain(&plain, request.total_max - kept)?;
        let rest = rest_of(&plain, &claim.jobs);
        open_at = gated::pass_gates(&mut claim, &gates)?;
        claim.plain(&rest.iter().collect::<Vec<_>>(), claim.left())?;
    }
    let next_due_at = conn.prepare_cached(NEXT_DUE)?.query_row([], |row| row.get(0))?;
    let next_due_at = match (optional(next_due_at), open_at) {
        (Some(due_at), Some(open_at)) => Some(due_at.min(open_at)),
        (due_at, open_at) => due_at.or(open_at),
    };
    Ok(ClaimAnswer { jobs: claim.jobs, next_due_at, gated: !gates.is_empty() })
}

/// Grows with every job that is claimed, so that it also tells one claim from the next.
const LEASE_NO: &str = "-- lease_no
    SELECT value FROM counters WHERE name = 'lease_no'";

/// A claim under way.
pub(super) struct Claiming<'c> {
    pub(super) conn: &'c Connection,
    pub(super) request: &'c ClaimRequest,
    pub(super) now: Timestamp,
    pub(super) jobs: Vec<RunningJob>,
}

impl Claiming<'_> {
    pub(super) fn left(&self) -> u32 {
        let claimed = u32::try_from(self.jobs.len()).unwrap_or(u32::MAX);
        self.request.total_max.saturating_sub(claimed)
    }

    /// Claims the best of the lanes that are wanted.
    fn plain(&mut self, demands: &[&LaneDemand], jobs_max: u32) -> Result<()> {
        if jobs_max == 0 {
            return Ok(());
        }
        let chosen = choose(self.conn, demands, jobs_max)?;
        self.take(demands, chosen, SELECT_CLAIMED)
    }

    /// Claims so many of each of these lanes, which have the terms of `demand`.
    pub(super) fn through_gate(
        &mut self,
        demand: &LaneDemand,
        quotas: &[(Lane, u32)],
    ) -> Result<()> {
        let of_lane = |(lane, max): &(Lane, u32)| LaneDemand {
            lane: lane.clone(),
            max: *max,
            ..demand.clone()
        };
        let demands: Vec<LaneDemand> = quotas.iter().map(of_lane).collect();
        let demands: Vec<&LaneDemand> = demands.iter().collect();
        let chosen = choose(self.conn, &demands, quotas.iter().map(|(_, max)| max).sum())?;
        self.take(&demands, chosen, SELECT_GATED)
    }

    fn take(
        &mut self,
        demands: &[&LaneDemand],
        chosen: Vec<Candidate>,
        select: &'static str,
    ) -> Result<()> {
        if chosen.is_empty() {
            return Ok(());
        }
        let first = draw_numbers(self.conn, "lease_no", chosen.len())?;
        let mut mover = Mover::prepare(self.conn, select)?;
        for (lease_no, candidate) in (first..).zip(chosen) {
            let demand = demands[candidate.demand];
            let lease = lease(self.request, demand, LeaseNo::new(lease_no), self.now);
            self.jobs.push(mover.take(candidate.id, lease)?);
        }
        Ok(())
    }
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
fn choose(conn: &Connection, demands: &[&LaneDemand], total_max: u32) -> Result<Vec<Candidate>> {
    let mut statement = conn.prepare_cached(CANDIDATES)?;
    let mut candidates = Vec::new();
    let mut lanes_with_work = 0;
    for (demand, wanted) in demands.iter().enumerate() {
        let before = candidates.len();
        let rows_max = wanted.max.min(total_max);
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
    candidates.truncate(usize::try_from(total_max).unwrap_or(usize::MAX));
    Ok(candidates)
}

/// Without the lane, which only jobs that come through a gate keep.
const SELECT_CLAIMED: &str = "-- select_claimed
    SELECT id, user_id, kind, key, payload, priority, run_at, triggered_at, created_at, attempt,
           max_attempts, runs, NULL, linked
      FROM job_queue WHERE id = ?1";

const SELECT_GATED: &str = concat!(
    "-- select_gated
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
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 + 1, ?11, ?12, ?13, ?14,
        ?15, ?16, ?17, ?18, ?19, ?19, ?20, ?21)"
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
    fn prepare(conn: &'c Connection, select: &'static str) -> Result<Self> {
        Ok(Mover {
            select: conn.prepare_cached(select)?,
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
