//! Alarms of rooms: jobs by another name.

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::alarms::{
    Alarm, AlarmName, AlarmWish, SetMode, USER_ALARM_KIND, alarm_key, alarm_of_job, alarm_wish,
    is_alarm_of, replace,
};
use roundsman_core::jobs::{
    CancelCause, FinishedJob, FinishedState, Job, KindCatalog, coalesce, first_wait,
};
use roundsman_core::ports::{AlarmStore, StoreError};
use roundsman_core::rooms::{ProjectId, SNAPSHOT_KIND};
use roundsman_core::tasks::POLLING_KIND;
use roundsman_core::users::UserId;

use super::landing::insert_finished;
use super::waiting::{
    Identity, ROUNDS_MAX, insert_waiting, lock_waiting, next_job_ids, update_waiting,
};
use crate::postgres::PostgresStore;
use crate::postgres::columns::{self, WaitingRows, running_columns, waiting_columns};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::rows::alarms::{in_order_of_time, keys_of_project};

#[async_trait]
impl AlarmStore for PostgresStore {
    async fn set_alarm(
        &self,
        wish: AlarmWish,
        alarms_max: u32,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let set = Set { wish, alarms_max, catalog: &self.catalog, now };
        self.change("store.alarm_set", &set).await
    }

    async fn cancel_alarm(
        &self,
        project: ProjectId,
        name: AlarmName,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.change("store.alarm_cancel", &Cancel { project, name, now }).await
    }

    async fn alarms(&self, project: ProjectId, rows_max: u32) -> Result<Vec<Alarm>, StoreError> {
        self.pool.run(&Alarms { project, rows_max }).await
    }
}

const ALARMS_OF: &str = "-- alarms_of
SELECT count(*) FROM roundsman.job_queue
 WHERE user_id = 0 AND kind = 'rooms.alarm' AND key >= $1 AND key < $2
   AND strpos(substr(key, length($1) + 1), '/') = 0";

struct Set<'a> {
    wish: AlarmWish,
    alarms_max: u32,
    catalog: &'a KindCatalog,
    now: Timestamp,
}

impl Operation for Set<'_> {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        session.begin();
        for _ in 0..ROUNDS_MAX {
            // Between two looks somebody may have set it, or it may have begun to fire.
            if let Some(is_set) = self.set(session).await? {
                session.commit().await?;
                return Ok(is_set);
            }
        }
        Err(Failure::Raced)
    }
}

impl Set<'_> {
    async fn set(&self, session: &mut Session) -> Result<Option<bool>, Failure> {
        let job = alarm_wish(&self.wish);
        let Some(key) = job.key.clone() else { return Ok(Some(false)) };
        let identity: Identity = (job.user_id, job.kind.clone(), key);
        if let Some(mut waiting) = lock_waiting(session, [&identity].into_iter()).await?.pop() {
            match self.wish.mode {
                SetMode::Replace => replace(&mut waiting, job, self.now),
                SetMode::Earliest => {
                    let merge = self.catalog.merge(&job.kind);
                    coalesce(&mut waiting, job, merge, self.now);
                }
            }
            update_waiting(session, &[waiting], self.now).await?;
            return Ok(Some(true));
        }
        let (from, until) = keys_of_project(&self.wish.project);
        let row = session.query_opt(ALARMS_OF, &[&from, &until]).await?.ok_or(Failure::Raced)?;
        if row.try_get::<_, i64>(0)? >= i64::from(self.alarms_max) {
            return Ok(Some(false));
        }
        let id = next_job_ids(session, 1).await?.pop().ok_or(Failure::Raced)?;
        let waiting = first_wait(id, job, self.now);
        let inserted = insert_waiting(session, &WaitingRows::of([&waiting], self.now)).await?;
        Ok((!inserted.is_empty()).then_some(true))
    }
}

const TAKE_ALARM: &str = concat!(
    "-- take_alarm
DELETE FROM roundsman.job_queue WHERE user_id = $1 AND kind = $2 AND key = $3 RETURNING ",
    waiting_columns!()
);

struct Cancel {
    project: ProjectId,
    name: AlarmName,
    now: Timestamp,
}

impl Operation for Cancel {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        let key = alarm_key(&self.project, &self.name);
        let system = UserId::SYSTEM.get();
        session.begin();
        let taken = session.query_opt(TAKE_ALARM, &[&system, &USER_ALARM_KIND, &key]).await?;
        if let Some(row) = &taken {
            let ended = FinishedJob {
                facts: columns::waiting(row)?.facts,
                state: FinishedState::Cancelled { cause: CancelCause::Requested },
                finished_at: self.now,
                progress: None,
            };
            insert_finished(session, &[ended]).await?;
        }
        session.commit().await?;
        Ok(taken.is_some())
    }
}

/// Keys of projects whose names begin with this one lie between and must not use up the rows.
const ALARMS_WAITING: &str = concat!(
    "-- alarms_waiting\nSELECT ",
    waiting_columns!(),
    " FROM roundsman.job_queue
 WHERE user_id = 0 AND kind = $1 AND key >= $2 AND key < $3
   AND strpos(substr(key, length($2) + 1), '/') = 0 ORDER BY due_at, key LIMIT $4"
);

const ALARMS_RUNNING: &str = concat!(
    "-- alarms_running\nSELECT ",
    running_columns!(),
    " FROM roundsman.job_running
 WHERE user_id = 0 AND kind = $1 AND key >= $2 AND key < $3
   AND strpos(substr(key, length($2) + 1), '/') = 0 ORDER BY run_at, key LIMIT $4"
);

struct Alarms {
    project: ProjectId,
    rows_max: u32,
}

impl Operation for Alarms {
    type Answer = Vec<Alarm>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Alarm>, Failure> {
        // No key of anything else lies between a name and the name with the smallest character.
        let own = (self.project.as_str().to_owned(), format!("{}\u{1}", self.project));
        let named = keys_of_project(&self.project);
        let rows_max = i64::from(self.rows_max);
        let mut jobs = Vec::new();
        for (kind, (from, until)) in
            [(POLLING_KIND, &own), (SNAPSHOT_KIND, &own), (USER_ALARM_KIND, &named)]
        {
            let [waiting, running] = session
                .query_all([
                    (ALARMS_WAITING, &[&kind, from, until, &rows_max]),
                    (ALARMS_RUNNING, &[&kind, from, until, &rows_max]),
                ])
                .await?;
            for row in &waiting {
                jobs.push(Job::Waiting(columns::waiting(row)?));
            }
            for row in &running {
                jobs.push(Job::Running(Box::new(columns::running(row)?)));
            }
        }
        jobs.retain(|job| is_alarm_of(job.facts(), &self.project));
        Ok(in_order_of_time(jobs.iter().filter_map(alarm_of_job).collect(), self.rows_max))
    }
}
