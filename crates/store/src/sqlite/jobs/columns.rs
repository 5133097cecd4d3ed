//! The columns of the job tables, in the order in which every statement names them, and how they
//! are read and bound.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{FinishedJob, JobKey, JobState, WaitingJob};
use rusqlite::types::ToSqlOutput;
use rusqlite::{CachedStatement, Connection, Row, params};

use crate::rows::{
    self, FactColumns, FinishedColumns, RunningColumns, WaitingColumns, end_columns, lane_to_keep,
    runs_to_text, waiting_state,
};
use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

macro_rules! fact_columns {
    () => {
        "id, user_id, kind, key, payload, priority, run_at, triggered_at, created_at, attempt, \
         max_attempts, runs, lane, linked"
    };
}

macro_rules! waiting_columns {
    () => {
        concat!(fact_columns!(), ", not_before")
    };
}

macro_rules! running_columns {
    () => {
        concat!(
            fact_columns!(),
            ", lease_no, lease_until, lease_ttl_us, owner_process, claimed_at, heartbeat_at, \
             deadline_at, cancel_requested, worker, progress"
        )
    };
}

macro_rules! finished_columns {
    () => {
        concat!(
            fact_columns!(),
            ", state, finished_at, lease_no, claimed_at, worker, error_code, error_message, \
             folded_into, result, progress"
        )
    };
}

pub(in crate::sqlite) use {fact_columns, finished_columns, running_columns, waiting_columns};

/// How many columns `fact_columns!` names.
pub(super) const FACTS: usize = 14;

pub(in crate::sqlite) fn read_facts(row: &Row<'_>) -> rusqlite::Result<FactColumns> {
    let instant = |index| row.get(index).map(|At(instant)| instant);
    Ok(FactColumns {
        id: row.get(0)?,
        user_id: row.get(1)?,
        kind: row.get(2)?,
        key: row.get(3)?,
        payload: row.get(4)?,
        priority: row.get(5)?,
        run_at: instant(6)?,
        triggered_at: instant(7)?,
        created_at: instant(8)?,
        attempt: row.get(9)?,
        max_attempts: row.get(10)?,
        runs: row.get(11)?,
        lane: row.get(12)?,
        linked: row.get(13)?,
    })
}

pub(in crate::sqlite) fn read_waiting(row: &Row<'_>) -> rusqlite::Result<WaitingColumns> {
    Ok(WaitingColumns { facts: read_facts(row)?, not_before: optional(row.get(FACTS)?) })
}

pub(in crate::sqlite) fn read_running(row: &Row<'_>) -> rusqlite::Result<RunningColumns> {
    let instant = |index| row.get(index).map(|At(instant)| instant);
    Ok(RunningColumns {
        facts: read_facts(row)?,
        lease_no: row.get(FACTS)?,
        lease_until: instant(FACTS + 1)?,
        lease_ttl_us: row.get(FACTS + 2)?,
        owner_process: row.get(FACTS + 3)?,
        claimed_at: instant(FACTS + 4)?,
        heartbeat_at: instant(FACTS + 5)?,
        deadline_at: optional(row.get(FACTS + 6)?),
        cancel_requested: row.get(FACTS + 7)?,
        worker: row.get(FACTS + 8)?,
        progress: row.get(FACTS + 9)?,
    })
}

pub(in crate::sqlite) fn read_finished(row: &Row<'_>) -> rusqlite::Result<FinishedColumns> {
    Ok(FinishedColumns {
        facts: read_facts(row)?,
        state: row.get(FACTS)?,
        finished_at: row.get(FACTS + 1).map(|At(instant)| instant)?,
        lease_no: row.get(FACTS + 2)?,
        claimed_at: optional(row.get(FACTS + 3)?),
        worker: row.get(FACTS + 4)?,
        error_code: row.get(FACTS + 5)?,
        error_message: row.get(FACTS + 6)?,
        folded_into: row.get(FACTS + 7)?,
        result: row.get(FACTS + 8)?,
        progress: row.get(FACTS + 9)?,
    })
}

