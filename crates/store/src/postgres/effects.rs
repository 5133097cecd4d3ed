//! Effects, the log of transitions, the frames of streams, webhook events.

use std::collections::BTreeMap;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::effects::{
    Effects, Frame, LoggedTransition, NewFrame, Transition, Violation, WebhookEvent,
};
use roundsman_core::jobs::{Json, KindCatalog, LeaseRef, NewJob};
use roundsman_core::ports::{EffectStore, StoreError};
use roundsman_core::users::UserId;
use roundsman_core::webhooks::DeliveryState;
use tokio_postgres::Row;

use super::audits::write_results;
use super::columns::Reader;
use super::error::Failure;
use super::jobs::write_wishes;
use super::pool::Operation;
use super::session::Session;
use super::types::Time;
use super::{PostgresStore, check};

#[async_trait]
impl EffectStore for PostgresStore {
    async fn commit(
        &self,
        guard: Option<LeaseRef>,
        effects: Effects,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let catalog = &self.catalog;
        self.change("store.commit_effects", &Commit { guard, effects: &effects, catalog, now })
            .await
    }

    async fn frames(
        &self,
        stream: String,
        after_seq: i64,
        rows_max: u32,
    ) -> Result<Vec<Frame>, StoreError> {
        self.pool.run(&Frames { stream, after_seq, rows_max }).await
    }

    async fn transitions(
        &self,
        entity: String,
        entity_id: i64,
    ) -> Result<Vec<LoggedTransition>, StoreError> {
        self.pool.run(&Transitions { entity, entity_id }).await
    }

    async fn webhook_events(
        &self,
        after_id: i64,
        rows_max: u32,
    ) -> Result<Vec<(i64, WebhookEvent)>, StoreError> {
        self.pool.run(&WebhookEvents { after_id, rows_max }).await
    }

    async fn check(&self) -> Result<Vec<Violation>, StoreError> {
        check::run(&self.pool).await
    }
}

/// Writes effects, in the order given, inside the caller's transaction. Returns the frames with
/// their places, those of all effects in one list.
pub(super) async fn write_effects(
    session: &mut Session,
    effects: &[&Effects],
    catalog: &KindCatalog,
    now: Timestamp,
) -> Result<Vec<Frame>, Failure> {
    let wishes: Vec<NewJob> = effects.iter().flat_map(|each| each.jobs.iter().cloned()).collect();
    if !wishes.is_empty() {
        write_wishes(session, &wishes, catalog, now).await?;
    }
    let frames: Vec<&NewFrame> = effects.iter().flat_map(|each| &each.frames).collect();
    let placed = write_frames(session, &frames, now).await?;
    let transitions: Vec<&Transition> = effects.iter().flat_map(|each| &each.transitions).collect();
    write_transitions(session, &transitions, now).await?;
    let webhooks: Vec<&WebhookEvent> = effects.iter().flat_map(|each| &each.webhooks).collect();
    write_webhooks(session, &webhooks, now).await?;
    for result in effects.iter().flat_map(|each| &each.audits) {
        write_results(session, result).await?;
    }
    Ok(placed)
}

/// The row of a stream is its lock: whoever writes to it next waits for this transaction, and if
/// this one fails its numbers are given again. So there are no gaps. Streams are taken in the order
/// of their names.
const NEXT_SEQ: &str = "-- next_seq
INSERT INTO roundsman.frame_streams AS known (stream, last_seq)
SELECT * FROM unnest($1::text[], $2::bigint[])
ON CONFLICT (stream) DO UPDATE SET last_seq = known.last_seq + excluded.last_seq
RETURNING stream, last_seq";

const INSERT_FRAMES: &str = "-- insert_frames
INSERT INTO roundsman.frames (stream, seq, body, at)
SELECT stream, seq, body, $4 FROM unnest($1::text[], $2::bigint[], $3::text[])
       AS new(stream, seq, body)";

