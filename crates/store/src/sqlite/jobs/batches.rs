//! Jobs that wait for others, and batches: making and showing them.

use std::collections::BTreeSet;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    Batch, BatchId, HELD_UNTIL, Job, JobId, JobState, KindCatalog, LinkEnd, NewBatch, NewJob,
    OnFailure, first_wait,
};
use roundsman_core::ports::{
    AfterAnswer, BatchAnswer, BatchStore, Enqueued, IdempotencyKey, Scope, StoreError,
};
use roundsman_core::users::UserId;
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{insert_finished, insert_waiting};
use super::draw_numbers;
use super::enqueue::{Noted, insert_jobs, note_answer, noted, waiting_with_key};
use super::gates::note_tenants;
use super::links::{cancelled, mark};
use super::read::{self, user_of};
use crate::rows::batches::{callback_to_text, made_from_text, made_to_text, place_of, policy_code};
use crate::sqlite::SqliteStore;
use crate::sqlite::error::Result as InTransaction;
use crate::sqlite::time::{At, optional};

#[async_trait]
impl BatchStore for SqliteStore {
    async fn enqueue_after(
        &self,
        wish: NewJob,
        after: Vec<JobId>,
        on_failure: OnFailure,
        now: Timestamp,
    ) -> Result<AfterAnswer, StoreError> {
        self.write("store.enqueue_after", move |conn, _| {
            enqueue_after(conn, wish, after, on_failure, now)
        })
        .await
    }

