//! What the end of a job means to those that wait for it and to its batch.

use std::collections::VecDeque;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    CancelCause, FinishedJob, FinishedState, HELD_UNTIL, Job, JobId, JobState, KindCatalog,
    LinkEnd, WaitingJob,
};
use roundsman_core::ports::Scope;
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{insert_finished, update_waiting};
use super::enqueue::insert_jobs;
use super::read;
use crate::rows::batches::{callback_from_text, ended_code, policy_of};
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

/// Tells of the end of a job that is linked. What it cancels has ended too, and is told of as well.
pub(super) fn resolve(
    conn: &Connection,
    catalog: &KindCatalog,
    job: &FinishedJob,
    state: JobState,
    now: Timestamp,
) -> Result<()> {
    if let FinishedState::Cancelled { cause: CancelCause::Folded { into } } = job.state {
        return hand_over(conn, job.facts.id, into);
    }
    let mut ended = VecDeque::from([(job.facts.id, state)]);
    while let Some((id, state)) = ended.pop_front() {
        for (child, end) in links_of(conn, id, state)? {
            conn.prepare_cached(DELETE_LINK)?.execute(params![id.get(), child.get()])?;
            match end {
                LinkEnd::Satisfied => release(conn, child, now)?,
                LinkEnd::Cancelled => {
                    if cancel(conn, child, now)? {
                        ended.push_back((child, JobState::Cancelled));
                    }
                }
                LinkEnd::Stays => {}
            }
        }
        leave_batches(conn, catalog, id, state, now)?;
    }
    Ok(())
}

const LINKS_OF: &str = "-- links_of
    SELECT child, policy FROM job_links WHERE parent = ?1 ORDER BY child";

const DELETE_LINK: &str = "-- delete_link
    DELETE FROM job_links WHERE parent = ?1 AND child = ?2";

/// The links that end with this job, and how; those that stay are left where they are.
fn links_of(conn: &Connection, id: JobId, state: JobState) -> Result<Vec<(JobId, LinkEnd)>> {
    let mut statement = conn.prepare_cached(LINKS_OF)?;
    let rows = statement.query_map([id.get()], |row| {
        let end = policy_of(row.get(1)?).after(state);
        Ok((JobId::new(row.get(0)?), end))
    })?;
    let links: Vec<(JobId, LinkEnd)> = rows.collect::<rusqlite::Result<_>>()?;
    Ok(links.into_iter().filter(|(_, end)| *end != LinkEnd::Stays).collect())
}

const WAITS_STILL: &str = "-- waits_still
    SELECT 1 FROM job_links WHERE child = ?1 LIMIT 1";

/// Lets a job run that waited for this and for nothing else. One that a person hastened runs already.
fn release(conn: &Connection, id: JobId, now: Timestamp) -> Result<()> {
    if conn.prepare_cached(WAITS_STILL)?.exists([id.get()])? {
        return Ok(());
    }
    if let Some(job) = held(conn, id)? {
        update_waiting(conn, &WaitingJob { not_before: None, ..job }, now)?;
    }
    Ok(())
}

const FORGET_LINKS: &str = "-- forget_links
    DELETE FROM job_links WHERE child = ?1";

const DELETE_HELD: &str = "-- delete_held
    DELETE FROM job_queue WHERE id = ?1";

/// A waiting job that is cancelled waits for nobody any more.
pub(super) fn forget_links(conn: &Connection, id: JobId) -> Result<()> {
    conn.prepare_cached(FORGET_LINKS)?.execute([id.get()])?;
    Ok(())
}

fn cancel(conn: &Connection, id: JobId, now: Timestamp) -> Result<bool> {
    let Some(job) = held(conn, id)? else { return Ok(false) };
    forget_links(conn, id)?;
    conn.prepare_cached(DELETE_HELD)?.execute([id.get()])?;
    insert_finished(conn, &cancelled(job, now))?;
    Ok(true)
}

pub(super) fn cancelled(job: WaitingJob, now: Timestamp) -> FinishedJob {
    FinishedJob {
        facts: job.facts,
        state: FinishedState::Cancelled { cause: CancelCause::Requested },
        finished_at: now,
        progress: None,
    }
}

fn held(conn: &Connection, id: JobId) -> Result<Option<WaitingJob>> {
    match read::job(conn, Scope::All, id)? {
        Some(Job::Waiting(job)) if job.not_before == Some(HELD_UNTIL) => Ok(Some(job)),
        _ => Ok(None),
    }
}

const NOTE_END: &str = "-- note_end
    UPDATE job_batch_members SET state = ?2 WHERE job_id = ?1 AND state IS NULL RETURNING batch_id";

