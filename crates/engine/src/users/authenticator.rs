//! Tells who is asking from the token they sent.
//!
//! Invariant: there is no way past this without a valid token. A database that cannot be asked is
//! an outage (`Denied::Unavailable`), never a wrong token: a client must not throw its key away
//! because we were down.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::ports::{Clock, StoreError, UserStore};
use roundsman_core::users::{ApiToken, Authenticated, TOKEN_PREFIX, TokenId, TokenSecret, UserId};
use sha2::{Digest, Sha256};

/// Known tokens kept in memory; beyond this the cache starts anew.
const CACHED_TOKENS_MAX: usize = 10_000;
/// The column's width in an existing Vexa database.
const VEXA_KEY_BYTES_MAX: usize = 255;
/// Stands for the token of callers that have none of ours; no row has this number.
const NO_TOKEN: TokenId = TokenId::new(0);

/// What an authenticator needs to be told.
#[derive(Debug, Clone)]
pub struct AuthenticatorOptions {
    pub admin: Option<AdminToken>,
    /// How long a token is believed without asking the database again.
    pub cache_for: Duration,
}

/// The operator's token, kept as a hash so that no dump of memory or log shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken([u8; 32]);

impl AdminToken {
    pub fn new(text: &str) -> Self {
        AdminToken(Sha256::digest(text.as_bytes()).into())
    }

    /// What may be kept on disk.
    pub fn hash_hex(&self) -> String {
        hex::encode(self.0)
    }

    /// From what was kept on disk.
    pub fn from_hash_hex(text: &str) -> Option<Self> {
        let mut hash = [0u8; 32];
        hex::decode_to_slice(text, &mut hash).ok()?;
        Some(AdminToken(hash))
    }

    /// Compares in constant time: hashes of unequal texts share no useful prefix.
    pub fn matches(&self, text: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        self.0.iter().zip(given).fold(0u8, |difference, (a, b)| difference | (a ^ b)) == 0
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(hidden)")
    }
}

/// Why somebody was not let in.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    #[error("no valid token was sent")]
    InvalidToken,
    #[error("the operator's token is not configured: set ROUNDSMAN_ADMIN_TOKEN")]
    AdminNotConfigured,
    #[error(transparent)]
    Unavailable(#[from] StoreError),
}

/// Checks tokens, remembering the valid ones for a while.
#[derive(Clone)]
pub struct Authenticator {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn UserStore>,
    clock: Arc<dyn Clock>,
    options: AuthenticatorOptions,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    tokens: HashMap<TokenId, (ApiToken, Duration)>,
    /// Keys of an existing Vexa database, by their hash: whose they are.
    vexa_keys: HashMap<[u8; 32], (UserId, Duration)>,
    /// Keys that are nobody's, kept apart so that guessing does not push out what is known.
    wrong_keys: HashMap<[u8; 32], Duration>,
    /// When tokens were last used, not yet written.
    used: HashMap<TokenId, Timestamp>,
    /// How often a token was forgotten: whoever was asking the database meanwhile must not
    /// remember the answer.
    forgotten: u64,
}

impl Authenticator {
    pub fn new(
        store: Arc<dyn UserStore>,
        clock: Arc<dyn Clock>,
        options: AuthenticatorOptions,
    ) -> Self {
        Authenticator { inner: Arc::new(Inner { store, clock, options, memory: Mutex::default() }) }
    }

    /// Whoever sent `token` as a user's or, if it is the operator's, as the operator.
    pub async fn authenticate(&self, token: &str) -> Result<Authenticated, Denied> {
        if self.inner.options.admin.as_ref().is_some_and(|admin| admin.matches(token)) {
            return Ok(Authenticated::Admin);
        }
        if !token.starts_with(TOKEN_PREFIX) {
            return self.authenticate_vexa_key(token).await;
        }
        let (id, secret) = TokenSecret::parse(token).map_err(|_| Denied::InvalidToken)?;
        let known = self.known(id).await?.ok_or(Denied::InvalidToken)?;
        let now = self.inner.clock.now();
        if !known.hash.matches(&secret) || !known.is_live(now) {
            return Err(Denied::InvalidToken);
        }
        self.memory().used.insert(id, now);
        let ApiToken { user_id, scopes, .. } = known;
        Ok(Authenticated::User { user_id, token_id: id, scopes })
    }

