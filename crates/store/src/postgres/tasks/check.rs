//! What cannot be true of tasks.

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use roundsman_core::effects::Violation;

use super::columns::{task, task_columns};
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::rows::check::{ROW_CONSISTENT, violation};
use crate::rows::tasks::{TASKS, check_tasks};

const ALL_TASKS: &str =
    concat!("-- all_tasks\nSELECT ", task_columns!(), " FROM roundsman.tasks t ORDER BY t.no");

/// Compares every task with itself and with the state that its log leads to.
pub(in crate::postgres) async fn check(
    session: &mut Session,
    logged: &BTreeMap<(String, i64), String>,
) -> Result<Vec<Violation>, Failure> {
    let (mut found, mut tasks) = (Vec::new(), Vec::new());
    let mut rows = Box::pin(session.stream(ALL_TASKS).await?);
    while let Some(row) = rows.try_next().await? {
        let no: i64 = row.try_get(0)?;
        match task(&row) {
            Ok(task) => tasks.push(task),
            Err(failure) => {
                let reason = failure.into_store_error().to_string();
                found.push(violation(ROW_CONSISTENT, format!("{TASKS} {no}"), reason));
            }
        }
    }
    found.extend(check_tasks(&tasks, logged));
    Ok(found)
}
