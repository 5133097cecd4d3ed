//! Where runs that ended leave their jobs: finished, waiting again, or folded into another.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    Disposition, FinishedJob, FinishedState, JobId, JobState, KindCatalog, WaitingJob, fold,
};

use super::links::{mark, resolve};
use super::waiting::{
    Identity, ROUNDS_MAX, identity, insert_waiting, lock_waiting, update_waiting,
};
use crate::postgres::columns::{FinishedRows, WaitingRows};
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::rows::waiting_state;

/// Writes the jobs, whose running rows the same transaction has deleted, and returns the state in
/// which each one is now.
pub(super) async fn land(
    session: &mut Session,
    dispositions: Vec<Disposition>,
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<BTreeMap<JobId, JobState>, Failure> {
    let mut states = BTreeMap::new();
    let mut linked = Vec::new();
    let (mut ended, mut unkeyed) = (Vec::new(), Vec::new());
    let mut keyed: BTreeMap<Identity, WaitingJob> = BTreeMap::new();
    for disposition in dispositions {
        match disposition {
            Disposition::Finish(job) => ended.push(job),
            Disposition::Requeue(job) => {
                states.insert(job.facts.id, waiting_state(&job, now).1);
                linked.extend(job.facts.linked.then_some(job.facts.id));
                match identity(&job.facts) {
                    Some(key) => {
                        keyed.insert(key, job);
                    }
                    None => unkeyed.push(job),
                }
            }
        }
    }
    insert_waiting(session, &WaitingRows::of(&unkeyed, now)).await?;
    ended.extend(requeue_keyed(session, keyed, catalog, now).await?);
    for job in &ended {
        states.insert(job.facts.id, finished_state(&job.state));
    }
    insert_finished(session, &ended).await?;
    mark(session, &linked).await?;
    resolve(session, &ended, catalog, now).await?;
    Ok(states)
}

/// Lets jobs with keys wait again and returns those that ended because another one waits in their
/// place. A trigger may take the key, or a claim or cancel free it, between any two of our
/// statements; then the next round finds it so.
async fn requeue_keyed(
    session: &mut Session,
    mut jobs: BTreeMap<Identity, WaitingJob>,
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<Vec<FinishedJob>, Failure> {
    let mut ended = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let inserted = insert_waiting(session, &WaitingRows::of(jobs.values(), now)).await?;
        jobs.retain(|_, job| !inserted.contains(&job.facts.id.get()));
        if jobs.is_empty() {
            return Ok(ended);
        }
        let mut survivors = Vec::with_capacity(jobs.len());
        for waiting in lock_waiting(session, jobs.keys()).await? {
            let Some(back) = identity(&waiting.facts).and_then(|key| jobs.remove(&key)) else {
                continue;
            };
            let merge = catalog.merge(&back.facts.kind);
            let folded = fold(waiting, back, merge, now);
            survivors.push(folded.survivor);
            ended.push(folded.ended);
        }
        update_waiting(session, &survivors, now).await?;
    }
    Err(Failure::Raced)
}

const INSERT_FINISHED: &str = "-- insert_finished
INSERT INTO roundsman.job_finished
    (id, user_id, state, priority, attempt, max_attempts, run_at, triggered_at, created_at,
     finished_at, kind, key, error_code, folded_into, payload, result, error_message, runs,
     progress, lane)
SELECT * FROM unnest(
    $1::bigint[], $2::bigint[], $3::smallint[], $4::smallint[], $5::integer[], $6::integer[],
    $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::timestamptz[], $11::text[],
    $12::text[], $13::text[], $14::bigint[], $15::text[], $16::text[], $17::text[], $18::text[],
    $19::text[], $20::text[])";

pub(super) async fn insert_finished(
    session: &mut Session,
    jobs: &[FinishedJob],
) -> Result<(), Failure> {
    let rows = FinishedRows::of(jobs);
    if !rows.is_empty() {
        session.execute(INSERT_FINISHED, &rows.values()).await?;
    }
    Ok(())
}

pub(super) fn finished_state(state: &FinishedState) -> JobState {
    match state {
        FinishedState::Completed { .. } => JobState::Completed,
        FinishedState::Failed { .. } => JobState::Failed,
        FinishedState::Cancelled { .. } => JobState::Cancelled,
    }
}
