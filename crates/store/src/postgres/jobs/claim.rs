//! Handing out jobs.

use roundsman_core::Timestamp;
use roundsman_core::jobs::{Lease, LeaseNo, RunningJob, gates_of};
use roundsman_core::ports::{ClaimAnswer, ClaimRequest, LaneDemand};
use tokio_postgres::Row;

use crate::postgres::columns::{FACT_COLUMNS, Reader};
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::{RUNNING, duration_to_us, owner_to_column};

/// At most this many due jobs become pending in one claim.
const PROMOTE_ROWS_MAX: i64 = 10_000;

/// Moves jobs from the queue to the running ones and returns them, best first, each with the next
/// due time of all scheduled jobs; that alone, with NULLs, if there is nothing to claim.
///
/// - `due` comes first: when a scheduled job has come due and is not promoted yet ($9 false),
///   nothing is picked, because it might have to go before all others.
/// - `picked` is materialised, or the planner could run it again for every row of the DELETE and
///   take more than was asked for.
/// - A job whose key is running is passed over. The unique index on the running keys is never
///   violated: only one waiting job per key can exist, so a job that we see waiting, and whose row
///   we could lock, had no successor claimed since our snapshot; and a run that began before our
///   snapshot is in it. The index is still there, and a violation would be repeated as contention.
/// - The numbers in the state conditions are literals because a parameter would not match the
///   conditions of the partial indexes.
/// - `gates` are those of the lanes and kinds that are asked for ($11): such lanes are left to the
///   claim that passes through gates, which names none, and has the lane written down ($12).
/// - SQLite has one writer and needs neither locks nor the detour by `picked`.
pub(super) const CLAIM: &str = "-- claim
WITH due AS MATERIALIZED (
    SELECT min(due_at) AS next_at FROM roundsman.job_queue WHERE state = 0
), gates AS MATERIALIZED (
    SELECT name FROM roundsman.job_gates WHERE name = ANY ($11::text[])
), picked AS MATERIALIZED (
    SELECT best.id, best.rank, demand.place
      FROM unnest($1::text[], $2::bigint[], $13::text[]) WITH ORDINALITY
           AS demand(lane, jobs_max, kind, place)
     CROSS JOIN LATERAL (
        SELECT waiting.id, waiting.rank
          FROM roundsman.job_queue waiting
         WHERE waiting.lane = demand.lane AND waiting.state = 1
           AND (waiting.key IS NULL OR NOT EXISTS (
                SELECT FROM roundsman.job_running running
                 WHERE running.user_id = waiting.user_id AND running.kind = waiting.kind
                   AND running.key = waiting.key))
         ORDER BY waiting.rank, waiting.id
         LIMIT demand.jobs_max
           FOR UPDATE OF waiting SKIP LOCKED) best
     WHERE ($9 OR (SELECT next_at IS NULL OR next_at > $7 FROM due))
       AND NOT EXISTS (SELECT FROM gates WHERE name = demand.lane OR name = demand.kind)
), chosen AS MATERIALIZED (
    SELECT id, place::integer FROM picked ORDER BY rank, id LIMIT $3
), moved AS (
    DELETE FROM roundsman.job_queue waiting
     USING chosen
     WHERE waiting.id = chosen.id
    RETURNING waiting.id, user_id, kind, key, payload, priority, run_at, triggered_at, created_at,
              attempt + 1 AS attempt, max_attempts, runs, CASE WHEN $12 THEN lane END AS lane,
              linked,
              nextval('roundsman.lease_no_seq') AS lease_no, chosen.place, rank
), leased AS (
    INSERT INTO roundsman.job_running
        (id, user_id, priority, attempt, max_attempts, run_at, triggered_at, created_at, lease_no,
         lease_until, lease_ttl_us, owner_process, claimed_at, heartbeat_at, deadline_at, kind,
         key, worker, payload, runs, lane, linked)
    SELECT id, user_id, priority, attempt, max_attempts, run_at, triggered_at, created_at,
           lease_no, ($4::timestamptz[])[place], ($5::bigint[])[place], $8, $7, $7,
           ($6::timestamptz[])[place], kind, key, $10, payload, runs, lane,
           linked
      FROM moved
)
SELECT moved.id, user_id, kind, key, payload, priority, run_at, triggered_at, created_at, attempt,
       max_attempts, runs, lane, linked, lease_no, place, next_at, EXISTS (SELECT FROM gates) AS gated
  FROM due LEFT JOIN moved ON true
 ORDER BY rank, moved.id";

/// Literal states, as in the claim. Rows that somebody else is about to change are left to them.
pub(super) const PROMOTE_DUE: &str = "-- promote_due
WITH due AS MATERIALIZED (
    SELECT id FROM roundsman.job_queue
     WHERE state = 0 AND due_at <= $1
     ORDER BY due_at
     LIMIT $2
       FOR UPDATE SKIP LOCKED
)
UPDATE roundsman.job_queue q SET state = 1 FROM due WHERE q.id = due.id";

