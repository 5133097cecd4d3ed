//! Between rows of tasks and the types of `roundsman_core`.
//!
//! Invariant: readers go by position, in the order of the list that the macro here spells out.

use roundsman_core::jobs::Json;
use roundsman_core::tasks::{Task, TaskId};
use tokio_postgres::Row;

use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::tasks::{TaskColumns, files_to_text};

/// A row of `roundsman.tasks`, named `t`.
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

/// Reads a row with [`task_columns`].
pub(super) fn task(row: &Row) -> Result<Task, Failure> {
    let mut reader = Reader::new(row);
    let columns = TaskColumns {
        no: reader.value()?,
        user_id: reader.value()?,
        project_id: reader.value()?,
        task_type: reader.value()?,
        status: reader.value()?,
        stage: reader.value()?,
        params: reader.value()?,
        node_id: reader.value()?,
        external_service: reader.value()?,
        external_task_id: reader.value()?,
        submit_key: reader.value()?,
        result_url: reader.value()?,
        result_data: reader.value()?,
        files: reader.value()?,
        result_key: reader.value()?,
        error_code: reader.value()?,
        error_message: reader.value()?,
        retry_count: reader.value()?,
        max_retries: reader.value()?,
        polls: reader.value()?,
        retry_of: reader.value()?,
        created_at: reader.time()?,
        updated_at: reader.time()?,
        completed_at: reader.time_opt()?,
        deadline_at: reader.time()?,
        next_poll_at: reader.time_opt()?,
        hinted_at: reader.time_opt()?,
        applied_at: reader.time_opt()?,
        version: reader.value()?,
    };
    Ok(columns.into_task()?)
}

/// Reads rows with [`task_columns`].
pub(super) fn tasks(rows: &[Row]) -> Result<Vec<Task>, Failure> {
    rows.iter().map(task).collect()
}

pub(super) const LOCK_TASK: &str = concat!(
    "-- lock_task\nSELECT ",
    task_columns!(),
    " FROM roundsman.tasks t WHERE t.no = $1 FOR NO KEY UPDATE"
);

/// The task as it is now; nobody else changes it until the transaction ends.
pub(super) async fn lock_task(session: &mut Session, id: TaskId) -> Result<Option<Task>, Failure> {
    session.query_opt(LOCK_TASK, &[&id.get()]).await?.as_ref().map(task).transpose()
}

pub(super) const UPDATE_TASK: &str = "-- update_task
UPDATE roundsman.tasks
   SET status = $2, stage = $3, external_task_id = $4, result_url = $5, result_data = $6,
       files = $7, error_code = $8, error_message = $9, retry_count = $10, polls = $11,
       updated_at = $12, completed_at = $13, next_poll_at = $14, applied_at = $15, version = $16
 WHERE no = $1";

/// Writes all that a step may change of a task whose row is locked.
pub(super) async fn update_task(session: &mut Session, changed: &Task) -> Result<(), Failure> {
    let (retry_count, polls) = (i64::from(changed.retry_count), i64::from(changed.polls));
    session
        .execute(
            UPDATE_TASK,
            &[
                &changed.id.get(),
                &changed.status.as_str(),
                &changed.stage.as_str(),
                &changed.external_task_id,
                &changed.result_url,
                &changed.result_data.as_ref().map(Json::as_str),
                &files_to_text(&changed.files),
                &changed.error_code(),
                &changed.error.as_ref().map(|error| error.message.as_str()),
                &retry_count,
                &polls,
                &Time(changed.updated_at),
                &changed.completed_at.map(Time),
                &changed.next_poll_at.map(Time),
                &changed.applied_at.map(Time),
                &changed.version,
            ],
        )
        .await?;
    Ok(())
}
