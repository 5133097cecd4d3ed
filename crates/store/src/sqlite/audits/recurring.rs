//! Audits that recur, and their alarms.

use roundsman_core::Timestamp;
use roundsman_core::audits::{
    AuditId, AuditStatus, Due, NewAudit, NewRecurring, Recurring, RecurringChange, RecurringId,
    change, due, first, recur_wish,
};
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::{ChangeRecurringAnswer, CreateRecurringAnswer, DueAnswer, Scope};
use rusqlite::{Connection, params};

use super::columns::{all, read_recurring};
use super::read::user_of;
use super::{create as audits, read};
use crate::rows::audits::{options_to_text, recurring_columns};
use crate::sqlite::effects::is_held;
use crate::sqlite::error::Result;
use crate::sqlite::jobs::enqueue::insert_jobs;
use crate::sqlite::time::At;

pub(super) const COUNT: &str = "-- recurring_count
    SELECT count(*) FROM recurring_audits WHERE user_id = ?1";

const INSERT: &str = "-- insert_recurring
    INSERT INTO recurring_audits (user_id, website_url, schedule, time_zone, options, priority,
        created_at, next_at, last_audit_id, started, skipped)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL, 0, 0)
    RETURNING id";

pub(super) fn create(
    conn: &Connection,
    catalog: &KindCatalog,
    new: NewRecurring,
    recurring_max: u32,
    now: Timestamp,
) -> Result<CreateRecurringAnswer> {
    let count: i64 =
        conn.prepare_cached(COUNT)?.query_row([new.user_id.get()], |row| row.get(0))?;
    let recurring = u32::try_from(count).unwrap_or(u32::MAX);
    if recurring >= recurring_max {
        return Ok(CreateRecurringAnswer::TooMany { recurring });
    }
    let made = first(RecurringId::new(0), new, now);
    let values = params![
        made.user_id.get(),
        made.website_url,
        made.schedule.as_str(),
        made.schedule.time_zone(),
        options_to_text(made.options),
        made.priority,
        At(made.created_at),
        made.next_at.map(At),
    ];
    let id = conn.prepare_cached(INSERT)?.query_row(values, |row| row.get(0))?;
    let made = Recurring { id: RecurringId::new(id), ..made };
    set_alarm(conn, catalog, &made, now)?;
    Ok(CreateRecurringAnswer::Created(Box::new(made)))
}

pub(super) const ONE: &str = concat!(
    "-- recurring
    SELECT ",
    recurring_columns!(),
    " FROM recurring_audits AS c WHERE c.id = ?1 AND (?2 IS NULL OR c.user_id = ?2)"
);

pub(super) fn one(conn: &Connection, scope: Scope, id: RecurringId) -> Result<Option<Recurring>> {
    Ok(all(conn, ONE, params![id.get(), user_of(scope)], read_recurring)?.pop())
}

macro_rules! list {
    ($name:literal, $which:literal) => {
        concat!(
            "-- ",
            $name,
            "\n    SELECT ",
            recurring_columns!(),
            " FROM recurring_audits AS c
     WHERE ",
            $which,
            " AND c.id < ?2 AND (?1 IS NULL OR c.user_id = ?1)
     ORDER BY c.id DESC LIMIT ?3"
        )
    };
}

pub(super) const LIST_ALL: &str = list!("recurring_of_all", "1");
pub(super) const LIST_OF_USER: &str = list!("recurring_of_user", "c.user_id = ?1");

pub(super) fn list(
    conn: &Connection,
    scope: Scope,
    before: Option<RecurringId>,
    rows_max: u32,
) -> Result<Vec<Recurring>> {
    let statement = match scope {
        Scope::All => LIST_ALL,
        Scope::User(_) => LIST_OF_USER,
    };
    let before = before.map_or(i64::MAX, RecurringId::get);
    all(conn, statement, params![user_of(scope), before, rows_max], read_recurring)
}

pub(super) fn change_one(
    conn: &Connection,
    catalog: &KindCatalog,
    scope: Scope,
    id: RecurringId,
    wanted: &RecurringChange,
    now: Timestamp,
) -> Result<ChangeRecurringAnswer> {
    let Some(known) = one(conn, scope, id)? else { return Ok(ChangeRecurringAnswer::NotFound) };
    let changed = change(known, wanted, now);
    update(conn, &changed)?;
    set_alarm(conn, catalog, &changed, now)?;
    Ok(ChangeRecurringAnswer::Changed(Box::new(changed)))
}

const DELETE: &str = "-- delete_recurring
    DELETE FROM recurring_audits WHERE id = ?1 AND (?2 IS NULL OR user_id = ?2)";

pub(super) fn delete(conn: &Connection, scope: Scope, id: RecurringId) -> Result<bool> {
    Ok(conn.prepare_cached(DELETE)?.execute(params![id.get(), user_of(scope)])? > 0)
}

/// `with` is the priority of the audit, and how often it is tried.
pub(super) fn start_due(
    conn: &Connection,
    catalog: &KindCatalog,
    id: RecurringId,
    with: (i16, u32),
    guard: LeaseRef,
    now: Timestamp,
) -> Result<DueAnswer> {
    if !is_held(conn, guard)? {
        return Ok(DueAnswer::LeaseLost);
    }
    let Some(known) = one(conn, Scope::All, id)? else { return Ok(DueAnswer::Over) };
    let last = match known.last_audit_id {
        Some(last) => read::one(conn, Scope::All, last)?.map(|audit| audit.state.status),
        None => None,
    };
    match due(known, last.is_some_and(|status| !AuditStatus::is_final(status)), now) {
        Due::Paused => Ok(DueAnswer::Over),
        Due::NotBefore(at) => Ok(DueAnswer::NotBefore(at)),
        Due::Skip(changed) => {
            update(conn, &changed)?;
            Ok(DueAnswer::Skipped { next_at: changed.next_at.unwrap_or(Timestamp::MAX) })
        }
        Due::Start(changed) => {
            let new = NewAudit {
                user_id: changed.user_id,
                website_url: changed.website_url.clone(),
                options: changed.options,
                priority: with.0,
                attempts_max: with.1,
                request: None,
            };
            let audit = audits::insert(conn, catalog, &new, Some(id), now)?;
            let next_at = changed.next_at.unwrap_or(Timestamp::MAX);
            update(conn, &Recurring { last_audit_id: Some(audit.id), ..changed })?;
            Ok(DueAnswer::Started { audit: Box::new(audit), next_at })
        }
    }
}

const UPDATE: &str = "-- update_recurring
    UPDATE recurring_audits
       SET schedule = ?2, time_zone = ?3, next_at = ?4, last_audit_id = ?5, started = ?6,
           skipped = ?7
     WHERE id = ?1";

fn update(conn: &Connection, changed: &Recurring) -> Result<()> {
    conn.prepare_cached(UPDATE)?.execute(params![
        changed.id.get(),
        changed.schedule.as_str(),
        changed.schedule.time_zone(),
        changed.next_at.map(At),
        changed.last_audit_id.map(AuditId::get),
        changed.started,
        changed.skipped,
    ])?;
    Ok(())
}

fn set_alarm(
    conn: &Connection,
    catalog: &KindCatalog,
    recurring: &Recurring,
    now: Timestamp,
) -> Result<()> {
    if let Some(next_at) = recurring.next_at {
        insert_jobs(conn, catalog, vec![recur_wish(recurring.id, next_at)], now)?;
    }
    Ok(())
}
