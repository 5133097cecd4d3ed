//! Outgoing webhooks at run time: the service that users set their endpoint with, the job that
//! delivers each event, and the one that deletes old events.
//!
//! Invariants: bodies and secrets are never logged; an event is sent again until it was taken or
//! a day has passed, with the same id every time.

mod deliver;
mod prune;
mod service;

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{KindSpec, NewJob};
use roundsman_core::ports::{Clock, Random, Store, WebhookSender};

pub use deliver::deliver_spec;
pub use prune::{PRUNE_EVENTS_KIND, WebhookRetention, prune_events_spec};
pub use service::{EndpointWish, Webhooks};

use crate::jobs::{Handler, periodic_wish};
use crate::metrics::Metrics;

/// What the jobs of webhooks are made of.
#[derive(Clone)]
pub struct WebhookWork {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub metrics: Metrics,
    pub sender: Arc<dyn WebhookSender>,
    /// How long one try may take, from connecting to the end of the answer.
    pub request_max: Duration,
    pub retention: WebhookRetention,
}

/// The policies of all kinds of jobs about webhooks.
pub fn webhook_specs() -> Vec<KindSpec> {
    vec![deliver_spec(), prune_events_spec()]
}

/// The wishes that keep the periodic jobs alive; every start repeats them.
pub fn webhook_wishes(now: Timestamp) -> Vec<NewJob> {
    vec![periodic_wish(PRUNE_EVENTS_KIND, now)]
}

impl WebhookWork {
    /// The handlers of all kinds of jobs about webhooks.
    pub fn handlers(&self) -> Vec<Arc<dyn Handler>> {
        vec![self.deliverer(), self.pruner()]
    }

    pub fn deliverer(&self) -> Arc<dyn Handler> {
        deliver::deliverer(self)
    }

    pub fn pruner(&self) -> Arc<dyn Handler> {
        prune::pruner(self)
    }
}

impl std::fmt::Debug for WebhookWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookWork").field("retention", &self.retention).finish_non_exhaustive()
    }
}
