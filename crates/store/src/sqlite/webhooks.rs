//! Users' endpoints, the events for them, and the log of deliveries.

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::{DeliveryEntry, StoreError, WebhookStore};
use roundsman_core::users::{User, UserId};
use roundsman_core::webhooks::{
    Delivery, Endpoint, EndpointChange, SigningSecret, StoredEvent, deliver_wish,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::SqliteStore;
use super::effects::is_held;
use super::error::Result as InTransaction;
use super::jobs::enqueue::insert_jobs;
use super::time::{At, optional};
use super::users::{USER, read_user};
use crate::rows::duration_to_us;
use crate::rows::webhooks::{
    DeliveryColumns, EndpointColumns, EventColumns, changed_endpoint, endpoint, events_to_text,
    switches_off, with_endpoint_url,
};

macro_rules! event_columns {
    () => {
        "id, user_id, event_id, event_type, body, created_at, state, attempts, since"
    };
}

#[async_trait]
impl WebhookStore for SqliteStore {
    async fn endpoint(&self, user: UserId) -> Result<Option<Endpoint>, StoreError> {
        self.read(move |conn| match find_user(conn, user)? {
            Some(user) => endpoint_of(conn, &user),
            None => Ok(None),
        })
        .await
    }

    async fn set_endpoint(
        &self,
        user: UserId,
        change: EndpointChange,
        _now: Timestamp,
    ) -> Result<Option<(User, Option<Endpoint>)>, StoreError> {
        self.write("store.webhook_endpoint", move |conn, _| set_endpoint(conn, user, change)).await
    }

    async fn webhook_event(&self, event_id: String) -> Result<Option<StoredEvent>, StoreError> {
        self.read(move |conn| {
            let mut statement = conn.prepare_cached(EVENT)?;
            let columns = statement.query_row([event_id], read_event).optional()?;
            Ok(columns.map(EventColumns::into_event).transpose()?)
        })
        .await
    }

    async fn log_delivery(
        &self,
        event_id: String,
        entry: DeliveryEntry,
        guard: LeaseRef,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write("store.webhook_log", move |conn, _| {
            let held = is_held(conn, guard)?;
            if held {
                log_delivery(conn, &event_id, &entry, now)?;
            }
            Ok(held)
        })
        .await
    }

    async fn deliveries(
        &self,
        user: UserId,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<(StoredEvent, Vec<Delivery>)>, StoreError> {
        self.read(move |conn| deliveries(conn, user, before, rows_max)).await
    }

    async fn replay_event(
        &self,
        user: UserId,
        event_id: String,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write("store.webhook_replay", move |conn, catalog| {
            replay_event(conn, catalog, user, &event_id, now)
        })
        .await
    }

    async fn prune_webhook_events(
        &self,
        before: Timestamp,
        rows_max: u32,
    ) -> Result<u64, StoreError> {
        self.write("store.webhook_prune", move |conn, _| {
            let deleted =
                conn.prepare_cached(PRUNE_EVENTS)?.execute(params![At(before), rows_max])?;
            Ok(deleted as u64)
        })
        .await
    }
}

const ENDPOINT: &str = "-- endpoint
    SELECT secret, events, disabled_at FROM webhook_endpoints WHERE user_id = ?1";

const PUT_ENDPOINT: &str = "-- put_endpoint
    INSERT INTO webhook_endpoints (user_id, secret, events, disabled_at) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (user_id) DO UPDATE
       SET secret = excluded.secret, events = excluded.events, disabled_at = excluded.disabled_at";

const DELETE_ENDPOINT: &str = "-- delete_endpoint
    DELETE FROM webhook_endpoints WHERE user_id = ?1";

const SET_USER_DATA: &str = "-- set_user_data
    UPDATE users SET data = ?2 WHERE id = ?1";

/// An endpoint of which only the address is known has no row yet.
const SWITCH_OFF: &str = "-- switch_off
    INSERT INTO webhook_endpoints (user_id, events, disabled_at) VALUES (?1, '{}', ?2)
    ON CONFLICT (user_id) DO UPDATE SET disabled_at = excluded.disabled_at";

const EVENT: &str = concat!(
    "-- event
    SELECT ",
    event_columns!(),
    " FROM webhook_events WHERE event_id = ?1"
);

pub(super) const EVENTS_OF: &str = concat!(
    "-- events_of
    SELECT ",
    event_columns!(),
    " FROM webhook_events WHERE user_id = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3"
);

const STAND: &str = "-- stand
    UPDATE webhook_events SET state = ?2, attempts = attempts + ?3 WHERE event_id = ?1
    RETURNING id, user_id";

const INSERT_DELIVERY: &str = "-- insert_delivery
    INSERT INTO webhook_deliveries (event, at, url, status, error, duration_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

pub(super) const DELIVERIES_OF: &str = "-- deliveries_of
    SELECT id, at, url, status, error, duration_us
      FROM webhook_deliveries WHERE event = ?1
     ORDER BY id";

const REPLAY: &str = "-- replay
    UPDATE webhook_events SET state = 'pending', since = ?3 WHERE event_id = ?1 AND user_id = ?2";

/// Their tries go with them.
pub(super) const PRUNE_EVENTS: &str = "-- prune_events
    DELETE FROM webhook_events
     WHERE id IN (SELECT id FROM webhook_events WHERE created_at < ?1 AND state <> 'pending'
                   ORDER BY created_at LIMIT ?2)";

fn find_user(conn: &Connection, id: UserId) -> InTransaction<Option<User>> {
    Ok(conn.prepare_cached(USER)?.query_row([id.get()], read_user).optional()?)
}

fn endpoint_of(conn: &Connection, user: &User) -> InTransaction<Option<Endpoint>> {
    let columns = conn
        .prepare_cached(ENDPOINT)?
        .query_row([user.id.get()], |row| {
            Ok(EndpointColumns {
                secret: row.get(0)?,
                events: row.get(1)?,
                disabled_at: optional(row.get(2)?),
            })
        })
        .optional()?;
    Ok(endpoint(user.id, &user.data, columns)?)
}

fn set_endpoint(
    conn: &Connection,
    id: UserId,
    change: EndpointChange,
) -> InTransaction<Option<(User, Option<Endpoint>)>> {
    let Some(mut user) = find_user(conn, id)? else { return Ok(None) };
    let endpoint = changed_endpoint(id, endpoint_of(conn, &user)?, change);
    match &endpoint {
        Some(endpoint) => conn.prepare_cached(PUT_ENDPOINT)?.execute(params![
            id.get(),
            endpoint.secret.as_ref().map(SigningSecret::as_bytes),
            events_to_text(&endpoint.events),
            endpoint.disabled_at.map(At),
        ])?,
        None => conn.prepare_cached(DELETE_ENDPOINT)?.execute([id.get()])?,
    };
    let url = endpoint.as_ref().map(|endpoint| endpoint.url.as_str());
    user.data = with_endpoint_url(&user.data, url);
    conn.prepare_cached(SET_USER_DATA)?.execute(params![id.get(), user.data])?;
    Ok(Some((user, endpoint)))
}

/// An event that was pruned meanwhile has nowhere to be logged.
fn log_delivery(
    conn: &Connection,
    event_id: &str,
    entry: &DeliveryEntry,
    now: Timestamp,
) -> InTransaction<()> {
    let sent = i64::from(entry.delivery.is_some());
    let found: Option<(i64, i64)> = conn
        .prepare_cached(STAND)?
        .query_row(params![event_id, entry.state.as_str(), sent], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((event, user_id)) = found else { return Ok(()) };
    if let Some(delivery) = &entry.delivery {
        conn.prepare_cached(INSERT_DELIVERY)?.execute(params![
            event,
            At(delivery.at),
            delivery.url,
            delivery.status,
            delivery.error,
            duration_to_us(delivery.duration),
        ])?;
    }
    if let Some(user) = find_user(conn, UserId::new(user_id))?
        && switches_off(entry, &user.data)
    {
        conn.prepare_cached(SWITCH_OFF)?.execute(params![user_id, At(now)])?;
    }
    Ok(())
}

fn deliveries(
    conn: &Connection,
    user: UserId,
    before: Option<i64>,
    rows_max: u32,
) -> InTransaction<Vec<(StoredEvent, Vec<Delivery>)>> {
    let mut events = conn.prepare_cached(EVENTS_OF)?;
    let mut tries = conn.prepare_cached(DELIVERIES_OF)?;
    let mut rows = events.query(params![user.get(), before.unwrap_or(i64::MAX), rows_max])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let event = read_event(row)?.into_event()?;
        let log = tries
            .query_map([event.id], read_delivery)?
            .map(|columns| Ok(columns?.into_delivery()?))
            .collect::<InTransaction<_>>()?;
        found.push((event, log));
    }
    Ok(found)
}

fn replay_event(
    conn: &Connection,
    catalog: &KindCatalog,
    user: UserId,
    event_id: &str,
    now: Timestamp,
) -> InTransaction<bool> {
    let found = conn.prepare_cached(REPLAY)?.execute(params![event_id, user.get(), At(now)])? == 1;
    if found {
        insert_jobs(conn, catalog, vec![deliver_wish(event_id, now)], now)?;
    }
    Ok(found)
}

fn read_event(row: &Row<'_>) -> rusqlite::Result<EventColumns> {
    Ok(EventColumns {
        id: row.get(0)?,
        user_id: row.get(1)?,
        event_id: row.get(2)?,
        event_type: row.get(3)?,
        body: row.get(4)?,
        created_at: row.get(5).map(|At(at)| at)?,
        state: row.get(6)?,
        attempts: row.get(7)?,
        since: optional(row.get(8)?),
    })
}

fn read_delivery(row: &Row<'_>) -> rusqlite::Result<DeliveryColumns> {
    Ok(DeliveryColumns {
        id: row.get(0)?,
        at: row.get(1).map(|At(at)| at)?,
        url: row.get(2)?,
        status: row.get(3)?,
        error: row.get(4)?,
        duration_us: row.get(5)?,
    })
}
