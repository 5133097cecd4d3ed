//! The columns of `tasks`, in the order in which every statement names them, and how they are read and
//! written. Statements call the table `t`.

use roundsman_core::jobs::Json;
use roundsman_core::tasks::{Task, TaskId};
use rusqlite::{Connection, Params, Row, params};

use crate::rows::tasks::{TaskColumns, files_to_text};
use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

macro_rules! task_columns {
    () => {
        "t.no, t.user_id, t.project_id, t.task_type, t.status, t.stage, t.params, t.node_id, \
         t.external_service, t.external_task_id, t.submit_key, t.result_url, t.result_data, \
         t.files, t.result_key, t.error_code, t.error_message, t.retry_count, t.max_retries, \
         t.polls, t.retry_of, t.created_at, t.updated_at, t.completed_at, t.deadline_at, \
         t.next_poll_at, t.hinted_at, t.applied_at, t.version"
    };
}

pub(super) use task_columns;

pub(super) fn read_task(row: &Row<'_>) -> Result<Task> {
    let at = |index: usize| row.get(index).map(|At(at)| at);
    let maybe = |index: usize| row.get(index).map(optional);
    let columns = TaskColumns {
        no: row.get(0)?,
        user_id: row.get(1)?,
        project_id: row.get(2)?,
        task_type: row.get(3)?,
        status: row.get(4)?,
        stage: row.get(5)?,
        params: row.get(6)?,
        node_id: row.get(7)?,
        external_service: row.get(8)?,
        external_task_id: row.get(9)?,
        submit_key: row.get(10)?,
        result_url: row.get(11)?,
        result_data: row.get(12)?,
        files: row.get(13)?,
        result_key: row.get(14)?,
        error_code: row.get(15)?,
        error_message: row.get(16)?,
        retry_count: row.get(17)?,
        max_retries: row.get(18)?,
        polls: row.get(19)?,
        retry_of: row.get(20)?,
        created_at: at(21)?,
        updated_at: at(22)?,
        completed_at: maybe(23)?,
        deadline_at: at(24)?,
        next_poll_at: maybe(25)?,
        hinted_at: maybe(26)?,
        applied_at: maybe(27)?,
        version: row.get(28)?,
    };
    Ok(columns.into_task()?)
}

/// All rows of a statement that begin with `task_columns!`.
pub(super) fn all(conn: &Connection, statement: &str, params: impl Params) -> Result<Vec<Task>> {
    let mut statement = conn.prepare_cached(statement)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read_task(row)?);
    }
    Ok(found)
}

pub(super) const TASK: &str = concat!(
    "-- task
    SELECT ",
    task_columns!(),
    " FROM tasks AS t WHERE t.no = ?1"
);

pub(super) fn task(conn: &Connection, id: TaskId) -> Result<Option<Task>> {
    Ok(all(conn, TASK, [id.get()])?.pop())
}

const INSERT_TASK: &str = "-- insert_task
    INSERT INTO tasks (no, user_id, project_id, task_type, params, node_id, external_service,
        submit_key, result_key, max_retries, retry_of, created_at, deadline_at,
        status, stage, files, retry_count, polls, updated_at, version)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, '[]', 0, 0, ?12, ?16)";

/// Writes one that is new.
pub(super) fn insert_task(conn: &Connection, new: &Task) -> Result<()> {
    conn.prepare_cached(INSERT_TASK)?.execute(params![
        new.id.get(),
        new.user_id.get(),
        new.project_id.as_str(),
        new.task_type.as_str(),
        new.params.as_str(),
        new.node_id,
        new.external_service,
        new.submit_key,
        new.result_key,
        new.max_retries,
        new.retry_of.map(TaskId::get),
        At(new.created_at),
        At(new.deadline_at),
        new.status.as_str(),
        new.stage.as_str(),
        new.version,
    ])?;
    Ok(())
}

pub(super) const UPDATE_TASK: &str = "-- update_task
    UPDATE tasks
       SET status = ?2, stage = ?3, external_task_id = ?4, result_url = ?5, result_data = ?6,
           files = ?7, error_code = ?8, error_message = ?9, retry_count = ?10, polls = ?11,
           updated_at = ?12, completed_at = ?13, next_poll_at = ?14, applied_at = ?15,
           version = ?16
     WHERE no = ?1";

/// Writes all that a step may change.
pub(super) fn update_task(conn: &Connection, changed: &Task) -> Result<()> {
    conn.prepare_cached(UPDATE_TASK)?.execute(params![
        changed.id.get(),
        changed.status.as_str(),
        changed.stage.as_str(),
        changed.external_task_id,
        changed.result_url,
        changed.result_data.as_ref().map(Json::as_str),
        files_to_text(&changed.files),
        changed.error_code(),
        changed.error.as_ref().map(|error| error.message.as_str()),
        changed.retry_count,
        changed.polls,
        At(changed.updated_at),
        changed.completed_at.map(At),
        changed.next_poll_at.map(At),
        changed.applied_at.map(At),
        changed.version,
    ])?;
    Ok(())
}
