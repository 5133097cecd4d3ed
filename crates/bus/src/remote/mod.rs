//! What every networked bus has in common; the wire itself is a [`Transport`].
//!
//! Two tasks, one per connection: one keeps the connection for publishing, `listening` keeps
//! the one connection that all topics of this process share. They fail and recover separately, so
//! that a stuck publish never costs the listeners a gap.

mod listening;
mod publishing;
mod transport;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use roundsman_core::ports::{Bus, BusError, BusSubscription, Random};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub(crate) use self::transport::{Arrival, Control, Publisher, Transport};
use crate::backoff::Backoff;
use crate::kept::{self, Kept};
use crate::limits::BusLimits;
use crate::registry::Registry;

/// What a networked bus can do at this moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BusStatus {
    /// The publishing connection is up.
    pub can_publish: bool,
    /// The listening connection is up and has taken every topic that was wished when it came up.
    pub can_listen: bool,
    /// How many topics the server delivers to this process.
    pub topics: usize,
}

/// A bus over some transport.
pub(crate) struct RemoteBus<T: Transport> {
    shared: Arc<Shared<T>>,
    publishes: Semaphore,
    _stops_tasks: DropGuard,
}

/// What the bus and its two tasks share.
struct Shared<T: Transport> {
    transport: T,
    limits: BusLimits,
    registry: Arc<Registry>,
    publisher: Kept<T::Publisher>,
    status: watch::Sender<BusStatus>,
    shutdown: CancellationToken,
}

impl<T: Transport> RemoteBus<T> {
    /// Starts the tasks and waits for their first attempt to connect, whatever came of it. The bus
    /// works from here on or as soon as the server does.
    pub(crate) async fn start(
        transport: T,
        limits: BusLimits,
        random: &Arc<dyn Random>,
        tasks: &TaskTracker,
        shutdown: &CancellationToken,
    ) -> Self {
        let shutdown = shutdown.child_token();
        let publishes = Semaphore::new(limits.publishes_in_flight_max);
        let shared = Arc::new(Shared {
            transport,
            registry: Registry::for_transport(&limits, shutdown.clone()),
            publisher: Kept::default(),
            status: watch::Sender::new(BusStatus::default()),
            shutdown: shutdown.clone(),
            limits,
        });
        let backoff = || Backoff::new(&shared.limits, Arc::clone(random));
        let (publishing_tried, publishing_first) = oneshot::channel();
        let (listening_tried, listening_first) = oneshot::channel();
        tasks.spawn(kept::run(Arc::clone(&shared), backoff(), publishing_tried));
        tasks.spawn(listening::run(Arc::clone(&shared), backoff(), listening_tried));
        // An error means that a task ended before its first attempt did: a shutdown.
        let _ = publishing_first.await;
        let _ = listening_first.await;
        Self { shared, publishes, _stops_tasks: shutdown.drop_guard() }
    }

    pub(crate) fn status(&self) -> watch::Receiver<BusStatus> {
        self.shared.status.subscribe()
    }

    async fn send(&self, channel: &str, payload: T::Payload) -> Result<(), BusError> {
        // Failing at once while the server is away keeps an outage from costing every caller the
        // full time limit.
        let Some(publisher) = self.shared.publisher.get() else {
            return Err(BusError::Unavailable(format!("{} is not connected", T::NAME)));
        };
        let publish = async {
            let _permit = self.publishes.acquire().await;
            publisher.publish(channel, payload).await
        };
        let failure = match timeout(self.shared.limits.publish_max(), publish).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => failure.to_string(),
            Err(_) => format!("no answer within {} s", self.shared.limits.publish_secs_max),
        };
        self.shared.publisher.suspect();
        Err(BusError::Unavailable(format!("{}: {failure}", T::NAME)))
    }

    fn refuse_after_shutdown(&self) -> Result<(), BusError> {
        if self.shared.shutdown.is_cancelled() {
            return Err(BusError::Unavailable("the bus is shut down".to_owned()));
        }
        Ok(())
    }
}

#[async_trait]
impl<T: Transport> Bus for RemoteBus<T> {
    async fn publish(&self, topic: &str, body: Bytes) -> Result<(), BusError> {
        self.refuse_after_shutdown()?;
        let payload = T::encode(body)?;
        self.send(&T::channel(topic), payload).await
    }

    async fn subscribe(&self, topic: &str) -> Result<Box<dyn BusSubscription>, BusError> {
        self.refuse_after_shutdown()?;
        let (subscription, live) = self.shared.registry.add(&T::channel(topic));
        // Without a connection there is nothing to wait for, and after the limit no use in it: in
        // both cases the listener gets a `Gap` once the channel is live.
        if let Some(live) = live
            && self.shared.status.borrow().can_listen
        {
            let bounded = timeout(self.shared.limits.answer_max(), live);
            let _ = self.shared.shutdown.run_until_cancelled(bounded).await;
        }
        Ok(Box::new(subscription))
    }

    fn connected(&self) -> bool {
        let status = *self.shared.status.borrow();
        status.can_publish && status.can_listen && !self.shared.shutdown.is_cancelled()
    }

    fn name(&self) -> &'static str {
        T::NAME
    }
}
