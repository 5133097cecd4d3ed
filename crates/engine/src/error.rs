//! What a service may refuse, independent of how a caller is told.

use roundsman_core::jobs::JobState;
use roundsman_core::ports::StoreError;

/// Why a service did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was named does not exist, or belongs to somebody else.
    #[error("no such {what}")]
    NotFound { what: &'static str },
    /// The request cannot be understood; every problem is listed.
    #[error("the request is not valid")]
    Invalid(Vec<FieldError>),
    /// The caller may not do this with the token they sent.
    #[error("{reason}")]
    Forbidden { reason: String },
    /// The caller's lease is no longer theirs; nothing was changed.
    #[error("the lease is no longer held: another worker has the job, or it has ended")]
    LeaseLost,
    /// The thing is in a state that excludes the request.
    #[error("the job is {}", state.as_str())]
    WrongState { state: JobState },
    /// Another waiting job has the same key.
    #[error("job {by} with the same key is waiting already")]
    KeyTaken { by: i64 },
    /// The idempotency key was used before, with another request.
    #[error("this Idempotency-Key was used before with a different request")]
    IdempotencyKeyReused,
    /// A part of the request is larger than allowed.
    #[error("{field} is {bytes} bytes, the limit is {bytes_max}")]
    TooLarge { field: &'static str, bytes: usize, bytes_max: usize },
    /// A limit of the caller's is reached.
    #[error("you have {count} {what}, which is the limit")]
    TooMany { what: &'static str, count: u32 },
    /// A bug of ours.
    #[error("{0}")]
    Internal(String),
    /// The server is going down and takes no new work.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The database did not answer as it should.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One thing that is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Where: a path such as `jobs[3].kind`.
    pub field: String,
    pub message: String,
}

impl FieldError {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        FieldError { field: field.into(), message: message.into() }
    }
}
