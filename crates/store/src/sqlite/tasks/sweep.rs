//! What was lost by a mistake or by an operator, and what nobody needs any more.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobKey, KindCatalog, NewJob};
use roundsman_core::ports::Rearmed;
use roundsman_core::rooms::ProjectId;
use roundsman_core::tasks::{TASK_ENTITY, Task, TaskId};
use rusqlite::{Connection, params};

use super::columns::{all, task_columns};
use crate::rows::tasks::{jobs_of, stage};
use crate::sqlite::error::Result;
use crate::sqlite::jobs::enqueue::insert_jobs;
use crate::sqlite::time::At;

pub(super) const UNFINISHED: &str = "-- unfinished_tasks
    SELECT no, stage, project_id FROM tasks INDEXED BY tasks_unfinished
     WHERE stage <> 'over' AND no > ?1
     ORDER BY no LIMIT ?2";

pub(super) const HAS_JOB: &str = "-- has_job
    SELECT EXISTS (SELECT 1 FROM job_queue WHERE user_id = ?1 AND kind = ?2 AND key = ?3)
        OR EXISTS (SELECT 1 FROM job_running WHERE user_id = ?1 AND kind = ?2 AND key = ?3)";

pub(super) fn rearm(
    conn: &Connection,
    catalog: &KindCatalog,
    after: Option<TaskId>,
    rows_max: u32,
    now: Timestamp,
) -> Result<Rearmed> {
    let after = after.map_or(0, TaskId::get);
    let mut statement = conn.prepare_cached(UNFINISHED)?;
    let rows = statement.query_map(params![after, rows_max], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
    })?;
    let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut jobs = 0;
    for (no, text, project) in &rows {
        let project = ProjectId::from_stored(project.clone());
        for wish in jobs_of(TaskId::new(*no), stage(text, *no)?, &project, now) {
            if !has_job(conn, &wish)? {
                insert_jobs(conn, catalog, vec![wish], now)?;
                jobs += 1;
            }
        }
    }
    let is_full = rows.len() >= rows_max as usize;
    let next_after = rows.last().filter(|_| is_full).map(|(no, ..)| TaskId::new(*no));
    Ok(Rearmed { jobs, next_after })
}

fn has_job(conn: &Connection, wish: &NewJob) -> Result<bool> {
    let key = wish.key.as_ref().map(JobKey::as_str);
    let values = params![wish.user_id.get(), wish.kind.as_str(), key];
    Ok(conn.prepare_cached(HAS_JOB)?.query_row(values, |row| row.get(0))?)
}

pub(super) const OLD: &str = "-- old_tasks
    SELECT no FROM tasks INDEXED BY tasks_ended
     WHERE stage = 'over' AND files = '[]' AND applied_at IS NOT NULL AND completed_at < ?1
     ORDER BY completed_at, no LIMIT ?2";

const FORGET: &str = "-- forget_task
    DELETE FROM tasks WHERE no = ?1";

pub(super) const FORGET_LOG: &str = "-- forget_log
    DELETE FROM transitions WHERE entity = ?1 AND entity_id = ?2";

pub(super) fn prune(conn: &Connection, before: Timestamp, rows_max: u32) -> Result<u64> {
    let mut statement = conn.prepare_cached(OLD)?;
    let rows = statement.query_map(params![At(before), rows_max], |row| row.get::<_, i64>(0))?;
    let old = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    for no in &old {
        conn.prepare_cached(FORGET)?.execute([no])?;
        conn.prepare_cached(FORGET_LOG)?.execute(params![TASK_ENTITY, no])?;
    }
    Ok(old.len() as u64)
}

pub(super) const UNTOLD: &str = concat!(
    "-- untold_tasks
    SELECT ",
    task_columns!(),
    " FROM tasks AS t INDEXED BY tasks_untold
     WHERE t.stage = 'over' AND t.applied_at IS NULL
     ORDER BY t.no LIMIT ?1"
);

pub(super) fn untold(conn: &Connection, rows_max: u32) -> Result<Vec<Task>> {
    all(conn, UNTOLD, [rows_max])
}
