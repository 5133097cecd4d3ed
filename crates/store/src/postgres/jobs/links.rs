//! What the end of a job means to those that wait for it and to its batch.
//!
//! Invariant: whoever decides whether a job still waits for others holds its row, and whoever decides
//! whether a job was the last of its batch holds the batch's. So of two that end at once one is last.

use std::collections::{BTreeMap, BTreeSet};

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    CancelCause, FinishedJob, FinishedState, HELD_UNTIL, JobId, JobState, KindCatalog, LinkEnd,
    WaitingJob,
};

use super::enqueue::write_wishes;
use super::landing::{finished_state, insert_finished};
use super::waiting::update_waiting;
use crate::postgres::audits::tell_failed;
use crate::postgres::columns::{self, waiting_columns};
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::batches::{callback_from_text, ended_code, policy_of};

const LINKS_OF: &str = "-- links_of
SELECT parent, child, policy FROM roundsman.job_links WHERE parent = ANY ($1::bigint[])";

const LOCK_HELD: &str = concat!(
    "-- lock_held\nSELECT ",
    waiting_columns!(),
    " FROM roundsman.job_queue WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE"
);

const DELETE_LINKS: &str = "-- delete_links
DELETE FROM roundsman.job_links l
 USING unnest($1::bigint[], $2::bigint[]) AS given(given_parent, given_child)
 WHERE l.parent = given_parent AND l.child = given_child";

const WAIT_STILL: &str = "-- wait_still
SELECT DISTINCT child FROM roundsman.job_links WHERE child = ANY ($1::bigint[])";

const FORGET_LINKS: &str = "-- forget_links
DELETE FROM roundsman.job_links WHERE child = ANY ($1::bigint[])";

const DELETE_HELD: &str = "-- delete_held
DELETE FROM roundsman.job_queue WHERE id = ANY ($1::bigint[])";

