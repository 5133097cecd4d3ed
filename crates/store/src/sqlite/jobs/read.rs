//! Looks at jobs. The caller's transaction makes several statements one look.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{Job, JobId, JobKey, JobState, KindName, RunningJob};
use roundsman_core::ports::{ListFilter, ListPage, Scope};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{
    fact_columns, finished_columns, read_finished, read_running, read_waiting, running_columns,
    waiting_columns,
};
use crate::rows::finished_state_code;
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

pub(super) fn job(conn: &Connection, scope: Scope, id: JobId) -> Result<Option<Job>> {
    let id = id.get();
    if let Some(columns) = find(conn, FIND_WAITING, scope, id, read_waiting)? {
        return Ok(Some(Job::Waiting(columns.into_job()?)));
    }
    if let Some(columns) = find(conn, FIND_RUNNING, scope, id, read_running)? {
        return Ok(Some(Job::Running(Box::new(columns.into_job()?))));
    }
    match find(conn, FIND_FINISHED, scope, id, read_finished)? {
        Some(columns) => Ok(Some(Job::Finished(Box::new(columns.into_job()?)))),
        None => Ok(None),
    }
}

pub(super) fn jobs(
    conn: &Connection,
    scope: Scope,
    filter: &ListFilter,
    page: ListPage,
    now: Timestamp,
) -> Result<Vec<Job>> {
    let mut found = Vec::new();
    if filter.error.is_some() || filter.state == Some(JobState::Failed) {
        dead(conn, scope, filter, page, &mut found)?;
        return Ok(found);
    }
    let wants = |wanted: fn(JobState) -> bool| filter.state.is_none_or(wanted);
    if wants(|state| matches!(state, JobState::Scheduled | JobState::Pending)) {
        waiting(conn, scope, filter, page, now, &mut found)?;
    }
    if wants(|state| state == JobState::Processing) {
        let jobs = running(conn, scope, filter, page)?;
        found.extend(jobs.into_iter().map(|job| Job::Running(Box::new(job))));
    }
    if wants(JobState::is_terminal) {
        finished(conn, scope, filter, page, &mut found)?;
    }
    found.sort_unstable_by_key(|job| std::cmp::Reverse(job.facts().id));
    found.truncate(usize::try_from(page.rows_max).unwrap_or(usize::MAX));
    Ok(found)
}

pub(super) fn leases(conn: &Connection, scope: Scope, page: ListPage) -> Result<Vec<RunningJob>> {
    running(conn, scope, &ListFilter::default(), page)
}

const FIND_WAITING: &str = concat!(
    "-- find_waiting
    SELECT ",
    waiting_columns!(),
    " FROM job_queue WHERE id = ?1 AND (?2 IS NULL OR user_id = ?2)"
);

const FIND_RUNNING: &str = concat!(
    "-- find_running
    SELECT ",
    running_columns!(),
    " FROM job_running WHERE id = ?1 AND (?2 IS NULL OR user_id = ?2)"
);

const FIND_FINISHED: &str = concat!(
    "-- find_finished
    SELECT ",
    finished_columns!(),
    " FROM job_finished WHERE id = ?1 AND (?2 IS NULL OR user_id = ?2)"
);

