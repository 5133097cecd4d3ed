//! What was lost by a mistake or by an operator, and what nobody needs any more.

use std::collections::BTreeSet;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobKey, KindCatalog, NewJob};
use roundsman_core::ports::Rearmed;
use roundsman_core::rooms::ProjectId;
use roundsman_core::tasks::{Task, TaskId};

use super::columns::{task_columns, tasks};
use crate::postgres::error::Failure;
use crate::postgres::jobs::write_wishes;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::tasks::{jobs_of, stage};

pub(super) const UNFINISHED: &str = "-- unfinished_tasks
SELECT no, stage, project_id FROM roundsman.tasks
 WHERE stage <> 'over' AND no > $1
 ORDER BY no LIMIT $2";

/// Which of these have no job. A job on its way from one table to the other may seem to be in neither;
/// wishing for it once more does no harm.
const WITHOUT_JOB: &str = "-- without_job
SELECT place FROM unnest($1::bigint[], $2::text[], $3::text[]) WITH ORDINALITY
       AS given(user_id, kind, key, place)
 WHERE NOT EXISTS (SELECT FROM roundsman.job_queue q
                    WHERE q.user_id = given.user_id AND q.kind = given.kind AND q.key = given.key)
   AND NOT EXISTS (SELECT FROM roundsman.job_running r
                    WHERE r.user_id = given.user_id AND r.kind = given.kind AND r.key = given.key)";

pub(super) struct Rearm<'a> {
    pub(super) after: Option<TaskId>,
    pub(super) rows_max: u32,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Rearm<'_> {
    type Answer = Rearmed;

    async fn run(&self, session: &mut Session) -> Result<Rearmed, Failure> {
        session.begin();
        let after = self.after.map_or(0, TaskId::get);
        let rows = session.query(UNFINISHED, &[&after, &i64::from(self.rows_max)]).await?;
        let (mut wishes, mut last) = (Vec::new(), None);
        let mut seen = BTreeSet::new();
        for row in &rows {
            let (no, text): (i64, &str) = (row.try_get(0)?, row.try_get(1)?);
            let project = ProjectId::from_stored(row.try_get(2)?);
            last = Some(TaskId::new(no));
            for wish in jobs_of(TaskId::new(no), stage(text, no)?, &project, self.now) {
                if seen.insert((wish.kind.clone(), wish.key.clone())) {
                    wishes.push(wish);
                }
            }
        }
        let lost = without_job(session, wishes).await?;
        if !lost.is_empty() {
            write_wishes(session, &lost, self.catalog, self.now).await?;
        }
        session.commit().await?;
        let is_full = rows.len() >= self.rows_max as usize;
        let jobs = u32::try_from(lost.len()).unwrap_or(u32::MAX);
        Ok(Rearmed { jobs, next_after: last.filter(|_| is_full) })
    }
}

async fn without_job(session: &mut Session, wishes: Vec<NewJob>) -> Result<Vec<NewJob>, Failure> {
    let users: Vec<i64> = wishes.iter().map(|wish| wish.user_id.get()).collect();
    let kinds: Vec<&str> = wishes.iter().map(|wish| wish.kind.as_str()).collect();
    let keys: Vec<Option<&str>> =
        wishes.iter().map(|wish| wish.key.as_ref().map(JobKey::as_str)).collect();
    let rows = session.query(WITHOUT_JOB, &[&users, &kinds, &keys]).await?;
    let mut places = BTreeSet::new();
    for row in &rows {
        places.insert(usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or_default());
    }
    let lost = wishes.into_iter().zip(1..).filter(|(_, place)| places.contains(place));
    Ok(lost.map(|(wish, _)| wish).collect())
}

pub(super) const PRUNE: &str = "-- prune_tasks
WITH old AS MATERIALIZED (
    SELECT no FROM roundsman.tasks
     WHERE stage = 'over' AND files = '[]' AND applied_at IS NOT NULL AND completed_at < $1
     ORDER BY completed_at, no
     LIMIT $2
       FOR UPDATE SKIP LOCKED
), log AS (
    DELETE FROM roundsman.transitions t USING old
     WHERE t.entity = 'task' AND t.entity_id = old.no
)
DELETE FROM roundsman.tasks t USING old WHERE t.no = old.no";

pub(super) struct Prune {
    pub(super) before: Timestamp,
    pub(super) rows_max: u32,
}

impl Operation for Prune {
    type Answer = u64;

    async fn run(&self, session: &mut Session) -> Result<u64, Failure> {
        session.begin();
        let rows_max = i64::from(self.rows_max);
        let count = session.execute(PRUNE, &[&Time(self.before), &rows_max]).await?;
        session.commit().await?;
        Ok(count)
    }
}

pub(super) const UNTOLD: &str = concat!(
    "-- untold_tasks\nSELECT ",
    task_columns!(),
    " FROM roundsman.tasks t
 WHERE t.stage = 'over' AND t.applied_at IS NULL
 ORDER BY t.no LIMIT $1"
);

pub(super) struct Untold {
    pub(super) rows_max: u32,
}

impl Operation for Untold {
    type Answer = Vec<Task>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Task>, Failure> {
        tasks(&session.query(UNTOLD, &[&i64::from(self.rows_max)]).await?)
    }
}
