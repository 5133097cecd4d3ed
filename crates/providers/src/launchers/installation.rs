//! Which server a workload belongs to, where several share a runtime.

use roundsman_core::bots::WorkloadId;

const BYTES_MAX: usize = 32;

/// A short text that is part of every workload's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation(String);

/// The text cannot name an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an installation is named by 1 to {BYTES_MAX} lower case letters and digits")]
pub struct InvalidInstallation;

impl Installation {
    /// Takes only what is safe in a file's name, a container's name and a filter of labels, and
    /// cannot be mistaken for the rest of a workload's name.
    pub fn new(text: &str) -> Result<Self, InvalidInstallation> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if text.is_empty() || text.len() > BYTES_MAX || !text.bytes().all(plain) {
            return Err(InvalidInstallation);
        }
        Ok(Installation(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn name_of(&self, workload: WorkloadId) -> String {
        workload.name(&self.0)
    }

    /// Reads a name that this installation gave; no other spelling of the same numbers.
    pub(super) fn workload_of(&self, name: &str) -> Option<WorkloadId> {
        WorkloadId::parse(name, &self.0).filter(|workload| self.name_of(*workload) == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_short_names_are_taken() {
        assert!(Installation::new("a1b2").is_ok());
        for bad in ["", "A", "a-b", "a/b", "..", "a b", "ä", &"a".repeat(33)] {
            assert_eq!(Installation::new(bad), Err(InvalidInstallation), "{bad}");
        }
    }

    #[test]
    fn a_name_is_read_back_only_as_it_was_given() {
        let installation = Installation::new("a1").unwrap();
        assert!(installation.workload_of("roundsman-a1-bot-7-2").is_some());
        for foreign in ["roundsman-a1-bot-+7-2", "roundsman-a1-bot-07-2", "roundsman-a-bot-7-2"] {
            assert_eq!(installation.workload_of(foreign), None, "{foreign}");
        }
    }
}