    /// The operator, or nobody.
    pub fn authenticate_admin(&self, token: &str) -> Result<Authenticated, Denied> {
        match &self.inner.options.admin {
            None => Err(Denied::AdminNotConfigured),
            Some(admin) if admin.matches(token) => Ok(Authenticated::Admin),
            Some(_) => Err(Denied::InvalidToken),
        }
    }

    /// Forgets a token, because it was revoked.
    pub fn forget(&self, id: TokenId) {
        let mut memory = self.memory();
        memory.tokens.remove(&id);
        memory.forgotten += 1;
    }

    /// Writes when tokens were last used. Called now and then; a lost note harms nobody.
    pub async fn flush_usage(&self) -> Result<(), StoreError> {
        let used: Vec<_> = std::mem::take(&mut self.memory().used).into_iter().collect();
        if used.is_empty() {
            return Ok(());
        }
        self.inner.store.touch_tokens(used).await
    }

    /// A key of an existing Vexa database opens everything its user may do, as it did there.
    async fn authenticate_vexa_key(&self, key: &str) -> Result<Authenticated, Denied> {
        if key.is_empty() || key.len() > VEXA_KEY_BYTES_MAX || key.chars().any(char::is_control) {
            return Err(Denied::InvalidToken);
        }
        let user_id = self.owner_of_vexa_key(key).await?.ok_or(Denied::InvalidToken)?;
        Ok(Authenticated::User { user_id, token_id: NO_TOKEN, scopes: Vec::new() })
    }

    async fn owner_of_vexa_key(&self, key: &str) -> Result<Option<UserId>, StoreError> {
        let now = self.inner.clock.monotonic();
        let fresh = |since: Duration| now.saturating_sub(since) < self.inner.options.cache_for;
        let hash: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        {
            let memory = self.memory();
            if let Some((user_id, since)) = memory.vexa_keys.get(&hash)
                && fresh(*since)
            {
                return Ok(Some(*user_id));
            }
            if memory.wrong_keys.get(&hash).is_some_and(|since| fresh(*since)) {
                return Ok(None);
            }
        }
        let found = self.inner.store.user_of_vexa_key(key.to_owned()).await?;
        let mut memory = self.memory();
        memory.vexa_keys.remove(&hash);
        memory.wrong_keys.remove(&hash);
        if let Some(user_id) = found {
            make_room(&mut memory.vexa_keys);
            memory.vexa_keys.insert(hash, (user_id, now));
        } else {
            make_room(&mut memory.wrong_keys);
            memory.wrong_keys.insert(hash, now);
        }
        Ok(found)
    }

    async fn known(&self, id: TokenId) -> Result<Option<ApiToken>, StoreError> {
        let now = self.inner.clock.monotonic();
        let (remembered, forgotten) = {
            let memory = self.memory();
            (memory.tokens.get(&id).cloned(), memory.forgotten)
        };
        if let Some((token, since)) = remembered
            && now.saturating_sub(since) < self.inner.options.cache_for
        {
            return Ok(Some(token));
        }
        let found = self.inner.store.token(id).await?;
        let mut memory = self.memory();
        make_room(&mut memory.tokens);
        if let Some(token) = &found
            && memory.forgotten == forgotten
        {
            memory.tokens.insert(id, (token.clone(), now));
        }
        Ok(found)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.inner.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator")
            .field("options", &self.inner.options)
            .finish_non_exhaustive()
    }
}

fn make_room<K, V>(cache: &mut HashMap<K, V>) {
    if cache.len() >= CACHED_TOKENS_MAX {
        cache.clear();
    }
}
