//! Audits of websites: every method of the port is one closure over one transaction.
//!
//! Invariants: an audit and its job are made together; what an audit is at this moment is read from the
//! view `audits`, which looks at the job; what it ended as is written by triggers of the tables of jobs,
//! in whatever transaction ends the job, and one that failed is told of there ([`told`]).

pub(super) mod check;
mod columns;
mod create;
#[cfg(test)]
mod plans;
mod read;
mod recurring;
pub(super) mod result;
mod told;
#[cfg(test)]
mod upgrade;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::audits::{
    Audit, AuditId, AuditReport, NewAudit, NewRecurring, Recurring, RecurringChange, RecurringId,
};
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{
    AuditFilter, AuditStore, ChangeRecurringAnswer, CreateAuditAnswer, CreateRecurringAnswer,
    DueAnswer, Scope, StoreError,
};
use roundsman_core::users::UserId;

pub(super) use self::told::tell_failed;
use super::SqliteStore;

#[async_trait]
impl AuditStore for SqliteStore {
    async fn create_audit(
        &self,
        new: NewAudit,
        unfinished_max: u32,
        now: Timestamp,
    ) -> Result<CreateAuditAnswer, StoreError> {
        self.write("store.audit_create", move |conn, catalog| {
            create::create(conn, catalog, &new, unfinished_max, now)
        })
        .await
    }

    async fn audit(&self, scope: Scope, id: AuditId) -> Result<Option<Audit>, StoreError> {
        self.read(move |conn| read::one(conn, scope, id)).await
    }

    async fn audits(
        &self,
        scope: Scope,
        filter: AuditFilter,
        before: Option<AuditId>,
        rows_max: u32,
    ) -> Result<Vec<Audit>, StoreError> {
        self.read(move |conn| read::list(conn, scope, &filter, before, rows_max)).await
    }

    async fn audit_report(
        &self,
        scope: Scope,
        id: AuditId,
    ) -> Result<Option<AuditReport>, StoreError> {
        self.read(move |conn| read::report(conn, scope, id)).await
    }

    async fn audit_screenshot(
        &self,
        scope: Scope,
        id: AuditId,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(move |conn| read::screenshot(conn, scope, id)).await
    }

    async fn previous_audit(
        &self,
        user: UserId,
        website_url: String,
        before: AuditId,
    ) -> Result<Option<AuditReport>, StoreError> {
        self.read(move |conn| read::previous(conn, user, &website_url, before)).await
    }

    async fn prune_audits(&self, before: Timestamp, rows_max: u32) -> Result<u64, StoreError> {
        self.write("store.audit_prune", move |conn, _| result::prune(conn, before, rows_max)).await
    }

    async fn create_recurring(
        &self,
        new: NewRecurring,
        recurring_max: u32,
        now: Timestamp,
    ) -> Result<CreateRecurringAnswer, StoreError> {
        self.write("store.audit_recurring", move |conn, catalog| {
            recurring::create(conn, catalog, new, recurring_max, now)
        })
        .await
    }

    async fn recurring(
        &self,
        scope: Scope,
        id: RecurringId,
    ) -> Result<Option<Recurring>, StoreError> {
        self.read(move |conn| recurring::one(conn, scope, id)).await
    }

    async fn recurrings(
        &self,
        scope: Scope,
        before: Option<RecurringId>,
        rows_max: u32,
    ) -> Result<Vec<Recurring>, StoreError> {
        self.read(move |conn| recurring::list(conn, scope, before, rows_max)).await
    }

    async fn change_recurring(
        &self,
        scope: Scope,
        id: RecurringId,
        change: RecurringChange,
        now: Timestamp,
    ) -> Result<ChangeRecurringAnswer, StoreError> {
        self.write("store.audit_recurring_change", move |conn, catalog| {
            recurring::change_one(conn, catalog, scope, id, &change, now)
        })
        .await
    }

    async fn delete_recurring(&self, scope: Scope, id: RecurringId) -> Result<bool, StoreError> {
        self.write("store.audit_recurring_delete", move |conn, _| {
            recurring::delete(conn, scope, id)
        })
        .await
    }

    async fn start_due_audit(
        &self,
        id: RecurringId,
        priority: i16,
        attempts_max: u32,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<DueAnswer, StoreError> {
        self.write("store.audit_due", move |conn, catalog| {
            recurring::start_due(conn, catalog, id, (priority, attempts_max), guard, now)
        })
        .await
    }
}
