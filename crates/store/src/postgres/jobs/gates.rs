//! Gates as such: making, changing and showing them.

use std::collections::BTreeSet;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{Gate, GateChange, GateName, NewJob, RESERVED_SYSTEMS};
use roundsman_core::ports::{GateStore, StoreError};
use roundsman_core::users::UserId;
use tokio_postgres::Row;

use crate::postgres::PostgresStore;
use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::gates::{GateColumns, limits_to_text};

#[async_trait]
impl GateStore for PostgresStore {
    async fn change_gate(
        &self,
        name: GateName,
        change: GateChange,
        now: Timestamp,
    ) -> Result<Gate, StoreError> {
        self.change("store.change_gate", &Alter { name: &name, change: &change, now }).await
    }

    async fn gates(&self, names: Vec<GateName>) -> Result<Vec<Gate>, StoreError> {
        self.pool.run(&Named { names: &names }).await
    }

    async fn all_gates(
        &self,
        after: Option<GateName>,
        rows_max: u32,
    ) -> Result<Vec<Gate>, StoreError> {
        let after = after.as_ref().map_or("", GateName::as_str);
        self.pool.run(&All { after, rows_max: i64::from(rows_max) }).await
    }
}

macro_rules! gate_columns {
    () => {
        "name, paused_at, limits, has_tenants, turn_lane"
    };
}

/// In the order of their names, in which everybody locks them.
pub(super) const LOCK_GATES: &str = concat!(
    "-- lock_gates\nSELECT ",
    gate_columns!(),
    " FROM roundsman.job_gates WHERE name = ANY ($1::text[]) ORDER BY name FOR UPDATE"
);

const GATES: &str = concat!(
    "-- gates\nSELECT ",
    gate_columns!(),
    " FROM roundsman.job_gates WHERE name = ANY ($1::text[]) ORDER BY name"
);

const ALL_GATES: &str = concat!(
    "-- all_gates\nSELECT ",
    gate_columns!(),
    " FROM roundsman.job_gates WHERE name > $1 ORDER BY name LIMIT $2"
);

/// A gate that is not there is made first, so that there is something to lock.
const MAKE_GATE: &str = "-- make_gate
INSERT INTO roundsman.job_gates (name, limits, has_tenants) VALUES ($1, '{}', false)
ON CONFLICT (name) DO NOTHING";

const SET_GATE: &str = "-- set_gate
UPDATE roundsman.job_gates SET paused_at = $2, limits = $3 WHERE name = $1";

const DROP_GATE: &str = "-- drop_gate
DELETE FROM roundsman.job_gates WHERE name = $1";

const DROP_BUCKETS: &str = "-- drop_buckets
DELETE FROM roundsman.job_buckets WHERE gate = $1";

/// A job that was claimed without a gate has no lane written down, and would not be counted. By number,
/// as runs are ended. A claim that began before the gate was there is caught up with by the sweeps.
pub(super) const COUNT_IN: &str = "-- count_in
WITH uncounted AS MATERIALIZED (
    SELECT id AS uncounted_id FROM roundsman.job_running
     WHERE kind = $1 AND lane IS NULL AND ($2::bigint IS NULL OR user_id = $2)
     ORDER BY id
       FOR UPDATE
)
UPDATE roundsman.job_running r SET lane = CASE WHEN $3 THEN kind ELSE user_id || '/' || kind END
  FROM uncounted WHERE r.id = uncounted_id";

/// The same for all gates, passing over what others hold. Without limits of what runs this is one short look.
const COUNT_IN_LATE: &str = "-- count_in_late
WITH limited AS MATERIALIZED (
    SELECT name FROM roundsman.job_gates WHERE limits LIKE '%concurrency%'
), uncounted AS MATERIALIZED (
    SELECT id AS uncounted_id FROM roundsman.job_running r
     WHERE (SELECT EXISTS (SELECT FROM limited)) AND lane IS NULL
       AND EXISTS (SELECT FROM limited WHERE name = r.kind OR name = r.user_id || '/' || r.kind)
       FOR UPDATE OF r SKIP LOCKED
)
UPDATE roundsman.job_running r
   SET lane = CASE WHEN split_part(kind, '.', 1) = ANY ($1::text[]) THEN kind
                   ELSE user_id || '/' || kind END
  FROM uncounted WHERE r.id = uncounted_id";

