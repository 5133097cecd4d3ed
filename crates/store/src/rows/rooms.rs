//! Rows of rooms and what they must say.

use roundsman_core::Timestamp;
use roundsman_core::ports::StoreError;
use roundsman_core::rooms::{
    Permission, ProjectId, Room, RoomToken, RoomTokenId, StoredUpdate, UpdateOrigin,
};
use roundsman_core::users::{TokenHash, UserId};

use super::inconsistent;

pub(crate) const ROOMS: &str = "rooms";
const UPDATES: &str = "room_updates";
const TOKENS: &str = "room_tokens";

/// The rule that `check` holds logs to.
pub(crate) const LOG_GAPLESS: &str = "room_log_gapless";

/// A row of `rooms`.
#[derive(Debug)]
pub(crate) struct RoomColumns {
    pub(crate) project: String,
    pub(crate) user_id: i64,
    pub(crate) head_seq: i64,
    pub(crate) snapshot_seq: i64,
    pub(crate) snapshot_bytes: i64,
    pub(crate) log_bytes: i64,
    pub(crate) dirty_since: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

impl RoomColumns {
    pub(crate) fn into_room(self) -> Result<Room, StoreError> {
        // Rooms have no numbers; how far this one is helps to find it.
        let row = self.head_seq;
        let count = |column, value: i64| {
            let reason = format!("{value} is no count");
            u64::try_from(value).map_err(|_| inconsistent(ROOMS, column, row, reason))
        };
        Ok(Room {
            owner: UserId::new(self.user_id),
            head_seq: self.head_seq,
            snapshot_seq: self.snapshot_seq,
            snapshot_bytes: count("snapshot_bytes", self.snapshot_bytes)?,
            log_bytes: count("log_bytes", self.log_bytes)?,
            dirty_since: self.dirty_since,
            created_at: self.created_at,
            updated_at: self.updated_at,
            project: ProjectId::from_stored(self.project),
        })
    }
}

/// A size, as databases keep it.
pub(crate) fn stored_size(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

pub(crate) fn size_of(bytes: &[u8]) -> u64 {
    bytes.len() as u64
}

pub(crate) fn update_of(
    seq: i64,
    payload: Vec<u8>,
    origin: &str,
) -> Result<StoredUpdate, StoreError> {
    let parsed = UpdateOrigin::parse(origin);
    let unknown = || inconsistent(UPDATES, "origin", seq, format!("{origin:?} is no origin"));
    Ok(StoredUpdate { seq, payload: payload.into(), origin: parsed.ok_or_else(unknown)? })
}

/// A row of `room_tokens`.
#[derive(Debug)]
pub(crate) struct RoomTokenColumns {
    pub(crate) id: i64,
    pub(crate) project: String,
    pub(crate) permission: String,
    pub(crate) name: Option<String>,
    pub(crate) secret_hash: Vec<u8>,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) revoked_at: Option<Timestamp>,
}

impl RoomTokenColumns {
    pub(crate) fn into_token(self) -> Result<RoomToken, StoreError> {
        let bad = |column, reason: String| inconsistent(TOKENS, column, self.id, reason);
        let permission = Permission::parse(&self.permission);
        let hash: Result<[u8; 32], _> = self.secret_hash.try_into();
        Ok(RoomToken {
            id: RoomTokenId::new(self.id),
            project: ProjectId::from_stored(self.project),
            permission: permission.map_err(|error| bad("permission", error.to_string()))?,
            name: self.name,
            hash: hash
                .map(TokenHash::from_stored)
                .map_err(|_| bad("secret_hash", "it has not 32 bytes".to_owned()))?,
            created_at: self.created_at,
            expires_at: self.expires_at,
            revoked_at: self.revoked_at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_cannot_be_are_named() {
        let at = Timestamp::EPOCH;
        let room = RoomColumns {
            project: "p".to_owned(),
            user_id: 1,
            head_seq: 3,
            snapshot_seq: 1,
            snapshot_bytes: 10,
            log_bytes: -1,
            dirty_since: Some(at),
            created_at: at,
            updated_at: at,
        };
        let error = room.into_room().unwrap_err().to_string();
        assert!(error.contains("rooms.log_bytes of row 3"), "{error}");
        assert!(update_of(4, vec![1], "nobody").is_err());
        let token = |permission: &str, secret_hash: Vec<u8>| RoomTokenColumns {
            id: 7,
            project: "p".to_owned(),
            permission: permission.to_owned(),
            name: None,
            secret_hash,
            created_at: at,
            expires_at: at,
            revoked_at: None,
        };
        assert!(token("read", vec![0; 32]).into_token().is_ok());
        assert!(token("own", vec![0; 32]).into_token().is_err());
        assert!(token("read", vec![0; 31]).into_token().is_err());
    }
}
