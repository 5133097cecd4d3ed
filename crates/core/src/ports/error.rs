//! The one error of every database port.

/// Why a database operation did not happen.
///
/// The message names the cause in full, so that it is not offered as a source once more.
///
/// An expected refusal (a lost lease, a row that is not there) is part of an operation's answer,
/// not an error: errors mean the answer is unknown or the operation cannot work.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached or is refusing work now; trying again may help. After this
    /// error a write may or may not have happened.
    #[error("the database is unavailable: {0}")]
    Unavailable(Box<dyn std::error::Error + Send + Sync>),
    /// The database is full, read-only or its disk fails; nothing was written.
    #[error("the database cannot store more: {0}")]
    StorageFull(Box<dyn std::error::Error + Send + Sync>),
    /// The write meets a row it excludes; nothing was written.
    #[error("{what} exists already")]
    Conflict { what: &'static str },
    /// A row does not say what the schema promises: a bug, or somebody edited it by hand.
    #[error("{table}.{column} of row {row} is not valid: {reason}")]
    Inconsistent { table: &'static str, column: &'static str, row: i64, reason: String },
    /// The schema of the database is newer than this program.
    #[error(
        "the database has schema {found}, this program knows up to {known}; start the newer release"
    )]
    SchemaTooNew { found: u32, known: u32 },
    /// A statement failed in a way that trying again will not mend.
    #[error("database error: {0}")]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// How the messages of those errors begin that may pass by themselves.
    pub const TRANSIENT_WORDS: [&str; 2] =
        ["the database is unavailable", "the database cannot store more"];

    /// Whether the same call may succeed later without anybody changing anything here.
    pub fn is_transient(&self) -> bool {
        matches!(self, StoreError::Unavailable(_) | StoreError::StorageFull(_))
    }

    /// The same error once more, for each of several callers whose work was done together.
    #[must_use]
    pub fn repeat(&self) -> StoreError {
        let source = || -> Box<dyn std::error::Error + Send + Sync> { self.to_string().into() };
        match self {
            StoreError::Unavailable(_) => StoreError::Unavailable(source()),
            StoreError::StorageFull(_) => StoreError::StorageFull(source()),
            StoreError::Failed(_) => StoreError::Failed(source()),
            StoreError::Conflict { what } => StoreError::Conflict { what },
            StoreError::Inconsistent { table, column, row, reason } => {
                StoreError::Inconsistent { table, column, row: *row, reason: reason.clone() }
            }
            StoreError::SchemaTooNew { found, known } => {
                StoreError::SchemaTooNew { found: *found, known: *known }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_may_pass_are_known_by_their_words() {
        let errors = [
            StoreError::Unavailable("x".into()),
            StoreError::StorageFull("x".into()),
            StoreError::Failed("x".into()),
            StoreError::Conflict { what: "x" },
            StoreError::SchemaTooNew { found: 2, known: 1 },
        ];
        for error in errors {
            let text = error.to_string();
            let known = StoreError::TRANSIENT_WORDS.iter().any(|words| text.starts_with(words));
            assert_eq!(known, error.is_transient(), "{text}");
        }
    }
}
