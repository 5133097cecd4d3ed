//! Audits of websites: one file per group of operations.
//!
//! Invariants: an audit and its job are made together, one request of a user at a time
//! ([`create::LOCK_USER`]); what an audit is at this moment is read from the view `audits`, which looks at
//! the job; what it ended as is written by triggers of the tables of jobs, in whatever transaction ends
//! the job, and one that failed is told of there ([`told`]). A recurring audit is changed under the lock of its row.

pub(super) mod check;
mod columns;
mod create;
mod read;
mod recurring;
mod result;
mod told;

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

pub(super) use self::result::write as write_results;
pub(super) use self::told::tell_failed;
use super::PostgresStore;

/// The statements whose plans are tested.
#[cfg(test)]
pub(super) fn hot_statements() -> Vec<&'static str> {
    vec![
        create::EARLIER_REQUEST,
        create::UNFINISHED,
        create::SET_JOB,
        read::ONE,
        read::LIST_ALL,
        read::LIST_OF_USER,
        read::LIST_OF_URL,
        read::LIST_OF_RECURRING,
        read::REPORT,
        read::PREVIOUS,
        read::SCREENSHOT,
        result::WRITE,
        result::PRUNE,
        told::OF_JOBS,
        recurring::ONE,
        recurring::LOCK,
        recurring::UPDATE,
        recurring::COUNT,
        recurring::LIST_ALL,
        recurring::LIST_OF_USER,
    ]
}

#[async_trait]
impl AuditStore for PostgresStore {
    async fn create_audit(
        &self,
        new: NewAudit,
        unfinished_max: u32,
        now: Timestamp,
    ) -> Result<CreateAuditAnswer, StoreError> {
        let operation = create::Create { new, unfinished_max, catalog: &self.catalog, now };
        self.change("store.audit_create", &operation).await
    }

    async fn audit(&self, scope: Scope, id: AuditId) -> Result<Option<Audit>, StoreError> {
        self.pool.run(&read::One { scope, id }).await
    }

    async fn audits(
        &self,
        scope: Scope,
        filter: AuditFilter,
        before: Option<AuditId>,
        rows_max: u32,
    ) -> Result<Vec<Audit>, StoreError> {
        self.pool.run(&read::List { scope, filter, before, rows_max }).await
    }

    async fn audit_report(
        &self,
        scope: Scope,
        id: AuditId,
    ) -> Result<Option<AuditReport>, StoreError> {
        self.pool.run(&read::Report { scope, id }).await
    }

    async fn audit_screenshot(
        &self,
        scope: Scope,
        id: AuditId,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.pool.run(&read::Screenshot { scope, id }).await
    }

    async fn previous_audit(
        &self,
        user: UserId,
        website_url: String,
        before: AuditId,
    ) -> Result<Option<AuditReport>, StoreError> {
        self.pool.run(&read::Previous { user, website_url, before }).await
    }

    async fn prune_audits(&self, before: Timestamp, rows_max: u32) -> Result<u64, StoreError> {
        let operation = result::Prune { before, rows_max };
        self.change("store.audit_prune", &operation).await
    }

    async fn create_recurring(
        &self,
        new: NewRecurring,
        recurring_max: u32,
        now: Timestamp,
    ) -> Result<CreateRecurringAnswer, StoreError> {
        let operation = recurring::Create { new, recurring_max, catalog: &self.catalog, now };
        self.change("store.audit_recurring", &operation).await
    }

    async fn recurring(
        &self,
        scope: Scope,
        id: RecurringId,
    ) -> Result<Option<Recurring>, StoreError> {
        self.pool.run(&recurring::One { scope, id }).await
    }

    async fn recurrings(
        &self,
        scope: Scope,
        before: Option<RecurringId>,
        rows_max: u32,
    ) -> Result<Vec<Recurring>, StoreError> {
        self.pool.run(&recurring::List { scope, before, rows_max }).await
    }

    async fn change_recurring(
        &self,
        scope: Scope,
        id: RecurringId,
        change: RecurringChange,
        now: Timestamp,
    ) -> Result<ChangeRecurringAnswer, StoreError> {
        let operation =
            recurring::Change { scope, id, wanted: change, catalog: &self.catalog, now };
        self.change("store.audit_recurring_change", &operation).await
    }

    async fn delete_recurring(&self, scope: Scope, id: RecurringId) -> Result<bool, StoreError> {
        let operation = recurring::Delete { scope, id };
        self.change("store.audit_recurring_delete", &operation).await
    }

    async fn start_due_audit(
        &self,
        id: RecurringId,
        priority: i16,
        attempts_max: u32,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<DueAnswer, StoreError> {
        let operation =
            recurring::StartDue { id, priority, attempts_max, guard, catalog: &self.catalog, now };
        self.change("store.audit_due", &operation).await
    }
}