/// Tells of the ends of those jobs that are linked or are audits that failed; with none, this does nothing.
/// What they cancel has ended too, and is told of as well.
pub(super) async fn resolve(
    session: &mut Session,
    jobs: &[FinishedJob],
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<(), Failure> {
    tell_failed(session, jobs, catalog, now).await?;
    let mut ended: BTreeMap<JobId, JobState> = BTreeMap::new();
    for job in jobs.iter().filter(|job| job.facts.linked) {
        match job.state {
            FinishedState::Cancelled { cause: CancelCause::Folded { into } } => {
                hand_over(session, job.facts.id, into).await?;
            }
            _ => {
                ended.insert(job.facts.id, finished_state(&job.state));
            }
        }
    }
    while !ended.is_empty() {
        let cancelled = follow_links(session, &ended, now).await?;
        leave_batches(session, &ended, catalog, now).await?;
        ended = cancelled.into_iter().map(|id| (id, JobState::Cancelled)).collect();
    }
    Ok(())
}

/// Releases and cancels those that waited. Returns which were cancelled and have somebody to tell.
async fn follow_links(
    session: &mut Session,
    ended: &BTreeMap<JobId, JobState>,
    now: Timestamp,
) -> Result<Vec<JobId>, Failure> {
    let ids: Vec<i64> = ended.keys().map(|id| id.get()).collect();
    let (mut parents, mut children) = (Vec::new(), Vec::new());
    let mut cancel: BTreeSet<i64> = BTreeSet::new();
    for row in session.query(LINKS_OF, &[&ids]).await? {
        let (parent, child): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let state = ended.get(&JobId::new(parent)).copied().unwrap_or(JobState::Cancelled);
        match policy_of(row.try_get(2)?).after(state) {
            LinkEnd::Stays => continue,
            LinkEnd::Satisfied => {}
            LinkEnd::Cancelled => {
                cancel.insert(child);
            }
        }
        parents.push(parent);
        children.push(child);
    }
    if children.is_empty() {
        return Ok(Vec::new());
    }
    let rows = session.query(LOCK_HELD, &[&children]).await?;
    session.execute(DELETE_LINKS, &[&parents, &children]).await?;
    let mut waiting: BTreeSet<i64> = BTreeSet::new();
    for row in session.query(WAIT_STILL, &[&children]).await? {
        waiting.insert(row.try_get(0)?);
    }
    let (mut released, mut cancelled) = (Vec::new(), Vec::new());
    for row in &rows {
        let job = columns::waiting(row)?;
        let id = job.facts.id.get();
        // One that a person hastened needs no release, and is not cancelled any more.
        if job.not_before != Some(HELD_UNTIL) {
            continue;
        }
        if cancel.contains(&id) {
            cancelled.push(cancelled_job(job, now));
        } else if !waiting.contains(&id) {
            released.push(WaitingJob { not_before: None, ..job });
        }
    }
    update_waiting(session, &released, now).await?;
    if cancelled.is_empty() {
        return Ok(Vec::new());
    }
    let gone: Vec<i64> = cancelled.iter().map(|job| job.facts.id.get()).collect();
    session.execute(FORGET_LINKS, &[&gone]).await?;
    session.execute(DELETE_HELD, &[&gone]).await?;
    insert_finished(session, &cancelled).await?;
    let linked = cancelled.iter().filter(|job| job.facts.linked);
    Ok(linked.map(|job| job.facts.id).collect())
}

/// A waiting job that is cancelled waits for nobody any more.
pub(super) async fn forget_links(session: &mut Session, id: JobId) -> Result<(), Failure> {
    session.execute(FORGET_LINKS, &[&vec![id.get()]]).await?;
    Ok(())
}

pub(super) fn cancelled_job(job: WaitingJob, now: Timestamp) -> FinishedJob {
    FinishedJob {
        facts: job.facts,
        state: FinishedState::Cancelled { cause: CancelCause::Requested },
        finished_at: now,
        progress: None,
    }
}

const NOTE_ENDS: &str = "-- note_ends
UPDATE roundsman.job_batch_members m SET state = given_state
  FROM unnest($1::bigint[], $2::smallint[]) AS given(given_id, given_state)
 WHERE m.job_id = given_id AND m.state IS NULL
RETURNING m.batch_id";

const COUNT_DOWN: &str = "-- count_down
UPDATE roundsman.job_batches SET remaining = remaining - $2 WHERE id = $1
RETURNING remaining, callback";

const FINISH_BATCH: &str = "-- finish_batch
UPDATE roundsman.job_batches SET finished_at = $2, callback_job = $3 WHERE id = $1";

async fn leave_batches(
    session: &mut Session,
    ended: &BTreeMap<JobId, JobState>,
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<(), Failure> {
    let ids: Vec<i64> = ended.keys().map(|id| id.get()).collect();
    let states: Vec<i16> = ended.values().map(|state| ended_code(*state)).collect();
    let mut left: BTreeMap<i64, i64> = BTreeMap::new();
    for row in session.query(NOTE_ENDS, &[&ids, &states]).await? {
        *left.entry(row.try_get(0)?).or_default() += 1;
    }
    // By number, so that two that meet wait for each other in one direction.
    for (batch, jobs) in left {
        let row = session.query_opt(COUNT_DOWN, &[&batch, &jobs]).await?.ok_or(Failure::Raced)?;
        let (remaining, callback): (i64, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        if remaining > 0 {
            continue;
        }
        let mut called = None;
        if let Some(text) = callback {
            let wish = callback_from_text(&text, batch, now)?;
            let enqueued = write_wishes(session, &[wish], catalog, now).await?;
            called = enqueued.first().map(|job| job.id.get());
        }
        session.execute(FINISH_BATCH, &[&batch, &Time(now), &called]).await?;
    }
    Ok(())
}

const HAND_OVER_LINKS: &str = "-- hand_over_links
INSERT INTO roundsman.job_links (parent, child, policy)
SELECT $2, child, policy FROM roundsman.job_links WHERE parent = $1
ON CONFLICT (parent, child) DO NOTHING";

const DROP_LINKS: &str = "-- drop_links
DELETE FROM roundsman.job_links WHERE parent = $1";

const HAND_OVER_MEMBERS: &str = "-- hand_over_members
INSERT INTO roundsman.job_batch_members (batch_id, job_id)
SELECT batch_id, $2 FROM roundsman.job_batch_members WHERE job_id = $1 AND state IS NULL
ON CONFLICT (batch_id, job_id) DO NOTHING
RETURNING batch_id";

const DROP_MEMBERS: &str = "-- drop_members
DELETE FROM roundsman.job_batch_members WHERE job_id = $1 AND state IS NULL RETURNING batch_id";

const ONE_LESS: &str = "-- one_less
UPDATE roundsman.job_batches SET remaining = remaining - 1, total = total - 1
 WHERE id = ANY ($1::bigint[])";

/// A job that folded goes on as another: whoever waits for it waits for that one.
async fn hand_over(session: &mut Session, id: JobId, into: JobId) -> Result<(), Failure> {
    session.execute(HAND_OVER_LINKS, &[&id.get(), &into.get()]).await?;
    session.execute(DROP_LINKS, &[&id.get()]).await?;
    let mut moved: BTreeSet<i64> = BTreeSet::new();
    for row in session.query(HAND_OVER_MEMBERS, &[&id.get(), &into.get()]).await? {
        moved.insert(row.try_get(0)?);
    }
    // Where both were in one batch they are one job of it now.
    let mut doubled: Vec<i64> = Vec::new();
    for row in session.query(DROP_MEMBERS, &[&id.get()]).await? {
        let batch: i64 = row.try_get(0)?;
        if !moved.contains(&batch) {
            doubled.push(batch);
        }
    }
    if !doubled.is_empty() {
        session.execute(ONE_LESS, &[&doubled]).await?;
    }
    mark(session, &[into]).await
}

const MARK_WAITING: &str = "-- mark_waiting
UPDATE roundsman.job_queue SET linked = true WHERE id = ANY ($1::bigint[])";

/// Marks waiting jobs as ones whose ends somebody has to be told of.
pub(super) async fn mark(session: &mut Session, ids: &[JobId]) -> Result<(), Failure> {
    let ids: Vec<i64> = ids.iter().map(|id| id.get()).collect();
    if !ids.is_empty() {
        session.execute(MARK_WAITING, &[&ids]).await?;
    }
    Ok(())
}

const REOPEN: &str = "-- reopen
UPDATE roundsman.job_batch_members m SET state = NULL
  FROM roundsman.job_batches b
 WHERE m.job_id = $1 AND m.state IS NOT NULL AND b.id = m.batch_id AND b.finished_at IS NULL
RETURNING m.batch_id";

/// The lock that decides who is last. A batch that ended meanwhile stays as it is.
const COUNT_UP: &str = "-- count_up
UPDATE roundsman.job_batches SET remaining = remaining + 1
 WHERE id = $1 AND finished_at IS NULL RETURNING id";

const CLOSE: &str = "-- close
UPDATE roundsman.job_batch_members SET state = 5 WHERE batch_id = $1 AND job_id = $2";

const HAS_LINKS: &str = "-- has_links
SELECT EXISTS (SELECT FROM roundsman.job_links WHERE parent = $1)";

/// A job that was over is tried anew: batches that are not over wait for it again, and so do those
/// that held out for it.
pub(super) async fn rejoin(session: &mut Session, id: JobId) -> Result<(), Failure> {
    let mut linked = false;
    for row in session.query(REOPEN, &[&id.get()]).await? {
        let batch: i64 = row.try_get(0)?;
        if session.query_opt(COUNT_UP, &[&batch]).await?.is_some() {
            linked = true;
        } else {
            session.execute(CLOSE, &[&batch, &id.get()]).await?;
        }
    }
    let row = session.query_opt(HAS_LINKS, &[&id.get()]).await?.ok_or(Failure::Raced)?;
    if linked || row.try_get(0)? {
        mark(session, &[id]).await?;
    }
    Ok(())
}
