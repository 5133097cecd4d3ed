//! Tasks, read.

use std::collections::HashMap;

use roundsman_core::ports::{Scope, TaskFilter};
use roundsman_core::rooms::ProjectId;
use roundsman_core::tasks::{Task, TaskId, TaskLook, TaskStatus};

use super::columns::{task, task_columns, tasks};
use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::jobs::user_of;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::rows::tasks::{LookColumns, status};

pub(super) const ONE_TASK: &str = concat!(
    "-- one_task\nSELECT ",
    task_columns!(),
    " FROM roundsman.tasks t WHERE t.no = $1 AND ($2::bigint IS NULL OR t.user_id = $2)"
);

pub(super) struct OneTask {
    pub(super) scope: Scope,
    pub(super) id: TaskId,
}

impl Operation for OneTask {
    type Answer = Option<Task>;

    async fn run(&self, session: &mut Session) -> Result<Option<Task>, Failure> {
        let found = session.query_opt(ONE_TASK, &[&self.id.get(), &user_of(self.scope)]).await?;
        found.as_ref().map(task).transpose()
    }
}

const BY_ID: &str = concat!(
    "-- tasks_by_id\nSELECT ",
    task_columns!(),
    " FROM roundsman.tasks t WHERE t.no = ANY ($1::bigint[])"
);

pub(super) struct ById {
    pub(super) ids: Vec<TaskId>,
}

impl Operation for ById {
    type Answer = Vec<Task>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Task>, Failure> {
        let numbers: Vec<i64> = self.ids.iter().map(|id| id.get()).collect();
        let rows = session.query(BY_ID, &[&numbers]).await?;
        let mut found: HashMap<TaskId, Task> =
            tasks(&rows)?.into_iter().map(|task| (task.id, task)).collect();
        Ok(self.ids.iter().filter_map(|id| found.remove(id)).collect())
    }
}

pub(super) const OF_RESULT: &str = concat!(
    "-- task_of_result\nSELECT ",
    task_columns!(),
    " FROM roundsman.tasks t WHERE t.result_key = $1"
);

pub(super) struct OfResult {
    pub(super) result_key: String,
}

impl Operation for OfResult {
    type Answer = Option<Task>;

    async fn run(&self, session: &mut Session) -> Result<Option<Task>, Failure> {
        // What has no place in a text has opened nothing.
        if self.result_key.contains('\0') {
            return Ok(None);
        }
        let found = session.query_opt(OF_RESULT, &[&self.result_key]).await?;
        found.as_ref().map(task).transpose()
    }
}

pub(super) const TASKS_OF_ALL: &str = concat!(
    "-- tasks_of_all\nSELECT ",
    task_columns!(),
    " FROM roundsman.tasks t
 WHERE t.no < $1 AND ($2::text IS NULL OR t.status = $2)
 ORDER BY t.no DESC LIMIT $3"
);

pub(super) const TASKS_OF_USER: &str = concat!(
    "-- tasks_of_user\nSELECT ",
    task_columns!(),
    " FROM roundsman.tasks t
 WHERE (t.user_id, t.no) < ($4, $1) AND t.user_id >= $4 AND ($2::text IS NULL OR t.status = $2)
 ORDER BY t.user_id DESC, t.no DESC LIMIT $3"
);

pub(super) const TASKS_OF_PROJECT: &str = concat!(
    "-- tasks_of_project\nSELECT ",
    task_columns!(),
    " FROM roundsman.tasks t
 WHERE (t.project_id, t.no) < ($5, $1) AND t.project_id >= $5 AND ($2::text IS NULL OR t.status = $2)
   AND ($4::bigint IS NULL OR t.user_id = $4)
 ORDER BY t.project_id DESC, t.no DESC LIMIT $3"
);

pub(super) struct Tasks {
    pub(super) scope: Scope,
    pub(super) filter: TaskFilter,
    pub(super) before: Option<TaskId>,
    pub(super) rows_max: u32,
}

impl Operation for Tasks {
    type Answer = Vec<Task>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Task>, Failure> {
        let before = self.before.map_or(i64::MAX, TaskId::get);
        let status = self.filter.status.map(TaskStatus::as_str);
        let (rows_max, user) = (i64::from(self.rows_max), user_of(self.scope));
        let rows = match (&self.filter.project, user) {
            (Some(project), user) => {
                let project = project.as_str();
                let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                    [&before, &status, &rows_max, &user, &project];
                session.query(TASKS_OF_PROJECT, &values).await?
            }
            (None, Some(user)) => {
                session.query(TASKS_OF_USER, &[&before, &status, &rows_max, &user]).await?
            }
            (None, None) => session.query(TASKS_OF_ALL, &[&before, &status, &rows_max]).await?,
        };
        tasks(&rows)
    }
}

/// The range, which is one project, keeps the planner from walking through those of all projects.
pub(super) const LOOKS: &str = "-- task_looks
SELECT no, stage, retry_count, next_poll_at, deadline_at FROM roundsman.tasks
 WHERE project_id BETWEEN $1 AND $1 AND stage <> 'over'
 ORDER BY project_id, no LIMIT $2";

pub(super) struct Looks {
    pub(super) project: ProjectId,
    pub(super) rows_max: u32,
}

impl Operation for Looks {
    type Answer = Vec<TaskLook>;

    async fn run(&self, session: &mut Session) -> Result<Vec<TaskLook>, Failure> {
        let rows_max = i64::from(self.rows_max);
        let rows = session.query(LOOKS, &[&self.project.as_str(), &rows_max]).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut reader = Reader::new(row);
            let columns = LookColumns {
                no: reader.value()?,
                stage: reader.value()?,
                retry_count: reader.value()?,
                next_poll_at: reader.time_opt()?,
                deadline_at: reader.time()?,
            };
            found.push(columns.into_look()?);
        }
        Ok(found)
    }
}

pub(super) const PENDING: &str = "-- tasks_pending
SELECT place, (SELECT count(*) FROM (
           SELECT FROM roundsman.tasks
            WHERE project_id BETWEEN given.project AND given.project AND stage <> 'over'
            ORDER BY project_id, no LIMIT $2) few)
  FROM unnest($1::text[]) WITH ORDINALITY AS given(project, place)";

pub(super) struct Pending {
    pub(super) projects: Vec<ProjectId>,
    pub(super) count_max: u32,
}

impl Operation for Pending {
    type Answer = Vec<u64>;

    async fn run(&self, session: &mut Session) -> Result<Vec<u64>, Failure> {
        let names: Vec<&str> = self.projects.iter().map(ProjectId::as_str).collect();
        let rows = session.query(PENDING, &[&names, &i64::from(self.count_max)]).await?;
        let mut counts = vec![0; names.len()];
        for row in &rows {
            let (place, count): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            let place = usize::try_from(place - 1).unwrap_or(usize::MAX);
            if let Some(slot) = counts.get_mut(place) {
                *slot = u64::try_from(count).unwrap_or(0);
            }
        }
        Ok(counts)
    }
}

const COUNTS: &str = "-- task_counts
SELECT status, count(*) FROM roundsman.tasks WHERE stage <> 'over' GROUP BY status ORDER BY status";

pub(super) struct Counts;

impl Operation for Counts {
    type Answer = Vec<(TaskStatus, u64)>;

    async fn run(&self, session: &mut Session) -> Result<Vec<(TaskStatus, u64)>, Failure> {
        let mut found = Vec::new();
        for row in session.query(COUNTS, &[]).await? {
            let (text, count): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
            found.push((status(text, 0)?, u64::try_from(count).unwrap_or(0)));
        }
        Ok(found)
    }
}
