//! Posts to endpoints that users named.

use std::time::Duration;

use async_trait::async_trait;

/// Sends one request to an address of a user's choosing, which it does not trust: private addresses
/// are refused, redirects are not followed, answers are read to a limit and thrown away.
#[async_trait]
pub trait WebhookSender: Send + Sync {
    async fn post(&self, request: WebhookRequest) -> Result<WebhookAnswer, NotSent>;

    /// Whether the address could be sent to at all, for telling a user early. Resolves nothing.
    fn check_url(&self, url: &str) -> Result<(), NotSent>;
}

/// A request that is signed and ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRequest {
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    /// From connecting to the end of the answer.
    pub time_max: Duration,
}

/// What the endpoint answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookAnswer {
    pub status: u16,
}

/// Why no answer came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The address is one that must not be sent to.
    #[error("the address is refused: {0}")]
    BlockedTarget(String),
    /// It may work later.
    #[error("{0}")]
    Failed(String),
}
