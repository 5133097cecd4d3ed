//! Why an attempt did not succeed, in a form that can be counted and shown.

use serde::{Deserialize, Serialize};

use crate::limits::{ERROR_CODE_BYTES_MAX, ERROR_MESSAGE_BYTES_MAX};

/// A short machine-readable word such as `timeout`; also a metric label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ErrorCode(String);

impl ErrorCode {
    /// Keeps what fits into a code: lower-case letters, digits, `_`, `-` and `.`; anything else
    /// becomes `_`. A code is never refused, because losing an error is worse than an odd label.
    pub fn new(text: &str) -> Self {
        let mut code: String = text
            .chars()
            .take(ERROR_CODE_BYTES_MAX)
            .map(|c| match c.to_ascii_lowercase() {
                c @ ('a'..='z' | '0'..='9' | '_' | '-' | '.') => c,
                _ => '_',
            })
            .collect();
        if code.is_empty() {
            code.push_str("error");
        }
        ErrorCode(code)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An error as it is kept with a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobError {
    pub code: ErrorCode,
    pub message: String,
}

impl JobError {
    /// Cuts the message to its limit and removes NUL, which PostgreSQL cannot store.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if message.contains('\0') {
            message = message.replace('\0', "\u{fffd}");
        }
        if message.len() > ERROR_MESSAGE_BYTES_MAX {
            let end = message.floor_char_boundary(ERROR_MESSAGE_BYTES_MAX);
            message.truncate(end);
        }
        JobError { code: ErrorCode::new(code), message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_always_a_usable_label() {
        let cases =
            [("timeout", "timeout"), ("HTTP 500", "http_500"), ("", "error"), ("ä\0", "__")];
        for (given, kept) in cases {
            assert_eq!(ErrorCode::new(given).as_str(), kept);
        }
        assert_eq!(ErrorCode::new(&"x".repeat(500)).as_str().len(), ERROR_CODE_BYTES_MAX);
    }

    #[test]
    fn a_message_is_cut_at_a_character() {
        let error = JobError::new("x", "é".repeat(ERROR_MESSAGE_BYTES_MAX));
        assert_eq!(error.message.len(), ERROR_MESSAGE_BYTES_MAX);
        assert_eq!(JobError::new("x", "a\0b").message, "a\u{fffd}b");
    }
}
