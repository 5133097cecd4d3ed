//! Audits of websites: what was seen of a page, and how an audit's states follow from its job.
//!
//! Invariants: an audit has no state of its own while its job lives, [`AuditState::of`] reads it from
//! there; what was found is written with the end of the job, or not at all; an audit that recurs is
//! started once for each time that comes, however often its job runs.

mod address;
mod audit;
pub mod observed;
mod priority;
mod recurring;
mod result;
pub mod robots;
mod schedule;
mod state;
mod told;
mod work;

pub use address::{InvalidUrl, URL_BYTES_MAX, domain_of, normal_url};
pub use audit::{Audit, AuditId, AuditOptions, AuditReport, NewAudit, RequestKey};
pub use priority::{AskedAudit, InvalidRule, PriorityRule, priority_of};
pub use recurring::{
    Due, NewRecurring, Recurring, RecurringChange, RecurringId, change, due, first,
};
pub use result::{AuditResult, AuditSummary, Measured, Scores};
pub use schedule::{InvalidSchedule, Schedule};
pub use state::{AuditState, AuditStatus, LastRun, troubles};
pub use told::{failed_event, is_failed_run};
pub use work::{RECUR_KIND, RUN_KIND, recur_wish, run_wish};
