//! Endpoints, events, deliveries; and the keys.

use std::collections::BTreeMap;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{DeliveryEntry, KeyStore, StoreError, WebhookStore};
use roundsman_core::users::{User, UserId};
use roundsman_core::webhooks::{
    Delivery, DeliveryState, Endpoint, EndpointChange, SigningSecret, StoredEvent, deliver_wish,
};
use serde_json::{Map, Value};

use super::{Reference, State};

/// What is kept of an endpoint beside its address.
#[derive(Default)]
pub(super) struct EndpointRow {
    secret: Option<SigningSecret>,
    events: BTreeMap<String, bool>,
    disabled_at: Option<Timestamp>,
}

#[async_trait]
impl WebhookStore for Reference {
    async fn endpoint(&self, user: UserId) -> Result<Option<Endpoint>, StoreError> {
        Ok(self.lock().endpoint(user))
    }

    async fn set_endpoint(
        &self,
        user: UserId,
        change: EndpointChange,
        _now: Timestamp,
    ) -> Result<Option<(User, Option<Endpoint>)>, StoreError> {
        let mut state = self.lock();
        let Some(known) = state.users.iter_mut().find(|known| known.id == user) else {
            return Ok(None);
        };
        let mut data = members(&known.data);
        match &change.url {
            Some(url) => data.insert("webhook_url".to_owned(), Value::String(url.clone())),
            None => data.remove("webhook_url"),
        };
        known.data = Value::Object(data).to_string();
        let known = known.clone();
        if change.url.is_none() {
            state.endpoints.remove(&user);
            return Ok(Some((known, None)));
        }
        let row = state.endpoints.entry(user).or_default();
        row.secret = change.secret.or(row.secret.take()).or(Some(change.fresh_secret));
        row.events = change.events.unwrap_or(std::mem::take(&mut row.events));
        row.disabled_at = None;
        Ok(Some((known, state.endpoint(user))))
    }

    async fn webhook_event(&self, event_id: String) -> Result<Option<StoredEvent>, StoreError> {
        let state = self.lock();
        Ok(state.webhooks.iter().find(|known| known.event.event_id == event_id).cloned())
    }

    async fn log_delivery(
        &self,
        event_id: String,
        entry: DeliveryEntry,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        if !state.holds(guard) {
            return Ok(false);
        }
        let event = state.webhooks.iter_mut().find(|known| known.event.event_id == event_id);
        let Some(event) = event else { return Ok(true) };
        event.state = entry.state;
        event.attempts += u32::from(entry.delivery.is_some());
        let (id, user) = (event.id, event.event.user_id);
        let sent_to = entry.delivery.as_ref().map(|delivery| delivery.url.clone());
        state.deliveries.extend(entry.delivery.map(|delivery| (id, delivery)));
        let current = state.endpoint(user);
        let meant = current.is_some_and(|endpoint| sent_to.is_none_or(|url| url == endpoint.url));
        if entry.disable && meant {
            state.endpoints.entry(user).or_default().disabled_at = Some(now);
        }
        Ok(true)
    }

    async fn deliveries(
        &self,
        user: UserId,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<(StoredEvent, Vec<Delivery>)>, StoreError> {
        let state = self.lock();
        let mine = |event: &&StoredEvent| {
            event.event.user_id == user && before.is_none_or(|before| event.id < before)
        };
        let tries = |id: i64| {
            let tries = state.deliveries.iter().filter(move |(event, _)| *event == id);
            tries.map(|(_, delivery)| delivery.clone()).collect()
        };
        let events = state.webhooks.iter().rev().filter(mine).take(rows_max as usize);
        Ok(events.map(|event| (event.clone(), tries(event.id))).collect())
    }

    async fn replay_event(
        &self,
        user: UserId,
        event_id: String,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let mine = |known: &&mut StoredEvent| {
            known.event.event_id == event_id && known.event.user_id == user
        };
        let Some(event) = state.webhooks.iter_mut().find(mine) else { return Ok(false) };
        event.state = DeliveryState::Pending;
        event.since = now;
        state.enqueue(&self.rules, deliver_wish(&event_id, now), now);
        Ok(true)
    }

    async fn prune_webhook_events(
        &self,
        before: Timestamp,
        rows_max: u32,
    ) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let mut pruned = 0;
        state.webhooks.retain(|event| {
            let old = event.created_at < before && event.state != DeliveryState::Pending;
            let goes = old && pruned < u64::from(rows_max);
            pruned += u64::from(goes);
            !goes
        });
        Ok(pruned)
    }
}

#[async_trait]
impl KeyStore for Reference {
    async fn find_or_create_key(
        &self,
        name: &'static str,
        candidate: Vec<u8>,
        _now: Timestamp,
    ) -> Result<Vec<u8>, StoreError> {
        Ok(self.lock().keys.entry(name).or_insert(candidate).clone())
    }
}

impl State {
    fn endpoint(&self, user: UserId) -> Option<Endpoint> {
        let data = members(&self.users.iter().find(|known| known.id == user)?.data);
        let url = data.get("webhook_url")?.as_str()?.to_owned();
        let row = self.endpoints.get(&user);
        Some(Endpoint {
            user_id: user,
            url,
            secret: row.and_then(|row| row.secret.clone()),
            events: row.map(|row| row.events.clone()).unwrap_or_default(),
            disabled_at: row.and_then(|row| row.disabled_at),
        })
    }
}

fn members(data: &str) -> Map<String, Value> {
    match serde_json::from_str(data) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}
