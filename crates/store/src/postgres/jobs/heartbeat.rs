//! Signs of life.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobId, Json, LeaseNo, LeaseRef};
use roundsman_core::ports::{Heartbeat, HeartbeatAnswer};

use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::duration_to_us;

/// No time is compared: whoever still has the lease keeps it.
pub(super) const EXTEND: &str = "-- extend
UPDATE roundsman.job_running r
   SET heartbeat_at = $5::timestamptz,
       lease_until = least(
           $5::timestamptz + least(coalesce(beat.ttl_us, r.lease_ttl_us), $6::bigint) * interval '1 microsecond', $7),
       progress = coalesce(beat.progress, r.progress)
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[])
       AS beat(id, lease_no, ttl_us, progress)
 WHERE r.id = beat.id AND r.lease_no = beat.lease_no
RETURNING r.id, r.lease_no, r.lease_until, r.cancel_requested";

/// Longer leases than this (a thousand years) would leave the range of the server's arithmetic.
pub(super) const TTL_US_MAX: i64 = 31_557_600_000_000_000;

/// What is said about one lease.
#[derive(Default)]
struct Beat<'a> {
    ttl_us: Option<i64>,
    progress: Option<&'a str>,
}

pub(super) struct Extend<'a> {
    pub(super) beats: &'a [Heartbeat],
    pub(super) now: Timestamp,
}

impl Operation for Extend<'_> {
    type Answer = Vec<HeartbeatAnswer>;

    async fn run(&self, session: &mut Session) -> Result<Vec<HeartbeatAnswer>, Failure> {
        if self.beats.is_empty() {
            return Ok(Vec::new());
        }
        // By number, so that batches that meet wait for each other in one direction; of several
        // beats of one lease the last word counts.
        let mut latest: BTreeMap<LeaseRef, Beat<'_>> = BTreeMap::new();
        for beat in self.beats {
            let known = latest.entry(beat.lease).or_default();
            known.ttl_us = beat.ttl.map(duration_to_us);
            known.progress = beat.progress.as_ref().map(Json::as_str).or(known.progress);
        }
        let ids: Vec<i64> = latest.keys().map(|lease| lease.id.get()).collect();
        let lease_nos: Vec<i64> = latest.keys().map(|lease| lease.lease_no.get()).collect();
        let ttls: Vec<Option<i64>> = latest.values().map(|beat| beat.ttl_us).collect();
        let progress: Vec<Option<&str>> = latest.values().map(|beat| beat.progress).collect();
        let rows = session
            .query(
                EXTEND,
                &[
                    &ids,
                    &lease_nos,
                    &ttls,
                    &progress,
                    &Time(self.now),
                    &TTL_US_MAX,
                    &Time(Timestamp::MAX),
                ],
            )
            // Extending twice is extending, so a broken connection may be repeated.
            .await?;
        let mut extended = BTreeMap::new();
        for row in &rows {
            let mut reader = Reader::new(row);
            let id = JobId::new(reader.value()?);
            let lease_no = LeaseNo::new(reader.value()?);
            let until = reader.time()?;
            let cancel_requested = reader.value()?;
            let answer = HeartbeatAnswer::Extended { until, cancel_requested };
            extended.insert(LeaseRef { id, lease_no }, answer);
        }
        let answer = |beat: &Heartbeat| {
            extended.get(&beat.lease).copied().unwrap_or(HeartbeatAnswer::LeaseLost)
        };
        Ok(self.beats.iter().map(answer).collect())
    }
}
