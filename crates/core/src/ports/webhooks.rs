//! Users' endpoints, the events for them, and the log of deliveries.

use async_trait::async_trait;

use super::StoreError;
use crate::Timestamp;
use crate::jobs::LeaseRef;
use crate::users::{User, UserId};
use crate::webhooks::{Delivery, DeliveryState, Endpoint, EndpointChange, StoredEvent};

/// Stores endpoints, events and deliveries.
#[async_trait]
pub trait WebhookStore: Send + Sync {
    /// A user's endpoint: the address in the user's data (`webhook_url`), the rest from our table.
    async fn endpoint(&self, user: UserId) -> Result<Option<Endpoint>, StoreError>;

    /// Sets, changes or takes away an endpoint, and enables it. Other members of the user's data
    /// stay. `None` if there is no such user.
    async fn set_endpoint(
        &self,
        user: UserId,
        change: EndpointChange,
        now: Timestamp,
    ) -> Result<Option<(User, Option<Endpoint>)>, StoreError>;

    async fn webhook_event(&self, event_id: String) -> Result<Option<StoredEvent>, StoreError>;

    /// Logs a try (if there was one) and how the delivery stands now; may switch the endpoint off.
    /// `false` if the lease is lost: nothing was written.
    async fn log_delivery(
        &self,
        event_id: String,
        entry: DeliveryEntry,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// A user's events with the tries of each, newest first.
    async fn deliveries(
        &self,
        user: UserId,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<(StoredEvent, Vec<Delivery>)>, StoreError>;

    /// Wants an event of this user delivered once more, with its own id. `false` if there is none.
    async fn replay_event(
        &self,
        user: UserId,
        event_id: String,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Deletes events (with their tries) created before, at most `rows_max`; only those that are
    /// not pending. Returns how many.
    async fn prune_webhook_events(
        &self,
        before: Timestamp,
        rows_max: u32,
    ) -> Result<u64, StoreError>;
}

/// What a round of delivering came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryEntry {
    /// `None` when nothing was sent.
    pub delivery: Option<Delivery>,
    pub state: DeliveryState,
    /// The endpoint wants nothing any more.
    pub disable: bool,
}
