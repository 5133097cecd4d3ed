//! Alarms of rooms: jobs by another name.

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::alarms::{
    Alarm, AlarmName, AlarmWish, SetMode, USER_ALARM_KIND, alarm_key, alarm_of_job, alarm_wish,
    is_alarm_of, replace,
};
use roundsman_core::jobs::{Job, JobKey, KindCatalog, KindName};
use roundsman_core::ports::{AlarmStore, Scope, StoreError};
use roundsman_core::rooms::{ProjectId, SNAPSHOT_KIND};
use roundsman_core::tasks::POLLING_KIND;
use roundsman_core::users::UserId;
use rusqlite::{Connection, params};

use super::by_hand;
use super::columns::{
    fact_columns, read_running, read_waiting, running_columns, update_waiting, waiting_columns,
};
use super::enqueue::{insert_jobs, waiting_with_key};
use crate::rows::alarms::{in_order_of_time, keys_of_project};
use crate::rows::{RunningColumns, WaitingColumns};
use crate::sqlite::SqliteStore;
use crate::sqlite::error::Result;

#[async_trait]
impl AlarmStore for SqliteStore {
    async fn set_alarm(
        &self,
        wish: AlarmWish,
        alarms_max: u32,
        now: Timestamp,
    ) -> std::result::Result<bool, StoreError> {
        self.write("store.alarm_set", move |conn, catalog| {
            set(conn, catalog, &wish, alarms_max, now)
        })
        .await
    }

    async fn cancel_alarm(
        &self,
        project: ProjectId,
        name: AlarmName,
        now: Timestamp,
    ) -> std::result::Result<bool, StoreError> {
        self.write("store.alarm_cancel", move |conn, catalog| {
            cancel(conn, catalog, &project, &name, now)
        })
        .await
    }

    async fn alarms(
        &self,
        project: ProjectId,
        rows_max: u32,
    ) -> std::result::Result<Vec<Alarm>, StoreError> {
        self.read(move |conn| list(conn, &project, rows_max)).await
    }
}

pub(super) const ALARMS_OF: &str = "-- alarms_of
    SELECT count(*) FROM job_queue
     WHERE user_id = 0 AND kind = 'rooms.alarm' AND key >= ?1 AND key < ?2
       AND instr(substr(key, length(?1) + 1), '/') = 0";

fn set(
    conn: &Connection,
    catalog: &KindCatalog,
    wish: &AlarmWish,
    alarms_max: u32,
    now: Timestamp,
) -> Result<bool> {
    let job = alarm_wish(wish);
    let known = match &job.key {
        Some(key) => waiting_with_key(conn, job.user_id, &job.kind, key)?,
        None => None,
    };
    match (known, wish.mode) {
        (Some(mut waiting), SetMode::Replace) => {
            replace(&mut waiting, job, now);
            update_waiting(conn, &waiting, now)?;
        }
        (Some(_), SetMode::Earliest) => drop(insert_jobs(conn, catalog, vec![job], now)?),
        (None, _) => {
            let (from, until) = keys_of_project(&wish.project);
            let set: i64 = conn
                .prepare_cached(ALARMS_OF)?
                .query_row(params![from, until], |row| row.get(0))?;
            if set >= i64::from(alarms_max) {
                return Ok(false);
            }
            insert_jobs(conn, catalog, vec![job], now)?;
        }
    }
    Ok(true)
}

fn cancel(
    conn: &Connection,
    catalog: &KindCatalog,
    project: &ProjectId,
    name: &AlarmName,
    now: Timestamp,
) -> Result<bool> {
    let kind = KindName::new(USER_ALARM_KIND).expect("a built-in kind has a valid name");
    let Ok(key) = JobKey::new(&alarm_key(project, name)) else { return Ok(false) };
    let Some(waiting) = waiting_with_key(conn, UserId::SYSTEM, &kind, &key)? else {
        return Ok(false);
    };
    by_hand::cancel(conn, catalog, Scope::All, waiting.facts.id, now)?;
    Ok(true)
}

/// The one job of a room's own alarm, or those of its users' alarms. Keys of projects whose names begin
/// with this one lie between and must not use up the rows.
pub(super) const WAITING_OF: &str = concat!(
    "-- alarms_waiting
    SELECT ",
    waiting_columns!(),
    " FROM job_queue WHERE user_id = 0 AND kind = ?1 AND key >= ?2 AND key < ?3
       AND instr(substr(key, length(?2) + 1), '/') = 0
      ORDER BY due_at, key LIMIT ?4"
);

pub(super) const RUNNING_OF: &str = concat!(
    "-- alarms_running
    SELECT ",
    running_columns!(),
    " FROM job_running WHERE user_id = 0 AND kind = ?1 AND key >= ?2 AND key < ?3
       AND instr(substr(key, length(?2) + 1), '/') = 0
      ORDER BY run_at, key LIMIT ?4"
);

fn list(conn: &Connection, project: &ProjectId, rows_max: u32) -> Result<Vec<Alarm>> {
    let own = (project.as_str().to_owned(), format!("{project}\u{1}"));
    let named = keys_of_project(project);
    let mut jobs = Vec::new();
    for (kind, (from, until)) in
        [(POLLING_KIND, &own), (SNAPSHOT_KIND, &own), (USER_ALARM_KIND, &named)]
    {
        let values = params![kind, from, until, rows_max];
        let mut statement = conn.prepare_cached(WAITING_OF)?;
        for columns in statement.query_map(values, read_waiting)? {
            jobs.push(Job::Waiting(WaitingColumns::into_job(columns?)?));
        }
        let mut statement = conn.prepare_cached(RUNNING_OF)?;
        for columns in statement.query_map(values, read_running)? {
            jobs.push(Job::Running(Box::new(RunningColumns::into_job(columns?)?)));
        }
    }
    jobs.retain(|job| is_alarm_of(job.facts(), project));
    Ok(in_order_of_time(jobs.iter().filter_map(alarm_of_job).collect(), rows_max))
}
