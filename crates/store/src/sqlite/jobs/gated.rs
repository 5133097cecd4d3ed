//! Handing out jobs through gates. One writer at a time: what was counted is still so when it is
//! acted on.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    Bucket, BucketName, Gate, GateName, GatePlan, GateScene, Lane, LaneRange, bucket_names,
    gates_of, plan, ranges_from, spend,
};
use roundsman_core::ports::{ClaimRequest, LaneDemand};
use rusqlite::{Connection, OptionalExtension, params};

use super::claim::Claiming;
use super::gates::{find_gate, put_gate};
use crate::rows::gates::{LOOK_ON_AFTER, LanesWaiting, lanes_looked_at};
use crate::sqlite::error::Result;
use crate::sqlite::time::At;

const ANY_GATE: &str = "-- any_gate
    SELECT 1 FROM job_gates LIMIT 1";

/// The gates of the lanes that are asked for. Where there are none at all, this is one short look.
pub(super) fn gates_for(
    conn: &Connection,
    request: &ClaimRequest,
) -> Result<BTreeMap<GateName, Gate>> {
    let mut gates = BTreeMap::new();
    if !conn.prepare_cached(ANY_GATE)?.exists([])? {
        return Ok(gates);
    }
    for name in request.demands.iter().flat_map(|demand| gates_of(&demand.lane)) {
        if let Some(gate) = find_gate(conn, &name)? {
            gates.insert(name, gate);
        }
    }
    Ok(gates)
}

/// Claims what the gates let through. Returns when they let through the next one that waits.
pub(super) fn pass_gates(
    claim: &mut Claiming<'_>,
    gates: &BTreeMap<GateName, Gate>,
) -> Result<Option<Timestamp>> {
    let mut open_at: Option<Timestamp> = None;
    for demand in &claim.request.demands {
        let names = gates_of(&demand.lane);
        let own: Vec<Gate> = names.iter().filter_map(|name| gates.get(name).cloned()).collect();
        let jobs_max = demand.max.min(claim.left());
        if own.is_empty() || jobs_max == 0 || own.iter().any(|gate| gate.paused_at.is_some()) {
            continue;
        }
        if let Some(at) = pass(claim, demand, &own, jobs_max)? {
            open_at = Some(open_at.map_or(at, |known| known.min(at)));
        }
    }
    Ok(open_at)
}

fn pass(
    claim: &mut Claiming<'_>,
    demand: &LaneDemand,
    gates: &[Gate],
    jobs_max: u32,
) -> Result<Option<Timestamp>> {
    let (conn, now) = (claim.conn, claim.now);
    let own = gates.iter().find(|gate| gate.name.as_str() == demand.lane.as_str());
    let turn = own.and_then(|gate| gate.turn.clone());
    let LanesWaiting { lanes: waiting, ended_at } =
        lanes_waiting(conn, &demand.lane, turn.as_ref(), jobs_max)?;
    if waiting.is_empty() && ended_at.is_none() {
        return Ok(None);
    }
    let running = lanes_running(conn, demand.lane.kind())?;
    let buckets = load_buckets(conn, gates, &waiting)?;
    let scene = GateScene {
        base: &demand.lane,
        gates,
        running: &running,
        buckets: &buckets,
        waiting: &waiting,
        jobs_max,
        now,
    };
    let GatePlan { quotas, turn: mut next, mut open_at } = plan(&scene);
    claim.through_gate(demand, &quotas)?;
    if ended_at.is_some() {
        // Whoever comes next looks at what follows, soon if all of this is kept back.
        next = ended_at;
        open_at = if quotas.is_empty() { Some(now + LOOK_ON_AFTER) } else { open_at };
    }
    put_buckets(conn, &spend(&demand.lane, gates, &buckets, &quotas, now))?;
    if let Some(own) = own.filter(|_| next != turn) {
        put_gate(conn, &Gate { turn: next, ..own.clone() })?;
    }
    Ok(open_at)
}

