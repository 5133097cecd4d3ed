//! Deleting what is past its retention.

use roundsman_core::Timestamp;
use roundsman_core::ports::{PruneReport, PruneRequest};

use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::{CANCELLED, COMPLETED, FAILED};

/// By physical address: the rows were found a moment ago in the same statement, and finished jobs
/// do not move. Rows that somebody is trying again by hand are left alone.
const PRUNE_JOBS: &str = "-- prune_jobs
WITH old AS MATERIALIZED (
    SELECT ctid FROM roundsman.job_finished
     WHERE state = $1 AND finished_at < $2
     ORDER BY finished_at
     LIMIT $3
       FOR UPDATE SKIP LOCKED
)
DELETE FROM roundsman.job_finished f USING old WHERE f.ctid = old.ctid";

const PRUNE_BUCKETS: &str = "-- prune_buckets
WITH old AS MATERIALIZED (
    SELECT ctid FROM roundsman.job_buckets
     WHERE at < $1
     ORDER BY at
     LIMIT $2
       FOR UPDATE SKIP LOCKED
)
DELETE FROM roundsman.job_buckets b USING old WHERE b.ctid = old.ctid";

const PRUNE_KEYS: &str = "-- prune_keys
WITH old AS MATERIALIZED (
    SELECT ctid FROM roundsman.idempotency
     WHERE created_at < $1
     ORDER BY created_at
     LIMIT $2
       FOR UPDATE SKIP LOCKED
)
DELETE FROM roundsman.idempotency i USING old WHERE i.ctid = old.ctid";

/// Only from the front of each stream: clocks of several servers differ by a little, so the oldest
/// frames need not be the lowest numbers, and readers rely on what is left having no holes.
const PRUNE_FRAMES: &str = "-- prune_frames
WITH old AS MATERIALIZED (
    SELECT stream, seq FROM roundsman.frames
     WHERE at < $1
     ORDER BY at, stream, seq
     LIMIT $2
), numbered AS (
    SELECT stream, seq, seq - row_number() OVER (PARTITION BY stream ORDER BY seq) AS before
      FROM old
), front AS MATERIALIZED (
    SELECT stream, seq FROM numbered
     WHERE before + 1 = (SELECT min(f.seq) FROM roundsman.frames f
                          WHERE f.stream = numbered.stream)
)
DELETE FROM roundsman.frames f USING front WHERE f.stream = front.stream AND f.seq = front.seq";

pub(super) struct Prune {
    pub(super) request: PruneRequest,
}

impl Operation for Prune {
    type Answer = PruneReport;

    async fn run(&self, session: &mut Session) -> Result<PruneReport, Failure> {
        let request = &self.request;
        let rows_max = u64::from(request.rows_max);
        let mut report = PruneReport::default();
        session.begin();
        let ends: [(i16, Timestamp); 3] = [
            (COMPLETED, request.completed_before),
            (FAILED, request.failed_before),
            (CANCELLED, request.cancelled_before),
        ];
        for (state, before) in ends {
            let rest = signed(rows_max - report.jobs);
            report.jobs += session.execute(PRUNE_JOBS, &[&state, &Time(before), &rest]).await?;
        }
        let limit = signed(rows_max);
        report.idempotency_keys =
            session.execute(PRUNE_KEYS, &[&Time(request.idempotency_before), &limit]).await?;
        report.frames =
            session.execute(PRUNE_FRAMES, &[&Time(request.frames_before), &limit]).await?;
        session.execute(PRUNE_BUCKETS, &[&Time(request.buckets_before), &limit]).await?;
        session.commit().await?;
        let counts = [report.jobs, report.idempotency_keys, report.frames];
        report.more = counts.contains(&rows_max);
        Ok(report)
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
