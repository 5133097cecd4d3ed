//! Wishes become waiting jobs, or join one that waits.

use std::collections::HashMap;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    JobId, JobKey, KindCatalog, KindName, NewJob, WaitingJob, coalesce, first_wait,
};
use roundsman_core::ports::{EnqueueAnswer, EnqueueRequest, Enqueued, IdempotencyKey};
use roundsman_core::users::UserId;
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{
    fact_columns, insert_waiting_by, prepare_insert_waiting, read_waiting, update_waiting,
    waiting_columns,
};
use super::draw_numbers;
use super::gates::note_tenants;
use crate::rows;
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn enqueue(
    conn: &Connection,
    catalog: &KindCatalog,
    request: EnqueueRequest,
    now: Timestamp,
) -> Result<EnqueueAnswer> {
    let EnqueueRequest { jobs, idempotency } = request;
    let Some(key) = idempotency else {
        return Ok(EnqueueAnswer::Stored(insert_jobs(conn, catalog, jobs, now)?));
    };
    Ok(match noted(conn, &key)? {
        Noted::Reused => EnqueueAnswer::KeyReused,
        Noted::Answered(text) => EnqueueAnswer::Replayed(rows::answer_from_text(&text)?),
        Noted::New => {
            let enqueued = insert_jobs(conn, catalog, jobs, now)?;
            note_answer(conn, &key, &rows::answer_to_text(&enqueued), now)?;
            EnqueueAnswer::Stored(enqueued)
        }
    })
}

/// Writes wishes in the caller's transaction, in order. Numbers are drawn once for all of them.
pub(in crate::sqlite) fn insert_jobs(
    conn: &Connection,
    catalog: &KindCatalog,
    wishes: Vec<NewJob>,
    now: Timestamp,
) -> Result<Vec<Enqueued>> {
    note_tenants(conn, &wishes)?;
    let mut batch = Batch::with_capacity(wishes.len());
    for wish in wishes {
        batch.add(conn, catalog, wish, now)?;
    }
    batch.write(conn, now)
}

pub(super) const SELECT_WAITING_KEY: &str = concat!(
    "-- waiting_with_key
    SELECT ",
    waiting_columns!(),
    " FROM job_queue WHERE user_id = ?1 AND kind = ?2 AND key = ?3"
);

/// The job that waits with this key.
pub(super) fn waiting_with_key(
    conn: &Connection,
    user: UserId,
    kind: &KindName,
    key: &JobKey,
) -> Result<Option<WaitingJob>> {
    let columns = conn
        .prepare_cached(SELECT_WAITING_KEY)?
        .query_row(params![user.get(), kind.as_str(), key.as_str()], read_waiting)
        .optional()?;
    Ok(columns.map(rows::WaitingColumns::into_job).transpose()?)
}

/// What a number is until it is drawn.
const UNNUMBERED: JobId = JobId::new(0);

/// Wishes of one call, joined in memory before anything is written: each row is written once
/// however many wishes it stands for.
struct Batch {
    targets: Vec<Target>,
    by_key: HashMap<(UserId, KindName, JobKey), usize>,
    /// Which target each wish went to, and whether it joined what was there.
    answers: Vec<(usize, bool)>,
}

struct Target {
    job: WaitingJob,
    /// It has a row; otherwise it gets a number and a row.
    stored: bool,
}

impl Batch {
    fn with_capacity(wishes: usize) -> Self {
        Batch {
            targets: Vec::with_capacity(wishes),
            by_key: HashMap::new(),
            answers: Vec::with_capacity(wishes),
        }
    }

    fn add(
        &mut self,
        conn: &Connection,
        catalog: &KindCatalog,
        wish: NewJob,
        now: Timestamp,
    ) -> Result<()> {
        let Some(key) = &wish.key else {
            self.open(first_wait(UNNUMBERED, wish, now), false);
            return Ok(());
        };
        let identity = (wish.user_id, wish.kind.clone(), key.clone());
        let known = match self.by_key.get(&identity) {
            Some(&index) => Some(index),
            None => waiting_with_key(conn, wish.user_id, &wish.kind, key)?.map(|job| {
                self.targets.push(Target { job, stored: true });
                self.targets.len() - 1
            }),
        };
        let index = match known {
            Some(index) => {
                let merge = catalog.merge(&wish.kind);
                coalesce(&mut self.targets[index].job, wish, merge, now);
                self.answers.push((index, true));
                index
            }
            None => self.open(first_wait(UNNUMBERED, wish, now), false),
        };
        self.by_key.insert(identity, index);
        Ok(())
    }

    fn open(&mut self, job: WaitingJob, stored: bool) -> usize {
        self.targets.push(Target { job, stored });
        let index = self.targets.len() - 1;
        self.answers.push((index, false));
        index
    }

    fn write(mut self, conn: &Connection, now: Timestamp) -> Result<Vec<Enqueued>> {
        let new = self.targets.iter().filter(|target| !target.stored).count();
        let mut next = if new > 0 { draw_numbers(conn, "job_id", new)? } else { 0 };
        let mut insert = prepare_insert_waiting(conn)?;
        for target in &mut self.targets {
            if target.stored {
                update_waiting(conn, &target.job, now)?;
            } else {
                target.job.facts.id = JobId::new(next);
                next += 1;
                insert_waiting_by(&mut insert, &target.job, now)?;
            }
        }
        let enqueued = |(index, coalesced): (usize, bool)| Enqueued {
            id: self.targets[index].job.facts.id,
            coalesced,
        };
        Ok(self.answers.into_iter().map(enqueued).collect())
    }
}

const SELECT_ANSWER: &str = "-- earlier_answer
    SELECT body_hash, answer FROM idempotency WHERE user_id = ?1 AND route = ?2 AND key = ?3";

const REMEMBER_ANSWER: &str = "-- remember_answer
    INSERT INTO idempotency (user_id, route, key, body_hash, answer, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// What is known of a request that has a name.
pub(super) enum Noted {
    /// It is carried out now, and its answer has to be noted.
    New,
    /// It was answered before.
    Answered(String),
    /// Another request had this name.
    Reused,
}

pub(super) fn noted(conn: &Connection, key: &IdempotencyKey) -> Result<Noted> {
    let stored: Option<(Vec<u8>, String)> = conn
        .prepare_cached(SELECT_ANSWER)?
        .query_row(params![key.user_id.get(), key.route, key.key], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    Ok(match stored {
        None => Noted::New,
        Some((hash, _)) if hash != key.body_hash => Noted::Reused,
        Some((_, answer)) => Noted::Answered(answer),
    })
}

pub(super) fn note_answer(
    conn: &Connection,
    key: &IdempotencyKey,
    answer: &str,
    now: Timestamp,
) -> Result<()> {
    conn.prepare_cached(REMEMBER_ANSWER)?.execute(params![
        key.user_id.get(),
        key.route,
        key.key,
        key.body_hash,
        answer,
        At(now),
    ])?;
    Ok(())
}
