//! API tokens: `rmt_{id}_{secret}`. The number finds the row, the secret proves the right to it.
//!
//! Invariant: the secret exists in the answer that created it and nowhere else; the database keeps
//! its SHA-256, which is enough because the secret is 32 random bytes.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::UserId;
use crate::Timestamp;
use crate::ports::Random;

/// Begins every token, so that secret scanners find them.
pub const TOKEN_PREFIX: &str = "rmt_";

/// A token's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenId(i64);

impl TokenId {
    pub const fn new(value: i64) -> Self {
        TokenId(value)
    }

    pub const fn get(self) -> i64 {
        self.0
    }
}

/// The secret part of a token. Shown once; its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret([u8; 32]);

impl TokenSecret {
    pub fn draw(random: &dyn Random) -> Self {
        let mut bytes = [0u8; 32];
        random.fill(&mut bytes);
        TokenSecret(bytes)
    }

    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.0).into())
    }

    /// The whole token, as its owner sends it.
    pub fn reveal(&self, id: TokenId) -> String {
        format!("{TOKEN_PREFIX}{}_{}", id.get(), self.to_hex())
    }

    /// Takes a token apart. Says nothing about whether it is valid.
    pub fn parse(token: &str) -> Result<(TokenId, TokenSecret), InvalidToken> {
        let rest = token.strip_prefix(TOKEN_PREFIX).ok_or(InvalidToken)?;
        let (id, secret) = rest.split_once('_').ok_or(InvalidToken)?;
        let id: i64 = id.parse().map_err(|_| InvalidToken)?;
        Ok((TokenId(id), TokenSecret::from_hex(secret)?))
    }

    /// As it is spelt within a token.
    pub(crate) fn to_hex(&self) -> String {
        hex::encode(self.0)
    }

    pub(crate) fn from_hex(text: &str) -> Result<Self, InvalidToken> {
        let mut bytes = [0u8; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| InvalidToken)?;
        Ok(TokenSecret(bytes))
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(hidden)")
    }
}

/// The text is not a token of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an API token")]
pub struct InvalidToken;

/// What the database keeps of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    pub const fn from_stored(bytes: [u8; 32]) -> Self {
        TokenHash(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Compares in constant time.
    pub fn matches(&self, secret: &TokenSecret) -> bool {
        self.0.ct_eq(&secret.hash().0).into()
    }
}

/// What a token may be used for. A token without scopes may do all its user may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenScope {
    /// Look, change nothing.
    Read,
    /// Enqueue, cancel and retry jobs.
    Jobs,
    /// Take part as a worker: claim, heartbeat, complete.
    Work,
    /// Start, configure and stop bots.
    Bot,
    /// Read and manage transcripts.
    Tx,
}

/// The text names no scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a scope is one of read, jobs, work, bot, tx")]
pub struct UnknownScope;

impl TokenScope {
    pub const ALL: [TokenScope; 5] =
        [TokenScope::Read, TokenScope::Jobs, TokenScope::Work, TokenScope::Bot, TokenScope::Tx];

    pub fn as_str(self) -> &'static str {
        match self {
            TokenScope::Read => "read",
            TokenScope::Jobs => "jobs",
            TokenScope::Work => "work",
            TokenScope::Bot => "bot",
            TokenScope::Tx => "tx",
        }
    }

    pub fn parse(text: &str) -> Result<Self, UnknownScope> {
        TokenScope::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or(UnknownScope)
    }
}

/// A token to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    pub user_id: UserId,
    pub name: Option<String>,
    pub scopes: Vec<TokenScope>,
    pub hash: TokenHash,
    pub expires_at: Option<Timestamp>,
}

/// A token as the database keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiToken {
    pub id: TokenId,
    pub user_id: UserId,
    pub name: Option<String>,
    /// Empty: everything its user may do.
    pub scopes: Vec<TokenScope>,
    pub hash: TokenHash,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

impl ApiToken {
    /// Whether the token opens anything at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// Who is asking, after their token was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authenticated {
    /// The operator.
    Admin,
    /// A user, through one of their tokens.
    User { user_id: UserId, token_id: TokenId, scopes: Vec<TokenScope> },
}

impl Authenticated {
    /// Whether this caller may do what needs `scope`. Every scope includes looking.
    pub fn may(&self, scope: TokenScope) -> bool {
        match self {
            Authenticated::Admin => true,
            Authenticated::User { scopes, .. } => {
                scopes.is_empty() || scope == TokenScope::Read || scopes.contains(&scope)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting;

    impl Random for Counting {
        fn fill(&self, buffer: &mut [u8]) {
            for (byte, value) in buffer.iter_mut().zip(1u8..) {
                *byte = value;
            }
        }
    }

    #[test]
    fn a_token_comes_apart_into_what_it_was_made_of() {
        let secret = TokenSecret::draw(&Counting);
        let (id, parsed) = TokenSecret::parse(&secret.reveal(TokenId::new(42))).unwrap();
        assert_eq!((id, &parsed), (TokenId::new(42), &secret));
        assert!(secret.hash().matches(&parsed));
        assert!(!secret.hash().matches(&TokenSecret([0; 32])));
        assert!(!format!("{secret:?}").contains("0102"));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["", "rmt_", "rmt_1_", "rmt_x_00", "1_00", "rmt_1_zz", &"a".repeat(10_000)] {
            assert_eq!(TokenSecret::parse(text).map(|(id, _)| id), Err(InvalidToken));
        }
    }

    #[test]
    fn scopes_narrow_and_none_means_all() {
        let user = |scopes: Vec<TokenScope>| Authenticated::User {
            user_id: UserId::new(1),
            token_id: TokenId::new(1),
            scopes,
        };
        assert!(user(vec![]).may(TokenScope::Work));
        assert!(user(vec![TokenScope::Work]).may(TokenScope::Read));
        assert!(!user(vec![TokenScope::Work]).may(TokenScope::Jobs));
        assert!(Authenticated::Admin.may(TokenScope::Jobs));
    }
}
