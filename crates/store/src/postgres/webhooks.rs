//! Users' endpoints, the events for them, and the log of deliveries.
//!
//! The address of an endpoint is in the user's data. Whoever changes it locks the user first, and so
//! does whoever switches an endpoint off for what was sent to its address.

use std::collections::BTreeMap;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::{DeliveryEntry, StoreError, WebhookStore};
use roundsman_core::users::{User, UserId};
use roundsman_core::webhooks::{
    Delivery, DeliveryState, Endpoint, EndpointChange, SigningSecret, StoredEvent, deliver_wish,
};
use tokio_postgres::Row;

use super::PostgresStore;
use super::columns::Reader;
use super::effects::{holds_lease, write_effects};
use super::error::Failure;
use super::pool::Operation;
use super::session::Session;
use super::types::Time;
use super::users::{USER_BY_ID, read_user, user_columns};
use crate::rows::duration_to_us;
use crate::rows::webhooks::{
    DeliveryColumns, EndpointColumns, EventColumns, changed_endpoint, endpoint, events_to_text,
    switches_off, with_endpoint_url,
};

#[async_trait]
impl WebhookStore for PostgresStore {
    async fn endpoint(&self, user: UserId) -> Result<Option<Endpoint>, StoreError> {
        self.pool.run(&EndpointOf { user }).await
    }

    async fn set_endpoint(
        &self,
        user: UserId,
        change: EndpointChange,
        _: Timestamp,
    ) -> Result<Option<(User, Option<Endpoint>)>, StoreError> {
        self.change("store.webhook_endpoint", &SetEndpoint { user, change }).await
    }

    async fn webhook_event(&self, event_id: String) -> Result<Option<StoredEvent>, StoreError> {
        self.pool.run(&EventById { event_id }).await
    }

    async fn log_delivery(
        &self,
        event_id: String,
        entry: DeliveryEntry,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.change("store.webhook_log", &LogDelivery { event_id, entry, guard, now }).await
    }

    async fn deliveries(
        &self,
        user: UserId,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<(StoredEvent, Vec<Delivery>)>, StoreError> {
        self.pool.run(&Deliveries { user, before, rows_max }).await
    }

    async fn replay_event(
        &self,
        user: UserId,
        event_id: String,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let catalog = &self.catalog;
        self.change("store.webhook_replay", &Replay { user, event_id, catalog, now }).await
    }

    async fn prune_webhook_events(
        &self,
        before: Timestamp,
        rows_max: u32,
    ) -> Result<u64, StoreError> {
        self.change("store.webhook_prune", &PruneEvents { before, rows_max }).await
    }
}

const ENDPOINT: &str = "-- endpoint
SELECT secret, events, disabled_at FROM roundsman.webhook_endpoints WHERE user_id = $1";

async fn endpoint_of(session: &mut Session, user: &User) -> Result<Option<Endpoint>, Failure> {
    let row = session.query_opt(ENDPOINT, &[&user.id.get()]).await?;
    let columns = |row: &Row| -> Result<EndpointColumns, Failure> {
        let mut reader = Reader::new(row);
        Ok(EndpointColumns {
            secret: reader.value()?,
            events: reader.value()?,
            disabled_at: reader.time_opt()?,
        })
    };
    let columns = row.as_ref().map(columns).transpose()?;
    Ok(endpoint(user.id, &user.data, columns)?)
}

struct EndpointOf {
    user: UserId,
}

impl Operation for EndpointOf {
    type Answer = Option<Endpoint>;

    async fn run(&self, session: &mut Session) -> Result<Option<Endpoint>, Failure> {
        match session.query_opt(USER_BY_ID, &[&self.user.get()]).await? {
            Some(row) => endpoint_of(session, &read_user(&row)?).await,
            None => Ok(None),
        }
    }
}

/// Lets rows be made that refer to the user.
const LOCK_WHOLE_USER: &str = concat!(
    "-- lock_whole_user\nSELECT ",
    user_columns!(),
    " FROM public.users WHERE id = $1::bigint FOR NO KEY UPDATE"
);

async fn lock_user(session: &mut Session, user: UserId) -> Result<Option<User>, Failure> {
    let row = session.query_opt(LOCK_WHOLE_USER, &[&user.get()]).await?;
    row.as_ref().map(read_user).transpose()
}

const SET_USER_DATA: &str = "-- set_user_data
UPDATE public.users SET data = $2::text::jsonb WHERE id = $1::bigint";

const PUT_ENDPOINT: &str = "-- put_endpoint
INSERT INTO roundsman.webhook_endpoints (user_id, secret, events, disabled_at)
VALUES ($1, $2, $3, $4)
ON CONFLICT (user_id) DO UPDATE
   SET secret = excluded.secret, events = excluded.events, disabled_at = excluded.disabled_at";

const DELETE_ENDPOINT: &str = "-- delete_endpoint
DELETE FROM roundsman.webhook_endpoints WHERE user_id = $1";

struct SetEndpoint {
    user: UserId,
    change: EndpointChange,
}

impl Operation for SetEndpoint {
    type Answer = Option<(User, Option<Endpoint>)>;

