//! The ends of runs, and what follows from each.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    Disposition, FinishedJob, JobState, KindCatalog, LeaseRef, Outcome, RunningJob, Settle,
    Settled, WaitingJob, fold, settle as settle_run, spread,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use super::columns::{
    bind_row, fact_columns, insert_finished, insert_waiting, read_running, running_columns,
    update_waiting,
};
use super::enqueue::waiting_with_key;
use super::links::{mark, resolve};
use crate::rows::RunningColumns;
use crate::sqlite::audits::tell_failed;
use crate::sqlite::effects;
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn settle(
    conn: &Connection,
    catalog: &KindCatalog,
    settles: Vec<Settle>,
    jitter: u64,
    now: Timestamp,
) -> Result<Vec<Settled>> {
    let mut finisher = Finisher::prepare(conn)?;
    let mut answers = Vec::with_capacity(settles.len());
    for (number, Settle { lease, outcome, effects }) in settles.into_iter().enumerate() {
        let state = match finisher.finish_first_run(lease, &outcome, now)? {
            Some(state) => Some(state),
            None => settle_by_rule(conn, catalog, lease, outcome, spread(jitter, number), now)?,
        };
        let Some(state) = state else {
            answers.push(Settled::LeaseLost);
            continue;
        };
        if !effects.is_empty() {
            effects::apply(conn, catalog, effects, now)?;
        }
        answers.push(Settled::Landed { state });
    }
    Ok(answers)
}

/// Writes where a run that ended leaves its job. Its running row must be gone already.
pub(super) fn place(
    conn: &Connection,
    catalog: &KindCatalog,
    disposition: Disposition,
    now: Timestamp,
) -> Result<JobState> {
    match disposition {
        Disposition::Finish(job) => end(conn, catalog, &job, now),
        Disposition::Requeue(job) => requeue(conn, catalog, job, now),
    }
}

/// Writes a job that has ended and tells whoever waits for that.
pub(super) fn end(
    conn: &Connection,
    catalog: &KindCatalog,
    job: &FinishedJob,
    now: Timestamp,
) -> Result<JobState> {
    let state = insert_finished(conn, job)?;
    tell_failed(conn, catalog, job, now)?;
    if job.facts.linked {
        resolve(conn, catalog, job, state, now)?;
    }
    Ok(state)
}

const DELETE_RUNNING: &str = "-- delete_running
    DELETE FROM job_running WHERE id = ?1";

/// The same under another name: the cache of statements gives each away once.
const DELETE_FIRST_RUN: &str = "-- delete_first_run
    DELETE FROM job_running WHERE id = ?1";

pub(super) fn delete_running(conn: &Connection, id: i64) -> Result<()> {
    conn.prepare_cached(DELETE_RUNNING)?.execute([id])?;
    Ok(())
}

/// The columns that a finished job has from its first run.
macro_rules! first_run_columns {
    () => {
        "id, user_id, priority, attempt, max_attempts, run_at, triggered_at, created_at, \
         lease_no, claimed_at, worker, kind, key, payload, progress, lane"
    };
}

/// How many columns `first_run_columns!` names.
const FIRST_RUN: usize = 16;

const SELECT_FIRST_RUN: &str = concat!(
    "-- select_first_run
    SELECT ",
    first_run_columns!(),
    " FROM job_running WHERE id = ?1 AND lease_no = ?2 AND runs IS NULL AND linked = 0"
);

const INSERT_FIRST_RUN: &str = concat!(
    "-- insert_first_run
    INSERT INTO job_finished (",
    first_run_columns!(),
    ", state, finished_at, result)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, 3, ?17, ?18)"
);

/// The way of nearly every run: done, with no run before it. The row is copied as it is, its only
/// run in columns.
struct Finisher<'c> {
    select: CachedStatement<'c>,
    insert: CachedStatement<'c>,
    delete: CachedStatement<'c>,
}

impl<'c> Finisher<'c> {
    fn prepare(conn: &'c Connection) -> Result<Self> {
        Ok(Finisher {
            select: conn.prepare_cached(SELECT_FIRST_RUN)?,
            insert: conn.prepare_cached(INSERT_FIRST_RUN)?,
            delete: conn.prepare_cached(DELETE_FIRST_RUN)?,
        })
    }

    /// `None` if the run came to something else, is not the first, or its lease is gone.
    fn finish_first_run(
        &mut self,
        lease: LeaseRef,
        outcome: &Outcome,
        now: Timestamp,
    ) -> Result<Option<JobState>> {
        let Outcome::Done { result } = outcome else { return Ok(None) };
        let (id, lease_no) = (lease.id.get(), lease.lease_no.get());
        let mut rows = self.select.query([id, lease_no])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        bind_row(&mut self.insert, row, FIRST_RUN)?;
        drop(rows);
        self.insert.raw_bind_parameter(FIRST_RUN + 1, At(now))?;
        self.insert.raw_bind_parameter(FIRST_RUN + 2, result.as_str())?;
        self.insert.raw_execute()?;
        self.delete.execute([id])?;
        Ok(Some(JobState::Completed))
    }
}

/// The way of every other run. `None` if the lease is gone.
fn settle_by_rule(
    conn: &Connection,
    catalog: &KindCatalog,
    lease: LeaseRef,
    outcome: Outcome,
    jitter: u64,
    now: Timestamp,
) -> Result<Option<JobState>> {
    let Some(job) = running(conn, lease)? else { return Ok(None) };
    delete_running(conn, lease.id.get())?;
    let retry = catalog.retry(&job.facts.kind);
    Ok(Some(place(conn, catalog, settle_run(job, outcome, retry, jitter, now), now)?))
}

const SELECT_RUNNING: &str = concat!(
    "-- running
    SELECT ",
    running_columns!(),
    " FROM job_running WHERE id = ?1 AND lease_no = ?2"
);

fn running(conn: &Connection, lease: LeaseRef) -> Result<Option<RunningJob>> {
    let columns = conn
        .prepare_cached(SELECT_RUNNING)?
        .query_row(params![lease.id.get(), lease.lease_no.get()], read_running)
        .optional()?;
    Ok(columns.map(RunningColumns::into_job).transpose()?)
}

fn requeue(
    conn: &Connection,
    catalog: &KindCatalog,
    job: WaitingJob,
    now: Timestamp,
) -> Result<JobState> {
    let facts = &job.facts;
    let waiting = match &facts.key {
        Some(key) => waiting_with_key(conn, facts.user_id, &facts.kind, key)?,
        None => None,
    };
    let Some(waiting) = waiting else {
        let state = insert_waiting(conn, &job, now)?;
        if job.facts.linked {
            mark(conn, job.facts.id)?;
        }
        return Ok(state);
    };
    let merge = catalog.merge(&facts.kind);
    let folded = fold(waiting, job, merge, now);
    update_waiting(conn, &folded.survivor, now)?;
    end(conn, catalog, &folded.ended, now)
}
