//! Writing wishes.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    JobId, JobKey, KindCatalog, NewJob, WaitingJob, coalesce, first_wait, rank,
};
use roundsman_core::ports::{EnqueueAnswer, EnqueueRequest, Enqueued, IdempotencyKey};

use super::copy::copy_waiting;
use super::gates::note_tenants;
use super::waiting::{
    Identity, ROUNDS_MAX, identity, insert_waiting, lock_waiting, next_job_ids, update_waiting,
};
use crate::postgres::columns::{WaitingRows, count};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::{PENDING, SCHEDULED, answer_from_text, answer_to_text};

/// From this many rows on COPY is faster than INSERT.
const COPY_ROWS_MIN: usize = 50;

pub(super) struct Enqueue<'a> {
    pub(super) request: &'a EnqueueRequest,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Enqueue<'_> {
    type Answer = EnqueueAnswer;

    async fn run(&self, session: &mut Session) -> Result<EnqueueAnswer, Failure> {
        let wishes = &self.request.jobs;
        if let Some(key) = &self.request.idempotency {
            return self.run_once(session, key).await;
        }
        let no_tenants = wishes.iter().all(|wish| wish.tenant.is_none());
        if let [wish] = wishes.as_slice()
            && no_tenants
            && let Some(id) = insert_one(session, wish, self.now).await?
        {
            return Ok(EnqueueAnswer::Stored(vec![Enqueued { id, coalesced: false }]));
        }
        if no_tenants && wishes.iter().all(|wish| wish.key.is_none()) {
            return Ok(EnqueueAnswer::Stored(write_unkeyed(session, wishes, self.now).await?));
        }
        session.begin();
        let stored = write_wishes(session, wishes, self.catalog, self.now).await?;
        session.commit().await?;
        Ok(EnqueueAnswer::Stored(stored))
    }
}

/// The key is written first: whoever comes second waits here until the first has committed or
/// failed, so that of many at once exactly one does the work.
const NOTE_KEY: &str = "-- note_key
INSERT INTO roundsman.idempotency (user_id, route, key, body_hash, answer, created_at)
VALUES ($1, $2, $3, $4, '', $5)
ON CONFLICT (user_id, route, key) DO NOTHING";

const NOTE_ANSWER: &str = "-- note_answer
UPDATE roundsman.idempotency SET answer = $4 WHERE user_id = $1 AND route = $2 AND key = $3";

const NOTED_ANSWER: &str = "-- noted_answer
SELECT body_hash, answer FROM roundsman.idempotency
 WHERE user_id = $1 AND route = $2 AND key = $3";

/// What is known of a request that has a name.
pub(super) enum Noted {
    /// It is carried out in this transaction, which has to note the answer.
    New,
    /// It was answered before.
    Answered(String),
    /// Another request had this name.
    Reused,
}

/// Notes a request inside a transaction that the caller began.
pub(super) async fn note_key(
    session: &mut Session,
    key: &IdempotencyKey,
    now: Timestamp,
) -> Result<Noted, Failure> {
    let (user, route, hash) = (key.user_id.get(), key.route, key.body_hash.as_slice());
    let noted = session.execute(NOTE_KEY, &[&user, &route, &key.key, &hash, &Time(now)]).await?;
    if noted > 0 {
        return Ok(Noted::New);
    }
    let found = session.query_opt(NOTED_ANSWER, &[&user, &route, &key.key]).await?;
    // Pruned between the two looks: it is new again.
    let row = found.ok_or(Failure::Raced)?;
    if row.try_get::<_, &[u8]>(0)? != hash {
        return Ok(Noted::Reused);
    }
    Ok(Noted::Answered(row.try_get(1)?))
}

pub(super) async fn note_answer(
    session: &mut Session,
    key: &IdempotencyKey,
    answer: &str,
) -> Result<(), Failure> {
    let (user, route) = (key.user_id.get(), key.route);
    session.execute(NOTE_ANSWER, &[&user, &route, &key.key, &answer]).await?;
    Ok(())
}

impl Enqueue<'_> {
    async fn run_once(
        &self,
        session: &mut Session,
        key: &IdempotencyKey,
    ) -> Result<EnqueueAnswer, Failure> {
        session.begin();
        let answer = match note_key(session, key, self.now).await? {
            Noted::Reused => EnqueueAnswer::KeyReused,
            Noted::Answered(text) => EnqueueAnswer::Replayed(answer_from_text(&text)?),
            Noted::New => {
                let wishes = &self.request.jobs;
                let stored = write_wishes(session, wishes, self.catalog, self.now).await?;
                note_answer(session, key, &answer_to_text(&stored)).await?;
                EnqueueAnswer::Stored(stored)
            }
        };
        session.commit().await?;
        Ok(answer)
    }
}

/// One wish in one round trip. Differs from the batch in that the number is drawn in the same
/// statement, which is possible because there is only one to give back.
const INSERT_ONE: &str = "-- insert_one
INSERT INTO roundsman.job_queue
    (id, user_id, state, priority, attempt, max_attempts, rank, due_at, run_at, not_before,
     triggered_at, created_at, lane, kind, key, payload, runs)
VALUES (nextval('roundsman.job_id_seq'), $1, $2, $3, 0, $4, $5, $6, $6, NULL, $7, $7, $8, $9, $10,
        $11, NULL)
