//! Steps of bulk operations, and failed jobs.

use std::collections::BTreeMap;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobId, JobState, KindName};
use roundsman_core::ports::{
    BulkStore, DEPTH_COUNT_MAX, DeleteAnswer, ReprioritiseAnswer, Scope, StoreError,
};

use super::by_hand::{LOCK_ONE_WAITING, Place, locate};
use super::waiting::{ROUNDS_MAX, update_waiting};
use crate::postgres::PostgresStore;
use crate::postgres::columns;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::{FINISHED, inconsistent};

#[async_trait]
impl BulkStore for PostgresStore {
    async fn reprioritise(
        &self,
        scope: Scope,
        id: JobId,
        priority: i16,
        now: Timestamp,
    ) -> Result<ReprioritiseAnswer, StoreError> {
        self.change("store.reprioritise", &Reprioritise { scope, id, priority, now }).await
    }

    async fn delete_job(&self, scope: Scope, id: JobId) -> Result<DeleteAnswer, StoreError> {
        self.change("store.delete_job", &Delete { scope, id }).await
    }

    async fn dead_counts(&self) -> Result<Vec<(KindName, u64)>, StoreError> {
        self.pool.run(&DeadCounts).await
    }

    async fn prune_dead(
        &self,
        horizons: Vec<(KindName, Timestamp)>,
        others_before: Timestamp,
        rows_max: u32,
    ) -> Result<u64, StoreError> {
        let horizons = horizons.into_iter().collect();
        self.change("store.prune_dead", &PruneDead { horizons, others_before, rows_max }).await
    }
}

struct Reprioritise {
    scope: Scope,
    id: JobId,
    priority: i16,
    now: Timestamp,
}

impl Operation for Reprioritise {
    type Answer = ReprioritiseAnswer;

    async fn run(&self, session: &mut Session) -> Result<ReprioritiseAnswer, Failure> {
        session.begin();
        for _ in 0..ROUNDS_MAX {
            let answer = match locate(session, self.scope, self.id).await? {
                None => Some(ReprioritiseAnswer::NotFound),
                Some(Place::Running) => Some(ReprioritiseAnswer::NotWaiting(JobState::Processing)),
                Some(Place::Finished(state)) => Some(ReprioritiseAnswer::NotWaiting(state)),
                Some(Place::Waiting) => {
                    match session.query_opt(LOCK_ONE_WAITING, &[&self.id.get()]).await? {
                        // It was claimed a moment ago: looked for again.
                        None => None,
                        Some(row) => {
                            let mut job = columns::waiting(&row)?;
                            job.facts.priority = self.priority;
                            update_waiting(session, &[job], self.now).await?;
                            Some(ReprioritiseAnswer::Moved)
                        }
                    }
                }
            };
            if let Some(answer) = answer {
                session.commit().await?;
                return Ok(answer);
            }
        }
        Err(Failure::Raced)
    }
}

const DELETE_JOB: &str = "-- delete_job
DELETE FROM roundsman.job_finished WHERE id = $1";

struct Delete {
    scope: Scope,
    id: JobId,
}

impl Operation for Delete {
    type Answer = DeleteAnswer;

    async fn run(&self, session: &mut Session) -> Result<DeleteAnswer, Failure> {
        session.begin();
        for _ in 0..ROUNDS_MAX {
            let answer = match locate(session, self.scope, self.id).await? {
                None => Some(DeleteAnswer::NotFound),
                Some(Place::Waiting) => Some(DeleteAnswer::NotFinished(JobState::Pending)),
                Some(Place::Running) => Some(DeleteAnswer::NotFinished(JobState::Processing)),
                Some(Place::Finished(_)) => {
                    let deleted = session.execute(DELETE_JOB, &[&self.id.get()]).await?;
                    (deleted > 0).then_some(DeleteAnswer::Deleted)
                }
            };
            if let Some(answer) = answer {
                session.commit().await?;
                return Ok(answer);
            }
        }
        Err(Failure::Raced)
    }
}

/// From kind to kind in the index, counting each up to the limit.
pub(super) const DEAD_KINDS: &str = "-- dead_kinds
WITH RECURSIVE kinds(kind) AS (
    (SELECT kind FROM roundsman.job_finished WHERE state = 4 ORDER BY kind LIMIT 1)
    UNION ALL
    SELECT (SELECT f.kind FROM roundsman.job_finished f
             WHERE f.state = 4 AND f.kind > kinds.kind ORDER BY f.kind LIMIT 1)
      FROM kinds WHERE kinds.kind IS NOT NULL
)
SELECT kinds.kind, counted.jobs
  FROM kinds
 CROSS JOIN LATERAL (
    SELECT count(*) AS jobs
      FROM (SELECT FROM roundsman.job_finished f
             WHERE f.kind = kinds.kind AND f.state = 4 LIMIT $1) few) counted
 WHERE kinds.kind IS NOT NULL";

async fn dead_kinds(
    session: &mut Session,
    count_max: u64,
) -> Result<Vec<(KindName, u64)>, Failure> {
    let limit = i64::try_from(count_max).unwrap_or(i64::MAX);
    let mut kinds = Vec::new();
    for row in session.query(DEAD_KINDS, &[&limit]).await? {
        let kind = KindName::new(row.try_get(0)?)
            .map_err(|error| inconsistent(FINISHED, "kind", 0, error.to_string()))?;
        kinds.push((kind, u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or(0)));
    }
    Ok(kinds)
}

struct DeadCounts;

impl Operation for DeadCounts {
    type Answer = Vec<(KindName, u64)>;

    async fn run(&self, session: &mut Session) -> Result<Vec<(KindName, u64)>, Failure> {
        dead_kinds(session, DEPTH_COUNT_MAX).await
    }
}

pub(super) const PRUNE_DEAD: &str = "-- prune_dead
WITH old AS MATERIALIZED (
    SELECT ctid FROM roundsman.job_finished
     WHERE state = 4 AND kind = $1 AND finished_at < $2
     ORDER BY finished_at
     LIMIT $3
       FOR UPDATE SKIP LOCKED
)
DELETE FROM roundsman.job_finished f USING old WHERE f.ctid = old.ctid";

struct PruneDead {
    horizons: BTreeMap<KindName, Timestamp>,
    others_before: Timestamp,
    rows_max: u32,
}

impl Operation for PruneDead {
    type Answer = u64;

    async fn run(&self, session: &mut Session) -> Result<u64, Failure> {
        let mut left = i64::from(self.rows_max);
        session.begin();
        for (kind, _) in dead_kinds(session, 1).await? {
            let before = self.horizons.get(&kind).copied().unwrap_or(self.others_before);
            let values: [&(dyn postgres_types::ToSql + Sync); 3] =
                [&kind.as_str(), &Time(before), &left];
            let deleted = session.execute(PRUNE_DEAD, &values).await?;
            left -= i64::try_from(deleted).unwrap_or(left);
        }
        session.commit().await?;
        Ok(u64::try_from(i64::from(self.rows_max) - left).unwrap_or(0))
    }
}
