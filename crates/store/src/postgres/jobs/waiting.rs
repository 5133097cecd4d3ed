//! Statements on waiting jobs that several operations need.

use std::collections::BTreeSet;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobFacts, JobId, JobKey, KindName, WaitingJob};
use roundsman_core::users::UserId;

use crate::postgres::columns::{self, WaitingRows, waiting_columns};
use crate::postgres::error::Failure;
use crate::postgres::session::Session;

/// How often a row that others take away again is looked for before the whole call starts anew.
pub(super) const ROUNDS_MAX: u32 = 8;

/// What makes two jobs one. Whatever touches several keys does so in this order.
pub(super) type Identity = (UserId, KindName, JobKey);

/// Draws numbers for new jobs, smallest first.
const NEXT_JOB_IDS: &str = "-- next_job_ids
SELECT array_agg(nextval('roundsman.job_id_seq')) FROM generate_series(1, $1::integer)";

pub(super) async fn next_job_ids(
    session: &mut Session,
    count: usize,
) -> Result<Vec<JobId>, Failure> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let rows = session.query(NEXT_JOB_IDS, &[&count]).await?;
    let mut ids: Vec<i64> = rows.first().ok_or(Failure::Raced)?.try_get(0)?;
    ids.sort_unstable();
    Ok(ids.into_iter().map(JobId::new).collect())
}

/// A key that is taken is no error: the caller joins the job that has it. The conflict target
/// repeats the index's condition because that is how PostgreSQL finds a partial index.
const INSERT_WAITING: &str = "-- insert_waiting
INSERT INTO roundsman.job_queue
    (id, user_id, state, priority, attempt, max_attempts, rank, due_at, run_at, not_before,
     triggered_at, created_at, lane, kind, key, payload, runs)
SELECT * FROM unnest(
    $1::bigint[], $2::bigint[], $3::smallint[], $4::smallint[], $5::integer[], $6::integer[],
    $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::timestamptz[],
    $11::timestamptz[], $12::timestamptz[], $13::text[], $14::text[], $15::text[], $16::text[],
    $17::text[])
ON CONFLICT (user_id, kind, key) WHERE key IS NOT NULL DO NOTHING
RETURNING id";

/// Inserts the jobs whose keys are free and returns their numbers. Waits for whoever is about to
/// take or free one of the keys.
pub(super) async fn insert_waiting(
    session: &mut Session,
    rows: &WaitingRows<'_>,
) -> Result<BTreeSet<i64>, Failure> {
    if rows.is_empty() {
        return Ok(BTreeSet::new());
    }
    let inserted = session.query(INSERT_WAITING, &rows.values()).await?;
    inserted.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

pub(super) const LOCK_WAITING: &str = concat!(
    "-- lock_waiting
SELECT ",
    waiting_columns!(),
    "
  FROM unnest($1::bigint[], $2::text[], $3::text[]) WITH ORDINALITY
       AS given(given_user, given_kind, given_key, place)
  JOIN roundsman.job_queue q
    ON q.user_id = given_user AND q.kind = given_kind AND q.key = given_key
 ORDER BY place
   FOR UPDATE OF q"
);

/// Locks and returns the waiting jobs with these keys, which must be in order. A job that was
/// claimed or cancelled while this waited for it is not among them.
pub(super) async fn lock_waiting<'k>(
    session: &mut Session,
    keys: impl Iterator<Item = &'k Identity>,
) -> Result<Vec<WaitingJob>, Failure> {
    let (mut users, mut kinds, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for (user, kind, key) in keys {
        users.push(user.get());
        kinds.push(kind.as_str());
        texts.push(key.as_str());
    }
    let rows = session.query(LOCK_WAITING, &[&users, &kinds, &texts]).await?;
    rows.iter().map(columns::waiting).collect()
}

const UPDATE_WAITING: &str = "-- update_waiting
UPDATE roundsman.job_queue q
   SET state = x.state, priority = x.priority, attempt = x.attempt, rank = x.rank,
       due_at = x.due_at, run_at = x.run_at, not_before = x.not_before,
       triggered_at = x.triggered_at, payload = x.payload, runs = x.runs
  FROM unnest(
    $1::bigint[], $2::smallint[], $3::smallint[], $4::integer[], $5::timestamptz[],
    $6::timestamptz[], $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::text[],
    $11::text[])
    AS x(id, state, priority, attempt, rank, due_at, run_at, not_before, triggered_at, payload,
         runs)
 WHERE q.id = x.id";

/// Writes waiting jobs back that were locked before.
pub(super) async fn update_waiting(
    session: &mut Session,
    jobs: &[WaitingJob],
    now: Timestamp,
) -> Result<(), Failure> {
    if jobs.is_empty() {
        return Ok(());
    }
    let rows = WaitingRows::of(jobs, now);
    session
        .execute(
            UPDATE_WAITING,
            &[
                &rows.ids,
                &rows.states,
                &rows.priorities,
                &rows.attempts,
                &rows.ranks,
                &rows.due,
                &rows.run,
                &rows.not_before,
                &rows.triggered,
                &rows.payloads,
                &rows.runs,
            ],
        )
        .await?;
    Ok(())
}

/// The identity of a job, if it has a key.
pub(super) fn identity(facts: &JobFacts) -> Option<Identity> {
    let key = facts.key.clone()?;
    Some((facts.user_id, facts.kind.clone(), key))
}
