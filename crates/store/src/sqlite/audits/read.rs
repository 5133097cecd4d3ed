//! Looks at audits.

use roundsman_core::audits::{Audit, AuditId, AuditReport, AuditStatus, RecurringId};
use roundsman_core::ports::{AuditFilter, Scope};
use roundsman_core::users::UserId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{all, read_audit};
use crate::rows::audits::{AUDIT_COLUMNS, audit_columns, report_columns, report_of};
use crate::sqlite::error::Result;

/// The user whose rows may be touched; `None` for everybody's.
pub(super) fn user_of(scope: Scope) -> Option<i64> {
    match scope {
        Scope::All => None,
        Scope::User(user) => Some(user.get()),
    }
}

pub(super) const ONE: &str = concat!(
    "-- audit
    SELECT ",
    audit_columns!(),
    " FROM audits AS a WHERE a.id = ?1 AND (?2 IS NULL OR a.user_id = ?2)"
);

pub(super) fn one(conn: &Connection, scope: Scope, id: AuditId) -> Result<Option<Audit>> {
    Ok(all(conn, ONE, params![id.get(), user_of(scope)], read_audit)?.pop())
}

/// Each sort of list has the index that leads to it; whatever else is asked is looked at row by row.
macro_rules! list {
    ($name:literal, $which:literal) => {
        concat!(
            "-- ",
            $name,
            "\n    SELECT ",
            audit_columns!(),
            " FROM audits AS a
     WHERE ",
            $which,
            " AND a.id < ?2 AND (?1 IS NULL OR a.user_id = ?1)
       AND (?4 IS NULL OR a.status = ?4) AND (?5 IS NULL OR a.website_url = ?5)
       AND (?6 IS NULL OR a.recurring_id = ?6)
     ORDER BY a.id DESC LIMIT ?3"
        )
    };
}

pub(super) const LIST_ALL: &str = list!("audits_of_all", "1");
pub(super) const LIST_OF_USER: &str = list!("audits_of_user", "a.user_id = ?1");
pub(super) const LIST_OF_URL: &str =
    list!("audits_of_url", "a.user_id = ?1 AND a.website_url = ?5");
pub(super) const LIST_OF_RECURRING: &str = list!("audits_of_recurring", "a.recurring_id = ?6");

pub(super) fn list(
    conn: &Connection,
    scope: Scope,
    filter: &AuditFilter,
    before: Option<AuditId>,
    rows_max: u32,
) -> Result<Vec<Audit>> {
    let AuditFilter { status, website_url, recurring } = filter;
    let statement = match (scope, website_url, recurring) {
        (_, _, Some(_)) => LIST_OF_RECURRING,
        (Scope::User(_), Some(_), None) => LIST_OF_URL,
        (Scope::User(_), None, None) => LIST_OF_USER,
        (Scope::All, _, None) => LIST_ALL,
    };
    let values = params![
        user_of(scope),
        before.map_or(i64::MAX, AuditId::get),
        rows_max,
        status.map(AuditStatus::as_str),
        website_url,
        recurring.map(RecurringId::get),
    ];
    all(conn, statement, values, read_audit)
}

pub(super) const REPORT: &str = concat!(
    "-- audit_report
    SELECT ",
    report_columns!(),
    " FROM audits AS a WHERE a.id = ?1 AND (?2 IS NULL OR a.user_id = ?2)"
);

pub(super) fn report(conn: &Connection, scope: Scope, id: AuditId) -> Result<Option<AuditReport>> {
    let found = all(conn, REPORT, params![id.get(), user_of(scope)], read_report)?;
    Ok(found.into_iter().next().flatten())
}

pub(super) const PREVIOUS: &str = concat!(
    "-- previous_audit
    SELECT ",
    report_columns!(),
    " FROM audits AS a
     WHERE a.user_id = ?1 AND a.website_url = ?2 AND a.id < ?3 AND a.status = 'completed'
     ORDER BY a.id DESC LIMIT 1"
);

pub(super) fn previous(
    conn: &Connection,
    user: UserId,
    website_url: &str,
    before: AuditId,
) -> Result<Option<AuditReport>> {
    let values = params![user.get(), website_url, before.get()];
    Ok(all(conn, PREVIOUS, values, read_report)?.into_iter().next().flatten())
}

fn read_report(row: &Row<'_>) -> Result<Option<AuditReport>> {
    let text = |place: usize| row.get(AUDIT_COLUMNS + place);
    let texts = [text(0)?, text(1)?, text(2)?, text(3)?];
    Ok(report_of(read_audit(row)?, texts))
}

pub(super) const SCREENSHOT: &str = "-- audit_screenshot
    SELECT s.png FROM audit_screenshots AS s CROSS JOIN audits AS a ON a.id = s.audit_id
     WHERE s.audit_id = ?1 AND (?2 IS NULL OR a.user_id = ?2) AND a.status = 'completed'";

pub(super) fn screenshot(conn: &Connection, scope: Scope, id: AuditId) -> Result<Option<Vec<u8>>> {
    let mut statement = conn.prepare_cached(SCREENSHOT)?;
    let values = params![id.get(), user_of(scope)];
    Ok(statement.query_row(values, |row| row.get(0)).optional()?)
}
