//! The jobs of audits.

use super::{AuditId, RecurringId};
use crate::Timestamp;
use crate::jobs::{JobKey, Json, KindName, NewJob};
use crate::users::UserId;

/// Looks at one page and judges it; its key is the audit's number. The tables follow it by this name.
pub const RUN_KIND: &str = "audits.run";
/// Starts an audit whenever its time comes; its key is the number of the recurring audit.
pub const RECUR_KIND: &str = "audits.recur";

/// The job that runs an audit. It is the user's own: they may look at it, and stop it.
pub fn run_wish(
    audit: AuditId,
    user: UserId,
    priority: i16,
    attempts_max: u32,
    now: Timestamp,
) -> NewJob {
    NewJob {
        user_id: user,
        kind: kind(RUN_KIND),
        key: JobKey::new(&audit.to_string()).ok(),
        payload: Json::null(),
        priority,
        run_at: now,
        max_attempts: Some(attempts_max),
        tenant: None,
    }
}

/// The alarm of a recurring audit. Owned by the system, so that pausing is the only way to stop it.
pub fn recur_wish(recurring: RecurringId, at: Timestamp) -> NewJob {
    NewJob {
        user_id: UserId::SYSTEM,
        kind: kind(RECUR_KIND),
        key: JobKey::new(&recurring.to_string()).ok(),
        payload: Json::null(),
        priority: 0,
        run_at: at,
        max_attempts: None,
        tenant: None,
    }
}

fn kind(name: &str) -> KindName {
    KindName::new(name).expect("a built-in kind has a valid name")
}
