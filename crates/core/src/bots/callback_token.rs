//! What a bot proves itself with when it calls back: `rmb_{meeting}_{attempt}_{mac}`.
//!
//! Invariant: the code is bound to meeting, attempt and connection, and can be made again from them
//! by whoever has the key, so a launch that is repeated hands out the same token and nothing secret
//! is stored. A later attempt makes the earlier ones worthless, because the store compares it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{ConnectionId, MeetingId, WorkloadId};

const PREFIX: &str = "rmb_";
/// Keeps this use of the key apart from every other.
const PURPOSE: &[u8] = b"roundsman bot callback\0";

/// The key that tokens are made with, and older ones that are still accepted, so that it can be
/// changed while bots run.
#[derive(Clone)]
pub struct CallbackKey {
    key: Vec<u8>,
    older_keys: Vec<Vec<u8>>,
}

/// A token that was not made with a key of ours for this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a token of this bot")]
pub struct InvalidCallbackToken;

impl CallbackKey {
    pub fn new(key: &[u8]) -> Self {
        CallbackKey { key: key.to_vec(), older_keys: Vec::new() }
    }

    /// Accepts what was made with these as well.
    #[must_use]
    pub fn accepting(mut self, older_keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        self.older_keys.extend(older_keys);
        self
    }

    /// The token of one bot.
    pub fn token(&self, workload: WorkloadId, connection: &ConnectionId) -> String {
        let code = code(&self.key, workload, connection).finalize().into_bytes();
        format!("{PREFIX}{}_{}_{}", workload.meeting_id, workload.attempt, hex::encode(code))
    }

    /// Whose token it is, if it is one for `connection`. Compares in constant time.
    pub fn verify(
        &self,
        token: &str,
        connection: &ConnectionId,
    ) -> Result<WorkloadId, InvalidCallbackToken> {
        let (workload, given) = parse(token).ok_or(InvalidCallbackToken)?;
        let keys = std::iter::once(&self.key).chain(&self.older_keys);
        let made_it = |key: &&Vec<u8>| code(key, workload, connection).verify_slice(&given).is_ok();
        // Every key is tried: how long it takes says nothing about which one it was.
        if keys.filter(made_it).count() == 0 {
            return Err(InvalidCallbackToken);
        }
        Ok(workload)
    }
}

impl std::fmt::Debug for CallbackKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CallbackKey(hidden)")
    }
}

fn code(key: &[u8], workload: WorkloadId, connection: &ConnectionId) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any size");
    mac.update(PURPOSE);
    mac.update(&workload.meeting_id.get().to_be_bytes());
    mac.update(&workload.attempt.to_be_bytes());
    mac.update(connection.as_str().as_bytes());
    mac
}

fn parse(token: &str) -> Option<(WorkloadId, [u8; 32])> {
    let mut parts = token.strip_prefix(PREFIX)?.splitn(3, '_');
    let meeting_id = MeetingId::new(parts.next()?.parse().ok()?);
    let attempt = parts.next()?.parse().ok()?;
    let mut code = [0u8; 32];
    hex::decode_to_slice(parts.next()?, &mut code).ok()?;
    Some((WorkloadId { meeting_id, attempt }, code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_one_bot_and_one_attempt() {
        let key = CallbackKey::new(b"0123456789abcdef0123456789abcdef");
        let connection = ConnectionId::from_stored("c-1".to_owned());
        let workload = WorkloadId { meeting_id: MeetingId::new(7), attempt: 1 };
        let token = key.token(workload, &connection);
        assert_eq!(key.verify(&token, &connection), Ok(workload));
        assert_eq!(key.token(workload, &connection), token, "a repeated launch hands out the same");

        let other = ConnectionId::from_stored("c-2".to_owned());
        assert!(key.verify(&token, &other).is_err());
        assert!(key.verify(&token.replace("rmb_7_1", "rmb_7_2"), &connection).is_err());
        assert!(key.verify(&token.replace("rmb_7_", "rmb_8_"), &connection).is_err());
        assert!(CallbackKey::new(b"another").verify(&token, &connection).is_err());
        for bad in ["", "rmb_", "rmb_7_1", "rmb_7_1_00", "rmt_7_1_00", "rmb_x_1_00"] {
            assert!(key.verify(bad, &connection).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_older_key_is_accepted_while_it_is_named() {
        let (old, new) = (CallbackKey::new(b"the key of last year"), CallbackKey::new(b"the new"));
        let connection = ConnectionId::from_stored("c-1".to_owned());
        let workload = WorkloadId { meeting_id: MeetingId::new(7), attempt: 1 };
        let token = old.token(workload, &connection);
        assert!(new.verify(&token, &connection).is_err());
        let both = new.clone().accepting([b"another".to_vec(), b"the key of last year".to_vec()]);
        assert_eq!(both.verify(&token, &connection), Ok(workload));
        let other = ConnectionId::from_stored("c-2".to_owned());
        assert!(both.verify(&token, &other).is_err(), "for its own connection only");
        assert!(both.verify(&token.replace("rmb_7_1", "rmb_7_2"), &connection).is_err());
        let made = both.token(workload, &connection);
        assert_eq!(new.verify(&made, &connection), Ok(workload), "made with the new one");
        assert!(old.verify(&made, &connection).is_err());
    }
}