pub(super) async fn write_frames(
    session: &mut Session,
    frames: &[&NewFrame],
    now: Timestamp,
) -> Result<Vec<Frame>, Failure> {
    if frames.is_empty() {
        return Ok(Vec::new());
    }
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for frame in frames {
        *counts.entry(&frame.stream).or_default() += 1;
    }
    let names: Vec<&str> = counts.keys().copied().collect();
    let added: Vec<i64> = counts.values().copied().collect();
    let rows = session.query(NEXT_SEQ, &[&names, &added]).await?;
    // From here on the next number of each stream.
    for row in &rows {
        let (stream, last_seq): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
        if let Some(next) = counts.get_mut(stream) {
            *next = last_seq - *next + 1;
        }
    }
    let (mut streams, mut seqs, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
    for frame in frames {
        let next = counts.entry(&frame.stream).or_default();
        streams.push(frame.stream.as_str());
        seqs.push(*next);
        bodies.push(frame.body.as_str());
        *next += 1;
    }
    session.execute(INSERT_FRAMES, &[&streams, &seqs, &bodies, &Time(now)]).await?;
    let placed = frames.iter().zip(seqs).map(|(frame, seq)| Frame {
        stream: frame.stream.clone(),
        seq,
        body: frame.body.clone(),
        at: now,
    });
    Ok(placed.collect())
}

/// `ORDER BY` makes the numbers follow the order given: they are drawn as the rows come.
const INSERT_TRANSITIONS: &str = "-- insert_transitions
INSERT INTO roundsman.transitions (entity, entity_id, from_state, to_state, cause, detail, at)
SELECT entity, entity_id, from_state, to_state, cause, detail, $7
  FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[])
       WITH ORDINALITY AS step(entity, entity_id, from_state, to_state, cause, detail, place)
 ORDER BY place";

async fn write_transitions(
    session: &mut Session,
    steps: &[&Transition],
    now: Timestamp,
) -> Result<(), Failure> {
    if steps.is_empty() {
        return Ok(());
    }
    let entities: Vec<&str> = steps.iter().map(|step| step.entity).collect();
    let ids: Vec<i64> = steps.iter().map(|step| step.entity_id).collect();
    let from: Vec<Option<&str>> = steps.iter().map(|step| step.from_state.as_deref()).collect();
    let to: Vec<&str> = steps.iter().map(|step| step.to_state.as_str()).collect();
    let causes: Vec<&str> = steps.iter().map(|step| step.cause.as_str()).collect();
    let details: Vec<Option<&str>> =
        steps.iter().map(|step| step.detail.as_ref().map(Json::as_str)).collect();
    session
        .execute(INSERT_TRANSITIONS, &[&entities, &ids, &from, &to, &causes, &details, &Time(now)])
        .await?;
    Ok(())
}

/// An event that is there already stays as it is: the same thing is told once.
const INSERT_WEBHOOKS: &str = "-- insert_webhooks
INSERT INTO roundsman.webhook_events
    (user_id, event_id, event_type, body, created_at, state, attempts, since)
SELECT user_id, event_id, event_type, body, $5, $6, 0, $5
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY
       AS event(user_id, event_id, event_type, body, place)
 ORDER BY place
ON CONFLICT (event_id) DO NOTHING";

async fn write_webhooks(
    session: &mut Session,
    events: &[&WebhookEvent],
    now: Timestamp,
) -> Result<(), Failure> {
    if events.is_empty() {
        return Ok(());
    }
    let users: Vec<i64> = events.iter().map(|event| event.user_id.get()).collect();
    let ids: Vec<&str> = events.iter().map(|event| event.event_id.as_str()).collect();
    let types: Vec<&str> = events.iter().map(|event| event.event_type.as_str()).collect();
    let bodies: Vec<&str> = events.iter().map(|event| event.body.as_str()).collect();
    let pending = DeliveryState::Pending.as_str();
    session
        .execute(INSERT_WEBHOOKS, &[&users, &ids, &types, &bodies, &Time(now), &pending])
        .await?;
    Ok(())
}

struct Commit<'a> {
    guard: Option<LeaseRef>,
    effects: &'a Effects,
    catalog: &'a KindCatalog,
    now: Timestamp,
}

