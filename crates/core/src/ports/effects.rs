//! Effects on their own, the log of transitions, the frames of streams.

use async_trait::async_trait;

use super::StoreError;
use crate::Timestamp;
use crate::effects::{Effects, Frame, LoggedTransition, Violation, WebhookEvent};
use crate::jobs::LeaseRef;

/// Writes effects and reads back what was written.
#[async_trait]
pub trait EffectStore: Send + Sync {
    /// Writes effects in one transaction. With a guard, only while that lease is held: `false` says
    /// it was not, and nothing was written.
    async fn commit(
        &self,
        guard: Option<LeaseRef>,
        effects: Effects,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Frames of a stream after `after_seq`, by ascending number.
    async fn frames(
        &self,
        stream: String,
        after_seq: i64,
        rows_max: u32,
    ) -> Result<Vec<Frame>, StoreError>;

    /// The steps of one entity, oldest first.
    async fn transitions(
        &self,
        entity: String,
        entity_id: i64,
    ) -> Result<Vec<LoggedTransition>, StoreError>;

    /// Webhook events after `after_id` with their numbers, by ascending number.
    async fn webhook_events(
        &self,
        after_id: i64,
        rows_max: u32,
    ) -> Result<Vec<(i64, WebhookEvent)>, StoreError>;

    /// Replays every log and looks at every invariant that the tables alone can show; an empty
    /// answer means all is well. Reads everything: for operators and tests.
    async fn check(&self) -> Result<Vec<Violation>, StoreError>;
}
