//! What a person may do to a job: cancel it, try it again.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{HELD_UNTIL, JobId, JobState, KindCatalog, retry_by_hand};
use roundsman_core::ports::{CancelAnswer, RetryAnswer, Scope};

use super::landing::insert_finished;
use super::links::{cancelled_job, forget_links, rejoin, resolve};
use super::user_of;
use super::waiting::{ROUNDS_MAX, identity, insert_waiting, lock_waiting, update_waiting};
use crate::postgres::columns::{self, WaitingRows, finished_columns, waiting_columns};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::rows::finished_state_name;

/// One statement, so that a job on its way from one table to another is seen in one of them.
const LOCATE: &str = "-- locate
SELECT 'waiting', NULL::smallint FROM roundsman.job_queue
 WHERE id = $1 AND ($2::bigint IS NULL OR user_id = $2)
UNION ALL
SELECT 'running', NULL FROM roundsman.job_running
 WHERE id = $1 AND ($2 IS NULL OR user_id = $2)
UNION ALL
SELECT 'finished', state FROM roundsman.job_finished
 WHERE id = $1 AND ($2 IS NULL OR user_id = $2)";

const TAKE_WAITING: &str = concat!(
    "-- take_waiting
DELETE FROM roundsman.job_queue WHERE id = $1 RETURNING ",
    waiting_columns!()
);

pub(super) const LOCK_ONE_WAITING: &str = concat!(
    "-- lock_one_waiting
SELECT ",
    waiting_columns!(),
    " FROM roundsman.job_queue WHERE id = $1 FOR UPDATE"
);

const TAKE_FINISHED: &str = concat!(
    "-- take_finished
DELETE FROM roundsman.job_finished WHERE id = $1 RETURNING ",
    finished_columns!()
);

const REQUEST_CANCEL: &str = "-- request_cancel
UPDATE roundsman.job_running SET cancel_requested = true WHERE id = $1";

/// Where a job was when it was looked for.
pub(super) enum Place {
    Waiting,
    Running,
    Finished(JobState),
}

pub(super) struct Cancel<'a> {
    pub(super) scope: Scope,
    pub(super) id: JobId,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Cancel<'_> {
    type Answer = CancelAnswer;

    async fn run(&self, session: &mut Session) -> Result<CancelAnswer, Failure> {
        session.begin();
        for _ in 0..ROUNDS_MAX {
            let Some(place) = locate(session, self.scope, self.id).await? else {
                session.commit().await?;
                return Ok(CancelAnswer::NotFound);
            };
            // Whatever is not where it was a moment ago is looked for again.
            let answer = match place {
                Place::Waiting => self.cancel_waiting(session).await?,
                Place::Running => {
                    let told = session.execute(REQUEST_CANCEL, &[&self.id.get()]).await?;
                    (told > 0).then_some(CancelAnswer::Requested)
                }
                Place::Finished(state) => Some(CancelAnswer::Finished(state)),
            };
            if let Some(answer) = answer {
                session.commit().await?;
                return Ok(answer);
            }
        }
        Err(Failure::Raced)
    }
}

impl Cancel<'_> {
    async fn cancel_waiting(&self, session: &mut Session) -> Result<Option<CancelAnswer>, Failure> {
        let Some(row) = session.query_opt(TAKE_WAITING, &[&self.id.get()]).await? else {
            return Ok(None);
        };
        let job = columns::waiting(&row)?;
        if job.not_before == Some(HELD_UNTIL) {
            forget_links(session, self.id).await?;
        }
        let ended = [cancelled_job(job, self.now)];
        insert_finished(session, &ended).await?;
        resolve(session, &ended, self.catalog, self.now).await?;
        Ok(Some(CancelAnswer::Cancelled))
    }
}

pub(super) struct Retry {
    pub(super) scope: Scope,
    pub(super) id: JobId,
    pub(super) now: Timestamp,
}

impl Operation for Retry {
    type Answer = RetryAnswer;

    async fn run(&self, session: &mut Session) -> Result<RetryAnswer, Failure> {
        session.begin();
        for _ in 0..ROUNDS_MAX {
            let Some(place) = locate(session, self.scope, self.id).await? else {
                session.commit().await?;
                return Ok(RetryAnswer::NotFound);
            };
            let answer = match place {
                Place::Waiting => self.hasten(session).await?,
                Place::Running => Some(RetryAnswer::Running),
                Place::Finished(_) => self.wait_again(session).await?,
            };
            if let Some(answer) = answer {
                session.commit().await?;
                return Ok(answer);
            }
        }
        Err(Failure::Raced)
    }
}

const BACK_UP: &str = "SAVEPOINT before_retry";
const BACK_OUT: &str = "ROLLBACK TO SAVEPOINT before_retry";

impl Retry {
    async fn hasten(&self, session: &mut Session) -> Result<Option<RetryAnswer>, Failure> {
        let Some(row) = session.query_opt(LOCK_ONE_WAITING, &[&self.id.get()]).await? else {
            return Ok(None);
        };
        let job = crate::rows::hasten(columns::waiting(&row)?, self.now);
        update_waiting(session, &[job], self.now).await?;
        Ok(Some(RetryAnswer::Requeued))
    }

    async fn wait_again(&self, session: &mut Session) -> Result<Option<RetryAnswer>, Failure> {
        session.batch(BACK_UP).await?;
        let Some(row) = session.query_opt(TAKE_FINISHED, &[&self.id.get()]).await? else {
            return Ok(None);
        };
        let job = retry_by_hand(columns::finished(&row)?, self.now);
        let inserted = insert_waiting(session, &WaitingRows::of([&job], self.now)).await?;
        if !inserted.is_empty() {
            rejoin(session, self.id).await?;
            return Ok(Some(RetryAnswer::Requeued));
        }
        // Its key is taken: it stays as it was, and whoever has the key is named.
        session.batch(BACK_OUT).await?;
        let key = identity(&job.facts);
        let other = lock_waiting(session, key.iter()).await?;
        Ok(other.first().map(|other| RetryAnswer::KeyTaken { by: other.facts.id }))
    }
}

pub(super) async fn locate(
    session: &mut Session,
    scope: Scope,
    id: JobId,
) -> Result<Option<Place>, Failure> {
    let Some(row) = session.query_opt(LOCATE, &[&id.get(), &user_of(scope)]).await? else {
        return Ok(None);
    };
    match (row.try_get::<_, &str>(0)?, row.try_get::<_, Option<i16>>(1)?) {
        ("waiting", _) => Ok(Some(Place::Waiting)),
        (_, Some(state)) => Ok(Some(Place::Finished(finished_state_name(id.get(), state)?))),
        _ => Ok(Some(Place::Running)),
    }
}
