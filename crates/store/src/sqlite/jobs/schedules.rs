//! Schedules, and the jobs they enqueue.

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    KindCatalog, LeaseRef, NewJob, Schedule, ScheduleChange, ScheduleId, ScheduleSpec,
};
use roundsman_core::limits::SCHEDULES_PER_USER_MAX;
use roundsman_core::ports::{Fired, ScheduleStore, Scope, StoreError};
use roundsman_core::users::UserId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::enqueue::insert_jobs;
use super::read::user_of;
use crate::rows::schedules::{ScheduleColumns, count, spec_to_text};
use crate::sqlite::SqliteStore;
use crate::sqlite::effects::is_held;
use crate::sqlite::error::Result as InTransaction;
use crate::sqlite::time::{At, optional};

#[async_trait]
impl ScheduleStore for SqliteStore {
    async fn create_schedule(
        &self,
        user: UserId,
        spec: ScheduleSpec,
        now: Timestamp,
    ) -> Result<Option<Schedule>, StoreError> {
        self.write("store.create_schedule", move |conn, catalog| {
            create(conn, catalog, user, spec, now)
        })
        .await
    }

    async fn schedule(&self, scope: Scope, id: ScheduleId) -> Result<Option<Schedule>, StoreError> {
        self.read(move |conn| find(conn, scope, id)).await
    }

    async fn schedules(
        &self,
        scope: Scope,
        before: Option<ScheduleId>,
        rows_max: u32,
    ) -> Result<Vec<Schedule>, StoreError> {
        self.read(move |conn| {
            let before = before.map_or(i64::MAX, ScheduleId::get);
            let mut statement = conn.prepare_cached(LIST)?;
            let rows =
                statement.query_map(params![user_of(scope), before, rows_max], read_schedule)?;
            let mut found = Vec::new();
            for columns in rows {
                found.push(columns?.into_schedule()?);
            }
            Ok(found)
        })
        .await
    }

    async fn change_schedule(
        &self,
        scope: Scope,
        id: ScheduleId,
        change: ScheduleChange,
        now: Timestamp,
    ) -> Result<Option<Schedule>, StoreError> {
        self.write("store.change_schedule", move |conn, catalog| {
            let Some(schedule) = find(conn, scope, id)? else { return Ok(None) };
            let schedule = schedule.changed(change, now);
            update(conn, &schedule)?;
            keep(conn, catalog, &schedule, now)?;
            Ok(Some(schedule))
        })
        .await
    }

    async fn delete_schedule(&self, scope: Scope, id: ScheduleId) -> Result<bool, StoreError> {
        self.write("store.delete_schedule", move |conn, _| {
            let deleted =
                conn.prepare_cached(DELETE)?.execute(params![user_of(scope), id.get()])?;
            Ok(deleted > 0)
        })
        .await
    }

    async fn fire_schedule(
        &self,
        id: ScheduleId,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<Fired, StoreError> {
        self.write("store.fire_schedule", move |conn, catalog| fire(conn, catalog, id, guard, now))
            .await
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
    " FROM schedules WHERE id = ?2 AND (?1 IS NULL OR user_id = ?1)"
);

const LIST: &str = concat!(
    "-- list_schedules\nSELECT ",
    schedule_columns!(),
    " FROM schedules WHERE (?1 IS NULL OR user_id = ?1) AND id < ?2 ORDER BY id DESC LIMIT ?3"
);

const COUNT: &str = "-- count_schedules
    SELECT count(*) FROM schedules WHERE user_id = ?1";

const INSERT: &str = "-- insert_schedule
    INSERT INTO schedules (user_id, spec, paused, next_at, last_at, fired, missed, created_at,
        updated_at)
    VALUES (?1, ?2, 0, NULL, NULL, 0, 0, ?3, ?3) RETURNING id";

const UPDATE: &str = "-- update_schedule
    UPDATE schedules
       SET spec = ?2, paused = ?3, next_at = ?4, last_at = ?5, fired = ?6, missed = ?7,
           updated_at = ?8
     WHERE id = ?1";

const DELETE: &str = "-- delete_schedule
    DELETE FROM schedules WHERE id = ?2 AND (?1 IS NULL OR user_id = ?1)";

fn read_schedule(row: &Row<'_>) -> rusqlite::Result<ScheduleColumns> {
    let instant = |index| row.get(index).map(|At(instant)| instant);
    Ok(ScheduleColumns {
        id: row.get(0)?,
        user_id: row.get(1)?,
        spec: row.get(2)?,
        paused: row.get(3)?,
        next_at: optional(row.get(4)?),
        last_at: optional(row.get(5)?),
        fired: row.get(6)?,
        missed: row.get(7)?,
        created_at: instant(8)?,
        updated_at: instant(9)?,
    })
}

fn find(conn: &Connection, scope: Scope, id: ScheduleId) -> InTransaction<Option<Schedule>> {
    let columns = conn
        .prepare_cached(FIND)?
        .query_row(params![user_of(scope), id.get()], read_schedule)
        .optional()?;
    Ok(columns.map(ScheduleColumns::into_schedule).transpose()?)
}

fn create(
    conn: &Connection,
    catalog: &KindCatalog,
    user: UserId,
    spec: ScheduleSpec,
    now: Timestamp,
) -> InTransaction<Option<Schedule>> {
    let had: u32 = conn.prepare_cached(COUNT)?.query_row([user.get()], |row| row.get(0))?;
    if had >= SCHEDULES_PER_USER_MAX {
        return Ok(None);
    }
    let id: i64 = conn
        .prepare_cached(INSERT)?
        .query_row(params![user.get(), spec_to_text(&spec), At(now)], |row| row.get(0))?;
    let schedule = Schedule::new(ScheduleId::new(id), user, spec, now);
    update(conn, &schedule)?;
    keep(conn, catalog, &schedule, now)?;
    Ok(Some(schedule))
}

fn update(conn: &Connection, schedule: &Schedule) -> InTransaction<()> {
    conn.prepare_cached(UPDATE)?.execute(params![
        schedule.id.get(),
        spec_to_text(&schedule.spec),
        schedule.paused,
        schedule.next_at.map(At),
        schedule.last_at.map(At),
        count(schedule.fired),
        count(schedule.missed),
        At(schedule.updated_at),
    ])?;
    Ok(())
}

/// Sees to it that its keeper comes.
fn keep(
    conn: &Connection,
    catalog: &KindCatalog,
    schedule: &Schedule,
    now: Timestamp,
) -> InTransaction<()> {
    let keeper = schedule.keeper(now).into_iter().collect();
    insert_jobs(conn, catalog, keeper, now)?;
    Ok(())
}

fn fire(
    conn: &Connection,
    catalog: &KindCatalog,
    id: ScheduleId,
    guard: LeaseRef,
    now: Timestamp,
) -> InTransaction<Fired> {
    if !is_held(conn, guard)? {
        return Ok(Fired::LeaseLost);
    }
    let Some(schedule) = find(conn, Scope::All, id)? else { return Ok(Fired::Gone) };
    let firing = schedule.due(now);
    let jobs: Vec<NewJob> = firing.moments.iter().map(|at| schedule.job_at(*at)).collect();
    let (missed, next_at) = (firing.missed, firing.next_at);
    if !jobs.is_empty() || next_at != schedule.next_at {
        update(conn, &schedule.fired(&firing))?;
        insert_jobs(conn, catalog, jobs.clone(), now)?;
    }
    Ok(Fired::Done { jobs, missed, next_at })
}
