//! What is wrong with a configuration: all of it at once, so that one try is enough to repair it.

use std::collections::BTreeSet;
use std::fmt;

/// Everything found wrong. An error once it is not empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Problems {
    messages: Vec<String>,
    /// Settings without a usable value: nothing more is said about them, because what follows from
    /// a wrong value is noise.
    spoiled: BTreeSet<String>,
}

impl Problems {
    /// A problem that is not about one setting.
    pub(super) fn add(&mut self, message: String) {
        self.messages.push(message);
    }

    /// A problem that leaves the setting `path` without a usable value.
    pub(super) fn spoil(&mut self, path: &str, message: String) {
        self.spoiled.insert(path.to_owned());
        self.messages.push(message);
    }

    pub(super) fn is_spoiled(&self, path: &str) -> bool {
        self.spoiled.contains(path)
    }

    /// `value` if nothing was wrong with it.
    pub(super) fn into_result<T>(self, value: T) -> Result<T, Problems> {
        if self.messages.is_empty() { Ok(value) } else { Err(self) }
    }

    #[cfg(test)]
    pub(super) fn messages(&self) -> &[String] {
        &self.messages
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.messages.as_slice() {
            [message] => write!(f, "the configuration is not usable: {message}"),
            messages => {
                write!(f, "the configuration is not usable, {} problems:", messages.len())?;
                messages.iter().try_for_each(|message| write!(f, "\n  - {message}"))
            }
        }
    }
}

impl std::error::Error for Problems {}
