//! Users, their API tokens, and who may see what.

mod token;

use serde::{Deserialize, Serialize};

pub use token::{
    ApiToken, Authenticated, InvalidToken, NewToken, TOKEN_PREFIX, TokenHash, TokenId, TokenScope,
    TokenSecret, UnknownScope,
};

use crate::Timestamp;

/// A user's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserId(i64);

impl UserId {
    /// Owner of the jobs that Roundsman itself needs. No row in `users` has this number.
    pub const SYSTEM: UserId = UserId(0);

    pub const fn new(value: i64) -> Self {
        UserId(value)
    }

    pub const fn get(self) -> i64 {
        self.0
    }
}

/// A user, with the columns that an existing Vexa database has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub email: String,
    pub name: Option<String>,
    pub image_url: Option<String>,
    pub max_concurrent_bots: i32,
    pub created_at: Timestamp,
    /// A JSON object.
    pub data: String,
}

/// A user to be found by e-mail address or made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUser {
    pub email: String,
    pub name: Option<String>,
    pub image_url: Option<String>,
    pub max_concurrent_bots: i32,
}

/// The text cannot be an e-mail address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an e-mail address of at most 255 characters, such as ada@example.org")]
pub struct InvalidEmail;

/// Checks and normalises an e-mail address: it names a user, so case must not make two of one.
pub fn normal_email(text: &str) -> Result<String, InvalidEmail> {
    let text = text.trim();
    let (local, domain) = text.rsplit_once('@').ok_or(InvalidEmail)?;
    let clean = !text.chars().any(|c| c.is_control() || c.is_whitespace());
    if local.is_empty() || domain.is_empty() || text.len() > 255 || !clean {
        return Err(InvalidEmail);
    }
    Ok(text.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_one_user_whatever_its_case() {
        assert_eq!(normal_email(" Ada@Example.ORG "), Ok("ada@example.org".to_owned()));
        for bad in ["", "ada", "@x", "ada@", "a b@x", "a@\0", &format!("{}@x", "a".repeat(255))] {
            assert_eq!(normal_email(bad), Err(InvalidEmail), "{bad:?}");
        }
    }
}
