//! What cannot be true of tasks.

use std::collections::BTreeMap;

use roundsman_core::effects::Violation;
use roundsman_core::ports::StoreError;
use rusqlite::Connection;

use super::columns::{read_task, task_columns};
use crate::rows::check::{ROW_CONSISTENT, violation};
use crate::rows::tasks::{TASKS, check_tasks};
use crate::sqlite::error::Result;

const ALL_TASKS: &str =
    concat!("-- all_tasks\nSELECT ", task_columns!(), " FROM tasks AS t ORDER BY t.no");

/// Compares every task with itself and with the state that its log leads to.
pub(in crate::sqlite) fn check(
    conn: &Connection,
    logged: &BTreeMap<(String, i64), String>,
) -> Result<Vec<Violation>> {
    let mut statement = conn.prepare(ALL_TASKS)?;
    let mut rows = statement.query([])?;
    let (mut found, mut tasks) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let no: i64 = row.get(0)?;
        match read_task(row) {
            Ok(task) => tasks.push(task),
            Err(failure) => {
                let reason = StoreError::from(failure).to_string();
                found.push(violation(ROW_CONSISTENT, format!("{TASKS} {no}"), reason));
            }
        }
    }
    found.extend(check_tasks(&tasks, logged));
    Ok(found)
}
