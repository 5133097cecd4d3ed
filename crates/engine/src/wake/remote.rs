//! Wake-ups between nodes, over the bus.
//!
//! Sending is debounced: the first wake-up goes out at once, those that follow within the cooldown
//! go out together after it. PostgreSQL takes a lock for every NOTIFY at commit, so one message per
//! enqueued job would serialise the database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use roundsman_core::jobs::{JobId, Lane};
use roundsman_core::ports::{Bus, BusMessage};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Wakes, rest};
use crate::metrics::Metrics;

/// The bus topic of wake-ups.
pub const WAKE_TOPIC: &str = "wake";
/// The shortest time between two messages of one node.
const COOLDOWN: Duration = Duration::from_millis(10);
/// How long to wait after the bus refused to listen or to send.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// With more lanes than this in one message it says "everybody look" instead.
const LANES_PER_MESSAGE_MAX: usize = 50;
/// Cancel requests beyond this wait for the holder's heartbeat.
const CANCELS_PER_MESSAGE_MAX: usize = 200;

/// Collects what other nodes should hear.
#[derive(Clone)]
pub struct RemoteWakes {
    /// Tells our own messages from others'.
    node: Arc<str>,
    outgoing: Arc<Mutex<Outgoing>>,
    pending: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Outgoing {
    lanes: BTreeMap<Lane, usize>,
    cancels: BTreeSet<JobId>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Message {
    node: String,
    /// Lanes with how many jobs each; absent means all.
    lanes: Option<Vec<(Lane, usize)>>,
    #[serde(default)]
    cancels: Vec<JobId>,
}

impl RemoteWakes {
    pub fn new(node: &str) -> Self {
        RemoteWakes { node: node.into(), outgoing: Arc::default(), pending: Arc::default() }
    }

    pub(super) fn queue_lanes(&self, lanes: Vec<(Lane, usize)>) {
        let mut outgoing = self.lock();
        for (lane, jobs) in lanes {
            *outgoing.lanes.entry(lane).or_default() += jobs;
        }
        drop(outgoing);
        self.pending.notify_one();
    }

    pub(super) fn queue_cancel(&self, id: JobId) {
        let mut outgoing = self.lock();
        if outgoing.cancels.len() < CANCELS_PER_MESSAGE_MAX {
            outgoing.cancels.insert(id);
        }
        drop(outgoing);
        self.pending.notify_one();
    }

    /// Sends what was collected, until cancelled.
    pub async fn send_loop(self, bus: Arc<dyn Bus>, metrics: Metrics, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.pending.notified() => {}
            }
            let wait = match self.send_tick(bus.as_ref()).await {
                Ok(()) => COOLDOWN,
                Err(error) => {
                    metrics.bus_failed();
                    tracing::debug!(%error, "a wake-up was not sent; polling will find the work");
                    RETRY_AFTER
                }
            };
            if !rest(wait, &stop).await {
                return;
            }
        }
    }

    /// Sends what was collected, once.
    pub async fn send_tick(&self, bus: &dyn Bus) -> Result<(), roundsman_core::ports::BusError> {
        let Outgoing { lanes, cancels } = std::mem::take(&mut *self.lock());
        if lanes.is_empty() && cancels.is_empty() {
            return Ok(());
        }
        let few = lanes.len() <= LANES_PER_MESSAGE_MAX;
        let message = Message {
            node: self.node.to_string(),
            lanes: few.then(|| lanes.into_iter().collect()),
            cancels: cancels.into_iter().collect(),
        };
        let body = serde_json::to_vec(&message).unwrap_or_default();
        bus.publish(WAKE_TOPIC, Bytes::from(body)).await
    }

    /// Hears what other nodes say and wakes listeners here, until cancelled.
    pub async fn receive_loop(self, bus: Arc<dyn Bus>, wakes: Wakes, stop: CancellationToken) {
        loop {
            match bus.subscribe(WAKE_TOPIC).await {
                Ok(mut subscription) => loop {
                    let message = tokio::select! {
                        biased;
                        () = stop.cancelled() => return,
                        message = subscription.next() => message,
                    };
                    match message {
                        BusMessage::Body(body) => self.receive(&body, &wakes),
                        BusMessage::Gap => wakes.signal_all(),
                        BusMessage::Closed => return,
                    }
                },
                Err(error) => {
                    tracing::debug!(%error, "cannot listen for wake-ups; polling goes on");
                    if !rest(RETRY_AFTER, &stop).await {
                        return;
                    }
                }
            }
        }
    }

    /// Acts on one message. One that cannot be read is taken as "everybody look".
    fn receive(&self, body: &[u8], wakes: &Wakes) {
        let Ok(message) = serde_json::from_slice::<Message>(body) else {
            return wakes.signal_all();
        };
        if message.node == *self.node {
            return;
        }
        for id in message.cancels {
            wakes.cancel_here(id);
        }
        match message.lanes {
            None => wakes.signal_all(),
            Some(lanes) => lanes.iter().for_each(|(lane, jobs)| wakes.wake_here(lane, *jobs)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for RemoteWakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteWakes").field("node", &self.node).finish_non_exhaustive()
    }
}
