//! What can go wrong inside a statement, and what callers are told of it.

use std::error::Error;
use std::fmt;

use roundsman_core::ports::StoreError;
use rusqlite::ErrorCode;

/// The result of everything that runs inside a transaction of this adapter.
pub(super) type Result<T> = std::result::Result<T, Failure>;

/// An error on its way out of a transaction: SQLite's own, or one that has a meaning already.
#[derive(Debug)]
pub(super) enum Failure {
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

impl Failure {
    /// Something that trying again will not mend.
    pub(super) fn failed(message: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Failure::Store(StoreError::Failed(message.into()))
    }

    /// Something that may be better later.
    pub(super) fn unavailable(message: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Failure::Store(StoreError::Unavailable(message.into()))
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Sqlite(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Store(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => error,
            Failure::Sqlite(error) => match Meaning::of(&error) {
                Meaning::StorageFull => StoreError::StorageFull(Box::new(error)),
                Meaning::Unavailable => StoreError::Unavailable(Box::new(error)),
                Meaning::Failed => StoreError::Failed(Box::new(error)),
            },
        }
    }
}

/// Why a whole group of requests was lost. Kept apart from [`Failure`] because it is told to every
/// one of them.
#[derive(Debug, Clone)]
pub(super) struct GroupLost {
    meaning: Meaning,
    message: String,
}

impl GroupLost {
    /// The transaction never began, or SQLite rolled it back: nothing was written.
    pub(super) fn rolled_back(error: &rusqlite::Error) -> Self {
        GroupLost { meaning: Meaning::of(error), message: error.to_string() }
    }

    /// The commit itself failed. If the disk failed while it was synchronised, the commit may yet
    /// be found in the log after a restart: nobody may be told that nothing was written.
    pub(super) fn commit_failed(error: &rusqlite::Error) -> Self {
        let meaning = match (error.sqlite_error_code(), Meaning::of(error)) {
            (Some(ErrorCode::SystemIoFailure), _) => Meaning::Unavailable,
            (_, meaning) => meaning,
        };
        GroupLost { meaning, message: format!("the commit failed: {error}") }
    }

    pub(super) fn to_error(&self) -> StoreError {
        let source = Box::new(self.clone());
        match self.meaning {
            Meaning::StorageFull => StoreError::StorageFull(source),
            Meaning::Unavailable => StoreError::Unavailable(source),
            Meaning::Failed => StoreError::Failed(source),
        }
    }
}

impl fmt::Display for GroupLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for GroupLost {}

/// The answer to any call after `close`.
pub(super) fn closed() -> StoreError {
    StoreError::Unavailable("the database is closed".into())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    StorageFull,
    Unavailable,
    Failed,
}

impl Meaning {
    fn of(error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::ReadOnly) => {
                Meaning::StorageFull
            }
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::CannotOpen
                | ErrorCode::OutOfMemory
                | ErrorCode::OperationInterrupted,
            ) => Meaning::Unavailable,
            _ => Meaning::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn sqlite(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn codes_have_the_meaning_callers_act_on() {
        let meaning = |code| StoreError::from(Failure::from(sqlite(code)));
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_READONLY] {
            assert!(matches!(meaning(code), StoreError::StorageFull(_)), "{code}");
        }
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_LOCKED] {
            assert!(matches!(meaning(code), StoreError::Unavailable(_)), "{code}");
        }
        for code in [ffi::SQLITE_CONSTRAINT, ffi::SQLITE_CORRUPT, ffi::SQLITE_ERROR] {
            assert!(matches!(meaning(code), StoreError::Failed(_)), "{code}");
        }
    }

    #[test]
    fn a_commit_that_could_not_be_synchronised_is_not_called_undone() {
        let lost = GroupLost::commit_failed(&sqlite(ffi::SQLITE_IOERR_FSYNC)).to_error();
        assert!(matches!(lost, StoreError::Unavailable(_)));
        let lost = GroupLost::commit_failed(&sqlite(ffi::SQLITE_FULL)).to_error();
        assert!(matches!(lost, StoreError::StorageFull(_)));
    }
}
