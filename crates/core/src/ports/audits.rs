//! Audits in the database.
//!
//! Invariants: an audit and the job that runs it are made in one transaction; its state is read from
//! that job ([`crate::audits::AuditState::of`]), and what it ended as is kept by the transaction that ends
//! the job, so that it survives the job's pruning; what was found is written by
//! [`crate::effects::Effects::audits`] with the end of the job, or not at all.

use async_trait::async_trait;

use super::{Scope, StoreError};
use crate::Timestamp;
use crate::audits::{
    Audit, AuditId, AuditReport, AuditStatus, NewAudit, NewRecurring, Recurring, RecurringChange,
    RecurringId,
};
use crate::jobs::LeaseRef;
use crate::users::UserId;

/// Stores audits, and those that recur.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Makes an audit and its job, unless the user has `unfinished_max` already. A request that was
    /// carried out before is answered with what it made.
    async fn create_audit(
        &self,
        new: NewAudit,
        unfinished_max: u32,
        now: Timestamp,
    ) -> Result<CreateAuditAnswer, StoreError>;

    async fn audit(&self, scope: Scope, id: AuditId) -> Result<Option<Audit>, StoreError>;

    /// Audits, newest first, those with a lower number than `before`.
    async fn audits(
        &self,
        scope: Scope,
        filter: AuditFilter,
        before: Option<AuditId>,
        rows_max: u32,
    ) -> Result<Vec<Audit>, StoreError>;

    /// All that a completed audit found; `None` for any other.
    async fn audit_report(
        &self,
        scope: Scope,
        id: AuditId,
    ) -> Result<Option<AuditReport>, StoreError>;

    /// The picture of a completed audit.
    async fn audit_screenshot(
        &self,
        scope: Scope,
        id: AuditId,
    ) -> Result<Option<Vec<u8>>, StoreError>;

    /// The newest completed audit of a user's page with a number below this one.
    async fn previous_audit(
        &self,
        user: UserId,
        website_url: String,
        before: AuditId,
    ) -> Result<Option<AuditReport>, StoreError>;

    /// Forgets audits that ended before, at most `rows_max`. Returns how many.
    async fn prune_audits(&self, before: Timestamp, rows_max: u32) -> Result<u64, StoreError>;

    /// Makes a recurring audit, as [`crate::audits::first`] says, with its alarm, unless the user has
    /// `recurring_max` already.
    async fn create_recurring(
        &self,
        new: NewRecurring,
        recurring_max: u32,
        now: Timestamp,
    ) -> Result<CreateRecurringAnswer, StoreError>;

    async fn recurring(
        &self,
        scope: Scope,
        id: RecurringId,
    ) -> Result<Option<Recurring>, StoreError>;

    /// Recurring audits, newest first, those with a lower number than `before`.
    async fn recurrings(
        &self,
        scope: Scope,
        before: Option<RecurringId>,
        rows_max: u32,
    ) -> Result<Vec<Recurring>, StoreError>;

    /// Does what [`crate::audits::change`] says, and sets the alarm anew.
    async fn change_recurring(
        &self,
        scope: Scope,
        id: RecurringId,
        change: RecurringChange,
        now: Timestamp,
    ) -> Result<ChangeRecurringAnswer, StoreError>;

    /// Its audits stay. `false` if there is none.
    async fn delete_recurring(&self, scope: Scope, id: RecurringId) -> Result<bool, StoreError>;

    /// The alarm of a recurring audit rings: does what [`crate::audits::due`] says, once for each time,
    /// with this priority and so many attempts.
    async fn start_due_audit(
        &self,
        id: RecurringId,
        priority: i16,
        attempts_max: u32,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<DueAnswer, StoreError>;
}

/// Which audits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub status: Option<AuditStatus>,
    pub website_url: Option<String>,
    pub recurring: Option<RecurringId>,
}

/// What making an audit came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateAuditAnswer {
    Created(Box<Audit>),
    /// The request was carried out before: this is what it made, as it is now.
    Replayed(Box<Audit>),
    /// The key was used with another request.
    KeyReused,
    /// So many are not finished.
    TooMany {
        unfinished: u32,
    },
}

/// What making a recurring audit came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateRecurringAnswer {
    Created(Box<Recurring>),
    TooMany { recurring: u32 },
}

/// What changing a recurring audit came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeRecurringAnswer {
    Changed(Box<Recurring>),
    NotFound,
}

/// What an alarm came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DueAnswer {
    /// The next time is `next_at`.
    Started {
        audit: Box<Audit>,
        next_at: Timestamp,
    },
    /// The audit before is not finished.
    Skipped {
        next_at: Timestamp,
    },
    NotBefore(Timestamp),
    /// It is paused or deleted: the alarm is over.
    Over,
    LeaseLost,
}
