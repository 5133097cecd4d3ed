//! What is told of tasks, and by whom.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{KindCatalog, NewJob};
use roundsman_core::rooms::{AppendedUpdate, NewUpdate, ProjectId};
use roundsman_core::tasks::{Task, TaskId, polling_wish};

use super::columns::{lock_task, update_task};
use crate::postgres::error::Failure;
use crate::postgres::jobs::write_wishes;
use crate::postgres::pool::Operation;
use crate::postgres::rooms::append_one;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

/// A task has a next look exactly while its generator has it. Asked for its stage, the planner may walk
/// through all that the service is busy with.
pub(super) const HINT: &str = "-- hint_task
UPDATE roundsman.tasks
   SET hinted_at = greatest(hinted_at, $3), next_poll_at = least(next_poll_at, $3)
 WHERE external_service = $1 AND external_task_id = $2 AND next_poll_at IS NOT NULL
RETURNING project_id";

pub(super) struct Hint<'a> {
    pub(super) service: String,
    pub(super) external_task_id: String,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Hint<'_> {
    type Answer = Option<ProjectId>;

    async fn run(&self, session: &mut Session) -> Result<Option<ProjectId>, Failure> {
        session.begin();
        let rows =
            session.query(HINT, &[&self.service, &self.external_task_id, &Time(self.now)]).await?;
        let mut projects = Vec::with_capacity(rows.len());
        for row in &rows {
            projects.push(ProjectId::from_stored(row.try_get(0)?));
        }
        let wishes: Vec<NewJob> =
            projects.iter().map(|project| polling_wish(project, self.now)).collect();
        if !wishes.is_empty() {
            write_wishes(session, &wishes, self.catalog, self.now).await?;
        }
        session.commit().await?;
        Ok(projects.into_iter().next())
    }
}

pub(super) struct Tell<'a> {
    pub(super) id: TaskId,
    pub(super) update: Option<NewUpdate>,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Tell<'_> {
    type Answer = Option<AppendedUpdate>;

    async fn run(&self, session: &mut Session) -> Result<Option<AppendedUpdate>, Failure> {
        session.begin();
        let appended = self.tell(session).await?;
        session.commit().await?;
        Ok(appended)
    }
}

impl Tell<'_> {
    async fn tell(&self, session: &mut Session) -> Result<Option<AppendedUpdate>, Failure> {
        let known = lock_task(session, self.id).await?;
        let is_untold = |task: &Task| task.status.is_over() && task.applied_at.is_none();
        let Some(known) = known.filter(is_untold) else { return Ok(None) };
        let appended = match &self.update {
            Some(update) => append_one(session, update, self.catalog, self.now).await?,
            None => None,
        };
        if appended.is_some() || self.update.is_none() {
            update_task(session, &Task { applied_at: Some(self.now), ..known }).await?;
        }
        Ok(appended)
    }
}