fn find<T>(
    conn: &Connection,
    statement: &str,
    scope: Scope,
    id: i64,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>> {
    let found = conn.prepare_cached(statement)?.query_row(params![id, user_of(scope)], read);
    Ok(found.optional()?)
}

// The lists of one user and of everybody are statements of their own: with a condition that may be
// true of all rows SQLite would not use the index that begins with the user.

pub(super) const LIST_WAITING_OF_USER: &str = concat!(
    "-- list_waiting_of_user
    SELECT ",
    waiting_columns!(),
    " FROM job_queue
     WHERE user_id = ?1 AND id < ?2 AND (?3 IS NULL OR kind = ?3) AND (?4 IS NULL OR key = ?4)
       AND (?5 IS NULL OR (due_at <= ?6) = ?5) AND (?8 IS NULL OR substr(key, 1, length(?8)) = ?8)
       AND (?9 IS NULL OR created_at >= ?9) AND (?10 IS NULL OR created_at < ?10)
     ORDER BY id DESC LIMIT ?7"
);

const LIST_WAITING_OF_ALL: &str = concat!(
    "-- list_waiting_of_all
    SELECT ",
    waiting_columns!(),
    " FROM job_queue
     WHERE ?1 IS NULL AND id < ?2 AND (?3 IS NULL OR kind = ?3) AND (?4 IS NULL OR key = ?4)
       AND (?5 IS NULL OR (due_at <= ?6) = ?5) AND (?8 IS NULL OR substr(key, 1, length(?8)) = ?8)
       AND (?9 IS NULL OR created_at >= ?9) AND (?10 IS NULL OR created_at < ?10)
     ORDER BY id DESC LIMIT ?7"
);

fn waiting(
    conn: &Connection,
    scope: Scope,
    filter: &ListFilter,
    page: ListPage,
    now: Timestamp,
    found: &mut Vec<Job>,
) -> Result<()> {
    let mut statement = conn.prepare_cached(match scope {
        Scope::User(_) => LIST_WAITING_OF_USER,
        Scope::All => LIST_WAITING_OF_ALL,
    })?;
    let bound = Bound::of(scope, filter, page);
    let due = filter.state.map(|state| state == JobState::Pending);
    let mut rows = statement.query(params![
        bound.user,
        bound.before,
        bound.kind,
        bound.key,
        due,
        At(now),
        bound.rows_max,
        bound.key_prefix,
        bound.created_from,
        bound.created_before
    ])?;
    while let Some(row) = rows.next()? {
        found.push(Job::Waiting(read_waiting(row)?.into_job()?));
    }
    Ok(())
}

/// One text for both scopes: whoever runs is few, so the table is walked by number.
const LIST_RUNNING: &str = concat!(
    "-- list_running
    SELECT ",
    running_columns!(),
    " FROM job_running
     WHERE (?1 IS NULL OR user_id = ?1) AND id < ?2 AND (?3 IS NULL OR kind = ?3)
       AND (?4 IS NULL OR key = ?4) AND (?6 IS NULL OR substr(key, 1, length(?6)) = ?6)
       AND (?7 IS NULL OR created_at >= ?7) AND (?8 IS NULL OR created_at < ?8)
     ORDER BY id DESC LIMIT ?5"
);

fn running(
    conn: &Connection,
    scope: Scope,
    filter: &ListFilter,
    page: ListPage,
) -> Result<Vec<RunningJob>> {
    let mut statement = conn.prepare_cached(LIST_RUNNING)?;
    let bound = Bound::of(scope, filter, page);
    let mut rows = statement.query(params![
        bound.user,
        bound.before,
        bound.kind,
        bound.key,
        bound.rows_max,
        bound.key_prefix,
        bound.created_from,
        bound.created_before
    ])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read_running(row)?.into_job()?);
    }
    Ok(found)
}

pub(super) const LIST_FINISHED_OF_USER: &str = concat!(
    "-- list_finished_of_user
    SELECT ",
    finished_columns!(),
    " FROM job_finished
     WHERE user_id = ?1 AND id < ?2 AND (?3 IS NULL OR kind = ?3) AND (?4 IS NULL OR key = ?4)
       AND (?5 IS NULL OR state = ?5) AND (?7 IS NULL OR substr(key, 1, length(?7)) = ?7)
       AND (?8 IS NULL OR created_at >= ?8) AND (?9 IS NULL OR created_at < ?9)
     ORDER BY id DESC LIMIT ?6"
);

const LIST_FINISHED_OF_ALL: &str = concat!(
    "-- list_finished_of_all
    SELECT ",
    finished_columns!(),
    " FROM job_finished
     WHERE ?1 IS NULL AND id < ?2 AND (?3 IS NULL OR kind = ?3) AND (?4 IS NULL OR key = ?4)
       AND (?5 IS NULL OR state = ?5) AND (?7 IS NULL OR substr(key, 1, length(?7)) = ?7)
       AND (?8 IS NULL OR created_at >= ?8) AND (?9 IS NULL OR created_at < ?9)
     ORDER BY id DESC LIMIT ?6"
);

