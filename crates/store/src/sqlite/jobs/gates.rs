//! Gates as such: making, changing and showing them.

use std::collections::BTreeSet;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{Gate, GateChange, GateName, NewJob};
use roundsman_core::ports::{GateStore, StoreError};
use roundsman_core::users::UserId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::rows::gates::{GateColumns, limits_to_text};
use crate::sqlite::SqliteStore;
use crate::sqlite::error::Result as InTransaction;
use crate::sqlite::time::{At, optional};

#[async_trait]
impl GateStore for SqliteStore {
    async fn change_gate(
        &self,
        name: GateName,
        change: GateChange,
        now: Timestamp,
    ) -> Result<Gate, StoreError> {
        self.write("store.change_gate", move |conn, _| change_gate(conn, name, change, now)).await
    }

    async fn gates(&self, names: Vec<GateName>) -> Result<Vec<Gate>, StoreError> {
        self.read(move |conn| {
            let names: BTreeSet<GateName> = names.into_iter().collect();
            let found: InTransaction<Vec<Option<Gate>>> =
                names.iter().map(|name| find_gate(conn, name)).collect();
            Ok(found?.into_iter().flatten().collect())
        })
        .await
    }

    async fn all_gates(
        &self,
        after: Option<GateName>,
        rows_max: u32,
    ) -> Result<Vec<Gate>, StoreError> {
        self.read(move |conn| {
            let after = after.as_ref().map_or("", GateName::as_str);
            let mut statement = conn.prepare_cached(ALL_GATES)?;
            let rows = statement.query_map(params![after, rows_max], read_gate)?;
            let mut gates = Vec::new();
            for columns in rows {
                gates.push(columns?.into_gate()?);
            }
            Ok(gates)
        })
        .await
    }
}

macro_rules! gate_columns {
    () => {
        "name, paused_at, limits, has_tenants, turn_lane"
    };
}

const FIND_GATE: &str =
    concat!("-- find_gate\nSELECT ", gate_columns!(), " FROM job_gates WHERE name = ?1");

const ALL_GATES: &str = concat!(
    "-- all_gates\nSELECT ",
    gate_columns!(),
    " FROM job_gates WHERE name > ?1 ORDER BY name LIMIT ?2"
);

const PUT_GATE: &str = "-- put_gate
    INSERT INTO job_gates (name, paused_at, limits, has_tenants, turn_lane)
    VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at, limits = excluded.limits,
        has_tenants = excluded.has_tenants, turn_lane = excluded.turn_lane";

const DROP_GATE: &str = "-- drop_gate
    DELETE FROM job_gates WHERE name = ?1";

const DROP_BUCKETS: &str = "-- drop_buckets
    DELETE FROM job_buckets WHERE gate = ?1";

/// A job that was claimed without a gate has no lane written down, and would not be counted.
const COUNT_IN: &str = "-- count_in
    UPDATE job_running SET lane = CASE WHEN ?3 THEN kind ELSE user_id || '/' || kind END
     WHERE kind = ?1 AND lane IS NULL AND (?2 IS NULL OR user_id = ?2)";

fn read_gate(row: &Row<'_>) -> rusqlite::Result<GateColumns> {
    Ok(GateColumns {
        name: row.get(0)?,
        paused_at: optional(row.get(1)?),
        limits: row.get(2)?,
        has_tenants: row.get(3)?,
        turn_lane: row.get(4)?,
    })
}

pub(super) fn find_gate(conn: &Connection, name: &GateName) -> InTransaction<Option<Gate>> {
    let columns =
        conn.prepare_cached(FIND_GATE)?.query_row([name.as_str()], read_gate).optional()?;
    Ok(columns.map(GateColumns::into_gate).transpose()?)
}

pub(super) fn put_gate(conn: &Connection, gate: &Gate) -> InTransaction<()> {
    conn.prepare_cached(PUT_GATE)?.execute(params![
        gate.name.as_str(),
        gate.paused_at.map(At),
        limits_to_text(&gate.limits),
        gate.has_tenants,
        gate.turn.as_ref().map(roundsman_core::jobs::Lane::as_str),
    ])?;
    Ok(())
}

fn change_gate(
    conn: &Connection,
    name: GateName,
    change: GateChange,
    now: Timestamp,
) -> InTransaction<Gate> {
    let before = find_gate(conn, &name)?.unwrap_or_else(|| Gate::new(name));
    let after = before.clone().changed(change, now);
    if after.limits != before.limits {
        conn.prepare_cached(DROP_BUCKETS)?.execute([after.name.as_str()])?;
    }
    if after.is_needless() {
        conn.prepare_cached(DROP_GATE)?.execute([after.name.as_str()])?;
    } else {
        put_gate(conn, &after)?;
    }
    if after.limits != before.limits && after.limits.concern_running() {
        let user = after.name.user().map(UserId::get);
        conn.prepare_cached(COUNT_IN)?.execute(params![
            after.name.kind(),
            user,
            after.name.is_of_built_in_kind()
        ])?;
    }
    Ok(after)
}

/// Makes the gates through which jobs of named tenants are claimed.
pub(super) fn note_tenants(conn: &Connection, wishes: &[NewJob]) -> InTransaction<()> {
    let with_tenant = wishes.iter().filter(|wish| wish.tenant.is_some());
    let names: BTreeSet<GateName> =
        with_tenant.map(|wish| GateName::of_lane(&wish.base_lane())).collect();
    for name in names {
        let gate = find_gate(conn, &name)?.unwrap_or_else(|| Gate::new(name));
        if !gate.has_tenants {
            put_gate(conn, &Gate { has_tenants: true, ..gate })?;
        }
    }
    Ok(())
}
