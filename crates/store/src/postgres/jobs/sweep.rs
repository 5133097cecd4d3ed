//! Taking jobs from holders that are silent or over their deadline.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{JobId, JobState, KindCatalog, KindName, Rescue, rescue, spread};
use roundsman_core::ports::{SweepReport, SweepRequest};

use super::gates::count_in_late;
use super::heartbeat::TTL_US_MAX;
use super::landing::land;
use crate::postgres::columns::{self, running_columns};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use tokio_postgres::Row;

/// How long a sweep waits for whoever holds the row of a silent job.
const PATIENCE: &str = "SET LOCAL lock_timeout = '250ms'";

/// A row that a heartbeat has just changed is compared again when its lock is taken, and once more
/// by the delete. SQLite needs none of this, and no index either: there all writers are one.
macro_rules! take_expired {
    ($name:literal, $when_locked:literal) => {
        concat!(
            "-- ",
            $name,
            "
WITH late AS MATERIALIZED (
    SELECT id AS late_id FROM roundsman.job_running
     WHERE lease_until < $1
       AND (owner_process IS NOT NULL
            OR $2::timestamptz + least(lease_ttl_us, $4::bigint) * interval '1 microsecond' <= $1)
     ORDER BY lease_until
     LIMIT $3
       FOR UPDATE ",
            $when_locked,
            "
)
DELETE FROM roundsman.job_running r
 USING late
 WHERE r.id = late_id AND r.lease_until < $1
RETURNING ",
            running_columns!()
        )
    };
}

macro_rules! take_overdue {
    ($name:literal, $when_locked:literal) => {
        concat!(
            "-- ",
            $name,
            "
WITH late AS MATERIALIZED (
    SELECT id AS late_id FROM roundsman.job_running
     WHERE deadline_at < $1
     ORDER BY deadline_at
     LIMIT $2
       FOR UPDATE ",
            $when_locked,
            "
)
DELETE FROM roundsman.job_running r
 USING late
 WHERE r.id = late_id AND r.deadline_at < $1
RETURNING ",
            running_columns!()
        )
    };
}

/// Two ways to take silent jobs from their holders.
pub(super) struct Manner {
    pub(super) expired: &'static str,
    pub(super) overdue: &'static str,
}

/// Leaves what others hold: the way that no stuck transaction can stop.
pub(super) const SKIPPING: Manner = Manner {
    expired: take_expired!("take_expired", "SKIP LOCKED"),
    overdue: take_overdue!("take_overdue", "SKIP LOCKED"),
};

/// Waits for what others hold, which is nearly always done in a moment.
const WAITING: Manner = Manner {
    expired: take_expired!("take_expired_waiting", ""),
    overdue: take_overdue!("take_overdue_waiting", ""),
};

const ANY_LEFT: &str = "-- any_left
SELECT EXISTS (
    SELECT FROM roundsman.job_running
     WHERE lease_until < $1
       AND (owner_process IS NOT NULL
            OR $2::timestamptz + least(lease_ttl_us, $3::bigint) * interval '1 microsecond' <= $1))
    OR EXISTS (SELECT FROM roundsman.job_running WHERE deadline_at < $1)";

/// A job that was taken from its holder, and how it ended.
pub(super) type Rescued = (JobId, KindName, JobState);

pub(super) struct Sweep<'a> {
    pub(super) request: SweepRequest,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Sweep<'_> {
    type Answer = SweepReport;

    async fn run(&self, session: &mut Session) -> Result<SweepReport, Failure> {
        let rows_max = i64::from(self.request.rows_max);
        let mut rescued = self.take_from_the_gone(session, rows_max).await?;
        let rest = rows_max - i64::try_from(rescued.len()).unwrap_or(rows_max);
        session.begin();
        rescued.extend(self.take(session, &SKIPPING, rest).await?);
        session.commit().await?;
        let rest = rows_max - i64::try_from(rescued.len()).unwrap_or(rows_max);
        if rest > 0 {
            // What was rescued above is committed and has to be reported, whatever happens here.
            match self.take_the_rest(session, rest).await {
                Ok(more) => rescued.extend(more),
                Err(failure) => {
                    tracing::debug!(?failure, "left some silent jobs to the next sweep");
                    // If that fails too, the connection is not used again.
                    let _ = session.undo().await;
                }
            }
        }
        if let Err(failure) = count_in_late(session).await {
            tracing::debug!(?failure, "left counting some runs to the next sweep");
        }
        rescued.sort_unstable_by_key(|&(id, ..)| id);
        let report = rescued.into_iter().map(|(_, kind, state)| (kind, state));
        Ok(SweepReport { rescued: report.collect() })
    }
}

impl Sweep<'_> {
    /// Takes what somebody held a moment ago, if there is any such job.
    async fn take_the_rest(
        &self,
        session: &mut Session,
        rows_max: i64,
    ) -> Result<Vec<Rescued>, Failure> {
        if !self.any_left(session).await? {
            return Ok(Vec::new());
        }
        session.begin();
        session.batch(PATIENCE).await?;
        let rescued = self.take(session, &WAITING, rows_max).await?;
        session.commit().await?;
        Ok(rescued)
    }

    async fn take(
        &self,
        session: &mut Session,
        manner: &Manner,
        rows_max: i64,
    ) -> Result<Vec<Rescued>, Failure> {
        let serving_since = self.request.serving_since;
        let now = Time(self.now);
        // A holder that is both silent and over its deadline is taken for dead.
        let expired = session
            .query(manner.expired, &[&now, &Time(serving_since), &rows_max, &TTL_US_MAX])
            .await?;
        let rest = rows_max - i64::try_from(expired.len()).unwrap_or(rows_max);
        let overdue = session.query(manner.overdue, &[&now, &rest]).await?;
        let expired = expired.iter().map(|row| (row, Rescue::LeaseExpired));
        let overdue = overdue.iter().map(|row| (row, Rescue::DeadlineExceeded));
        self.rescue(session, expired.chain(overdue)).await
    }

    /// Lets jobs that were taken from their holders wait again, or end.
    pub(super) async fn rescue<'a>(
        &self,
        session: &mut Session,
        taken: impl Iterator<Item = (&'a Row, Rescue)>,
    ) -> Result<Vec<Rescued>, Failure> {
        let mut jobs = Vec::new();
        for (row, why) in taken {
            jobs.push((columns::running(row)?, why));
        }
        jobs.sort_unstable_by_key(|(job, _)| job.facts.id);
        let mut kinds: Vec<(JobId, KindName)> = Vec::new();
        let mut dispositions = Vec::new();
        for (number, (job, why)) in jobs.into_iter().enumerate() {
            let retry = self.catalog.retry(&job.facts.kind);
            kinds.push((job.facts.id, job.facts.kind.clone()));
            let jitter = spread(self.request.jitter, number);
            dispositions.push(rescue(job, why, retry, jitter, self.now));
        }
        let states = land(session, dispositions, self.catalog, self.now).await?;
        let rescued = kinds
            .into_iter()
            .filter_map(|(id, kind)| states.get(&id).map(|&state| (id, kind, state)))
            .collect();
        Ok(rescued)
    }

    async fn any_left(&self, session: &mut Session) -> Result<bool, Failure> {
        let since = Time(self.request.serving_since);
        let row = session
            .query_opt(ANY_LEFT, &[&Time(self.now), &since, &TTL_US_MAX])
            .await?
            .ok_or(Failure::Raced)?;
        Ok(row.try_get(0)?)
    }
}