    async fn run(&self, session: &mut Session) -> Result<Self::Answer, Failure> {
        session.begin();
        let changed = match lock_user(session, self.user).await? {
            Some(user) => Some(self.set(session, user).await?),
            None => None,
        };
        session.commit().await?;
        Ok(changed)
    }
}

impl SetEndpoint {
    async fn set(
        &self,
        session: &mut Session,
        mut user: User,
    ) -> Result<(User, Option<Endpoint>), Failure> {
        let id = self.user.get();
        let known = endpoint_of(session, &user).await?;
        let endpoint = changed_endpoint(self.user, known, self.change.clone());
        match &endpoint {
            Some(endpoint) => {
                let secret = endpoint.secret.as_ref().map(SigningSecret::as_bytes);
                let events = events_to_text(&endpoint.events);
                let disabled_at = endpoint.disabled_at.map(Time);
                session.execute(PUT_ENDPOINT, &[&id, &secret, &events, &disabled_at]).await?
            }
            None => session.execute(DELETE_ENDPOINT, &[&id]).await?,
        };
        let url = endpoint.as_ref().map(|endpoint| endpoint.url.as_str());
        user.data = with_endpoint_url(&user.data, url);
        session.execute(SET_USER_DATA, &[&id, &user.data]).await?;
        Ok((user, endpoint))
    }
}

macro_rules! event_columns {
    () => {
        "id, user_id, event_id, event_type, body, created_at, state, attempts, since"
    };
}

fn read_event(row: &Row) -> Result<StoredEvent, Failure> {
    let mut reader = Reader::new(row);
    let columns = EventColumns {
        id: reader.value()?,
        user_id: reader.value()?,
        event_id: reader.value()?,
        event_type: reader.value()?,
        body: reader.value()?,
        created_at: reader.time()?,
        state: reader.value()?,
        attempts: reader.value::<i32>()?.into(),
        since: reader.time_opt()?,
    };
    Ok(columns.into_event()?)
}

const EVENT: &str = concat!(
    "-- event\nSELECT ",
    event_columns!(),
    " FROM roundsman.webhook_events WHERE event_id = $1"
);

struct EventById {
    event_id: String,
}

impl Operation for EventById {
    type Answer = Option<StoredEvent>;

    async fn run(&self, session: &mut Session) -> Result<Option<StoredEvent>, Failure> {
        let row = session.query_opt(EVENT, &[&self.event_id]).await?;
        row.as_ref().map(read_event).transpose()
    }
}

const STAND: &str = "-- stand
UPDATE roundsman.webhook_events SET state = $2, attempts = attempts + $3
 WHERE event_id = $1
RETURNING id, user_id";

const INSERT_DELIVERY: &str = "-- insert_delivery
INSERT INTO roundsman.webhook_deliveries (event, at, url, status, error, duration_us)
VALUES ($1, $2, $3, $4, $5, $6)";

/// An endpoint of which only the address is known has no row yet.
const SWITCH_OFF: &str = "-- switch_off
INSERT INTO roundsman.webhook_endpoints (user_id, events, disabled_at) VALUES ($1, '{}', $2)
ON CONFLICT (user_id) DO UPDATE SET disabled_at = excluded.disabled_at";

struct LogDelivery {
    event_id: String,
    entry: DeliveryEntry,
    guard: LeaseRef,
    now: Timestamp,
}

impl Operation for LogDelivery {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        session.begin();
        let held = holds_lease(session, Some(self.guard)).await?;
        if held {
            self.log(session).await?;
        }
        session.commit().await?;
        Ok(held)
    }
}

impl LogDelivery {
    /// An event that was pruned meanwhile has nowhere to be logged.
    async fn log(&self, session: &mut Session) -> Result<(), Failure> {
        let DeliveryEntry { delivery, state, disable } = &self.entry;
        let sent = i32::from(delivery.is_some());
        let stood = session.query_opt(STAND, &[&self.event_id, &state.as_str(), &sent]).await?;
        let Some(row) = stood else {
            return Ok(());
        };
        let (event, user): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        if let Some(delivery) = delivery {
            let status = delivery.status.map(i32::from);
            let duration_us = duration_to_us(delivery.duration);
            let error = delivery.error.as_deref().map(|text| text.replace('\0', ""));
            session
                .execute(
                    INSERT_DELIVERY,
                    &[&event, &Time(delivery.at), &delivery.url, &status, &error, &duration_us],
                )
                .await?;
        }
        if !disable {
            return Ok(());
        }
        if let Some(owner) = lock_user(session, UserId::new(user)).await?
            && switches_off(&self.entry, &owner.data)
        {
            session.execute(SWITCH_OFF, &[&user, &Time(self.now)]).await?;
        }
        Ok(())
    }
}

