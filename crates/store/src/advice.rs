//! What an operator should know about how a database is set up.

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// What was looked at, in a word or two.
    pub subject: String,
    /// How it is.
    pub found: String,
    pub grade: Grade,
    /// What to do about it; empty if nothing.
    pub todo: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    Fine,
    /// It works, and will not for ever, or could be better.
    Doubtful,
    /// What is promised does not hold as it is.
    Wrong,
}

impl Advice {
    pub(crate) fn fine(subject: &str, found: impl Into<String>) -> Self {
        Self::new(Grade::Fine, subject, found, "")
    }

    pub(crate) fn new(
        grade: Grade,
        subject: &str,
        found: impl Into<String>,
        todo: impl Into<String>,
    ) -> Self {
        Advice { subject: subject.to_owned(), found: found.into(), grade, todo: todo.into() }
    }
}
