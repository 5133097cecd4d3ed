//! Jobs that wait for others, and batches: making and showing them.

use std::collections::BTreeSet;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    Batch, BatchId, HELD_UNTIL, JobId, KindCatalog, LinkEnd, NewBatch, NewJob, OnFailure,
    first_wait,
};
use roundsman_core::ports::{
    AfterAnswer, BatchAnswer, BatchStore, Enqueued, IdempotencyKey, Scope, StoreError,
};
use roundsman_core::users::UserId;

use super::enqueue::{Noted, note_answer, note_key, write_wishes};
use super::gates::note_tenants;
use super::landing::insert_finished;
use super::links::{cancelled_job, mark};
use super::user_of;
use super::waiting::{ROUNDS_MAX, identity, insert_waiting, lock_waiting, next_job_ids};
use crate::postgres::PostgresStore;
use crate::postgres::columns::{Reader, WaitingRows};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::batches::{callback_to_text, made_from_text, made_to_text, place_of, policy_code};
use crate::rows::finished_state_name;

#[async_trait]
impl BatchStore for PostgresStore {
    async fn enqueue_after(
        &self,
        wish: NewJob,
        after: Vec<JobId>,
        on_failure: OnFailure,
        now: Timestamp,
    ) -> Result<AfterAnswer, StoreError> {
        let after = after.into_iter().collect();
        self.change("store.enqueue_after", &Waiter { wish: &wish, after, on_failure, now }).await
    }

    async fn waits_for(&self, id: JobId) -> Result<Vec<JobId>, StoreError> {
        self.pool.run(&WaitsFor { id }).await
    }

    async fn create_batch(
        &self,
        batch: NewBatch,
        idempotency: Option<IdempotencyKey>,
        now: Timestamp,
    ) -> Result<BatchAnswer, StoreError> {
        let (batch, key) = (&batch, idempotency.as_ref());
        let create = Create { batch, key, catalog: &self.catalog, now };
        self.change("store.create_batch", &create).await
    }

    async fn batch(
        &self,
        scope: Scope,
        id: BatchId,
        now: Timestamp,
    ) -> Result<Option<Batch>, StoreError> {
        self.pool.run(&Find { scope, id, now }).await
    }

    async fn prune_batches(&self, before: Timestamp, rows_max: u32) -> Result<u64, StoreError> {
        self.change("store.prune_batches", &Prune { before, rows_max }).await
    }
}

struct Waiter<'a> {
    wish: &'a NewJob,
    after: BTreeSet<JobId>,
    on_failure: OnFailure,
    now: Timestamp,
}

const MARK_WAITING: &str = "-- mark_awaited
WITH few AS MATERIALIZED (
    SELECT id FROM roundsman.job_queue
     WHERE id = ANY ($1::bigint[]) AND user_id = $2 ORDER BY id FOR UPDATE
)
UPDATE roundsman.job_queue q SET linked = true FROM few WHERE q.id = few.id RETURNING q.id";

const MARK_RUNNING: &str = "-- mark_awaited_running
WITH few AS MATERIALIZED (
    SELECT id FROM roundsman.job_running
     WHERE id = ANY ($1::bigint[]) AND user_id = $2 ORDER BY id FOR UPDATE
)
UPDATE roundsman.job_running r SET linked = true FROM few WHERE r.id = few.id RETURNING r.id";

const ENDED: &str = "-- ended
SELECT id, state FROM roundsman.job_finished WHERE id = ANY ($1::bigint[]) AND user_id = $2";

const LINK: &str = "-- link
INSERT INTO roundsman.job_links (parent, child, policy)
SELECT parent, $2, $3 FROM unnest($1::bigint[]) parent";

/// What is known of the jobs that are waited for.
#[derive(Default)]
struct Parents {
    /// Those that have to be waited for. Their rows are held: none ends before we are done.
    awaited: Vec<i64>,
    cancel: bool,
}

