//! What a failed statement means: try again, drop the connection, or tell the caller.

use std::io;

use roundsman_core::ports::StoreError;
use tokio_postgres::error::SqlState;

/// Why one try of an operation did not succeed.
#[derive(Debug)]
pub(super) enum Failure {
    /// A statement failed before anything was committed.
    Statement(tokio_postgres::Error),
    /// The statement that commits failed. If the connection broke, nobody knows whether it did.
    Commit(tokio_postgres::Error),
    /// Others kept changing the same rows in between.
    Raced,
    /// The answer is an error already.
    Store(StoreError),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Failure::Statement(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Store(error)
    }
}

impl Failure {
    /// Whether the connection may serve the next caller, after a rollback.
    pub(super) fn leaves_connection_usable(&self) -> bool {
        match self {
            Failure::Statement(error) | Failure::Commit(error) => !matches!(
                Class::of(error),
                // What is prepared on it no longer fits, it leads to a server that was demoted, or
                // it is gone.
                Class::Broken | Class::Stale | Class::ReadOnly
            ),
            Failure::Raced | Failure::Store(_) => true,
        }
    }

    /// Whether the same operation may be tried at once: certainly nothing was written, and there is
    /// reason to think that it goes better now.
    pub(super) fn may_be_repeated(&self) -> bool {
        match self {
            Failure::Statement(error) => {
                matches!(Class::of(error), Class::Contention | Class::Stale | Class::Broken)
            }
            Failure::Commit(error) => {
                matches!(Class::of(error), Class::Contention | Class::Stale)
            }
            Failure::Raced => true,
            Failure::Store(_) => false,
        }
    }

    pub(super) fn into_store_error(self) -> StoreError {
        match self {
            Failure::Statement(error) | Failure::Commit(error) => store_error(error),
            Failure::Raced => StoreError::Unavailable("the same rows kept changing".into()),
            Failure::Store(error) => error,
        }
    }
}

/// The error of a statement that is not part of a repeatable operation.
pub(super) fn store_error(error: tokio_postgres::Error) -> StoreError {
    match Class::of(&error) {
        Class::Contention if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
            StoreError::Conflict { what: "a row with the same key" }
        }
        Class::Contention | Class::Stale | Class::Broken | Class::Busy => {
            StoreError::Unavailable(Box::new(Explained(error)))
        }
        Class::Full | Class::ReadOnly => StoreError::StorageFull(Box::new(Explained(error))),
        Class::Mistake => StoreError::Failed(Box::new(Explained(error))),
    }
}

/// The driver shows a server's error as the bare words "db error"; operators want its message.
#[derive(Debug, thiserror::Error)]
#[error("{}", explain(.0))]
struct Explained(#[source] tokio_postgres::Error);

fn explain(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} (SQLSTATE {})", db.message(), db.code().code()),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}

/// The sorts of errors that need different answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Lost against another transaction; nothing was written.
    Contention,
    /// What was prepared on this connection no longer fits; nothing was written.
    Stale,
    /// The connection or its server is gone.
    Broken,
    /// The server refuses work now.
    Busy,
    /// The server cannot write any more.
    Full,
    /// The server is a replica, or has become one.
    ReadOnly,
    /// A bug, or a schema that is not ours.
    Mistake,
}

impl Class {
    fn of(error: &tokio_postgres::Error) -> Self {
        match error.code() {
            Some(code) => Class::of_code(code),
            None if error.is_closed() => Class::Broken,
            None => match std::error::Error::source(error) {
                Some(source) => match source.downcast_ref::<io::Error>() {
                    // A value too large for the protocol: the connection has not noticed.
                    Some(io) if io.kind() == io::ErrorKind::InvalidInput => Class::Mistake,
                    Some(_) => Class::Broken,
                    None => Class::Mistake,
                },
                None => Class::Broken,
            },
        }
    }

    fn of_code(code: &SqlState) -> Self {
        match code.code() {
            // Serialisation, deadlock, lock not available in time, and a unique index that another
            // transaction filled first: see the claim for the one index where that could happen.
            "40001" | "40P01" | "55P03" | "23505" => Class::Contention,
            // A prepared statement that the server does not know, or knows otherwise; "cached plan
            // must not change result type" comes as feature_not_supported.
            "26000" | "42P05" | "0A000" => Class::Stale,
            // The server is shutting down, has crashed, or the session was ended.
            "57P01" | "57P02" | "57P03" | "57P05" | "25P03" => Class::Broken,
            code if code.starts_with("08") => Class::Broken,
            // Statement timeout, too many connections, out of memory.
            "57014" | "53300" | "53200" | "53000" | "53400" => Class::Busy,
            "53100" | "58030" => Class::Full,
            "25006" => Class::ReadOnly,
            _ => Class::Mistake,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_mean_what_the_operator_needs() {
        let cases = [
            ("40001", Class::Contention),
            ("40P01", Class::Contention),
            ("55P03", Class::Contention),
            ("26000", Class::Stale),
            ("57P01", Class::Broken),
            ("08006", Class::Broken),
            ("57014", Class::Busy),
            ("53300", Class::Busy),
            ("53100", Class::Full),
            ("25006", Class::ReadOnly),
            ("42P01", Class::Mistake),
            ("22P05", Class::Mistake),
        ];
        for (code, class) in cases {
            assert_eq!(Class::of_code(&SqlState::from_code(code)), class, "{code}");
        }
    }
}
