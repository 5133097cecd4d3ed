//! Schedules, and the jobs they enqueue.

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    KindCatalog, LeaseRef, NewJob, Schedule, ScheduleChange, ScheduleId, ScheduleSpec,
};
use roundsman_core::limits::SCHEDULES_PER_USER_MAX;
use roundsman_core::ports::{Fired, ScheduleStore, Scope, StoreError};
use roundsman_core::users::UserId;
use tokio_postgres::Row;

use super::enqueue::write_wishes;
use super::user_of;
use crate::postgres::PostgresStore;
use crate::postgres::columns::Reader;
use crate::postgres::effects::holds_lease;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::schedules::{ScheduleColumns, count, spec_to_text};

#[async_trait]
impl ScheduleStore for PostgresStore {
    async fn create_schedule(
        &self,
        user: UserId,
        spec: ScheduleSpec,
        now: Timestamp,
    ) -> Result<Option<Schedule>, StoreError> {
        let create = Create { user, spec: &spec, catalog: &self.catalog, now };
        self.change("store.create_schedule", &create).await
    }

    async fn schedule(&self, scope: Scope, id: ScheduleId) -> Result<Option<Schedule>, StoreError> {
        self.pool.run(&One { scope, id }).await
    }

    async fn schedules(
        &self,
        scope: Scope,
        before: Option<ScheduleId>,
        rows_max: u32,
    ) -> Result<Vec<Schedule>, StoreError> {
        self.pool.run(&List { scope, before, rows_max }).await
    }

    async fn change_schedule(
        &self,
        scope: Scope,
        id: ScheduleId,
        change: ScheduleChange,
        now: Timestamp,
    ) -> Result<Option<Schedule>, StoreError> {
        let change = Alter { scope, id, change: &change, catalog: &self.catalog, now };
        self.change("store.change_schedule", &change).await
    }

    async fn delete_schedule(&self, scope: Scope, id: ScheduleId) -> Result<bool, StoreError> {
        self.change("store.delete_schedule", &Delete { scope, id }).await
    }

    async fn fire_schedule(
        &self,
        id: ScheduleId,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<Fired, StoreError> {
        let fire = Fire { id, guard, catalog: &self.catalog, now };
        self.change("store.fire_schedule", &fire).await
    }
}

macro_rules! schedule_columns {
    () => {
        "id, user_id, spec, paused, next_at, last_at, fired, missed, created_at, updated_at"
    };
}

const FIND: &str = concat!(
    "-- find_schedule\nSELECT ",
    schedule_columns!(),
    " FROM roundsman.schedules WHERE id = $2 AND ($1::bigint IS NULL OR user_id = $1)"
);

const LOCK: &str = concat!(
    "-- lock_schedule\nSELECT ",
    schedule_columns!(),
    " FROM roundsman.schedules WHERE id = $2 AND ($1::bigint IS NULL OR user_id = $1) FOR UPDATE"
);

const LIST: &str = concat!(
    "-- list_schedules\nSELECT ",
    schedule_columns!(),
    " FROM roundsman.schedules WHERE ($1::bigint IS NULL OR user_id = $1) AND id < $2 \
      ORDER BY id DESC LIMIT $3"
);

/// Two at once may both find room for one; then there is one more than there may be.
const COUNT: &str = "-- count_schedules
SELECT count(*) FROM roundsman.schedules WHERE user_id = $1";

const INSERT: &str = "-- insert_schedule
INSERT INTO roundsman.schedules (user_id, spec, paused, fired, missed, created_at, updated_at)
VALUES ($1, $2, false, 0, 0, $3, $3) RETURNING id";

const UPDATE: &str = "-- update_schedule
UPDATE roundsman.schedules
   SET spec = $2, paused = $3, next_at = $4, last_at = $5, fired = $6, missed = $7, updated_at = $8
 WHERE id = $1";

const DELETE: &str = "-- delete_schedule
DELETE FROM roundsman.schedules WHERE id = $2 AND ($1::bigint IS NULL OR user_id = $1)";

fn schedule(row: &Row) -> Result<Schedule, Failure> {
    let mut reader = Reader::new(row);
    let columns = ScheduleColumns {
        id: reader.value()?,
        user_id: reader.value()?,
        spec: reader.value()?,
        paused: reader.value()?,
        next_at: reader.time_opt()?,
        last_at: reader.time_opt()?,
        fired: reader.value()?,
        missed: reader.value()?,
        created_at: reader.time()?,
        updated_at: reader.time()?,
    };
    Ok(columns.into_schedule()?)
}

async fn update(session: &mut Session, schedule: &Schedule) -> Result<(), Failure> {
    session
        .execute(
            UPDATE,
            &[
                &schedule.id.get(),
                &spec_to_text(&schedule.spec),
                &schedule.paused,
                &schedule.next_at.map(Time),
                &schedule.last_at.map(Time),
                &count(schedule.fired),
                &count(schedule.missed),
                &Time(schedule.updated_at),
            ],
        )
        .await?;
    Ok(())
}

/// Sees to it that its keeper comes.
async fn keep(
    session: &mut Session,
    schedule: &Schedule,
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<(), Failure> {
    let keeper: Vec<NewJob> = schedule.keeper(now).into_iter().collect();
    write_wishes(session, &keeper, catalog, now).await?;
    Ok(())
}

struct Create<'a> {
    user: UserId,
    spec: &'a ScheduleSpec,
    catalog: &'a KindCatalog,
    now: Timestamp,
}

impl Operation for Create<'_> {
    type Answer = Option<Schedule>;