fn finished(
    conn: &Connection,
    scope: Scope,
    filter: &ListFilter,
    page: ListPage,
    found: &mut Vec<Job>,
) -> Result<()> {
    let mut statement = conn.prepare_cached(match scope {
        Scope::User(_) => LIST_FINISHED_OF_USER,
        Scope::All => LIST_FINISHED_OF_ALL,
    })?;
    let bound = Bound::of(scope, filter, page);
    let state = filter.state.and_then(finished_state_code);
    let mut rows = statement.query(params![
        bound.user,
        bound.before,
        bound.kind,
        bound.key,
        state,
        bound.rows_max,
        bound.key_prefix,
        bound.created_from,
        bound.created_before
    ])?;
    while let Some(row) = rows.next()? {
        found.push(Job::Finished(Box::new(read_finished(row)?.into_job()?)));
    }
    Ok(())
}

macro_rules! list_dead {
    ($name:literal, $index:literal, $whose:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT ",
            finished_columns!(),
            " FROM job_finished INDEXED BY ",
            $index,
            " WHERE state = 4 AND ",
            $whose,
            " AND id < ?2 AND (?3 IS NULL OR kind = ?3) AND (?4 IS NULL OR key = ?4) \
              AND (?6 IS NULL OR substr(key, 1, length(?6)) = ?6) \
              AND (?7 IS NULL OR created_at >= ?7) AND (?8 IS NULL OR created_at < ?8) \
              AND (?9 IS NULL OR instr(error_code, ?9) > 0 OR instr(error_message, ?9) > 0) \
              ORDER BY id DESC LIMIT ?5"
        )
    };
}

/// The failed ones, by indexes of their own: they are looked for among everything that went well. The
/// indexes are named, because SQLite would take the one by state and sort.
pub(super) const LIST_DEAD_OF_USER: &str =
    list_dead!("list_dead_of_user", "job_finished_dead_user", "user_id = ?1");
pub(super) const LIST_DEAD_OF_ALL: &str =
    list_dead!("list_dead_of_all", "job_finished_dead", "?1 IS NULL");

fn dead(
    conn: &Connection,
    scope: Scope,
    filter: &ListFilter,
    page: ListPage,
    found: &mut Vec<Job>,
) -> Result<()> {
    if filter.state.is_some_and(|state| state != JobState::Failed) {
        return Ok(());
    }
    let mut statement = conn.prepare_cached(match scope {
        Scope::User(_) => LIST_DEAD_OF_USER,
        Scope::All => LIST_DEAD_OF_ALL,
    })?;
    let bound = Bound::of(scope, filter, page);
    let mut rows = statement.query(params![
        bound.user,
        bound.before,
        bound.kind,
        bound.key,
        bound.rows_max,
        bound.key_prefix,
        bound.created_from,
        bound.created_before,
        filter.error.as_deref()
    ])?;
    while let Some(row) = rows.next()? {
        found.push(Job::Finished(Box::new(read_finished(row)?.into_job()?)));
    }
    Ok(())
}

/// What every list binds.
struct Bound<'a> {
    user: Option<i64>,
    before: i64,
    kind: Option<&'a str>,
    key: Option<&'a str>,
    rows_max: u32,
    key_prefix: Option<&'a str>,
    created_from: Option<At>,
    created_before: Option<At>,
}

impl<'a> Bound<'a> {
    fn of(scope: Scope, filter: &'a ListFilter, page: ListPage) -> Self {
        Bound {
            user: user_of(scope),
            before: page.before.map_or(i64::MAX, JobId::get),
            kind: filter.kind.as_ref().map(KindName::as_str),
            key: filter.key.as_ref().map(JobKey::as_str),
            rows_max: page.rows_max,
            key_prefix: filter.key_prefix.as_deref(),
            created_from: filter.created_from.map(At),
            created_before: filter.created_before.map(At),
        }
    }
}

pub(super) fn user_of(scope: Scope) -> Option<i64> {
    match scope {
        Scope::User(user) => Some(user.get()),
        Scope::All => None,
    }
}
