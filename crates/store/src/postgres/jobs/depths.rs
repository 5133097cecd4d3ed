//! How much waits and runs.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::jobs::KindName;
use roundsman_core::ports::{DEPTH_COUNT_MAX, KindDepth};
use tokio_postgres::Row;

use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::{QUEUE, inconsistent, kind_of_lane};

/// At most this many lanes, or kinds, are looked at; with a lane per user and kind there may be
/// many.
const LANES_MAX: i64 = 10_000;

/// Jumps from lane to lane in the index instead of reading every row to find the lanes, then counts
/// each lane up to the limit.
const PENDING_LANES: &str = "-- pending_lanes
WITH RECURSIVE lanes(lane) AS (
    (SELECT lane FROM roundsman.job_queue WHERE state = 1 ORDER BY lane LIMIT 1)
    UNION ALL
    SELECT (SELECT q.lane FROM roundsman.job_queue q
             WHERE q.state = 1 AND q.lane > lanes.lane ORDER BY q.lane LIMIT 1)
      FROM lanes WHERE lanes.lane IS NOT NULL
), bounded AS MATERIALIZED (
    SELECT lane FROM lanes WHERE lane IS NOT NULL LIMIT $2
)
SELECT bounded.lane, counted.jobs, counted.oldest
  FROM bounded
 CROSS JOIN LATERAL (
    SELECT count(*) AS jobs, min(first.due_at) AS oldest
      FROM (SELECT q.due_at FROM roundsman.job_queue q
             WHERE q.lane = bounded.lane AND q.state = 1
             ORDER BY q.rank, q.id LIMIT $1) first) counted";

/// From kind to kind in the index in the same way. A scheduled job whose time has come is pending,
/// although no claim has promoted it yet.
const SCHEDULED_KINDS: &str = "-- scheduled_kinds
WITH RECURSIVE kinds(kind) AS (
    (SELECT kind FROM roundsman.job_queue WHERE state = 0 ORDER BY kind LIMIT 1)
    UNION ALL
    SELECT (SELECT q.kind FROM roundsman.job_queue q
             WHERE q.state = 0 AND q.kind > kinds.kind ORDER BY q.kind LIMIT 1)
      FROM kinds WHERE kinds.kind IS NOT NULL
), bounded AS MATERIALIZED (
    SELECT kind FROM kinds WHERE kind IS NOT NULL LIMIT $3
)
SELECT bounded.kind, later.jobs, due.jobs, due.oldest
  FROM bounded
 CROSS JOIN LATERAL (
    SELECT count(*) AS jobs
      FROM (SELECT FROM roundsman.job_queue q
             WHERE q.kind = bounded.kind AND q.state = 0 AND q.due_at > $2 LIMIT $1) counted) later
 CROSS JOIN LATERAL (
    SELECT count(*) AS jobs, min(counted.due_at) AS oldest
      FROM (SELECT q.due_at FROM roundsman.job_queue q
             WHERE q.kind = bounded.kind AND q.state = 0 AND q.due_at <= $2
             ORDER BY q.due_at LIMIT $1) counted) due";

const RUNNING_KINDS: &str = "-- running_kinds
SELECT kind, count(*)
  FROM (SELECT kind FROM roundsman.job_running LIMIT $1) counted
 GROUP BY kind";

pub(super) struct Depths {
    pub(super) now: Timestamp,
}

impl Operation for Depths {
    type Answer = Vec<KindDepth>;

    async fn run(&self, session: &mut Session) -> Result<Vec<KindDepth>, Failure> {
        let limit = i64::try_from(DEPTH_COUNT_MAX).unwrap_or(i64::MAX);
        let mut depths = ByKind::default();
        for row in session.query(PENDING_LANES, &[&limit, &LANES_MAX]).await? {
            let mut reader = Reader::new(&row);
            let depth = depths.of(kind_of_lane(reader.value()?)?);
            depth.pending = add(depth.pending, reader.value()?);
            note_oldest(depth, reader.time_opt()?);
        }
        for row in session.query(SCHEDULED_KINDS, &[&limit, &Time(self.now), &LANES_MAX]).await? {
            let mut reader = Reader::new(&row);
            let depth = depths.of(kind(&row)?);
            let _: &str = reader.value()?;
            depth.scheduled = add(depth.scheduled, reader.value()?);
            depth.pending = add(depth.pending, reader.value()?);
            note_oldest(depth, reader.time_opt()?);
        }
        for row in session.query(RUNNING_KINDS, &[&limit]).await? {
            let depth = depths.of(kind(&row)?);
            depth.processing = add(depth.processing, row.try_get(1)?);
        }
        Ok(depths.0.into_values().collect())
    }
}

#[derive(Default)]
struct ByKind(BTreeMap<KindName, KindDepth>);

impl ByKind {
    fn of(&mut self, kind: KindName) -> &mut KindDepth {
        self.0.entry(kind.clone()).or_insert(KindDepth {
            kind,
            scheduled: 0,
            pending: 0,
            processing: 0,
            oldest_due_at: None,
        })
    }
}

fn kind(row: &Row) -> Result<KindName, Failure> {
    let text: &str = row.try_get(0)?;
    KindName::new(text).map_err(|error| inconsistent(QUEUE, "kind", 0, error.to_string()).into())
}

fn add(count: u64, more: i64) -> u64 {
    count.saturating_add(u64::try_from(more).unwrap_or(0)).min(DEPTH_COUNT_MAX)
}

fn note_oldest(depth: &mut KindDepth, oldest: Option<Timestamp>) {
    depth.oldest_due_at = match (depth.oldest_due_at, oldest) {
        (Some(known), Some(other)) => Some(known.min(other)),
        (known, other) => known.or(other),
    };
}
