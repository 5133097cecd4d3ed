//! How tasks are made.

use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::tasks::{NewTask, Stepped, Task, TaskId, new_task};

use crate::postgres::effects::write_effects;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

const NEXT_TASKS: &str = "-- next_tasks
SELECT array_agg(nextval('roundsman.tasks_no_seq')) FROM generate_series(1, $1::integer)";

const INSERT_TASK: &str = "-- insert_task
INSERT INTO roundsman.tasks (no, user_id, project_id, task_type, params, node_id, external_service,
    submit_key, result_key, max_retries, retry_of, created_at, deadline_at, status, stage, files,
    retry_count, polls, updated_at, version) OVERRIDING SYSTEM VALUE
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, '[]', 0, 0, $12, $16)";

pub(super) struct Create<'a> {
    pub(super) wishes: Vec<NewTask>,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Create<'_> {
    type Answer = Vec<Task>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Task>, Failure> {
        if self.wishes.is_empty() {
            return Ok(Vec::new());
        }
        session.begin();
        let count = i32::try_from(self.wishes.len()).unwrap_or(i32::MAX);
        let row = session.query_opt(NEXT_TASKS, &[&count]).await?.ok_or(Failure::Raced)?;
        let mut numbers: Vec<i64> = row.try_get(0)?;
        numbers.sort_unstable();
        let (mut made, mut brought) = (Vec::new(), Vec::<Effects>::new());
        for (wish, no) in self.wishes.iter().zip(numbers) {
            let Stepped { task, effects } = new_task(TaskId::new(no), wish.clone(), self.now);
            insert(session, &task).await?;
            made.push(task);
            brought.push(effects);
        }
        let brought: Vec<&Effects> = brought.iter().collect();
        write_effects(session, &brought, self.catalog, self.now).await?;
        session.commit().await?;
        Ok(made)
    }
}

async fn insert(session: &mut Session, new: &Task) -> Result<(), Failure> {
    session
        .execute(
            INSERT_TASK,
            &[
                &new.id.get(),
                &new.user_id.get(),
                &new.project_id.as_str(),
                &new.task_type.as_str(),
                &new.params.as_str(),
                &new.node_id,
                &new.external_service,
                &new.submit_key,
                &new.result_key,
                &i64::from(new.max_retries),
                &new.retry_of.map(TaskId::get),
                &Time(new.created_at),
                &Time(new.deadline_at),
                &new.status.as_str(),
                &new.stage.as_str(),
                &new.version,
            ],
        )
        .await?;
    Ok(())
}
