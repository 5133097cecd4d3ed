//! Changes of documents, as they are stored. What is in them is nobody's business here.

use bytes::Bytes;

use super::{AppendRules, ProjectId};

/// A change that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUpdate {
    pub project: ProjectId,
    pub payload: Bytes,
    pub origin: UpdateOrigin,
    pub rules: AppendRules,
}

/// Where a change came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UpdateOrigin {
    /// A client that is connected.
    Client,
    /// A request over HTTP: a patch, an import, a restored version.
    Request,
    /// The result of a task.
    Task,
}

impl UpdateOrigin {
    pub const ALL: [UpdateOrigin; 3] =
        [UpdateOrigin::Client, UpdateOrigin::Request, UpdateOrigin::Task];

    pub fn as_str(self) -> &'static str {
        match self {
            UpdateOrigin::Client => "client",
            UpdateOrigin::Request => "request",
            UpdateOrigin::Task => "task",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        UpdateOrigin::ALL.into_iter().find(|origin| origin.as_str() == text)
    }
}

/// A change with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredUpdate {
    pub seq: i64,
    pub payload: Bytes,
    pub origin: UpdateOrigin,
}

/// A change that was just stored, for whoever is to hear of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendedUpdate {
    pub project: ProjectId,
    pub seq: i64,
    pub payload: Bytes,
}
