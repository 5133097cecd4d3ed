//! Looks at audits.

use roundsman_core::audits::{Audit, AuditId, AuditReport, AuditStatus, RecurringId};
use roundsman_core::ports::{AuditFilter, Scope};
use roundsman_core::users::UserId;

use super::columns::{read_audit, read_audits, read_report};
use crate::postgres::error::Failure;
use crate::postgres::jobs::user_of;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::rows::audits::{audit_columns, report_columns};

pub(super) const ONE: &str = concat!(
    "-- audit
SELECT ",
    audit_columns!(),
    " FROM roundsman.audits a WHERE a.id = $1 AND ($2::bigint IS NULL OR a.user_id = $2)"
);

pub(super) struct One {
    pub(super) scope: Scope,
    pub(super) id: AuditId,
}

impl Operation for One {
    type Answer = Option<Audit>;

    async fn run(&self, session: &mut Session) -> Result<Option<Audit>, Failure> {
        let row = session.query_opt(ONE, &[&self.id.get(), &user_of(self.scope)]).await?;
        row.as_ref().map(read_audit).transpose()
    }
}

/// Each sort of list has the index that leads to it; whatever else is asked is looked at row by row.
/// Condition and order name all columns of the index, as a range: with `user_id = $1` the planner may
/// prefer to read everybody's audits by number.
macro_rules! list {
    ($name:literal, $which:literal, $order:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT ",
            audit_columns!(),
            "
  FROM roundsman.audits a
 WHERE ",
            $which,
            " AND ($1::bigint IS NULL OR a.user_id = $1)
   AND ($4::text IS NULL OR a.status = $4) AND ($5::text IS NULL OR a.website_url = $5)
   AND ($6::bigint IS NULL OR a.recurring_id = $6)
 ORDER BY ",
            $order,
            "
 LIMIT $3"
        )
    };
}

pub(super) const LIST_ALL: &str = list!("audits_of_all", "a.id < $2", "a.id DESC");
pub(super) const LIST_OF_USER: &str = list!(
    "audits_of_user",
    "(a.user_id, a.id) < ($1, $2) AND a.user_id >= $1",
    "a.user_id DESC, a.id DESC"
);
pub(super) const LIST_OF_URL: &str = list!(
    "audits_of_url",
    "a.user_id = $1 AND (a.website_url, a.id) < ($5, $2) AND a.website_url >= $5",
    "a.user_id DESC, a.website_url DESC, a.id DESC"
);
pub(super) const LIST_OF_RECURRING: &str = list!(
    "audits_of_recurring",
    "(a.recurring_id, a.id) < ($6, $2) AND a.recurring_id >= $6",
    "a.recurring_id DESC, a.id DESC"
);

pub(super) struct List {
    pub(super) scope: Scope,
    pub(super) filter: AuditFilter,
    pub(super) before: Option<AuditId>,
    pub(super) rows_max: u32,
}

impl Operation for List {
    type Answer = Vec<Audit>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Audit>, Failure> {
        let AuditFilter { status, website_url, recurring } = &self.filter;
        let sql = match (self.scope, website_url, recurring) {
            (_, _, Some(_)) => LIST_OF_RECURRING,
            (Scope::User(_), Some(_), None) => LIST_OF_URL,
            (Scope::User(_), None, None) => LIST_OF_USER,
            (Scope::All, _, None) => LIST_ALL,
        };
        let rows = session
            .query(
                sql,
                &[
                    &user_of(self.scope),
                    &self.before.map_or(i64::MAX, AuditId::get),
                    &i64::from(self.rows_max),
                    &status.map(AuditStatus::as_str),
                    website_url,
                    &recurring.map(RecurringId::get),
                ],
            )
            .await?;
        read_audits(&rows)
    }
}

pub(super) const REPORT: &str = concat!(
    "-- audit_report
SELECT ",
    report_columns!(),
    " FROM roundsman.audits a WHERE a.id = $1 AND ($2::bigint IS NULL OR a.user_id = $2)"
);

pub(super) struct Report {
    pub(super) scope: Scope,
    pub(super) id: AuditId,
}

impl Operation for Report {
    type Answer = Option<AuditReport>;

    async fn run(&self, session: &mut Session) -> Result<Option<AuditReport>, Failure> {
        read_report(&session.query(REPORT, &[&self.id.get(), &user_of(self.scope)]).await?)
    }
}

pub(super) const PREVIOUS: &str = concat!(
    "-- previous_audit
SELECT ",
    report_columns!(),
    "
  FROM roundsman.audits a
 WHERE a.user_id = $1 AND (a.website_url, a.id) < ($2, $3) AND a.website_url >= $2
   AND a.status = 'completed'
 ORDER BY a.user_id DESC, a.website_url DESC, a.id DESC
 LIMIT 1"
);

pub(super) struct Previous {
    pub(super) user: UserId,
    pub(super) website_url: String,
    pub(super) before: AuditId,
}

impl Operation for Previous {
    type Answer = Option<AuditReport>;

    async fn run(&self, session: &mut Session) -> Result<Option<AuditReport>, Failure> {
        let (user, before) = (self.user.get(), self.before.get());
        read_report(&session.query(PREVIOUS, &[&user, &self.website_url, &before]).await?)
    }
}

pub(super) const SCREENSHOT: &str = "-- audit_screenshot
SELECT s.png
  FROM roundsman.audit_screenshots s JOIN roundsman.audits a ON a.id = s.audit_id
 WHERE s.audit_id = $1 AND ($2::bigint IS NULL OR a.user_id = $2) AND a.status = 'completed'";

pub(super) struct Screenshot {
    pub(super) scope: Scope,
    pub(super) id: AuditId,
}

impl Operation for Screenshot {
    type Answer = Option<Vec<u8>>;

    async fn run(&self, session: &mut Session) -> Result<Option<Vec<u8>>, Failure> {
        let row = session.query_opt(SCREENSHOT, &[&self.id.get(), &user_of(self.scope)]).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }
}