    async fn waits_for(&self, id: JobId) -> Result<Vec<JobId>, StoreError> {
        self.read(move |conn| {
            let mut statement = conn.prepare_cached(WAITS_FOR)?;
            let rows = statement.query_map([id.get()], |row| row.get(0).map(JobId::new))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn create_batch(
        &self,
        batch: NewBatch,
        idempotency: Option<IdempotencyKey>,
        now: Timestamp,
    ) -> Result<BatchAnswer, StoreError> {
        self.write("store.create_batch", move |conn, catalog| {
            create_once(conn, catalog, batch, idempotency.as_ref(), now)
        })
        .await
    }

    async fn batch(
        &self,
        scope: Scope,
        id: BatchId,
        now: Timestamp,
    ) -> Result<Option<Batch>, StoreError> {
        self.read(move |conn| find(conn, scope, id, now)).await
    }

    async fn prune_batches(&self, before: Timestamp, rows_max: u32) -> Result<u64, StoreError> {
        self.write("store.prune_batches", move |conn, _| {
            let deleted = conn.prepare_cached(PRUNE)?.execute(params![At(before), rows_max])?;
            Ok(deleted as u64)
        })
        .await
    }
}

const WAITS_FOR: &str = "-- waits_for
    SELECT parent FROM job_links WHERE child = ?1 ORDER BY parent";

const LINK: &str = "-- link
    INSERT INTO job_links (parent, child, policy) VALUES (?1, ?2, ?3)";

fn enqueue_after(
    conn: &Connection,
    wish: NewJob,
    after: Vec<JobId>,
    on_failure: OnFailure,
    now: Timestamp,
) -> InTransaction<AfterAnswer> {
    let after: BTreeSet<JobId> = after.into_iter().collect();
    let mut parents = Vec::new();
    let mut cancel = false;
    for id in after {
        match read::job(conn, Scope::User(wish.user_id), id)? {
            None => return Ok(AfterAnswer::NoSuchJob(id)),
            Some(Job::Finished(job)) => match on_failure.after(Job::Finished(job).state(now)) {
                LinkEnd::Satisfied => {}
                LinkEnd::Cancelled => cancel = true,
                LinkEnd::Stays => parents.push(id),
            },
            Some(_) => parents.push(id),
        }
    }
    if let Some(key) = &wish.key
        && let Some(other) = waiting_with_key(conn, wish.user_id, &wish.kind, key)?
    {
        return Ok(AfterAnswer::KeyTaken { by: other.facts.id });
    }
    note_tenants(conn, std::slice::from_ref(&wish))?;
    let id = JobId::new(draw_numbers(conn, "job_id", 1)?);
    let mut job = first_wait(id, wish, now);
    if cancel {
        insert_finished(conn, &cancelled(job, now))?;
        return Ok(AfterAnswer::Stored(id));
    }
    if !parents.is_empty() {
        job.not_before = Some(HELD_UNTIL);
    }
    insert_waiting(conn, &job, now)?;
    for parent in parents {
        conn.prepare_cached(LINK)?.execute(params![
            parent.get(),
            id.get(),
            policy_code(on_failure)
        ])?;
        mark(conn, parent)?;
    }
    Ok(AfterAnswer::Stored(id))
}

const INSERT_BATCH: &str = "-- insert_batch
    INSERT INTO job_batches (user_id, name, callback, total, remaining, created_at)
    VALUES (?1, ?2, ?3, ?4, ?4, ?5) RETURNING id";

const INSERT_MEMBER: &str = "-- insert_member
    INSERT INTO job_batch_members (batch_id, job_id) VALUES (?1, ?2)";

fn create_once(
    conn: &Connection,
    catalog: &KindCatalog,
    batch: NewBatch,
    key: Option<&IdempotencyKey>,
    now: Timestamp,
) -> InTransaction<BatchAnswer> {
    let known = key.map_or(Ok(Noted::New), |key| noted(conn, key))?;
    Ok(match known {
        Noted::Reused => BatchAnswer::KeyReused,
        Noted::Answered(text) => {
            let (id, jobs) = made_from_text(&text)?;
            BatchAnswer::Replayed(id, jobs)
        }
        Noted::New => {
            let (id, jobs) = create(conn, catalog, batch, now)?;
            if let Some(key) = key {
                note_answer(conn, key, &made_to_text(id, &jobs), now)?;
            }
            BatchAnswer::Stored(id, jobs)
        }
    })
}

fn create(
    conn: &Connection,
    catalog: &KindCatalog,
    batch: NewBatch,
    now: Timestamp,
) -> InTransaction<(BatchId, Vec<Enqueued>)> {
    let enqueued = insert_jobs(conn, catalog, batch.jobs, now)?;
    let members: BTreeSet<JobId> = enqueued.iter().map(|job| job.id).collect();
    let id: i64 = conn.prepare_cached(INSERT_BATCH)?.query_row(
        params![
            batch.user_id.get(),
            batch.name,
            batch.callback.as_ref().map(callback_to_text),
            i64::try_from(members.len()).unwrap_or(i64::MAX),
            At(now)
        ],
        |row| row.get(0),
    )?;
    let mut insert = conn.prepare_cached(INSERT_MEMBER)?;
    for member in members {
        insert.execute(params![id, member.get()])?;
        mark(conn, member)?;
    }
    Ok((BatchId::new(id), enqueued))
}

const FIND: &str = "-- find_batch
    SELECT user_id, name, created_at, finished_at, callback_job, total FROM job_batches
     WHERE id = ?2 AND (?1 IS NULL OR user_id = ?1)";

const COUNT_ENDED: &str = "-- count_ended
    SELECT state, count(*) FROM job_batch_members
     WHERE batch_id = ?1 AND state IS NOT NULL GROUP BY state";

const COUNT_WAITING: &str = "-- count_waiting
    SELECT q.due_at <= ?2, count(*) FROM job_batch_members m JOIN job_queue q ON q.id = m.job_id
     WHERE m.batch_id = ?1 AND m.state IS NULL GROUP BY 1";

fn find(
    conn: &Connection,
    scope: Scope,
    id: BatchId,
    now: Timestamp,
) -> InTransaction<Option<Batch>> {
    let found = conn
        .prepare_cached(FIND)?
        .query_row(params![user_of(scope), id.get()], |row| {
            Ok(Batch {
                id,
                user_id: UserId::new(row.get(0)?),
                name: row.get(1)?,
                created_at: row.get(2).map(|At(at)| at)?,
                finished_at: optional(row.get(3)?),
                callback: row.get::<_, Option<i64>>(4)?.map(JobId::new),
                total: unsigned(row.get(5)?),
                counts: [0; 6],
            })
        })
        .optional()?;
    let Some(mut batch) = found else { return Ok(None) };
    let mut ended = conn.prepare_cached(COUNT_ENDED)?;
    let mut rows = ended.query([id.get()])?;
    while let Some(row) = rows.next()? {
        batch.counts[place_of(row.get(0)?)] += unsigned(row.get(1)?);
    }
    let mut waiting = conn.prepare_cached(COUNT_WAITING)?;
    let mut rows = waiting.query(params![id.get(), At(now)])?;
    while let Some(row) = rows.next()? {
        batch.counts[usize::from(row.get::<_, bool>(0)?)] += unsigned(row.get(1)?);
    }
    let known: u64 = batch.counts.iter().sum();
    batch.counts[2] = batch.total.saturating_sub(known);
    debug_assert_eq!(JobState::ALL[2], JobState::Processing);
    Ok(Some(batch))
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

pub(super) const PRUNE: &str = "-- prune_batches
    DELETE FROM job_batches
     WHERE id IN (SELECT id FROM job_batches WHERE finished_at < ?1 ORDER BY finished_at LIMIT ?2)";
