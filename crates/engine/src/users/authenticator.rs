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
use roundsman_core::users::{ApiToken, Authenticated, TokenId, TokenSecret};
use sha2::{Digest, Sha256};

/// Known tokens kept in memory; beyond this the cache starts anew.
const CACHED_TOKENS_MAX: usize = 10_000;

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
        if memory.tokens.len() >= CACHED_TOKENS_MAX {
            memory.tokens.clear();
        }
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
