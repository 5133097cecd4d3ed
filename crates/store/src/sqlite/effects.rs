//! Effects: written with the state change they belong to, or by themselves.

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::effects::{
    Effects, Frame, LoggedTransition, NewFrame, Transition, Violation, WebhookEvent,
};
use roundsman_core::jobs::{Json, KindCatalog, LeaseRef};
use roundsman_core::ports::{EffectStore, StoreError};
use roundsman_core::users::UserId;
use rusqlite::{Connection, Row, params};

use super::error::Result as InTransaction;
use super::jobs::enqueue::insert_jobs;
use super::time::At;
use super::{SqliteStore, audits, check};

#[async_trait]
impl EffectStore for SqliteStore {
    async fn commit(
        &self,
        guard: Option<LeaseRef>,
        effects: Effects,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write("store.commit_effects", move |conn, catalog| {
            if let Some(lease) = guard
                && !is_held(conn, lease)?
            {
                return Ok(false);
            }
            apply(conn, catalog, effects, now)?;
            Ok(true)
        })
        .await
    }

    async fn frames(
        &self,
        stream: String,
        after_seq: i64,
        rows_max: u32,
    ) -> Result<Vec<Frame>, StoreError> {
        self.read(move |conn| {
            let mut statement = conn.prepare_cached(FRAMES_AFTER)?;
            let rows = statement.query_map(params![stream, after_seq, rows_max], read_frame)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn transitions(
        &self,
        entity: String,
        entity_id: i64,
    ) -> Result<Vec<LoggedTransition>, StoreError> {
        self.read(move |conn| {
            let mut statement = conn.prepare_cached(TRANSITIONS_OF)?;
            let rows = statement.query_map(params![entity, entity_id], read_transition)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn webhook_events(
        &self,
        after_id: i64,
        rows_max: u32,
    ) -> Result<Vec<(i64, WebhookEvent)>, StoreError> {
        self.read(move |conn| {
            let mut statement = conn.prepare_cached(WEBHOOK_EVENTS_AFTER)?;
            let rows = statement.query_map(params![after_id, rows_max], read_webhook_event)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn check(&self) -> Result<Vec<Violation>, StoreError> {
        self.read(check::check).await
    }
}

/// Writes effects in the caller's transaction. Returns the frames with their places.
pub(super) fn apply(
    conn: &Connection,
    catalog: &KindCatalog,
    effects: Effects,
    now: Timestamp,
) -> InTransaction<Vec<Frame>> {
    if !effects.jobs.is_empty() {
        insert_jobs(conn, catalog, effects.jobs, now)?;
    }
    let mut frames = Vec::with_capacity(effects.frames.len());
    for frame in effects.frames {
        frames.push(append_frame(conn, frame, now)?);
    }
    for transition in &effects.transitions {
        log_transition(conn, transition, now)?;
    }
    for event in &effects.webhooks {
        conn.prepare_cached(INSERT_WEBHOOK_EVENT)?.execute(params![
            event.user_id.get(),
            event.event_id,
            event.event_type,
            event.body.as_str(),
            At(now),
        ])?;
    }
    for result in &effects.audits {
        audits::result::write(conn, result)?;
    }
    Ok(frames)
}

pub(super) fn log_transition(
    conn: &Connection,
    transition: &Transition,
    now: Timestamp,
) -> InTransaction<()> {
    conn.prepare_cached(INSERT_TRANSITION)?.execute(params![
        transition.entity,
        transition.entity_id,
        transition.from_state,
        transition.to_state,
        transition.cause,
        transition.detail.as_ref().map(Json::as_str),
        At(now),
    ])?;
    Ok(())
}

pub(super) fn read_transition(row: &Row<'_>) -> rusqlite::Result<LoggedTransition> {
    Ok(LoggedTransition {
        id: row.get(0)?,
        entity: row.get(1)?,
        entity_id: row.get(2)?,
        from_state: row.get(3)?,
        to_state: row.get(4)?,
        cause: row.get(5)?,
        detail: row.get::<_, Option<String>>(6)?.map(Json::from_stored),
        at: row.get(7).map(|At(at)| at)?,
    })
}

const IS_HELD: &str = "-- is_held
    SELECT EXISTS (SELECT 1 FROM job_running WHERE id = ?1 AND lease_no = ?2)";

const NEXT_SEQ: &str = "-- next_seq
    INSERT INTO frame_streams (stream, last_seq) VALUES (?1, 1)
    ON CONFLICT (stream) DO UPDATE SET last_seq = last_seq + 1
    RETURNING last_seq";

/// Never earlier than the frame before it, even if the clock was set back: frames are pruned by
/// their time, and pruning must take them in the order of their numbers.
const INSERT_FRAME: &str = "-- insert_frame
    INSERT INTO frames (stream, seq, body, at)
    VALUES (?1, ?2, ?3,
            max(?4, coalesce((SELECT at FROM frames WHERE stream = ?1 AND seq = ?2 - 1), ?4)))";

const INSERT_TRANSITION: &str = "-- insert_transition
    INSERT INTO transitions (entity, entity_id, from_state, to_state, cause, detail, at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// An event that is written once more is the same event, and was told or will be.
const INSERT_WEBHOOK_EVENT: &str = "-- insert_webhook_event
    INSERT INTO webhook_events (user_id, event_id, event_type, body, created_at, state, attempts,
        since)
    VALUES (?1, ?2, ?3, ?4, ?5, 'pending', 0, ?5)
    ON CONFLICT (event_id) DO NOTHING";

const FRAMES_AFTER: &str = "-- frames_after
    SELECT stream, seq, body, at FROM frames WHERE stream = ?1 AND seq > ?2
     ORDER BY seq LIMIT ?3";

const TRANSITIONS_OF: &str = "-- transitions_of
    SELECT id, entity, entity_id, from_state, to_state, cause, detail, at
      FROM transitions
     WHERE entity = ?1 AND entity_id = ?2
     ORDER BY id";

const WEBHOOK_EVENTS_AFTER: &str = "-- webhook_events_after
    SELECT id, user_id, coalesce(event_id, ''), event_type, body
      FROM webhook_events WHERE id > ?1
     ORDER BY id LIMIT ?2";

/// Whether the holder of this lease still has it.
pub(super) fn is_held(conn: &Connection, lease: LeaseRef) -> InTransaction<bool> {
    let mut statement = conn.prepare_cached(IS_HELD)?;
    Ok(statement.query_row([lease.id.get(), lease.lease_no.get()], |row| row.get(0))?)
}

/// Gives a frame its place.
pub(super) fn append_frame(
    conn: &Connection,
    frame: NewFrame,
    now: Timestamp,
) -> InTransaction<Frame> {
    let seq: i64 = conn.prepare_cached(NEXT_SEQ)?.query_row([&frame.stream], |row| row.get(0))?;
    conn.prepare_cached(INSERT_FRAME)?.execute(params![
        frame.stream,
        seq,
        frame.body.as_str(),
        At(now)
    ])?;
    Ok(Frame { stream: frame.stream, seq, body: frame.body, at: now })
}

pub(super) fn read_frame(row: &Row<'_>) -> rusqlite::Result<Frame> {
    Ok(Frame {
        stream: row.get(0)?,
        seq: row.get(1)?,
        body: Json::from_stored(row.get(2)?),
        at: row.get(3).map(|At(at)| at)?,
    })
}

fn read_webhook_event(row: &Row<'_>) -> rusqlite::Result<(i64, WebhookEvent)> {
    let event = WebhookEvent {
        user_id: UserId::new(row.get(1)?),
        event_id: row.get(2)?,
        event_type: row.get(3)?,
        body: Json::from_stored(row.get(4)?),
    };
    Ok((row.get(0)?, event))
}
