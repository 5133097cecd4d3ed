//! Looking at jobs.
//!
//! Invariant: a look at jobs in all their states is one statement, and so one snapshot: a job on
//! its way from one table to another is seen exactly once.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{Job, JobId, JobKey, JobState, KindName, RunningJob};
use roundsman_core::ports::{ListFilter, ListPage, Scope};
use tokio_postgres::Row;

use super::user_of;
use crate::postgres::columns::{
    self, FACT_COLUMNS, Reader, fact_columns, finished_columns, running_columns,
};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::{FinishedColumns, RunningColumns, WaitingColumns, finished_state_code};

/// The columns of `job_queue` among those of all three tables.
macro_rules! waiting_part {
    () => {
        concat!(
            fact_columns!(),
            ", not_before, NULL::bigint AS lease_no, NULL::timestamptz AS lease_until, \
             NULL::bigint AS lease_ttl_us, NULL::bigint AS owner_process, \
             NULL::timestamptz AS claimed_at, NULL::timestamptz AS heartbeat_at, \
             NULL::timestamptz AS deadline_at, NULL::boolean AS cancel_requested, \
             NULL::text AS worker, NULL::text AS progress, NULL::smallint AS ended, \
             NULL::timestamptz AS finished_at, NULL::text AS error_code, \
             NULL::text AS error_message, NULL::bigint AS folded_into, NULL::text AS result, \
             0 AS place FROM roundsman.job_queue"
        )
    };
}

macro_rules! running_part {
    () => {
        concat!(
            fact_columns!(),
            ", NULL::timestamptz AS not_before, lease_no, lease_until, lease_ttl_us, \
             owner_process, claimed_at, heartbeat_at, deadline_at, cancel_requested, worker, \
             progress, NULL::smallint AS ended, NULL::timestamptz AS finished_at, \
             NULL::text AS error_code, NULL::text AS error_message, NULL::bigint AS folded_into, \
             NULL::text AS result, 1 AS place FROM roundsman.job_running"
        )
    };
}

macro_rules! finished_part {
    () => {
        concat!(
            fact_columns!(),
            ", NULL::timestamptz AS not_before, lease_no, NULL::timestamptz AS lease_until, \
             NULL::bigint AS lease_ttl_us, NULL::bigint AS owner_process, claimed_at, \
             NULL::timestamptz AS heartbeat_at, NULL::timestamptz AS deadline_at, \
             NULL::boolean AS cancel_requested, worker, progress, state AS ended, finished_at, \
             error_code, error_message, folded_into, result, 2 AS place \
             FROM roundsman.job_finished"
        )
    };
}

const ONE_JOB: &str = concat!(
    "-- one_job\nSELECT ",
    waiting_part!(),
    " WHERE id = $1 AND ($2::bigint IS NULL OR user_id = $2)\nUNION ALL\nSELECT ",
    running_part!(),
    " WHERE id = $1 AND ($2 IS NULL OR user_id = $2)\nUNION ALL\nSELECT ",
    finished_part!(),
    " WHERE id = $1 AND ($2 IS NULL OR user_id = $2)"
);

/// Each table gives its newest rows in the order of an index, and the newest of those are the page.
/// $6 to $9 leave out the states that are not wanted.
///
/// For one user the condition and the order name both columns of the index by user, as a range:
/// with `user_id = $1` the planner may prefer to read everybody's rows by number. `state + 0` keeps
/// it from the index by state, which has no use for the order.
macro_rules! list {
    ($name:literal, $whose:literal, $running:literal, $order:literal) => {
        concat!(
            "-- ",
            $name,
            "\n(SELECT ",
            waiting_part!(),
            " WHERE ",
            $whose,
            " AND ($4::text IS NULL OR kind = $4) AND ($5::text IS NULL OR key = $5) \
              AND (($6 AND due_at > $10) OR ($7 AND due_at <= $10)) AND ($11::text IS NULL OR starts_with(key, $11)) \
              AND ($12::timestamptz IS NULL OR created_at >= $12) \
              AND ($13::timestamptz IS NULL OR created_at < $13) ORDER BY ",
            $order,
            " LIMIT $3)\nUNION ALL\n(SELECT ",
            running_part!(),
            " WHERE ",
            $running,
            " AND ($4 IS NULL OR kind = $4) AND ($5 IS NULL OR key = $5) AND $8 AND ($11::text IS NULL OR starts_with(key, $11)) \
              AND ($12::timestamptz IS NULL OR created_at >= $12) \
              AND ($13::timestamptz IS NULL OR created_at < $13) \
              ORDER BY id DESC LIMIT $3)\nUNION ALL\n(SELECT ",
            finished_part!(),
            " WHERE ",
            $whose,
            " AND ($4 IS NULL OR kind = $4) AND ($5 IS NULL OR key = $5) AND state + 0 = ANY ($9) AND ($11::text IS NULL OR starts_with(key, $11)) \
              AND ($12::timestamptz IS NULL OR created_at >= $12) \
              AND ($13::timestamptz IS NULL OR created_at < $13) \
              ORDER BY ",
            $order,
            " LIMIT $3)\nORDER BY id DESC LIMIT $3"
        )
    };
}

