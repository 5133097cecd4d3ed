//! Between rows of PostgreSQL and the dialect-free columns of [`crate::rows`].
//!
//! Invariant: readers go by position, in the order of the lists that the macros here spell out;
//! a statement that returns such rows uses the macro and nothing else.

use postgres_types::{FromSql, ToSql};
use roundsman_core::Timestamp;
use roundsman_core::jobs::{FinishedJob, JobId, JobKey, NewJob, RunningJob, WaitingJob, rank};
use tokio_postgres::{Error, Row};

use super::error::Failure;
use super::types::Time;
use crate::rows::{
    EndColumns, FactColumns, FinishedColumns, PENDING, RunningColumns, SCHEDULED, WaitingColumns,
    end_columns, lane_to_keep, runs_to_text, waiting_state,
};

/// What every job has, in the order of `facts`.
macro_rules! fact_columns {
    () => {
        "id, user_id, kind, key, payload, priority, run_at, triggered_at, created_at, attempt, \
         max_attempts, runs, lane, linked"
    };
}

/// A row of `job_queue`, in the order of [`waiting`].
macro_rules! waiting_columns {
    () => {
        concat!($crate::postgres::columns::fact_columns!(), ", not_before")
    };
}

/// A row of `job_running`, in the order of [`running`].
macro_rules! running_columns {
    () => {
        concat!(
            $crate::postgres::columns::fact_columns!(),
            ", lease_no, lease_until, lease_ttl_us, owner_process, claimed_at, heartbeat_at, \
             deadline_at, cancel_requested, worker, progress"
        )
    };
}

/// A row of `job_finished`, in the order of [`finished`].
macro_rules! finished_columns {
    () => {
        concat!(
            $crate::postgres::columns::fact_columns!(),
            ", state, finished_at, lease_no, claimed_at, worker, error_code, error_message, \
             folded_into, result, progress"
        )
    };
}

pub(super) use {fact_columns, finished_columns, running_columns, waiting_columns};

/// How many columns [`fact_columns`] names.
pub(super) const FACT_COLUMNS: usize = 14;

/// Reads the columns of a row one after the other.
pub(super) struct Reader<'r> {
    row: &'r Row,
    next: usize,
}

impl<'r> Reader<'r> {
    pub(super) fn new(row: &'r Row) -> Self {
        Reader::from(row, 0)
    }

    pub(super) fn from(row: &'r Row, first: usize) -> Self {
        Reader { row, next: first }
    }

    pub(super) fn value<T: FromSql<'r>>(&mut self) -> Result<T, Error> {
        self.next += 1;
        self.row.try_get(self.next - 1)
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, Error> {
        let Time(time) = self.value()?;
        Ok(time)
    }

    pub(super) fn time_opt(&mut self) -> Result<Option<Timestamp>, Error> {
        Ok(self.value::<Option<Time>>()?.map(|Time(time)| time))
    }

    pub(super) fn facts(&mut self) -> Result<FactColumns, Error> {
        Ok(FactColumns {
            id: self.value()?,
            user_id: self.value()?,
            kind: self.value()?,
            key: self.value()?,
            payload: self.value()?,
            priority: self.value()?,
            run_at: self.time()?,
            triggered_at: self.time()?,
            created_at: self.time()?,
            attempt: self.value::<i32>()?.into(),
            max_attempts: self.value::<Option<i32>>()?.map(i64::from),
            runs: self.value()?,
            lane: self.value()?,
            linked: self.value::<Option<bool>>()?.unwrap_or_default(),
        })
    }
}

pub(super) fn waiting(row: &Row) -> Result<WaitingJob, Failure> {
    let mut reader = Reader::new(row);
    let columns = WaitingColumns { facts: reader.facts()?, not_before: reader.time_opt()? };
    Ok(columns.into_job()?)
}