/// Condition and order name both columns of the index, as a range: with `user_id = $1` the planner
/// may prefer to read everybody's events by number.
const EVENTS_OF: &str = concat!(
    "-- events_of\nSELECT ",
    event_columns!(),
    " FROM roundsman.webhook_events
 WHERE (user_id, id) < ($1, $2) AND user_id >= $1
 ORDER BY user_id DESC, id DESC
 LIMIT $3"
);

const DELIVERIES_OF: &str = "-- deliveries_of
SELECT event, id, at, url, status, error, duration_us
  FROM roundsman.webhook_deliveries
 WHERE event = ANY ($1::bigint[])
 ORDER BY event, id";

struct Deliveries {
    user: UserId,
    before: Option<i64>,
    rows_max: u32,
}

impl Operation for Deliveries {
    type Answer = Vec<(StoredEvent, Vec<Delivery>)>;

    async fn run(&self, session: &mut Session) -> Result<Self::Answer, Failure> {
        let before = self.before.unwrap_or(i64::MAX);
        let rows_max = i64::from(self.rows_max);
        let rows = session.query(EVENTS_OF, &[&self.user.get(), &before, &rows_max]).await?;
        let events = rows.iter().map(read_event).collect::<Result<Vec<_>, _>>()?;
        let ids: Vec<i64> = events.iter().map(|event| event.id).collect();
        let mut tries: BTreeMap<i64, Vec<Delivery>> = BTreeMap::new();
        for row in session.query(DELIVERIES_OF, &[&ids]).await? {
            tries.entry(row.try_get(0)?).or_default().push(read_delivery(&row)?);
        }
        let with_tries = |event: StoredEvent| {
            let log = tries.remove(&event.id).unwrap_or_default();
            (event, log)
        };
        Ok(events.into_iter().map(with_tries).collect())
    }
}

fn read_delivery(row: &Row) -> Result<Delivery, Failure> {
    let mut reader = Reader::from(row, 1);
    let columns = DeliveryColumns {
        id: reader.value()?,
        at: reader.time()?,
        url: reader.value()?,
        status: reader.value()?,
        error: reader.value()?,
        duration_us: reader.value()?,
    };
    Ok(columns.into_delivery()?)
}

const REPLAY: &str = "-- replay
UPDATE roundsman.webhook_events SET state = $4, since = $3 WHERE event_id = $1 AND user_id = $2";

struct Replay<'a> {
    user: UserId,
    event_id: String,
    catalog: &'a KindCatalog,
    now: Timestamp,
}

impl Operation for Replay<'_> {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        session.begin();
        let pending = DeliveryState::Pending.as_str();
        let values: super::session::Values<'_> =
            &[&self.event_id, &self.user.get(), &Time(self.now), &pending];
        let found = session.execute(REPLAY, values).await? > 0;
        if found {
            let jobs = vec![deliver_wish(&self.event_id, self.now)];
            let effects = Effects { jobs, ..Effects::default() };
            write_effects(session, &[&effects], self.catalog, self.now).await?;
        }
        session.commit().await?;
        Ok(found)
    }
}

/// Their tries go with them. Events that somebody is about to replay are left alone.
const PRUNE_EVENTS: &str = "-- prune_events
WITH old AS MATERIALIZED (
    SELECT id AS old_id FROM roundsman.webhook_events
     WHERE created_at < $1 AND state <> 'pending'
     ORDER BY created_at
     LIMIT $2
       FOR UPDATE SKIP LOCKED
)
DELETE FROM roundsman.webhook_events e USING old WHERE e.id = old_id";

struct PruneEvents {
    before: Timestamp,
    rows_max: u32,
}

impl Operation for PruneEvents {
    type Answer = u64;

    async fn run(&self, session: &mut Session) -> Result<u64, Failure> {
        let values: super::session::Values<'_> = &[&Time(self.before), &i64::from(self.rows_max)];
        session.execute(PRUNE_EVENTS, values).await.map_err(Failure::Commit)
    }
}

/// The statements whose plans are tested.
#[cfg(test)]
pub(super) fn hot_statements() -> [&'static str; 3] {
    [EVENTS_OF, DELIVERIES_OF, PRUNE_EVENTS]
}