impl Operation for Waiter<'_> {
    type Answer = AfterAnswer;

    async fn run(&self, session: &mut Session) -> Result<AfterAnswer, Failure> {
        session.begin();
        let parents = match self.find_parents(session).await? {
            Ok(parents) => parents,
            Err(missing) => {
                session.undo().await?;
                return Ok(AfterAnswer::NoSuchJob(missing));
            }
        };
        note_tenants(session, std::slice::from_ref(self.wish)).await?;
        let id = *next_job_ids(session, 1).await?.first().ok_or(Failure::Raced)?;
        let mut job = first_wait(id, self.wish.clone(), self.now);
        if parents.cancel {
            insert_finished(session, &[cancelled_job(job, self.now)]).await?;
            session.commit().await?;
            return Ok(AfterAnswer::Stored(id));
        }
        if !parents.awaited.is_empty() {
            job.not_before = Some(HELD_UNTIL);
        }
        if insert_waiting(session, &WaitingRows::of([&job], self.now)).await?.is_empty() {
            let key = identity(&job.facts);
            let other = lock_waiting(session, key.iter()).await?;
            let by = other.first().ok_or(Failure::Raced)?.facts.id;
            session.undo().await?;
            return Ok(AfterAnswer::KeyTaken { by });
        }
        if !parents.awaited.is_empty() {
            let policy = policy_code(self.on_failure);
            session.execute(LINK, &[&parents.awaited, &id.get(), &policy]).await?;
        }
        session.commit().await?;
        Ok(AfterAnswer::Stored(id))
    }
}

impl Waiter<'_> {
    /// Marks those that are not over. One that moves between two of our looks is looked for again.
    async fn find_parents(&self, session: &mut Session) -> Result<Result<Parents, JobId>, Failure> {
        let user = self.wish.user_id.get();
        let mut missing: BTreeSet<i64> = self.after.iter().map(|id| id.get()).collect();
        let mut parents = Parents::default();
        for _ in 0..ROUNDS_MAX {
            for mark in [MARK_WAITING, MARK_RUNNING] {
                let ids: Vec<i64> = missing.iter().copied().collect();
                for row in session.query(mark, &[&ids, &user]).await? {
                    let id: i64 = row.try_get(0)?;
                    missing.remove(&id);
                    parents.awaited.push(id);
                }
            }
            let ids: Vec<i64> = missing.iter().copied().collect();
            for row in session.query(ENDED, &[&ids, &user]).await? {
                let (id, state): (i64, i16) = (row.try_get(0)?, row.try_get(1)?);
                missing.remove(&id);
                match self.on_failure.after(finished_state_name(id, state)?) {
                    LinkEnd::Satisfied => {}
                    LinkEnd::Cancelled => parents.cancel = true,
                    LinkEnd::Stays => parents.awaited.push(id),
                }
            }
            if missing.is_empty() {
                return Ok(Ok(parents));
            }
        }
        Ok(Err(missing.first().copied().map_or(JobId::new(0), JobId::new)))
    }
}

const WAITS_FOR: &str = "-- waits_for
SELECT parent FROM roundsman.job_links WHERE child = $1 ORDER BY parent";

struct WaitsFor {
    id: JobId,
}

impl Operation for WaitsFor {
    type Answer = Vec<JobId>;

    async fn run(&self, session: &mut Session) -> Result<Vec<JobId>, Failure> {
        let rows = session.query(WAITS_FOR, &[&self.id.get()]).await?;
        rows.iter().map(|row| Ok(JobId::new(row.try_get(0)?))).collect()
    }
}

const INSERT_BATCH: &str = "-- insert_batch
INSERT INTO roundsman.job_batches (user_id, name, callback, total, remaining, created_at)
VALUES ($1, $2, $3, $4, $4, $5) RETURNING id";

const INSERT_MEMBERS: &str = "-- insert_members
INSERT INTO roundsman.job_batch_members (batch_id, job_id) SELECT $1, unnest($2::bigint[])";

struct Create<'a> {
    batch: &'a NewBatch,
    key: Option<&'a IdempotencyKey>,
    catalog: &'a KindCatalog,
    now: Timestamp,
}

impl Operation for Create<'_> {
    type Answer = BatchAnswer;

    async fn run(&self, session: &mut Session) -> Result<BatchAnswer, Failure> {
        session.begin();
        let noted = match self.key {
            Some(key) => note_key(session, key, self.now).await?,
            None => Noted::New,
        };
        let answer = match noted {
            Noted::Reused => BatchAnswer::KeyReused,
            Noted::Answered(text) => {
                let (id, jobs) = made_from_text(&text)?;
                BatchAnswer::Replayed(id, jobs)
            }
            Noted::New => {
                let (id, jobs) = self.write(session).await?;
                if let Some(key) = self.key {
                    note_answer(session, key, &made_to_text(id, &jobs)).await?;
                }
                BatchAnswer::Stored(id, jobs)
            }
        };
        session.commit().await?;
        Ok(answer)
    }
}

