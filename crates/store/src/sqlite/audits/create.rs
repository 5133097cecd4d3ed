//! New audits, each with the job that runs it.

use roundsman_core::Timestamp;
use roundsman_core::audits::{Audit, AuditId, NewAudit, RecurringId, RequestKey, run_wish};
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::{CreateAuditAnswer, Scope};
use roundsman_core::users::UserId;
use rusqlite::{Connection, OptionalExtension, params};

use super::read;
use crate::rows::audits::options_to_text;
use crate::sqlite::error::{Failure, Result};
use crate::sqlite::jobs::enqueue::insert_jobs;
use crate::sqlite::time::At;

pub(super) const EARLIER_REQUEST: &str = "-- earlier_request
    SELECT id, request_hash FROM audit_records WHERE user_id = ?1 AND request_key = ?2";

pub(super) const UNFINISHED: &str = "-- audits_unfinished
    SELECT count(*) FROM audit_records INDEXED BY audit_records_unfinished
     WHERE user_id = ?1 AND ended_as IS NULL";

const INSERT: &str = "-- insert_audit
    INSERT INTO audit_records (user_id, recurring_id, website_url, options, priority, created_at,
        request_key, request_hash)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    RETURNING id";

const SET_JOB: &str = "-- set_audit_job
    UPDATE audit_records SET job_id = ?2 WHERE id = ?1";

pub(super) fn create(
    conn: &Connection,
    catalog: &KindCatalog,
    new: &NewAudit,
    unfinished_max: u32,
    now: Timestamp,
) -> Result<CreateAuditAnswer> {
    if let Some(request) = &new.request
        && let Some(earlier) = earlier(conn, new.user_id, request)?
    {
        return Ok(earlier);
    }
    let count: i64 =
        conn.prepare_cached(UNFINISHED)?.query_row([new.user_id.get()], |row| row.get(0))?;
    let unfinished = u32::try_from(count).unwrap_or(u32::MAX);
    if unfinished >= unfinished_max {
        return Ok(CreateAuditAnswer::TooMany { unfinished });
    }
    Ok(CreateAuditAnswer::Created(Box::new(insert(conn, catalog, new, None, now)?)))
}

/// Writes an audit and its job in the caller's transaction.
pub(super) fn insert(
    conn: &Connection,
    catalog: &KindCatalog,
    new: &NewAudit,
    recurring: Option<RecurringId>,
    now: Timestamp,
) -> Result<Audit> {
    let request = new.request.as_ref();
    let values = params![
        new.user_id.get(),
        recurring.map(RecurringId::get),
        new.website_url,
        options_to_text(new.options),
        new.priority,
        At(now),
        request.map(|request| request.key.as_str()),
        request.map(|request| request.body_hash),
    ];
    let id = AuditId::new(conn.prepare_cached(INSERT)?.query_row(values, |row| row.get(0))?);
    let wish = run_wish(id, new.user_id, new.priority, new.attempts_max, now);
    let job = insert_jobs(conn, catalog, vec![wish], now)?;
    let job = job.first().map(|job| job.id.get());
    conn.prepare_cached(SET_JOB)?.execute(params![id.get(), job])?;
    found(conn, id)
}

fn earlier(
    conn: &Connection,
    user: UserId,
    request: &RequestKey,
) -> Result<Option<CreateAuditAnswer>> {
    let known: Option<(i64, Vec<u8>)> = conn
        .prepare_cached(EARLIER_REQUEST)?
        .query_row(params![user.get(), request.key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((id, body_hash)) = known else { return Ok(None) };
    if body_hash != request.body_hash {
        return Ok(Some(CreateAuditAnswer::KeyReused));
    }
    Ok(Some(CreateAuditAnswer::Replayed(Box::new(found(conn, AuditId::new(id))?))))
}

fn found(conn: &Connection, id: AuditId) -> Result<Audit> {
    let written = read::one(conn, Scope::All, id)?;
    written.ok_or_else(|| Failure::failed("an audit that was just seen is gone".to_owned()))
}
