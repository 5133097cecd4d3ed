//! Keeps the provider's events coming: it switches a subscription off when a few deliveries in a row
//! fail, and tells nobody. A periodic job, also run at every start, so that one node looks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::jobs::{JobError, KindSpec, Outcome, RetryPolicy};
use roundsman_core::ports::{NewSubscription, RoomsError, Subscription};
use roundsman_core::presence::SUBSCRIPTION_KIND;

use super::work::PresenceWork;
use crate::jobs::{Handler, HandlerResult, JobContext, periodic_spec};

/// The policy of the job.
pub fn subscription_spec() -> KindSpec {
    KindSpec {
        deadline: Some(Duration::from_secs(100)),
        retry: RetryPolicy { base: Duration::from_secs(5), cap: Duration::from_secs(60) },
        ..periodic_spec(SUBSCRIPTION_KIND)
    }
}

/// How the subscription is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionState {
    /// Nobody has said where events are to be sent.
    NotWanted,
    /// There is none; it is made on request.
    Missing,
    Active,
    /// It was switched off, or did not say what it should, and is on again.
    Renewed,
    /// It was to be switched on, and is not.
    Off,
}

impl SubscriptionState {
    fn as_str(self) -> &'static str {
        match self {
            SubscriptionState::NotWanted => "not_wanted",
            SubscriptionState::Missing => "missing",
            SubscriptionState::Active => "active",
            SubscriptionState::Renewed => "renewed",
            SubscriptionState::Off => "off",
        }
    }
}

/// The subscription and what it needs.
#[derive(Debug, Clone)]
pub struct Subscriptions {
    work: PresenceWork,
    wish: Option<NewSubscription>,
    every: Duration,
}

impl Subscriptions {
    pub(super) fn new(work: &PresenceWork, wish: Option<NewSubscription>, every: Duration) -> Self {
        Subscriptions { work: work.clone(), wish, every }
    }

    /// The handler of the job.
    pub fn handler(self) -> Arc<dyn Handler> {
        Arc::new(SubscriptionHandler(self))
    }

    /// Looks at the subscription, and renews it if it is off.
    pub async fn tick(&self) -> Result<SubscriptionState, RoomsError> {
        let state = self.keep().await?;
        self.work.metrics.presence_subscription(state.as_str());
        Ok(state)
    }

    /// Makes the subscription, or renews the one that is there. `None` if nobody has said where
    /// events are to be sent.
    pub async fn subscribe(&self) -> Result<Option<Subscription>, RoomsError> {
        let Some(wish) = &self.wish else { return Ok(None) };
        let made = match self.ours(wish).await? {
            Some(ours) => self.work.rooms.renew_subscription(&ours.id, wish.clone()).await?,
            None => self.work.rooms.subscribe(wish.clone()).await?,
        };
        tracing::info!(url = made.url, state = made.state, "subscribed to the provider's events");
        Ok(Some(made))
    }

    async fn keep(&self) -> Result<SubscriptionState, RoomsError> {
        let Some(wish) = &self.wish else { return Ok(SubscriptionState::NotWanted) };
        let Some(ours) = self.ours(wish).await? else { return Ok(SubscriptionState::Missing) };
        let has_all = wish.event_types.iter().all(|wanted| ours.event_types.contains(wanted));
        if ours.is_active() && has_all {
            return Ok(SubscriptionState::Active);
        }
        let renewed = self.work.rooms.renew_subscription(&ours.id, wish.clone()).await?;
        let is_on = renewed.is_active();
        let (before, now) = (ours.state, renewed.state);
        if !is_on {
            tracing::error!(before, now, "the provider sends no events, and does not begin again");
            return Ok(SubscriptionState::Off);
        }
        self.work.metrics.presence_subscription_renewed();
        tracing::warn!(before, now, has_all, "the provider had stopped sending events; renewed");
        Ok(SubscriptionState::Renewed)
    }

    async fn ours(&self, wish: &NewSubscription) -> Result<Option<Subscription>, RoomsError> {
        let all = self.work.rooms.subscriptions().await?;
        Ok(all.into_iter().find(|subscription| subscription.url == wish.url))
    }
}

struct SubscriptionHandler(Subscriptions);

#[async_trait]
impl Handler for SubscriptionHandler {
    fn spec(&self) -> KindSpec {
        subscription_spec()
    }

    async fn run(&self, _context: JobContext) -> HandlerResult {
        let Subscriptions { work, every, .. } = &self.0;
        let began_at = work.clock.now();
        match self.0.tick().await {
            // No jitter: one node asks, and meanwhile nobody knows whether events come.
            Ok(_) | Err(RoomsError::NotConfigured) => {
                Outcome::Again { at: began_at + *every, payload: None }.into()
            }
            Err(error) => {
                tracing::warn!(%error, "it is not known whether the provider sends events");
                let after = match &error {
                    RoomsError::RateLimited { after } => *after,
                    _ => None,
                };
                let error = JobError::new("provider", error.to_string());
                Outcome::Retry { error, after }.into()
            }
        }
    }
}
