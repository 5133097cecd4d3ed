//! The name of a project, which is also the name of its room.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A project's name is at most this long: what the protocol of documents allows for a room.
pub const PROJECT_BYTES_MAX: usize = 128;

/// A project, as its users call it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProjectId(String);

/// The text cannot name a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a project id is 1 to {PROJECT_BYTES_MAX} bytes without control characters")]
pub struct InvalidProject;

impl ProjectId {
    pub fn new(text: &str) -> Result<Self, InvalidProject> {
        let too_long = text.len() > PROJECT_BYTES_MAX;
        if text.is_empty() || too_long || text.chars().any(char::is_control) {
            return Err(InvalidProject);
        }
        Ok(ProjectId(text.to_owned()))
    }

    /// Takes the database's own copy.
    pub fn from_stored(text: String) -> Self {
        ProjectId(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_a_short_name_without_control_characters() {
        let longest = "p".repeat(PROJECT_BYTES_MAX);
        for good in ["p", "clash/42", "Größe 7", longest.as_str()] {
            assert_eq!(ProjectId::new(good).unwrap().as_str(), good);
        }
        let long = "p".repeat(PROJECT_BYTES_MAX + 1);
        for bad in ["", "a\0", "a\nb", long.as_str()] {
            assert_eq!(ProjectId::new(bad), Err(InvalidProject), "{bad:?}");
        }
    }
}