/// Binds the columns of a row to the first parameters of an insert, without looking into them.
/// PostgreSQL moves rows with one statement; in SQLite `INSERT … SELECT` keeps a journal of its own
/// for every row, because it might have to undo itself half way, and that costs more than this.
pub(super) fn bind_row(
    insert: &mut CachedStatement<'_>,
    row: &Row<'_>,
    columns: usize,
) -> rusqlite::Result<()> {
    for index in 0..columns {
        insert.raw_bind_parameter(index + 1, ToSqlOutput::Borrowed(row.get_ref(index)?))?;
    }
    Ok(())
}

const INSERT_WAITING: &str = "-- insert_waiting
    INSERT INTO job_queue (id, user_id, state, priority, attempt, max_attempts, rank, due_at,
        run_at, not_before, triggered_at, created_at, lane, kind, key, payload, runs)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";

/// Writes a waiting job that is in no table now.
pub(super) fn insert_waiting(
    conn: &Connection,
    job: &WaitingJob,
    now: Timestamp,
) -> Result<JobState> {
    insert_waiting_by(&mut prepare_insert_waiting(conn)?, job, now)
}

/// For whoever inserts many: looking the statement up costs a good part of running it.
pub(super) fn prepare_insert_waiting(conn: &Connection) -> Result<CachedStatement<'_>> {
    Ok(conn.prepare_cached(INSERT_WAITING)?)
}

pub(super) fn insert_waiting_by(
    statement: &mut CachedStatement<'_>,
    job: &WaitingJob,
    now: Timestamp,
) -> Result<JobState> {
    let facts = &job.facts;
    let (code, state) = waiting_state(job, now);
    statement.execute(params![
        facts.id.get(),
        facts.user_id.get(),
        code,
        facts.priority,
        facts.attempt,
        facts.max_attempts,
        At(job.rank()),
        At(job.due_at()),
        At(facts.run_at),
        job.not_before.map(At),
        At(facts.triggered_at),
        At(facts.created_at),
        facts.lane().as_str(),
        facts.kind.as_str(),
        facts.key.as_ref().map(JobKey::as_str),
        facts.payload.as_str(),
        runs_to_text(&facts.runs),
    ])?;
    Ok(state)
}

const UPDATE_WAITING: &str = "-- update_waiting
    UPDATE job_queue
       SET state = ?2, priority = ?3, attempt = ?4, rank = ?5, due_at = ?6, run_at = ?7,
           not_before = ?8, triggered_at = ?9, payload = ?10, runs = ?11
     WHERE id = ?1";

/// Writes what may have changed of a job that waits already.
pub(super) fn update_waiting(
    conn: &Connection,
    job: &WaitingJob,
    now: Timestamp,
) -> Result<JobState> {
    let facts = &job.facts;
    let (code, state) = waiting_state(job, now);
    conn.prepare_cached(UPDATE_WAITING)?.execute(params![
        facts.id.get(),
        code,
        facts.priority,
        facts.attempt,
        At(job.rank()),
        At(job.due_at()),
        At(facts.run_at),
        job.not_before.map(At),
        At(facts.triggered_at),
        facts.payload.as_str(),
        runs_to_text(&facts.runs),
    ])?;
    Ok(state)
}

const INSERT_FINISHED: &str = "-- insert_finished
    INSERT INTO job_finished (id, user_id, state, priority, attempt, max_attempts, run_at,
        triggered_at, created_at, finished_at, kind, key, error_code, folded_into, payload, result,
        error_message, runs, progress, lane)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
        ?20)";

/// Writes a finished job that is in no table now.
pub(super) fn insert_finished(conn: &Connection, job: &FinishedJob) -> Result<JobState> {
    let facts = &job.facts;
    let end = end_columns(&job.state);
    conn.prepare_cached(INSERT_FINISHED)?.execute(params![
        facts.id.get(),
        facts.user_id.get(),
        end.state,
        facts.priority,
        facts.attempt,
        facts.max_attempts,
        At(facts.run_at),
        At(facts.triggered_at),
        At(facts.created_at),
        At(job.finished_at),
        facts.kind.as_str(),
        facts.key.as_ref().map(JobKey::as_str),
        end.error_code,
        end.folded_into,
        facts.payload.as_str(),
        end.result,
        end.error_message,
        runs_to_text(&facts.runs),
        job.progress.as_ref().map(|progress| progress.0.as_str()),
        lane_to_keep(facts),
    ])?;
    Ok(rows::finished_state_name(facts.id.get(), end.state)?)
}