pub(super) fn running(row: &Row) -> Result<RunningJob, Failure> {
    let mut reader = Reader::new(row);
    let columns = RunningColumns {
        facts: reader.facts()?,
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
    Ok(columns.into_job()?)
}

pub(super) fn finished(row: &Row) -> Result<FinishedJob, Failure> {
    let mut reader = Reader::new(row);
    let columns = FinishedColumns {
        facts: reader.facts()?,
        state: reader.value()?,
        finished_at: reader.time()?,
        lease_no: reader.value()?,
        claimed_at: reader.time_opt()?,
        worker: reader.value()?,
        error_code: reader.value()?,
        error_message: reader.value()?,
        folded_into: reader.value()?,
        result: reader.value()?,
        progress: reader.value()?,
    };
    Ok(columns.into_job()?)
}

/// A count as an `integer` column holds it.
pub(super) fn count(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Rows for `job_queue`, one vector per column, as `unnest` takes them.
#[derive(Debug, Default)]
pub(super) struct WaitingRows<'a> {
    pub(super) ids: Vec<i64>,
    pub(super) users: Vec<i64>,
    pub(super) states: Vec<i16>,
    pub(super) priorities: Vec<i16>,
    pub(super) attempts: Vec<i32>,
    pub(super) max_attempts: Vec<Option<i32>>,
    pub(super) ranks: Vec<Time>,
    pub(super) due: Vec<Time>,
    pub(super) run: Vec<Time>,
    pub(super) not_before: Vec<Option<Time>>,
    pub(super) triggered: Vec<Time>,
    pub(super) created: Vec<Time>,
    pub(super) lanes: Vec<String>,
    pub(super) kinds: Vec<&'a str>,
    pub(super) keys: Vec<Option<&'a str>>,
    pub(super) payloads: Vec<&'a str>,
    pub(super) runs: Vec<Option<String>>,
}

impl<'a> WaitingRows<'a> {
    pub(super) fn of(jobs: impl IntoIterator<Item = &'a WaitingJob>, now: Timestamp) -> Self {
        let mut rows = WaitingRows::default();
        for job in jobs {
            rows.push(job, now);
        }
        rows
    }

    pub(super) fn push(&mut self, job: &'a WaitingJob, now: Timestamp) {
        let facts = &job.facts;
        self.ids.push(facts.id.get());
        self.users.push(facts.user_id.get());
        self.states.push(waiting_state(job, now).0);
        self.priorities.push(facts.priority);
        self.attempts.push(count(facts.attempt));
        self.max_attempts.push(facts.max_attempts.map(count));
        self.ranks.push(Time(job.rank()));
        self.due.push(Time(job.due_at()));
        self.run.push(Time(facts.run_at));
        self.not_before.push(job.not_before.map(Time));
        self.triggered.push(Time(facts.triggered_at));
        self.created.push(Time(facts.created_at));
        self.lanes.push(facts.lane().as_str().to_owned());
        self.kinds.push(facts.kind.as_str());
        self.keys.push(facts.key.as_ref().map(JobKey::as_str));
        self.payloads.push(facts.payload.as_str());
        self.runs.push(runs_to_text(&facts.runs));
    }

    /// The row that [`roundsman_core::jobs::first_wait`] describes, without a copy of the wish:
    /// for batches of thousands.
    pub(super) fn push_wish(&mut self, id: JobId, wish: &'a NewJob, now: Timestamp) {
        self.ids.push(id.get());
        self.users.push(wish.user_id.get());
        self.states.push(if wish.run_at <= now { PENDING } else { SCHEDULED });
        self.priorities.push(wish.priority);
        self.attempts.push(0);
        self.max_attempts.push(wish.max_attempts.map(count));
        self.ranks.push(Time(rank(wish.run_at, wish.priority)));
        self.due.push(Time(wish.run_at));
        self.run.push(Time(wish.run_at));
        self.not_before.push(None);
        self.triggered.push(Time(now));
        self.created.push(Time(now));
        self.lanes.push(wish.lane().as_str().to_owned());
        self.kinds.push(wish.kind.as_str());
        self.keys.push(wish.key.as_ref().map(JobKey::as_str));
        self.payloads.push(wish.payload.as_str());
        self.runs.push(None);
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// In the order of the table's columns.
    pub(super) fn values(&self) -> [&(dyn ToSql + Sync); 17] {
        [
            &self.ids,
            &self.users,
            &self.states,
            &self.priorities,
            &self.attempts,
            &self.max_attempts,
            &self.ranks,
            &self.due,
            &self.run,
            &self.not_before,
            &self.triggered,
            &self.created,
            &self.lanes,
            &self.kinds,
            &self.keys,
            &self.payloads,
            &self.runs,
        ]
    }
}

/// Rows for `job_finished`, one vector per column. The run that could be kept in columns is not:
/// a job that is written from here has all its runs in its log.
#[derive(Debug, Default)]
pub(super) struct FinishedRows<'a> {
    ids: Vec<i64>,
    users: Vec<i64>,
    states: Vec<i16>,
    priorities: Vec<i16>,
    attempts: Vec<i32>,
    max_attempts: Vec<Option<i32>>,
    run: Vec<Time>,
    triggered: Vec<Time>,
    created: Vec<Time>,
    finished: Vec<Time>,
    kinds: Vec<&'a str>,
    keys: Vec<Option<&'a str>>,
    error_codes: Vec<Option<&'a str>>,
    folded_into: Vec<Option<i64>>,
    payloads: Vec<&'a str>,
    results: Vec<Option<&'a str>>,
    error_messages: Vec<Option<&'a str>>,
    runs: Vec<Option<String>>,
    progress: Vec<Option<&'a str>>,
    lanes: Vec<Option<String>>,
}

impl<'a> FinishedRows<'a> {
    pub(super) fn of(jobs: impl IntoIterator<Item = &'a FinishedJob>) -> Self {
        let mut rows = FinishedRows::default();
        for job in jobs {
            rows.push(job);
        }
        rows
    }

    fn push(&mut self, job: &'a FinishedJob) {
        let facts = &job.facts;
        let EndColumns { state, result, error_code, error_message, folded_into } =
            end_columns(&job.state);
        self.ids.push(facts.id.get());
        self.users.push(facts.user_id.get());
        self.states.push(state);
        self.priorities.push(facts.priority);
        self.attempts.push(count(facts.attempt));
        self.max_attempts.push(facts.max_attempts.map(count));
        self.run.push(Time(facts.run_at));
        self.triggered.push(Time(facts.triggered_at));
        self.created.push(Time(facts.created_at));
        self.finished.push(Time(job.finished_at));
        self.kinds.push(facts.kind.as_str());
        self.keys.push(facts.key.as_ref().map(JobKey::as_str));
        self.error_codes.push(error_code);
        self.folded_into.push(folded_into);
        self.payloads.push(facts.payload.as_str());
        self.results.push(result);
        self.error_messages.push(error_message);
        self.runs.push(runs_to_text(&facts.runs));
        self.progress.push(job.progress.as_ref().map(|progress| progress.0.as_str()));
        self.lanes.push(lane_to_keep(facts));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn values(&self) -> [&(dyn ToSql + Sync); 20] {
        [
            &self.ids,
            &self.users,
            &self.states,
            &self.priorities,
            &self.attempts,
            &self.max_attempts,
            &self.run,
            &self.triggered,
            &self.created,
            &self.finished,
            &self.kinds,
            &self.keys,
            &self.error_codes,
            &self.folded_into,
            &self.payloads,
            &self.results,
            &self.error_messages,
            &self.runs,
            &self.progress,
            &self.lanes,
        ]
    }
}