pub(super) const NEXT_LANE_FROM: &str = "-- next_lane_from
    SELECT lane FROM job_queue WHERE state = 1 AND lane >= ?1 AND lane < ?2 ORDER BY lane LIMIT 1";

pub(super) const NEXT_LANE_AFTER: &str = "-- next_lane_after
    SELECT lane FROM job_queue WHERE state = 1 AND lane > ?1 AND lane < ?2 ORDER BY lane LIMIT 1";

pub(super) const COUNT_CLAIMABLE: &str = "-- count_claimable
    SELECT count(*) FROM (
        SELECT 1 FROM job_queue AS q
         WHERE q.lane = ?1 AND q.state = 1
           AND (q.key IS NULL
                OR NOT EXISTS (SELECT 1 FROM job_running AS r
                                WHERE r.user_id = q.user_id AND r.kind = q.kind AND r.key = q.key))
         LIMIT ?2)";

fn lanes_waiting(
    conn: &Connection,
    base: &Lane,
    turn: Option<&Lane>,
    jobs_max: u32,
) -> Result<LanesWaiting> {
    let mut first = conn.prepare_cached(NEXT_LANE_FROM)?;
    let mut after = conn.prepare_cached(NEXT_LANE_AFTER)?;
    let mut count = conn.prepare_cached(COUNT_CLAIMABLE)?;
    let (mut lanes, mut last) = (Vec::new(), None);
    let mut left = lanes_looked_at(jobs_max);
    for LaneRange { from, to } in ranges_from(base, turn) {
        let mut next: Option<String> =
            first.query_row(params![from, to], |row| row.get(0)).optional()?;
        while let Some(lane) = next {
            if left == 0 {
                return Ok(LanesWaiting { lanes, ended_at: last });
            }
            left -= 1;
            let jobs: u32 = count.query_row(params![lane, jobs_max], |row| row.get(0))?;
            next = after.query_row(params![lane, to], |row| row.get(0)).optional()?;
            let lane = Lane::from_stored(lane);
            last = Some(lane.clone());
            if jobs > 0 {
                lanes.push((lane, jobs));
            }
        }
    }
    Ok(LanesWaiting { lanes, ended_at: None })
}

pub(super) const LANES_RUNNING: &str = "-- lanes_running
    SELECT lane, count(*) FROM job_running WHERE kind = ?1 AND lane IS NOT NULL GROUP BY lane";

fn lanes_running(conn: &Connection, kind: &str) -> Result<Vec<(Lane, u32)>> {
    let mut statement = conn.prepare_cached(LANES_RUNNING)?;
    let rows =
        statement.query_map([kind], |row| Ok((Lane::from_stored(row.get(0)?), row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

const BUCKET: &str = "-- bucket
    SELECT level, at FROM job_buckets WHERE gate = ?1 AND tenant = ?2";

const PUT_BUCKET: &str = "-- put_bucket
    INSERT INTO job_buckets (gate, tenant, level, at) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (gate, tenant) DO UPDATE SET level = excluded.level, at = excluded.at";

fn load_buckets(
    conn: &Connection,
    gates: &[Gate],
    waiting: &[(Lane, u32)],
) -> Result<BTreeMap<BucketName, Bucket>> {
    let mut buckets = BTreeMap::new();
    for (lane, _) in waiting {
        for name in bucket_names(gates, lane) {
            if buckets.contains_key(&name) {
                continue;
            }
            let found = conn
                .prepare_cached(BUCKET)?
                .query_row(params![name.0.as_str(), name.1], |row| {
                    let At(at) = row.get(1)?;
                    Ok(Bucket { level: row.get(0)?, at })
                })
                .optional()?;
            if let Some(bucket) = found {
                buckets.insert(name, bucket);
            }
        }
    }
    Ok(buckets)
}

fn put_buckets(conn: &Connection, buckets: &BTreeMap<BucketName, Bucket>) -> Result<()> {
    for ((gate, tenant), bucket) in buckets {
        conn.prepare_cached(PUT_BUCKET)?.execute(params![
            gate.as_str(),
            tenant,
            bucket.level,
            At(bucket.at)
        ])?;
    }
    Ok(())
}