/// A claim of whatever has no gate.
pub(super) struct Claim<'a> {
    pub(super) request: &'a ClaimRequest,
    /// The request's own, or what is left of them.
    pub(super) demands: &'a [LaneDemand],
    /// At most the request's own.
    pub(super) total_max: u32,
    pub(super) now: Timestamp,
}

impl Operation for Claim<'_> {
    type Answer = ClaimAnswer;

    async fn run(&self, session: &mut Session) -> Result<ClaimAnswer, Failure> {
        // Usually nothing has come due, and the claim that assumes so is the only round trip.
        let answer = self.claim(session, false).await?;
        if answer.next_due_at.is_none_or(|at| at > self.now) {
            return Ok(answer);
        }
        session
            .execute(PROMOTE_DUE, &[&Time(self.now), &PROMOTE_ROWS_MAX])
            .await
            .map_err(Failure::Commit)?;
        self.claim(session, true).await
    }
}

impl Claim<'_> {
    async fn claim(&self, session: &mut Session, promoted: bool) -> Result<ClaimAnswer, Failure> {
        let demands = self.demands;
        let mut gates = Vec::with_capacity(demands.len() * 2);
        for demand in demands {
            gates.extend(gates_of(&demand.lane).iter().map(|name| name.as_str().to_owned()));
        }
        let take = Take {
            request: self.request,
            demands,
            total_max: self.total_max,
            promoted,
            gates,
            gated: false,
            now: self.now,
        };
        take.run(session).await.map_err(|failure| match failure {
            Failure::Statement(error) => Failure::Commit(error),
            other => other,
        })
    }
}

/// One run of the statement that moves jobs to their holder.
pub(super) struct Take<'a> {
    pub(super) request: &'a ClaimRequest,
    pub(super) demands: &'a [LaneDemand],
    pub(super) total_max: u32,
    /// Whatever is due has been promoted.
    pub(super) promoted: bool,
    /// Lanes with these gates are left out.
    pub(super) gates: Vec<String>,
    /// The jobs come through a gate, which counts them by their lane.
    pub(super) gated: bool,
    pub(super) now: Timestamp,
}

impl Take<'_> {
    pub(super) async fn run(&self, session: &mut Session) -> Result<ClaimAnswer, Failure> {
        let demands = self.demands;
        let total_max = i64::from(self.total_max);
        let lanes: Vec<&str> = demands.iter().map(|demand| demand.lane.as_str()).collect();
        let kinds: Vec<&str> = demands.iter().map(|demand| demand.lane.kind()).collect();
        let maxima: Vec<i64> =
            demands.iter().map(|demand| i64::from(demand.max).min(total_max)).collect();
        let untils: Vec<Time> =
            demands.iter().map(|demand| Time(self.now + demand.lease_ttl)).collect();
        let ttls: Vec<i64> =
            demands.iter().map(|demand| duration_to_us(demand.lease_ttl)).collect();
        let deadlines: Vec<Option<Time>> =
            demands.iter().map(|demand| self.deadline(demand).map(Time)).collect();
        let rows = session
            .query(
                CLAIM,
                &[
                    &lanes,
                    &maxima,
                    &total_max,
                    &untils,
                    &ttls,
                    &deadlines,
                    &Time(self.now),
                    &owner_to_column(self.request.owner),
                    &self.promoted,
                    &self.request.worker.as_str(),
                    &self.gates,
                    &self.gated,
                    &kinds,
                ],
            )
            .await?;
        self.answer(&rows)
    }

    fn answer(&self, rows: &[Row]) -> Result<ClaimAnswer, Failure> {
        let mut answer = ClaimAnswer::default();
        for row in rows {
            let mut reader = Reader::from(row, FACT_COLUMNS);
            let lease_no: Option<i64> = reader.value()?;
            let place: Option<i32> = reader.value()?;
            answer.next_due_at = reader.time_opt()?;
            answer.gated = reader.value()?;
            if let (Some(lease_no), Some(place)) = (lease_no, place) {
                answer.jobs.push(self.running(row, lease_no, place)?);
            }
        }
        Ok(answer)
    }

    fn running(&self, row: &Row, lease_no: i64, place: i32) -> Result<RunningJob, Failure> {
        let facts = Reader::new(row).facts()?.into_facts(RUNNING)?;
        let demand = usize::try_from(place)
            .ok()
            .and_then(|place| self.demands.get(place.wrapping_sub(1)))
            .ok_or(Failure::Raced)?;
        let lease = Lease {
            lease_no: LeaseNo::new(lease_no),
            until: self.now + demand.lease_ttl,
            ttl: demand.lease_ttl,
            worker: self.request.worker.clone(),
            owner: self.request.owner,
            claimed_at: self.now,
            heartbeat_at: self.now,
            deadline_at: self.deadline(demand),
        };
        Ok(RunningJob { facts, lease, progress: None, cancel_requested: false })
    }

    fn deadline(&self, demand: &LaneDemand) -> Option<Timestamp> {
        demand.deadline.map(|deadline| self.now + deadline)
    }
}
