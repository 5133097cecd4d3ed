//! The bus of a single process: no transport, nothing to reconnect.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use roundsman_core::ports::{Bus, BusError, BusMessage, BusSubscription, MESSAGE_BYTES_MAX};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::limits::BusLimits;
use crate::registry::Registry;

/// Delivers within this process. Share it as `Arc<dyn Bus>`.
pub struct LocalBus {
    registry: Arc<Registry>,
    shutdown: CancellationToken,
    _closes_listeners: DropGuard,
}

impl LocalBus {
    /// A bus whose listeners are closed when `shutdown` is cancelled or the bus is dropped.
    pub fn new(limits: &BusLimits, shutdown: &CancellationToken) -> Self {
        let shutdown = shutdown.child_token();
        Self {
            registry: Registry::for_process(limits, shutdown.clone()),
            _closes_listeners: shutdown.clone().drop_guard(),
            shutdown,
        }
    }

    /// The number of topics somebody listens on.
    pub fn topic_count(&self) -> usize {
        self.registry.channel_count()
    }
}

impl std::fmt::Debug for LocalBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalBus").field("topics", &self.topic_count()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Bus for LocalBus {
    async fn publish(&self, topic: &str, body: Bytes) -> Result<(), BusError> {
        if self.shutdown.is_cancelled() {
            return Err(BusError::Unavailable("the bus is shut down".to_owned()));
        }
        if body.len() > MESSAGE_BYTES_MAX {
            return Err(BusError::TooLarge { bytes: body.len(), bytes_max: MESSAGE_BYTES_MAX });
        }
        self.registry.deliver(topic, &BusMessage::Body(body));
        Ok(())
    }

    async fn subscribe(&self, topic: &str) -> Result<Box<dyn BusSubscription>, BusError> {
        if self.shutdown.is_cancelled() {
            return Err(BusError::Unavailable("the bus is shut down".to_owned()));
        }
        let (subscription, _) = self.registry.add(topic);
        Ok(Box::new(subscription))
    }

    fn connected(&self) -> bool {
        !self.shutdown.is_cancelled()
    }

    fn name(&self) -> &'static str {
        "local"
    }
}