const COUNT_DOWN: &str = "-- count_down
    UPDATE job_batches SET remaining = remaining - 1 WHERE id = ?1 RETURNING remaining, callback";

const FINISH_BATCH: &str = "-- finish_batch
    UPDATE job_batches SET finished_at = ?2, callback_job = ?3 WHERE id = ?1";

fn leave_batches(
    conn: &Connection,
    catalog: &KindCatalog,
    id: JobId,
    state: JobState,
    now: Timestamp,
) -> Result<()> {
    let batches: Vec<i64> = conn
        .prepare_cached(NOTE_END)?
        .query_map(params![id.get(), ended_code(state)], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for batch in batches {
        let (remaining, callback): (i64, Option<String>) = conn
            .prepare_cached(COUNT_DOWN)?
            .query_row([batch], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if remaining > 0 {
            continue;
        }
        let wish = callback.map(|text| callback_from_text(&text, batch, now)).transpose()?;
        let called = insert_jobs(conn, catalog, wish.into_iter().collect(), now)?;
        let called = called.first().map(|job| job.id.get());
        conn.prepare_cached(FINISH_BATCH)?.execute(params![batch, At(now), called])?;
    }
    Ok(())
}

const HAND_OVER_LINKS: &str = "-- hand_over_links
    UPDATE OR IGNORE job_links SET parent = ?2 WHERE parent = ?1";

const HAND_OVER_MEMBERS: &str = "-- hand_over_members
    UPDATE OR IGNORE job_batch_members SET job_id = ?2 WHERE job_id = ?1 AND state IS NULL";

const DROP_LINKS: &str = "-- drop_links
    DELETE FROM job_links WHERE parent = ?1";

const DOUBLE_MEMBERS: &str = "-- double_members
    DELETE FROM job_batch_members WHERE job_id = ?1 AND state IS NULL RETURNING batch_id";

const ONE_LESS: &str = "-- one_less
    UPDATE job_batches SET remaining = remaining - 1, total = total - 1 WHERE id = ?1";

/// A job that folded goes on as another: whoever waits for it waits for that one.
fn hand_over(conn: &Connection, id: JobId, into: JobId) -> Result<()> {
    let both = [id.get(), into.get()];
    conn.prepare_cached(HAND_OVER_LINKS)?.execute(both)?;
    conn.prepare_cached(DROP_LINKS)?.execute([id.get()])?;
    conn.prepare_cached(HAND_OVER_MEMBERS)?.execute(both)?;
    // Where both were in one batch they are one job of it now.
    let doubled: Vec<i64> = conn
        .prepare_cached(DOUBLE_MEMBERS)?
        .query_map([id.get()], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for batch in doubled {
        conn.prepare_cached(ONE_LESS)?.execute([batch])?;
    }
    mark(conn, into)?;
    Ok(())
}

const MARK_WAITING: &str = "-- mark_waiting
    UPDATE job_queue SET linked = 1 WHERE id = ?1";

const MARK_RUNNING: &str = "-- mark_running
    UPDATE job_running SET linked = 1 WHERE id = ?1";

/// Marks a job as one whose end somebody has to be told of.
pub(super) fn mark(conn: &Connection, id: JobId) -> Result<()> {
    conn.prepare_cached(MARK_WAITING)?.execute([id.get()])?;
    conn.prepare_cached(MARK_RUNNING)?.execute([id.get()])?;
    Ok(())
}

const REOPEN: &str = "-- reopen
    UPDATE job_batch_members SET state = NULL
     WHERE job_id = ?1 AND state IS NOT NULL
       AND EXISTS (SELECT 1 FROM job_batches b
                    WHERE b.id = batch_id AND b.finished_at IS NULL)
    RETURNING batch_id";

const COUNT_UP: &str = "-- count_up
    UPDATE job_batches SET remaining = remaining + 1 WHERE id = ?1";

const HAS_LINKS: &str = "-- has_links
    SELECT 1 FROM job_links WHERE parent = ?1 LIMIT 1";

/// A job that was over is tried anew: batches that are not over wait for it again, and so do those
/// that held out for it.
pub(super) fn rejoin(conn: &Connection, id: JobId) -> Result<()> {
    let batches: Vec<i64> = conn
        .prepare_cached(REOPEN)?
        .query_map([id.get()], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for batch in &batches {
        conn.prepare_cached(COUNT_UP)?.execute([batch])?;
    }
    let awaited: Option<i64> =
        conn.prepare_cached(HAS_LINKS)?.query_row([id.get()], |row| row.get(0)).optional()?;
    if !batches.is_empty() || awaited.is_some() {
        mark(conn, id)?;
    }
    Ok(())
}
