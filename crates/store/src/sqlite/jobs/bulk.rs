//! Steps of bulk operations, and failed jobs.

use std::collections::BTreeMap;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{Job, JobId, KindName};
use roundsman_core::ports::{
    BulkStore, DEPTH_COUNT_MAX, DeleteAnswer, ReprioritiseAnswer, Scope, StoreError,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::update_waiting;
use super::read;
use crate::rows::{FINISHED, inconsistent};
use crate::sqlite::SqliteStore;
use crate::sqlite::error::Result as InTransaction;
use crate::sqlite::time::At;

#[async_trait]
impl BulkStore for SqliteStore {
    async fn reprioritise(
        &self,
        scope: Scope,
        id: JobId,
        priority: i16,
        now: Timestamp,
    ) -> Result<ReprioritiseAnswer, StoreError> {
        self.write("store.reprioritise", move |conn, _| match read::job(conn, scope, id)? {
            None => Ok(ReprioritiseAnswer::NotFound),
            Some(Job::Waiting(mut job)) => {
                job.facts.priority = priority;
                update_waiting(conn, &job, now)?;
                Ok(ReprioritiseAnswer::Moved)
            }
            Some(job) => Ok(ReprioritiseAnswer::NotWaiting(job.state(now))),
        })
        .await
    }

    async fn delete_job(&self, scope: Scope, id: JobId) -> Result<DeleteAnswer, StoreError> {
        self.write("store.delete_job", move |conn, _| match read::job(conn, scope, id)? {
            None => Ok(DeleteAnswer::NotFound),
            Some(Job::Finished(_)) => {
                conn.prepare_cached(DELETE_JOB)?.execute([id.get()])?;
                Ok(DeleteAnswer::Deleted)
            }
            // The time makes no difference to who may be deleted.
            Some(job) => Ok(DeleteAnswer::NotFinished(job.state(Timestamp::MAX))),
        })
        .await
    }

    async fn dead_counts(&self) -> Result<Vec<(KindName, u64)>, StoreError> {
        self.read(dead_counts).await
    }

    async fn prune_dead(
        &self,
        horizons: Vec<(KindName, Timestamp)>,
        others_before: Timestamp,
        rows_max: u32,
    ) -> Result<u64, StoreError> {
        let horizons: BTreeMap<KindName, Timestamp> = horizons.into_iter().collect();
        self.write("store.prune_dead", move |conn, _| {
            let mut left = i64::from(rows_max);
            for kind in dead_kinds(conn)? {
                let before = horizons.get(&kind).copied().unwrap_or(others_before);
                let deleted = conn.prepare_cached(PRUNE_DEAD)?.execute(params![
                    kind.as_str(),
                    At(before),
                    left
                ])?;
                left -= i64::try_from(deleted).unwrap_or(left);
            }
            Ok(u64::try_from(i64::from(rows_max) - left).unwrap_or(0))
        })
        .await
    }
}

const DELETE_JOB: &str = "-- delete_job
    DELETE FROM job_finished WHERE id = ?1";

pub(super) const NEXT_DEAD_KIND: &str = "-- next_dead_kind
    SELECT kind FROM job_finished INDEXED BY job_finished_dead_kind
     WHERE state = 4 AND kind > ?1 ORDER BY kind LIMIT 1";

pub(super) const COUNT_DEAD: &str = "-- count_dead
    SELECT count(*) FROM (SELECT 1 FROM job_finished INDEXED BY job_finished_dead_kind
                           WHERE state = 4 AND kind = ?1 LIMIT ?2)";

pub(super) const PRUNE_DEAD: &str = "-- prune_dead
    DELETE FROM job_finished
     WHERE id IN (SELECT id FROM job_finished INDEXED BY job_finished_dead_kind
                   WHERE state = 4 AND kind = ?1 AND finished_at < ?2
                   ORDER BY finished_at LIMIT ?3)";

/// The kinds of failed jobs, by jumping from one to the next in the index.
fn dead_kinds(conn: &Connection) -> InTransaction<Vec<KindName>> {
    let mut statement = conn.prepare_cached(NEXT_DEAD_KIND)?;
    let mut kinds: Vec<KindName> = Vec::new();
    loop {
        let last = kinds.last().map_or("", KindName::as_str);
        let next: Option<String> = statement.query_row([last], |row| row.get(0)).optional()?;
        let Some(next) = next else { return Ok(kinds) };
        let kind = KindName::new(&next);
        kinds.push(kind.map_err(|error| inconsistent(FINISHED, "kind", 0, error.to_string()))?);
    }
}

fn dead_counts(conn: &Connection) -> InTransaction<Vec<(KindName, u64)>> {
    let count_max = i64::try_from(DEPTH_COUNT_MAX).unwrap_or(i64::MAX);
    let mut counts = Vec::new();
    for kind in dead_kinds(conn)? {
        let count: i64 = conn
            .prepare_cached(COUNT_DEAD)?
            .query_row(params![kind.as_str(), count_max], |row| row.get(0))?;
        counts.push((kind, u64::try_from(count).unwrap_or(0)));
    }
    Ok(counts)
}