/// Keeps the lease from being taken away until this transaction is over, and lets heartbeats pass:
/// they change no column that is part of a key.
pub(super) const HOLD_LEASE: &str = "-- hold_lease
SELECT FROM roundsman.job_running WHERE id = $1 AND lease_no = $2 FOR KEY SHARE";

/// Whether the guard, if there is one, is held; from then on it stays so until the end of the
/// transaction.
pub(super) async fn holds_lease(
    session: &mut Session,
    guard: Option<LeaseRef>,
) -> Result<bool, Failure> {
    let Some(LeaseRef { id, lease_no }) = guard else {
        return Ok(true);
    };
    Ok(session.query_opt(HOLD_LEASE, &[&id.get(), &lease_no.get()]).await?.is_some())
}

impl Operation for Commit<'_> {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        session.begin();
        if !holds_lease(session, self.guard).await? {
            session.commit().await?;
            return Ok(false);
        }
        write_effects(session, &[self.effects], self.catalog, self.now).await?;
        session.commit().await?;
        Ok(true)
    }
}

const FRAMES: &str = "-- frames
SELECT seq, body, at FROM roundsman.frames WHERE stream = $1 AND seq > $2 ORDER BY seq LIMIT $3";

struct Frames {
    stream: String,
    after_seq: i64,
    rows_max: u32,
}

impl Operation for Frames {
    type Answer = Vec<Frame>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Frame>, Failure> {
        let rows_max = i64::from(self.rows_max);
        let rows = session.query(FRAMES, &[&self.stream, &self.after_seq, &rows_max]).await?;
        let frame = |row: &Row| {
            let mut reader = Reader::new(row);
            Ok(Frame {
                stream: self.stream.clone(),
                seq: reader.value()?,
                body: Json::from_stored(reader.value()?),
                at: reader.time()?,
            })
        };
        rows.iter().map(frame).collect()
    }
}

const TRANSITIONS: &str = "-- transitions
SELECT id, entity, entity_id, from_state, to_state, cause, detail, at
  FROM roundsman.transitions WHERE entity = $1 AND entity_id = $2 ORDER BY id";

struct Transitions {
    entity: String,
    entity_id: i64,
}

impl Operation for Transitions {
    type Answer = Vec<LoggedTransition>;

    async fn run(&self, session: &mut Session) -> Result<Vec<LoggedTransition>, Failure> {
        let rows = session.query(TRANSITIONS, &[&self.entity, &self.entity_id]).await?;
        rows.iter().map(transition).collect()
    }
}

/// Reads a row with the columns of [`TRANSITIONS`].
pub(super) fn transition(row: &Row) -> Result<LoggedTransition, Failure> {
    let mut reader = Reader::new(row);
    Ok(LoggedTransition {
        id: reader.value()?,
        entity: reader.value()?,
        entity_id: reader.value()?,
        from_state: reader.value()?,
        to_state: reader.value()?,
        cause: reader.value()?,
        detail: reader.value::<Option<String>>()?.map(Json::from_stored),
        at: reader.time()?,
    })
}

const WEBHOOK_EVENTS: &str = "-- webhook_events
SELECT id, user_id, coalesce(event_id, ''), event_type, body FROM roundsman.webhook_events
 WHERE id > $1 ORDER BY id LIMIT $2";

struct WebhookEvents {
    after_id: i64,
    rows_max: u32,
}

impl Operation for WebhookEvents {
    type Answer = Vec<(i64, WebhookEvent)>;

    async fn run(&self, session: &mut Session) -> Result<Vec<(i64, WebhookEvent)>, Failure> {
        let rows_max = i64::from(self.rows_max);
        let rows = session.query(WEBHOOK_EVENTS, &[&self.after_id, &rows_max]).await?;
        let event = |row: &Row| {
            let mut reader = Reader::new(row);
            let id = reader.value()?;
            let event = WebhookEvent {
                user_id: UserId::new(reader.value()?),
                event_id: reader.value()?,
                event_type: reader.value()?,
                body: Json::from_stored(reader.value()?),
            };
            Ok((id, event))
        };
        rows.iter().map(event).collect()
    }
}