/// There is no index of the running jobs by user: they are as many as there are workers.
pub(super) const JOBS_OF_USER: &str = list!(
    "jobs_of_user",
    "(user_id, id) < ($1, $2) AND user_id >= $1",
    "user_id = $1 AND id < $2",
    "user_id DESC, id DESC"
);

/// The first parameter is there so that both texts take the same ones.
const JOBS_OF_ALL: &str =
    list!("jobs_of_all", "$1::bigint IS NULL AND id < $2", "id < $2", "id DESC");

const LEASES: &str = concat!(
    "-- leases\nSELECT ",
    running_columns!(),
    " FROM roundsman.job_running WHERE id < $2 AND ($1::bigint IS NULL OR user_id = $1) \
      ORDER BY id DESC LIMIT $3"
);

pub(super) struct OneJob {
    pub(super) scope: Scope,
    pub(super) id: JobId,
}

impl Operation for OneJob {
    type Answer = Option<Job>;

    async fn run(&self, session: &mut Session) -> Result<Option<Job>, Failure> {
        let row = session.query_opt(ONE_JOB, &[&self.id.get(), &user_of(self.scope)]).await?;
        row.as_ref().map(job).transpose()
    }
}

pub(super) struct Jobs<'a> {
    pub(super) scope: Scope,
    pub(super) filter: &'a ListFilter,
    pub(super) page: ListPage,
    pub(super) now: Timestamp,
}

impl Operation for Jobs<'_> {
    type Answer = Vec<Job>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Job>, Failure> {
        if self.filter.error.is_some() || self.filter.state == Some(JobState::Failed) {
            return self.dead(session).await;
        }
        let sql = match self.scope {
            Scope::User(_) => JOBS_OF_USER,
            Scope::All => JOBS_OF_ALL,
        };
        let wants = |state| self.filter.state.is_none_or(|wanted| wanted == state);
        let ended: Vec<i32> = JobState::ALL
            .into_iter()
            .filter(|&state| wants(state))
            .filter_map(finished_state_code)
            .map(i32::from)
            .collect();
        let kind = self.filter.kind.as_ref().map(KindName::as_str);
        let key = self.filter.key.as_ref().map(JobKey::as_str);
        let rows = session
            .query(
                sql,
                &[
                    &user_of(self.scope),
                    &before(self.page),
                    &i64::from(self.page.rows_max),
                    &kind,
                    &key,
                    &wants(JobState::Scheduled),
                    &wants(JobState::Pending),
                    &wants(JobState::Processing),
                    &ended,
                    &Time(self.now),
                    &self.filter.key_prefix,
                    &self.filter.created_from.map(Time),
                    &self.filter.created_before.map(Time),
                ],
            )
            .await?;
        rows.iter().map(job).collect()
    }
}

macro_rules! list_dead {
    ($name:literal, $whose:literal, $order:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT ",
            finished_columns!(),
            " FROM roundsman.job_finished WHERE state = 4 AND ",
            $whose,
            " AND ($4::text IS NULL OR kind = $4) AND ($5::text IS NULL OR key = $5) \
              AND ($6::text IS NULL OR starts_with(key, $6)) \
              AND ($7::timestamptz IS NULL OR created_at >= $7) \
              AND ($8::timestamptz IS NULL OR created_at < $8) \
              AND ($9::text IS NULL OR position($9 in error_code) > 0 \
                   OR position($9 in error_message) > 0) ORDER BY ",
            $order,
            " LIMIT $3"
        )
    };
}