impl Create<'_> {
    async fn write(&self, session: &mut Session) -> Result<(BatchId, Vec<Enqueued>), Failure> {
        let batch = self.batch;
        // Those that joined a waiting job have locked it: nobody claims it before it is marked.
        let enqueued = write_wishes(session, &batch.jobs, self.catalog, self.now).await?;
        let members: BTreeSet<JobId> = enqueued.iter().map(|job| job.id).collect();
        let members: Vec<JobId> = members.into_iter().collect();
        mark(session, &members).await?;
        let callback = batch.callback.as_ref().map(callback_to_text);
        let total = i64::try_from(members.len()).unwrap_or(i64::MAX);
        let values: [&(dyn postgres_types::ToSql + Sync); 5] =
            [&batch.user_id.get(), &batch.name, &callback, &total, &Time(self.now)];
        let row = session.query_opt(INSERT_BATCH, &values).await?.ok_or(Failure::Raced)?;
        let id: i64 = row.try_get(0)?;
        let members: Vec<i64> = members.iter().map(|id| id.get()).collect();
        session.execute(INSERT_MEMBERS, &[&id, &members]).await?;
        Ok((BatchId::new(id), enqueued))
    }
}

const FIND: &str = "-- find_batch
SELECT user_id, name, created_at, finished_at, callback_job, total FROM roundsman.job_batches
 WHERE id = $2 AND ($1::bigint IS NULL OR user_id = $1)";

const COUNTS: &str = "-- count_batch
SELECT m.state, coalesce(q.due_at <= $2, false), q.id IS NOT NULL, count(*)
  FROM roundsman.job_batch_members m
  LEFT JOIN roundsman.job_queue q ON m.state IS NULL AND q.id = m.job_id
 WHERE m.batch_id = $1
 GROUP BY 1, 2, 3";

struct Find {
    scope: Scope,
    id: BatchId,
    now: Timestamp,
}

impl Operation for Find {
    type Answer = Option<Batch>;

    async fn run(&self, session: &mut Session) -> Result<Option<Batch>, Failure> {
        session.begin_snapshot();
        let found = session.query_opt(FIND, &[&user_of(self.scope), &self.id.get()]).await?;
        let Some(row) = found else {
            session.commit().await?;
            return Ok(None);
        };
        let mut reader = Reader::new(&row);
        let mut batch = Batch {
            id: self.id,
            user_id: UserId::new(reader.value()?),
            name: reader.value()?,
            created_at: reader.time()?,
            finished_at: reader.time_opt()?,
            callback: reader.value::<Option<i64>>()?.map(JobId::new),
            total: u64::try_from(reader.value::<i64>()?).unwrap_or(0),
            counts: [0; 6],
        };
        for row in session.query(COUNTS, &[&self.id.get(), &Time(self.now)]).await? {
            let (state, due): (Option<i16>, bool) = (row.try_get(0)?, row.try_get(1)?);
            let place = match (state, row.try_get(2)?) {
                (Some(state), _) => place_of(state),
                (None, true) => usize::from(due),
                (None, false) => 2,
            };
            batch.counts[place] += u64::try_from(row.try_get::<_, i64>(3)?).unwrap_or(0);
        }
        session.commit().await?;
        Ok(Some(batch))
    }
}

pub(super) const PRUNE: &str = "-- prune_batches
WITH old AS MATERIALIZED (
    SELECT id FROM roundsman.job_batches
     WHERE finished_at < $1 ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED
)
DELETE FROM roundsman.job_batches b USING old WHERE b.id = old.id";

struct Prune {
    before: Timestamp,
    rows_max: u32,
}

impl Operation for Prune {
    type Answer = u64;

    async fn run(&self, session: &mut Session) -> Result<u64, Failure> {
        let rows_max = i64::from(self.rows_max);
        let deleted = session
            .execute(PRUNE, &[&Time(self.before), &rows_max])
            .await
            .map_err(Failure::Commit)?;
        Ok(deleted)
    }
}
