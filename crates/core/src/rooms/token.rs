//! Room tokens: `rrt_{id}_{secret}`. Whoever has one may read or write the document of one room until
//! it expires or is revoked.
//!
//! Invariant: the secret exists in the answer that created it and nowhere else.

use std::fmt;

use super::ProjectId;
use crate::Timestamp;
use crate::ports::Random;
use crate::users::{TokenHash, TokenSecret};

/// Begins every room token, so that secret scanners find them.
pub const ROOM_TOKEN_PREFIX: &str = "rrt_";

/// A room token's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoomTokenId(i64);

impl RoomTokenId {
    pub const fn new(value: i64) -> Self {
        RoomTokenId(value)
    }

    pub const fn get(self) -> i64 {
        self.0
    }
}

/// What somebody may do in a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Permission {
    Read,
    Write,
}

/// The text names no permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a permission is one of read, write")]
pub struct UnknownPermission;

impl Permission {
    /// The protocol's words, and ours.
    pub fn as_str(self) -> &'static str {
        match self {
            Permission::Read => "read",
            Permission::Write => "write",
        }
    }

    pub fn parse(text: &str) -> Result<Self, UnknownPermission> {
        match text {
            "read" => Ok(Permission::Read),
            "write" => Ok(Permission::Write),
            _ => Err(UnknownPermission),
        }
    }
}

/// The secret part of a room token. Shown once; its `Debug` hides it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomTokenSecret(TokenSecret);

impl RoomTokenSecret {
    pub fn draw(random: &dyn Random) -> Self {
        RoomTokenSecret(TokenSecret::draw(random))
    }

    pub fn hash(&self) -> TokenHash {
        self.0.hash()
    }

    /// The whole token, as its holder sends it.
    pub fn reveal(&self, id: RoomTokenId) -> String {
        format!("{ROOM_TOKEN_PREFIX}{}_{}", id.get(), self.0.to_hex())
    }

    /// Takes a token apart. Says nothing about whether it is valid.
    pub fn parse(token: &str) -> Option<(RoomTokenId, RoomTokenSecret)> {
        let (id, secret) = token.strip_prefix(ROOM_TOKEN_PREFIX)?.split_once('_')?;
        let id = id.parse().ok()?;
        Some((RoomTokenId(id), RoomTokenSecret(TokenSecret::from_hex(secret).ok()?)))
    }

    pub fn matches(&self, hash: &TokenHash) -> bool {
        hash.matches(&self.0)
    }
}

/// Whether a text is to be looked up among room tokens, and not among those of users.
pub fn looks_like_room_token(text: &str) -> bool {
    text.starts_with(ROOM_TOKEN_PREFIX)
}

/// A token to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomTokenWish {
    pub project: ProjectId,
    pub permission: Permission,
    pub name: Option<String>,
    pub hash: TokenHash,
    pub expires_at: Timestamp,
}

/// A token as the database keeps it.
#[derive(Clone, PartialEq, Eq)]
pub struct RoomToken {
    pub id: RoomTokenId,
    pub project: ProjectId,
    pub permission: Permission,
    pub name: Option<String>,
    pub hash: TokenHash,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

impl fmt::Debug for RoomToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoomToken")
            .field("id", &self.id)
            .field("project", &self.project)
            .field("permission", &self.permission)
            .finish_non_exhaustive()
    }
}

/// What a token is worth at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenState {
    Holds,
    /// Its holder may fetch another and go on.
    Expired,
    /// Its holder is not wanted any more.
    Revoked,
}

impl RoomToken {
    pub fn state(&self, now: Timestamp) -> TokenState {
        if self.revoked_at.is_some() {
            TokenState::Revoked
        } else if self.expires_at <= now {
            TokenState::Expired
        } else {
            TokenState::Holds
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct Sevens;

    impl Random for Sevens {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(7);
        }
    }

    #[test]
    fn a_token_is_read_back_and_proves_itself() {
        let secret = RoomTokenSecret::draw(&Sevens);
        let text = secret.reveal(RoomTokenId::new(3));
        assert!(text.starts_with("rrt_3_0707"));
        let (id, parsed) = RoomTokenSecret::parse(&text).unwrap();
        assert_eq!(id, RoomTokenId::new(3));
        assert!(parsed.matches(&secret.hash()));
        for bad in ["", "rrt_", "rrt_3", "rrt_x_07", "rrt_3_07", "rmt_3_07"] {
            assert!(RoomTokenSecret::parse(bad).is_none(), "{bad}");
        }
        assert!(!format!("{secret:?}").contains("07"));
    }

    #[test]
    fn a_revoked_token_is_revoked_even_after_its_time() {
        let at = |secs| Timestamp::EPOCH + Duration::from_secs(secs);
        let token = RoomToken {
            id: RoomTokenId::new(1),
            project: ProjectId::new("p").unwrap(),
            permission: Permission::Read,
            name: None,
            hash: RoomTokenSecret::draw(&Sevens).hash(),
            created_at: at(0),
            expires_at: at(10),
            revoked_at: None,
        };
        assert_eq!(token.state(at(9)), TokenState::Holds);
        assert_eq!(token.state(at(10)), TokenState::Expired);
        let revoked = RoomToken { revoked_at: Some(at(5)), ..token };
        assert_eq!(revoked.state(at(20)), TokenState::Revoked);
    }
}