/// Counts runs that a claim began while the first limit of their kind was being set.
pub(super) async fn count_in_late(session: &mut Session) -> Result<(), Failure> {
    let systems = RESERVED_SYSTEMS.as_slice();
    session.execute(COUNT_IN_LATE, &[&systems]).await.map_err(Failure::Commit)?;
    Ok(())
}

pub(super) fn gate(row: &Row) -> Result<Gate, Failure> {
    let mut reader = Reader::new(row);
    let columns = GateColumns {
        name: reader.value()?,
        paused_at: reader.time_opt()?,
        limits: reader.value()?,
        has_tenants: reader.value()?,
        turn_lane: reader.value()?,
    };
    Ok(columns.into_gate()?)
}

struct Alter<'a> {
    name: &'a GateName,
    change: &'a GateChange,
    now: Timestamp,
}

impl Operation for Alter<'_> {
    type Answer = Gate;

    async fn run(&self, session: &mut Session) -> Result<Gate, Failure> {
        let name = self.name.as_str();
        session.begin();
        session.execute(MAKE_GATE, &[&name]).await?;
        let row = session.query_opt(LOCK_GATES, &[&vec![name]]).await?.ok_or(Failure::Raced)?;
        let before = gate(&row)?;
        let after = before.clone().changed(self.change.clone(), self.now);
        if after.limits != before.limits {
            session.execute(DROP_BUCKETS, &[&name]).await?;
        }
        if after.is_needless() {
            session.execute(DROP_GATE, &[&name]).await?;
        } else {
            let limits = limits_to_text(&after.limits);
            session.execute(SET_GATE, &[&name, &after.paused_at.map(Time), &limits]).await?;
        }
        if after.limits != before.limits && after.limits.concern_running() {
            let (kind, user) = (self.name.kind(), self.name.user().map(UserId::get));
            session.execute(COUNT_IN, &[&kind, &user, &self.name.is_of_built_in_kind()]).await?;
        }
        session.commit().await?;
        Ok(after)
    }
}

struct Named<'a> {
    names: &'a [GateName],
}

impl Operation for Named<'_> {
    type Answer = Vec<Gate>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Gate>, Failure> {
        let names: Vec<&str> = self.names.iter().map(GateName::as_str).collect();
        session.query(GATES, &[&names]).await?.iter().map(gate).collect()
    }
}

struct All<'a> {
    after: &'a str,
    rows_max: i64,
}

impl Operation for All<'_> {
    type Answer = Vec<Gate>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Gate>, Failure> {
        session.query(ALL_GATES, &[&self.after, &self.rows_max]).await?.iter().map(gate).collect()
    }
}

const GATES_WITH_TENANTS: &str = "-- gates_with_tenants
SELECT name FROM roundsman.job_gates WHERE name = ANY ($1::text[]) AND has_tenants";

/// Looked for before it is written: an insert that meets a row locks it, and claims want that lock.
const NOTE_TENANTS: &str = "-- note_tenants
INSERT INTO roundsman.job_gates AS g (name, limits, has_tenants)
SELECT name, '{}', true FROM unnest($1::text[]) name
ON CONFLICT (name) DO UPDATE SET has_tenants = true WHERE NOT g.has_tenants";

/// Makes the gates through which jobs of named tenants are claimed.
pub(super) async fn note_tenants(session: &mut Session, wishes: &[NewJob]) -> Result<(), Failure> {
    let with_tenant = wishes.iter().filter(|wish| wish.tenant.is_some());
    let mut names: BTreeSet<GateName> =
        with_tenant.map(|wish| GateName::of_lane(&wish.base_lane())).collect();
    if names.is_empty() {
        return Ok(());
    }
    let texts: Vec<&str> = names.iter().map(GateName::as_str).collect();
    for row in session.query(GATES_WITH_TENANTS, &[&texts]).await? {
        names.remove(&GateName::from_stored(row.try_get(0)?));
    }
    if !names.is_empty() {
        let texts: Vec<&str> = names.iter().map(GateName::as_str).collect();
        session.execute(NOTE_TENANTS, &[&texts]).await?;
    }
    Ok(())
}
