//! An audit as it is known.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{AuditState, AuditSummary, RecurringId};
use crate::Timestamp;
use crate::jobs::{JobId, Json};
use crate::users::UserId;

/// An audit's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AuditId(i64);

impl AuditId {
    pub const fn new(value: i64) -> Self {
        AuditId(value)
    }

    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for AuditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a page is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditOptions {
    /// Measure in a browser too, if the machine has one.
    pub browser: bool,
    /// A robots.txt that forbids the page ends the audit.
    pub obey_robots: bool,
}

impl Default for AuditOptions {
    fn default() -> Self {
        AuditOptions { browser: false, obey_robots: true }
    }
}

/// An audit that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAudit {
    pub user_id: UserId,
    /// As [`super::normal_url`] writes it.
    pub website_url: String,
    pub options: AuditOptions,
    pub priority: i16,
    /// How often it is tried.
    pub attempts_max: u32,
    pub request: Option<RequestKey>,
}

/// Names one request of one client, however often it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    pub key: String,
    /// Of the request's body: the same key with another body is a mistake of the client.
    pub body_hash: [u8; 32],
}

/// An audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    pub id: AuditId,
    pub user_id: UserId,
    /// The job that runs it. It may have been pruned since.
    pub job_id: JobId,
    /// The one that it was started for.
    pub recurring_id: Option<RecurringId>,
    pub website_url: String,
    pub options: AuditOptions,
    pub priority: i16,
    pub created_at: Timestamp,
    pub state: AuditState,
    /// What was found, if it is completed.
    pub summary: Option<AuditSummary>,
}

/// A completed audit with all that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditReport {
    pub audit: Audit,
    pub redirects: Json,
    pub headers: Json,
    /// The fourteen checks, as the original keeps them.
    pub raw_data: Json,
    /// What the report is rendered from.
    pub report: Json,
}