    async fn run(&self, session: &mut Session) -> Result<Option<Schedule>, Failure> {
        session.begin();
        let user = self.user.get();
        let had: i64 =
            session.query_opt(COUNT, &[&user]).await?.ok_or(Failure::Raced)?.try_get(0)?;
        if had >= i64::from(SCHEDULES_PER_USER_MAX) {
            session.commit().await?;
            return Ok(None);
        }
        let text = spec_to_text(self.spec);
        let row = session.query_opt(INSERT, &[&user, &text, &Time(self.now)]).await?;
        let id = ScheduleId::new(row.ok_or(Failure::Raced)?.try_get(0)?);
        let schedule = Schedule::new(id, self.user, self.spec.clone(), self.now);
        update(session, &schedule).await?;
        keep(session, &schedule, self.catalog, self.now).await?;
        session.commit().await?;
        Ok(Some(schedule))
    }
}

struct One {
    scope: Scope,
    id: ScheduleId,
}

impl Operation for One {
    type Answer = Option<Schedule>;

    async fn run(&self, session: &mut Session) -> Result<Option<Schedule>, Failure> {
        let row = session.query_opt(FIND, &[&user_of(self.scope), &self.id.get()]).await?;
        row.as_ref().map(schedule).transpose()
    }
}

struct List {
    scope: Scope,
    before: Option<ScheduleId>,
    rows_max: u32,
}

impl Operation for List {
    type Answer = Vec<Schedule>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Schedule>, Failure> {
        let before = self.before.map_or(i64::MAX, ScheduleId::get);
        let rows_max = i64::from(self.rows_max);
        let rows = session.query(LIST, &[&user_of(self.scope), &before, &rows_max]).await?;
        rows.iter().map(schedule).collect()
    }
}

struct Alter<'a> {
    scope: Scope,
    id: ScheduleId,
    change: &'a ScheduleChange,
    catalog: &'a KindCatalog,
    now: Timestamp,
}

impl Operation for Alter<'_> {
    type Answer = Option<Schedule>;

    async fn run(&self, session: &mut Session) -> Result<Option<Schedule>, Failure> {
        session.begin();
        let row = session.query_opt(LOCK, &[&user_of(self.scope), &self.id.get()]).await?;
        let Some(row) = row else {
            session.commit().await?;
            return Ok(None);
        };
        let schedule = schedule(&row)?.changed(self.change.clone(), self.now);
        update(session, &schedule).await?;
        keep(session, &schedule, self.catalog, self.now).await?;
        session.commit().await?;
        Ok(Some(schedule))
    }
}

struct Delete {
    scope: Scope,
    id: ScheduleId,
}

impl Operation for Delete {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        let deleted = session
            .execute(DELETE, &[&user_of(self.scope), &self.id.get()])
            .await
            .map_err(Failure::Commit)?;
        Ok(deleted > 0)
    }
}

struct Fire<'a> {
    id: ScheduleId,
    guard: LeaseRef,
    catalog: &'a KindCatalog,
    now: Timestamp,
}

impl Operation for Fire<'_> {
    type Answer = Fired;

    async fn run(&self, session: &mut Session) -> Result<Fired, Failure> {
        session.begin();
        if !holds_lease(session, Some(self.guard)).await? {
            session.commit().await?;
            return Ok(Fired::LeaseLost);
        }
        let Some(row) = session.query_opt(LOCK, &[&None::<i64>, &self.id.get()]).await? else {
            session.commit().await?;
            return Ok(Fired::Gone);
        };
        let schedule = schedule(&row)?;
        let firing = schedule.due(self.now);
        let jobs: Vec<NewJob> = firing.moments.iter().map(|at| schedule.job_at(*at)).collect();
        if !jobs.is_empty() || firing.next_at != schedule.next_at {
            update(session, &schedule.fired(&firing)).await?;
            write_wishes(session, &jobs, self.catalog, self.now).await?;
        }
        session.commit().await?;
        Ok(Fired::Done { jobs, missed: firing.missed, next_at: firing.next_at })
    }
}
