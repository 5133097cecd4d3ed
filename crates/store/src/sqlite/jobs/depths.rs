//! How much waits and runs, without counting a million rows.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::jobs::KindName;
use roundsman_core::ports::{DEPTH_COUNT_MAX, KindDepth};
use rusqlite::{Connection, Row, params};

use crate::rows::{QUEUE, RUNNING, inconsistent, kind_of_lane};
use crate::sqlite::error::Result;
use crate::sqlite::time::{At, optional};

/// The job that waits longest is looked for among this many of the best-ranked of a lane: exact
/// while all have one priority, or are fewer.
const OLDEST_ROWS_MAX: i64 = 1000;

pub(super) fn depths(conn: &Connection, now: Timestamp) -> Result<Vec<KindDepth>> {
    let mut kinds = BTreeMap::new();
    add_pending(conn, &mut kinds)?;
    add_scheduled(conn, now, &mut kinds)?;
    add_running(conn, &mut kinds)?;
    Ok(kinds.into_values().collect())
}

type Kinds = BTreeMap<KindName, KindDepth>;

/// From lane to lane by the index, each step one look-up however many rows a lane has.
pub(super) const NEXT_LANE: &str = "-- next_lane
    SELECT min(lane) FROM job_queue WHERE state = 1 AND lane > ?1";

pub(super) const COUNT_LANE: &str = "-- count_lane
    SELECT count(*) FROM (SELECT 1 FROM job_queue WHERE state = 1 AND lane = ?1 LIMIT ?2)";

pub(super) const OLDEST_OF_LANE: &str = "-- oldest_of_lane
    SELECT min(due_at)
      FROM (SELECT due_at FROM job_queue WHERE state = 1 AND lane = ?1 ORDER BY rank, id LIMIT ?2)";

fn add_pending(conn: &Connection, kinds: &mut Kinds) -> Result<()> {
    let mut next_lane = conn.prepare_cached(NEXT_LANE)?;
    let mut count = conn.prepare_cached(COUNT_LANE)?;
    let mut oldest = conn.prepare_cached(OLDEST_OF_LANE)?;
    let mut lane = String::new();
    while let Some(next) = next_lane.query_row([&lane], |row| row.get::<_, Option<String>>(0))? {
        lane = next;
        let depth = depth_of(kinds, kind_of_lane(&lane)?);
        depth.pending += count.query_row(params![lane, room(depth.pending)], count_of)?;
        let due_at = oldest.query_row(params![lane, OLDEST_ROWS_MAX], |row| row.get(0))?;
        depth.oldest_due_at = earlier(depth.oldest_due_at, optional(due_at));
    }
    Ok(())
}

pub(super) const NEXT_SCHEDULED_KIND: &str = "-- next_scheduled_kind
    SELECT min(kind) FROM job_queue WHERE state = 0 AND kind > ?1";

pub(super) const COUNT_SCHEDULED: &str = "-- count_scheduled
    SELECT count(*)
      FROM (SELECT 1 FROM job_queue WHERE state = 0 AND kind = ?1 AND due_at > ?2 LIMIT ?3)";

pub(super) const COUNT_DUE: &str = "-- count_due
    SELECT count(*), min(due_at)
      FROM (SELECT due_at FROM job_queue WHERE state = 0 AND kind = ?1 AND due_at <= ?2
             ORDER BY due_at LIMIT ?3)";

/// A scheduled job whose time has come is pending, although no claim has promoted it yet.
fn add_scheduled(conn: &Connection, now: Timestamp, kinds: &mut Kinds) -> Result<()> {
    let mut next_kind = conn.prepare_cached(NEXT_SCHEDULED_KIND)?;
    let mut count = conn.prepare_cached(COUNT_SCHEDULED)?;
    let mut count_due = conn.prepare_cached(COUNT_DUE)?;
    let mut kind = String::new();
    while let Some(next) = next_kind.query_row([&kind], |row| row.get::<_, Option<String>>(0))? {
        kind = next;
        let depth = depth_of(kinds, named(&kind, QUEUE)?);
        depth.scheduled = count.query_row(params![kind, At(now), room(0)], count_of)?;
        let (due, oldest) = count_due
            .query_row(params![kind, At(now), room(depth.pending)], |row| {
                Ok((count_of(row)?, row.get(1)?))
            })?;
        depth.pending += due;
        depth.oldest_due_at = earlier(depth.oldest_due_at, optional(oldest));
    }
    Ok(())
}

const COUNT_RUNNING: &str = "-- count_running
    SELECT count(*), kind FROM job_running GROUP BY kind";

fn add_running(conn: &Connection, kinds: &mut Kinds) -> Result<()> {
    let mut statement = conn.prepare_cached(COUNT_RUNNING)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let kind: String = row.get(1)?;
        let depth = depth_of(kinds, named(&kind, RUNNING)?);
        depth.processing = count_of(row)?.min(DEPTH_COUNT_MAX);
    }
    Ok(())
}

/// How many more a count that stands at `counted` may take in.
fn room(counted: u64) -> u32 {
    u32::try_from(DEPTH_COUNT_MAX.saturating_sub(counted)).unwrap_or(u32::MAX)
}

fn count_of(row: &Row<'_>) -> rusqlite::Result<u64> {
    row.get::<_, u32>(0).map(u64::from)
}

fn depth_of(kinds: &mut Kinds, kind: KindName) -> &mut KindDepth {
    kinds.entry(kind.clone()).or_insert(KindDepth {
        kind,
        scheduled: 0,
        pending: 0,
        processing: 0,
        oldest_due_at: None,
    })
}

fn named(kind: &str, table: &'static str) -> Result<KindName> {
    Ok(KindName::new(kind).map_err(|error| inconsistent(table, "kind", 0, error.to_string()))?)
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
