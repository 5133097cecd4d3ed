//! Audits at run time: the service that callers use, the job that looks at a page and judges it, the
//! alarms of those that recur, and the forgetting of old ones.
//!
//! Invariants: an audit is in the database, with its job, before whoever asked is answered; what was
//! found lands with the end of the job, under its lease, or not at all; a look that may succeed later is
//! tried again, one that cannot is not.

mod found;
mod prune;
mod recur;
mod run;
mod service;
mod work;

pub use found::StoredReport;
pub use prune::PRUNE_KIND;
pub use recur::recur_spec;
pub use run::run_spec;
pub use service::{
    AuditRequest, Audits, CreateReply, RecurringRequest, RecurringWish, ReportFormat, WantedOptions,
};
pub use work::{AuditSettings, AuditWork, audit_specs, audit_wishes};
