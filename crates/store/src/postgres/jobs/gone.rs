//! Taking jobs from server processes that are gone, without waiting for their leases.
//!
//! Differs from SQLite, where a new process knows that all others are dead. Here one is taken for gone
//! when the lock that it held while it lived was free at two sweeps, and none of its jobs has sent a
//! heartbeat since the first. It may live all the same: the fence then keeps it from writing.

use std::time::Duration;

use roundsman_core::jobs::Rescue;
use roundsman_core::ports::PROCESS_GONE_AFTER;

use super::sweep::{Rescued, Sweep};
use crate::postgres::alive::{LOCK_CLASS, LOCK_NUMBERS};
use crate::postgres::columns::running_columns;
use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

/// By how much the clocks of two servers may differ.
const SKEW: Duration = Duration::from_secs(1);

/// Notes which locks are free, and forgets it of those that are held again. A process takes its lock
/// before it writes its row, so a row that is seen here without its lock has lost it.
pub(super) const MARK: &str = "-- mark_processes
WITH held AS MATERIALIZED (
    SELECT objid::bigint AS number FROM pg_locks
     WHERE locktype = 'advisory' AND granted AND classid::bigint = $2 AND objsubid = 2
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
UPDATE roundsman.process_locks
   SET free_since = CASE WHEN free_since IS NULL THEN $1::timestamptz END
 WHERE (process_no % $3 IN (SELECT number FROM held)) = (free_since IS NOT NULL)";

const ANY_GONE: &str = "-- any_gone
SELECT FROM roundsman.process_locks WHERE free_since <= $1";

/// Whoever has sent a heartbeat since is not gone, and is looked at anew.
const HEARD: &str = "-- heard_of_the_gone
UPDATE roundsman.process_locks p
   SET free_since = $2
 WHERE p.free_since <= $1
   AND EXISTS (SELECT FROM roundsman.job_running r
                WHERE r.owner_process = p.process_no
                  AND r.heartbeat_at > p.free_since + $3::bigint * interval '1 microsecond')";

/// A row that a heartbeat has just changed is compared again when its lock is taken, and once more
/// by the delete.
const TAKE: &str = concat!(
    "-- take_from_the_gone
WITH gone AS MATERIALIZED (
    SELECT p.process_no, p.free_since + $2::bigint * interval '1 microsecond' AS seen_at
      FROM roundsman.process_locks p
     WHERE p.free_since <= $1
), late AS MATERIALIZED (
    SELECT r.id AS late_id, gone.seen_at
      FROM roundsman.job_running r
      JOIN gone ON r.owner_process = gone.process_no AND r.heartbeat_at <= gone.seen_at
     ORDER BY r.id
     LIMIT $3
       FOR UPDATE OF r SKIP LOCKED
)
DELETE FROM roundsman.job_running r
 USING late
 WHERE r.id = late_id AND r.heartbeat_at <= seen_at
RETURNING ",
    running_columns!()
);

const FORGET: &str = "-- forget_the_gone
DELETE FROM roundsman.process_locks p
 WHERE p.free_since <= $1
   AND NOT EXISTS (SELECT FROM roundsman.job_running r WHERE r.owner_process = p.process_no)";

impl Sweep<'_> {
    /// Looks which processes are gone, and takes what those have held that are gone for good.
    pub(super) async fn take_from_the_gone(
        &self,
        session: &mut Session,
        rows_max: i64,
    ) -> Result<Vec<Rescued>, Failure> {
        let now = Time(self.now);
        let gone_by = Time(self.now - PROCESS_GONE_AFTER);
        let class = i64::from(LOCK_CLASS);
        let [_, gone] = session
            .query_all([(MARK, &[&now, &class, &LOCK_NUMBERS]), (ANY_GONE, &[&gone_by])])
            .await?;
        // After an outage that we had too, everybody gets the time to come back.
        if gone.is_empty() || self.request.serving_since > gone_by.0 {
            return Ok(Vec::new());
        }
        let skew_us = i64::try_from(SKEW.as_micros()).unwrap_or(i64::MAX);
        session.begin();
        session.execute(HEARD, &[&gone_by, &now, &skew_us]).await?;
        let taken = session.query(TAKE, &[&gone_by, &skew_us, &rows_max]).await?;
        let owner_gone = taken.iter().map(|row| (row, Rescue::OwnerGone));
        let rescued = self.rescue(session, owner_gone).await?;
        session.execute(FORGET, &[&gone_by]).await?;
        session.commit().await?;
        Ok(rescued)
    }
}
