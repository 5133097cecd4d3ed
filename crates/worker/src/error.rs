//! What can go wrong, for the worker and for a job.

use std::time::Duration;

/// Why a worker cannot be made, or a request of it was not answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} is not the address of a server")]
    Address(String),
    #[error("the token cannot be sent in a header")]
    Token,
    #[error("the HTTP client cannot be made: {0}")]
    Client(reqwest::Error),
}

/// Why a job could not be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub(crate) code: Option<String>,
    pub(crate) message: String,
    pub(crate) is_fatal: bool,
    pub(crate) retry_after: Option<Duration>,
}

impl Failure {
    /// Tried again while attempts are left.
    pub fn new(message: impl Into<String>) -> Self {
        Failure { code: None, message: message.into(), is_fatal: false, retry_after: None }
    }

    /// Not tried again: the job itself is wrong.
    pub fn fatal(message: impl Into<String>) -> Self {
        Failure { is_fatal: true, ..Failure::new(message) }
    }

    /// A word by which failures are found.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Not tried again before this has passed.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }
}

/// So that `?` works in handlers: whatever went wrong is tried again.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::new(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::new(error.to_string())
    }
}
