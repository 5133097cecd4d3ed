//! Secrets that all nodes share and nobody configured.

use async_trait::async_trait;

use super::StoreError;
use crate::Timestamp;

/// Keeps keys that were made at the first start.
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// The key of this name; `candidate` becomes it if there is none. Whoever asks, and however
    /// many do at once, gets the same.
    async fn find_or_create_key(
        &self,
        name: &'static str,
        candidate: Vec<u8>,
        now: Timestamp,
    ) -> Result<Vec<u8>, StoreError>;
}