/// The failed ones, by indexes of their own: they are looked for among everything that went well.
///
/// Two bounds for the user are a narrow range to the planner. One bound is a third of the table, for
/// which it would rather walk all that failed and sort.
pub(super) const DEAD_OF_USER: &str = list_dead!(
    "dead_of_user",
    "(user_id, id) < ($1, $2) AND user_id >= $1 AND user_id <= $1",
    "user_id DESC, id DESC"
);
pub(super) const DEAD_OF_ALL: &str =
    list_dead!("dead_of_all", "$1::bigint IS NULL AND id < $2", "id DESC");

impl Jobs<'_> {
    async fn dead(&self, session: &mut Session) -> Result<Vec<Job>, Failure> {
        if self.filter.state.is_some_and(|state| state != JobState::Failed) {
            return Ok(Vec::new());
        }
        let sql = match self.scope {
            Scope::User(_) => DEAD_OF_USER,
            Scope::All => DEAD_OF_ALL,
        };
        let values: [&(dyn postgres_types::ToSql + Sync); 9] = [
            &user_of(self.scope),
            &before(self.page),
            &i64::from(self.page.rows_max),
            &self.filter.kind.as_ref().map(KindName::as_str),
            &self.filter.key.as_ref().map(JobKey::as_str),
            &self.filter.key_prefix,
            &self.filter.created_from.map(Time),
            &self.filter.created_before.map(Time),
            &self.filter.error,
        ];
        let rows = session.query(sql, &values).await?;
        rows.iter().map(|row| Ok(Job::Finished(Box::new(columns::finished(row)?)))).collect()
    }
}

pub(super) struct Leases {
    pub(super) scope: Scope,
    pub(super) page: ListPage,
}

impl Operation for Leases {
    type Answer = Vec<RunningJob>;

    async fn run(&self, session: &mut Session) -> Result<Vec<RunningJob>, Failure> {
        let rows_max = i64::from(self.page.rows_max);
        let rows =
            session.query(LEASES, &[&user_of(self.scope), &before(self.page), &rows_max]).await?;
        rows.iter().map(columns::running).collect()
    }
}

fn before(page: ListPage) -> i64 {
    page.before.map_or(i64::MAX, JobId::get)
}

/// Reads a row of any of the three parts.
fn job(row: &Row) -> Result<Job, Failure> {
    let mut reader = Reader::new(row);
    let facts = reader.facts()?;
    let not_before = reader.time_opt()?;
    let place: i32 = row.try_get(FACT_COLUMNS + 17)?;
    match place {
        0 => Ok(Job::Waiting(WaitingColumns { facts, not_before }.into_job()?)),
        1 => {
            let columns = RunningColumns {
                facts,
                lease_no: reader.value()?,
                lease_until: reader.time()?,
                lease_ttl_us: reader.value()?,
                owner_process: reader.value()?,
                claimed_at: reader.time()?,
                heartbeat_at: reader.time()?,
                deadline_at: reader.time_opt()?,
                cancel_requested: reader.value()?,
                worker: reader.value()?,
                progress: reader.value()?,
            };
            Ok(Job::Running(Box::new(columns.into_job()?)))
        }
        _ => {
            let lease_no = reader.value()?;
            let mut lease = Reader::from(row, FACT_COLUMNS + 5);
            let claimed_at = lease.time_opt()?;
            let mut end = Reader::from(row, FACT_COLUMNS + 9);
            let columns = FinishedColumns {
                facts,
                lease_no,
                claimed_at,
                worker: end.value()?,
                progress: end.value()?,
                state: end.value()?,
                finished_at: end.time()?,
                error_code: end.value()?,
                error_message: end.value()?,
                folded_into: end.value()?,
                result: end.value()?,
            };
            Ok(Job::Finished(Box::new(columns.into_job()?)))
        }
    }
}