ON CONFLICT (user_id, kind, key) WHERE key IS NOT NULL DO NOTHING
RETURNING id";

/// `None`: a job with its key waits already.
async fn insert_one(
    session: &mut Session,
    wish: &NewJob,
    now: Timestamp,
) -> Result<Option<JobId>, Failure> {
    let state = if wish.run_at <= now { PENDING } else { SCHEDULED };
    let rank = rank(wish.run_at, wish.priority);
    let lane = wish.lane();
    let row = session
        .query_opt(
            INSERT_ONE,
            &[
                &wish.user_id.get(),
                &state,
                &wish.priority,
                &wish.max_attempts.map(count),
                &Time(rank),
                &Time(wish.run_at),
                &Time(now),
                &lane.as_str(),
                &wish.kind.as_str(),
                &wish.key.as_ref().map(JobKey::as_str),
                &wish.payload.as_str(),
            ],
        )
        .await
        .map_err(Failure::Commit)?;
    match row {
        Some(row) => Ok(Some(JobId::new(row.try_get(0)?))),
        None => Ok(None),
    }
}

/// Wishes without keys, in two round trips that need no transaction around them: numbers that were
/// drawn and not used are only a gap.
async fn write_unkeyed(
    session: &mut Session,
    wishes: &[NewJob],
    now: Timestamp,
) -> Result<Vec<Enqueued>, Failure> {
    let ids = next_job_ids(session, wishes.len()).await?;
    let mut rows = WaitingRows::default();
    for (&id, wish) in ids.iter().zip(wishes) {
        rows.push_wish(id, wish, now);
    }
    if rows.len() >= COPY_ROWS_MIN {
        copy_waiting(session, &rows).await?;
    } else {
        insert_waiting(session, &rows).await.map_err(as_commit)?;
    }
    Ok(ids.into_iter().map(|id| Enqueued { id, coalesced: false }).collect())
}

/// Writes wishes inside a transaction that the caller began.
pub(in crate::postgres) async fn write_wishes(
    session: &mut Session,
    wishes: &[NewJob],
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<Vec<Enqueued>, Failure> {
    note_tenants(session, wishes).await?;
    let ids = next_job_ids(session, wishes.len()).await?;
    let mut answers: Vec<Enqueued> =
        ids.iter().map(|&id| Enqueued { id, coalesced: false }).collect();
    let mut unkeyed = WaitingRows::default();
    let mut keyed: BTreeMap<Identity, Vec<usize>> = BTreeMap::new();
    for (index, wish) in wishes.iter().enumerate() {
        match &wish.key {
            None => unkeyed.push_wish(ids[index], wish, now),
            Some(key) => {
                let identity = (wish.user_id, wish.kind.clone(), key.clone());
                keyed.entry(identity).or_default().push(index);
            }
        }
    }
    if unkeyed.len() >= COPY_ROWS_MIN {
        copy_waiting(session, &unkeyed).await?;
    } else {
        insert_waiting(session, &unkeyed).await?;
    }
    write_keyed(session, wishes, keyed, &mut answers, catalog, now).await?;
    Ok(answers)
}

/// Writes wishes with keys, given as the places of those with the same key. In each round a key is
/// either free and taken, or has a waiting job that is locked and joined, or was freed in between
/// and is tried again.
async fn write_keyed(
    session: &mut Session,
    wishes: &[NewJob],
    mut groups: BTreeMap<Identity, Vec<usize>>,
    answers: &mut [Enqueued],
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<(), Failure> {
    for _ in 0..ROUNDS_MAX {
        if groups.is_empty() {
            return Ok(());
        }
        let fresh: Vec<WaitingJob> = groups
            .values()
            .map(|members| {
                let first = first_wait(answers[members[0]].id, wishes[members[0]].clone(), now);
                join_all(first, wishes, &members[1..], catalog, now)
            })
            .collect();
        let inserted = insert_waiting(session, &WaitingRows::of(&fresh, now)).await?;
        groups.retain(|_, members| {
            let id = answers[members[0]].id;
            let taken = !inserted.contains(&id.get());
            if !taken {
                for &member in &members[1..] {
                    answers[member] = Enqueued { id, coalesced: true };
                }
            }
            taken
        });
        if groups.is_empty() {
            return Ok(());
        }
        let mut joined = Vec::with_capacity(groups.len());
        for job in lock_waiting(session, groups.keys()).await? {
            let members = identity(&job.facts).and_then(|key| groups.remove(&key));
            let members = members.unwrap_or_default();
            for &member in &members {
                answers[member] = Enqueued { id: job.facts.id, coalesced: true };
            }
            joined.push(join_all(job, wishes, &members, catalog, now));
        }
        update_waiting(session, &joined, now).await?;
    }
    Err(Failure::Raced)
}

/// The waiting job after these wishes have joined it, in their order.
fn join_all(
    mut waiting: WaitingJob,
    wishes: &[NewJob],
    members: &[usize],
    catalog: &KindCatalog,
    now: Timestamp,
) -> WaitingJob {
    let merge = catalog.merge(&waiting.facts.kind);
    for &member in members {
        coalesce(&mut waiting, wishes[member].clone(), merge, now);
    }
    waiting
}

/// Marks the failure of a statement that commits by itself.
fn as_commit(failure: Failure) -> Failure {
    match failure {
        Failure::Statement(error) => Failure::Commit(error),
        other => other,
    }
}
