//! Tasks, read.

use roundsman_core::ports::{Scope, TaskFilter};
use roundsman_core::rooms::ProjectId;
use roundsman_core::tasks::{Task, TaskId, TaskLook, TaskStatus};
use rusqlite::{Connection, params};

use super::columns::{all, task, task_columns};
use crate::rows::tasks::{LookColumns, status};
use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

pub(super) fn one(conn: &Connection, scope: Scope, id: TaskId) -> Result<Option<Task>> {
    let is_theirs = |task: &Task| match scope {
        Scope::All => true,
        Scope::User(user) => task.user_id == user,
    };
    Ok(task(conn, id)?.filter(is_theirs))
}

pub(super) fn by_id(conn: &Connection, ids: &[TaskId]) -> Result<Vec<Task>> {
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(task(conn, *id)?);
    }
    Ok(found)
}

pub(super) const OF_RESULT: &str = concat!(
    "-- task_of_result
    SELECT ",
    task_columns!(),
    " FROM tasks AS t WHERE t.result_key = ?1"
);

pub(super) fn of_result(conn: &Connection, result_key: &str) -> Result<Option<Task>> {
    Ok(all(conn, OF_RESULT, [result_key])?.pop())
}

pub(super) const LIST_ALL: &str = concat!(
    "-- tasks_of_all
    SELECT ",
    task_columns!(),
    " FROM tasks AS t
     WHERE t.no < ?1 AND (?2 IS NULL OR t.status = ?2)
     ORDER BY t.no DESC LIMIT ?3"
);

pub(super) const LIST_OF_USER: &str = concat!(
    "-- tasks_of_user
    SELECT ",
    task_columns!(),
    " FROM tasks AS t INDEXED BY tasks_user
     WHERE t.user_id = ?4 AND t.no < ?1 AND (?2 IS NULL OR t.status = ?2)
     ORDER BY t.no DESC LIMIT ?3"
);

pub(super) const LIST_OF_PROJECT: &str = concat!(
    "-- tasks_of_project
    SELECT ",
    task_columns!(),
    " FROM tasks AS t INDEXED BY tasks_project
     WHERE t.project_id = ?5 AND (?4 IS NULL OR t.user_id = ?4) AND t.no < ?1
       AND (?2 IS NULL OR t.status = ?2)
     ORDER BY t.no DESC LIMIT ?3"
);

pub(super) fn list(
    conn: &Connection,
    scope: Scope,
    filter: &TaskFilter,
    before: Option<TaskId>,
    rows_max: u32,
) -> Result<Vec<Task>> {
    let before = before.map_or(i64::MAX, TaskId::get);
    let status = filter.status.map(TaskStatus::as_str);
    match (&filter.project, scope) {
        (Some(project), scope) => {
            let user = match scope {
                Scope::All => None,
                Scope::User(user) => Some(user.get()),
            };
            let values = params![before, status, rows_max, user, project.as_str()];
            all(conn, LIST_OF_PROJECT, values)
        }
        (None, Scope::User(user)) => {
            all(conn, LIST_OF_USER, params![before, status, rows_max, user.get()])
        }
        (None, Scope::All) => all(conn, LIST_ALL, params![before, status, rows_max]),
    }
}

pub(super) const LOOKS: &str = "-- task_looks
    SELECT no, stage, retry_count, next_poll_at, deadline_at
      FROM tasks INDEXED BY tasks_active
     WHERE project_id = ?1 AND stage <> 'over'
     ORDER BY no LIMIT ?2";

pub(super) fn looks(
    conn: &Connection,
    project: &ProjectId,
    rows_max: u32,
) -> Result<Vec<TaskLook>> {
    let mut statement = conn.prepare_cached(LOOKS)?;
    let rows = statement.query_map(params![project.as_str(), rows_max], |row| {
        Ok(LookColumns {
            no: row.get(0)?,
            stage: row.get(1)?,
            retry_count: row.get(2)?,
            next_poll_at: optional(row.get(3)?),
            deadline_at: row.get(4).map(|At(at)| at)?,
        })
    })?;
    let mut found = Vec::new();
    for row in rows {
        found.push(row?.into_look()?);
    }
    Ok(found)
}

pub(super) const PENDING: &str = "-- tasks_pending
    SELECT count(*) FROM (
        SELECT 1 FROM tasks INDEXED BY tasks_active
         WHERE project_id = ?1 AND stage <> 'over' LIMIT ?2)";

pub(super) fn pending(
    conn: &Connection,
    projects: &[ProjectId],
    count_max: u32,
) -> Result<Vec<u64>> {
    let mut statement = conn.prepare_cached(PENDING)?;
    let mut counts = Vec::with_capacity(projects.len());
    for project in projects {
        let values = params![project.as_str(), count_max];
        let count: i64 = statement.query_row(values, |row| row.get(0))?;
        counts.push(u64::try_from(count).unwrap_or_default());
    }
    Ok(counts)
}

pub(super) const COUNTS: &str = "-- task_counts
    SELECT status, count(*) FROM tasks INDEXED BY tasks_unfinished
     WHERE stage <> 'over' GROUP BY status ORDER BY status";

pub(super) fn counts(conn: &Connection) -> Result<Vec<(TaskStatus, u64)>> {
    let mut statement = conn.prepare_cached(COUNTS)?;
    let rows =
        statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
    let mut found = Vec::new();
    for row in rows {
        let (text, count) = row?;
        found.push((status(&text, 0)?, u64::try_from(count).unwrap_or_default()));
    }
    Ok(found)
}
