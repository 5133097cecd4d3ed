//! What a person may do to a job: cancel it, try it again.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    FinishedJob, HELD_UNTIL, Job, JobId, JobState, KindCatalog, retry_by_hand,
};
use roundsman_core::ports::{CancelAnswer, RetryAnswer, Scope};
use rusqlite::Connection;

use super::columns::{insert_waiting, update_waiting};
use super::enqueue::waiting_with_key;
use super::links::{cancelled, forget_links, rejoin};
use super::read;
use super::settle::end;
use crate::rows::hasten;
use crate::sqlite::error::Result;

pub(super) fn cancel(
    conn: &Connection,
    catalog: &KindCatalog,
    scope: Scope,
    id: JobId,
    now: Timestamp,
) -> Result<CancelAnswer> {
    match read::job(conn, scope, id)? {
        None => Ok(CancelAnswer::NotFound),
        Some(Job::Waiting(job)) => {
            conn.prepare_cached(DELETE_WAITING)?.execute([id.get()])?;
            if job.not_before == Some(HELD_UNTIL) {
                forget_links(conn, id)?;
            }
            end(conn, catalog, &cancelled(job, now), now)?;
            Ok(CancelAnswer::Cancelled)
        }
        Some(Job::Running(_)) => {
            conn.prepare_cached(REQUEST_CANCEL)?.execute([id.get()])?;
            Ok(CancelAnswer::Requested)
        }
        Some(Job::Finished(job)) => Ok(CancelAnswer::Finished(ended_as(*job, now))),
    }
}

pub(super) fn retry(
    conn: &Connection,
    scope: Scope,
    id: JobId,
    now: Timestamp,
) -> Result<RetryAnswer> {
    match read::job(conn, scope, id)? {
        None => Ok(RetryAnswer::NotFound),
        Some(Job::Waiting(job)) => {
            update_waiting(conn, &hasten(job, now), now)?;
            Ok(RetryAnswer::Requeued)
        }
        Some(Job::Running(_)) => Ok(RetryAnswer::Running),
        Some(Job::Finished(job)) => {
            let facts = &job.facts;
            if let Some(key) = &facts.key
                && let Some(other) = waiting_with_key(conn, facts.user_id, &facts.kind, key)?
            {
                return Ok(RetryAnswer::KeyTaken { by: other.facts.id });
            }
            conn.prepare_cached(DELETE_FINISHED)?.execute([id.get()])?;
            insert_waiting(conn, &retry_by_hand(*job, now), now)?;
            rejoin(conn, id)?;
            Ok(RetryAnswer::Requeued)
        }
    }
}

const DELETE_WAITING: &str = "-- delete_waiting
    DELETE FROM job_queue WHERE id = ?1";

const REQUEST_CANCEL: &str = "-- request_cancel
    UPDATE job_running SET cancel_requested = 1 WHERE id = ?1";

const DELETE_FINISHED: &str = "-- delete_finished
    DELETE FROM job_finished WHERE id = ?1";

fn ended_as(job: FinishedJob, now: Timestamp) -> JobState {
    Job::Finished(Box::new(job)).state(now)
}
