//! The webhook service: where a user wants to be told, and what they were told.

use std::collections::BTreeMap;
use std::sync::Arc;

use roundsman_core::jobs::{KindName, Lane};
use roundsman_core::limits::PAGE_ROWS_MAX;
use roundsman_core::ports::{Clock, Random, Store, WebhookSender};
use roundsman_core::users::{User, UserId};
use roundsman_core::webhooks::{
    DELIVER_KIND, Delivery, Endpoint, EndpointChange, SigningSecret, StoredEvent, check_url,
};

use crate::wake::Wakes;
use crate::{Error, FieldError};

/// An event's id is never longer than this.
const EVENT_ID_BYTES_MAX: usize = 64;

/// Sets endpoints, shows and repeats deliveries.
#[derive(Clone)]
pub struct Webhooks {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    sender: Arc<dyn WebhookSender>,
    wakes: Wakes,
}

/// An endpoint as asked for. Its `Debug` hides the secret.
#[derive(Clone, Default)]
pub struct EndpointWish {
    /// `None` takes the endpoint away.
    pub url: Option<String>,
    /// `None` keeps the secret there is, or makes one.
    pub secret: Option<String>,
    /// Replaces the switches; `None` leaves them.
    pub events: Option<BTreeMap<String, bool>>,
}

impl Webhooks {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        sender: Arc<dyn WebhookSender>,
        wakes: Wakes,
    ) -> Self {
        Webhooks { store, clock, random, sender, wakes }
    }

    /// A user's endpoint, if they have set one.
    pub async fn endpoint(&self, user: UserId) -> Result<Option<Endpoint>, Error> {
        Ok(self.store.endpoint(user).await?)
    }

    /// Sets, changes or takes away an endpoint, and enables it.
    pub async fn set_endpoint(
        &self,
        user: UserId,
        wish: EndpointWish,
    ) -> Result<(User, Option<Endpoint>), Error> {
        let change = self.check(wish).map_err(Error::Invalid)?;
        let set = self.store.set_endpoint(user, change, self.clock.now()).await?;
        set.ok_or(Error::NotFound { what: "user" })
    }

    /// A user's events with the tries of each, newest first.
    pub async fn deliveries(
        &self,
        user: UserId,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<(StoredEvent, Vec<Delivery>)>, Error> {
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        Ok(self.store.deliveries(user, before, rows_max).await?)
    }

    /// Wants an event delivered once more, with its own id. `false` if the user has none such.
    pub async fn replay(&self, user: UserId, event_id: &str) -> Result<bool, Error> {
        if event_id.len() > EVENT_ID_BYTES_MAX || event_id.chars().any(char::is_control) {
            return Ok(false);
        }
        let now = self.clock.now();
        let found = self.store.replay_event(user, event_id.to_owned(), now).await?;
        if found {
            let kind = KindName::new(DELIVER_KIND).expect("a built-in kind has a valid name");
            self.wakes.signal([(Lane::of(UserId::SYSTEM, &kind), 1)]);
        }
        Ok(found)
    }

    fn check(&self, wish: EndpointWish) -> Result<EndpointChange, Vec<FieldError>> {
        let mut problems = Vec::new();
        if let Some(url) = &wish.url {
            let shape = check_url(url).map_err(|problem| problem.to_string());
            // Where it leads is looked at again with every sending; this tells the user early.
            let target = || self.sender.check_url(url).map_err(|problem| problem.to_string());
            if let Err(problem) = shape.and_then(|()| target()) {
                problems.push(FieldError::new("webhook_url", problem));
            }
        }
        let secret = match wish.secret.as_deref().map(SigningSecret::parse).transpose() {
            Ok(secret) => secret,
            Err(problem) => {
                problems.push(FieldError::new("webhook_secret", problem.to_string()));
                None
            }
        };
        let fresh_secret = SigningSecret::draw(self.random.as_ref());
        let change = EndpointChange { url: wish.url, secret, fresh_secret, events: wish.events };
        if let Err(problem) = change.check_events() {
            problems.push(FieldError::new("webhook_events", problem.to_string()));
        }
        if problems.is_empty() { Ok(change) } else { Err(problems) }
    }
}

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for EndpointWish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointWish")
            .field("url", &self.url)
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}
