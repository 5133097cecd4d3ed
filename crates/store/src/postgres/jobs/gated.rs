//! Handing out jobs through gates.
//!
//! Invariant: whoever counts what runs and what rates allow holds the locks of the gates until what
//! they let through is written, so that two nodes never let the same job pass twice.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    Bucket, BucketName, Gate, GateName, GatePlan, GateScene, Lane, LaneRange, bucket_names,
    gates_of, plan, ranges_from, spend,
};
use roundsman_core::ports::{ClaimAnswer, ClaimRequest, LaneDemand, StoreError};

use super::claim::{Claim, Take};
use super::gates::{LOCK_GATES, gate};
use crate::postgres::PostgresStore;
use crate::postgres::columns::Reader;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::gates::{LOOK_ON_AFTER, LanesWaiting, gated_share, lanes_looked_at, rest_of};

/// Lanes remembered as gated. With more, claims only share less evenly.
const REMEMBERED_MAX: usize = 10_000;

/// Lanes that were seen to have gates. Decides nothing but how much of a claim is kept for them.
#[derive(Debug, Default)]
pub(in crate::postgres) struct GatedLanes {
    lanes: Mutex<HashSet<Lane>>,
    claims: AtomicU64,
}

impl GatedLanes {
    fn remember(&self, request: &ClaimRequest, gated: bool) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        for demand in &request.demands {
            if !gated {
                lanes.remove(&demand.lane);
            } else if lanes.len() < REMEMBERED_MAX {
                lanes.insert(demand.lane.clone());
            }
        }
    }

    fn share(&self, request: &ClaimRequest) -> u32 {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let gated = |demand: &LaneDemand| lanes.contains(&demand.lane);
        if lanes.is_empty() || !request.demands.iter().any(gated) {
            return 0;
        }
        gated_share(request.total_max, self.claims.fetch_add(1, Ordering::Relaxed))
    }
}

impl PostgresStore {
    /// Claims what has no gate, then what has one. They are transactions of their own: what the
    /// first has claimed is handed over whatever becomes of the second.
    pub(super) async fn claim_all(
        &self,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<ClaimAnswer, StoreError> {
        let kept = self.gated_lanes.share(request);
        let first = request.total_max - kept;
        let claim = Claim { request, demands: &request.demands, total_max: first, now };
        let mut answer = self.change("store.claim", &claim).await?;
        if kept > 0 || answer.gated {
            self.gated_lanes.remember(request, answer.gated);
        }
        let left = |answer: &ClaimAnswer| {
            request.total_max - u32::try_from(answer.jobs.len()).unwrap_or(request.total_max)
        };
        let filled = answer.jobs.len() == first as usize;
        let rest = if kept > 0 && filled {
            rest_of(&request.demands.iter().collect::<Vec<_>>(), &answer.jobs)
        } else {
            Vec::new()
        };
        if answer.gated && left(&answer) > 0 {
            let gated = GatedClaim { request, total_max: left(&answer), now };
            match self.change("store.claim_gated", &gated).await {
                Ok(more) => join(&mut answer, more),
                Err(error) if answer.jobs.is_empty() => return Err(error),
                Err(error) => tracing::warn!(%error, "cannot claim through gates"),
            }
        }
        if !rest.is_empty() && left(&answer) > 0 {
            let claim = Claim { request, demands: &rest, total_max: left(&answer), now };
            match self.change("store.claim", &claim).await {
                Ok(more) => join(&mut answer, more),
                Err(error) => tracing::warn!(%error, "cannot claim the rest"),
            }
        }
        Ok(answer)
    }
}

fn join(answer: &mut ClaimAnswer, more: ClaimAnswer) {
    answer.jobs.extend(more.jobs);
    answer.gated |= more.gated;
    answer.next_due_at = match (answer.next_due_at, more.next_due_at) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
}

/// Jumps from lane to lane in the index, as far as it may, and counts what could be claimed in each.
pub(super) const LANES_WAITING: &str = "-- lanes_waiting
WITH RECURSIVE lanes(lane, place) AS (
    (SELECT lane, 1 FROM roundsman.job_queue
      WHERE state = 1 AND lane >= $1 AND lane < $2 ORDER BY lane LIMIT 1)
    UNION ALL
    SELECT (SELECT q.lane FROM roundsman.job_queue q
             WHERE q.state = 1 AND q.lane > lanes.lane AND q.lane < $2 ORDER BY q.lane LIMIT 1),
           place + 1
      FROM lanes WHERE lanes.lane IS NOT NULL AND place < $3
), bounded AS MATERIALIZED (
    SELECT lane FROM lanes WHERE lane IS NOT NULL LIMIT $3
)
SELECT bounded.lane, counted.jobs
  FROM bounded
 CROSS JOIN LATERAL (
    SELECT count(*) AS jobs
      FROM (SELECT FROM roundsman.job_queue waiting
             WHERE waiting.lane = bounded.lane AND waiting.state = 1
               AND (waiting.key IS NULL OR NOT EXISTS (
                    SELECT FROM roundsman.job_running running
                     WHERE running.user_id = waiting.user_id AND running.kind = waiting.kind
                       AND running.key = waiting.key))
             LIMIT $4) few) counted
 ORDER BY bounded.lane";

pub(super) const LANES_RUNNING: &str = "-- lanes_running
SELECT lane, count(*) FROM roundsman.job_running
 WHERE kind = $1 AND lane IS NOT NULL GROUP BY lane";

const BUCKETS: &str = "-- buckets
SELECT gate, tenant, level, at
  FROM unnest($1::text[], $2::text[]) AS given(given_gate, given_tenant)
  JOIN roundsman.job_buckets ON gate = given_gate AND tenant = given_tenant";

const PUT_BUCKETS: &str = "-- put_buckets
INSERT INTO roundsman.job_buckets (gate, tenant, level, at)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::timestamptz[])
ON CONFLICT (gate, tenant) DO UPDATE SET level = excluded.level, at = excluded.at";

const SET_TURN: &str = "-- set_turn
UPDATE roundsman.job_gates SET turn_lane = $2 WHERE name = $1";

/// A claim of what waits behind gates.
struct GatedClaim<'a> {
    request: &'a ClaimRequest,
    total_max: u32,
    now: Timestamp,
}

impl Operation for GatedClaim<'_> {
    type Answer = ClaimAnswer;

    async fn run(&self, session: &mut Session) -> Result<ClaimAnswer, Failure> {
        session.begin();
        let lanes = self.request.demands.iter().map(|demand| &demand.lane);
        let names: Vec<GateName> = lanes.flat_map(gates_of).collect();
        let names: Vec<&str> = names.iter().map(GateName::as_str).collect();
        let mut gates: BTreeMap<GateName, Gate> = BTreeMap::new();
        for row in session.query(LOCK_GATES, &[&names]).await? {
            let gate = gate(&row)?;
            gates.insert(gate.name.clone(), gate);
        }
        let mut answer = ClaimAnswer { gated: !gates.is_empty(), ..ClaimAnswer::default() };
        for demand in &self.request.demands {
            let names = gates_of(&demand.lane);
            let own: Vec<Gate> = names.iter().filter_map(|name| gates.get(name).cloned()).collect();
            let claimed = u32::try_from(answer.jobs.len()).unwrap_or(u32::MAX);
            let jobs_max = demand.max.min(self.total_max.saturating_sub(claimed));
            if own.is_empty() || jobs_max == 0 || own.iter().any(|gate| gate.paused_at.is_some()) {
                continue;
            }
            join(&mut answer, self.pass(session, demand, &own, jobs_max).await?);
        }
        session.commit().await?;
        Ok(answer)
    }
}

impl GatedClaim<'_> {
    /// Claims what the gates let through of one lane and those of its tenants.
    async fn pass(
        &self,
        session: &mut Session,
        demand: &LaneDemand,
        gates: &[Gate],
        jobs_max: u32,
    ) -> Result<ClaimAnswer, Failure> {
        let own = gates.iter().find(|gate| gate.name.as_str() == demand.lane.as_str());
        let turn = own.and_then(|gate| gate.turn.clone());
        let LanesWaiting { lanes: waiting, ended_at } =
            lanes_waiting(session, &demand.lane, turn.as_ref(), jobs_max).await?;
        if waiting.is_empty() && ended_at.is_none() {
            return Ok(ClaimAnswer::default());
        }
        let running = lanes_running(session, demand.lane.kind()).await?;
        let buckets = load_buckets(session, gates, &waiting).await?;
        let scene = GateScene {
            base: &demand.lane,
            gates,
            running: &running,
            buckets: &buckets,
            waiting: &waiting,
            jobs_max,
            now: self.now,
        };
        let GatePlan { quotas, turn: mut next, open_at } = plan(&scene);
        let mut answer = self.take(session, demand, &quotas).await?;
        answer.next_due_at = open_at;
        if ended_at.is_some() {
            // Whoever comes next looks at what follows, soon if all of this is kept back.
            next = ended_at;
            let soon = self.now + LOOK_ON_AFTER;
            answer.next_due_at = if quotas.is_empty() { Some(soon) } else { open_at };
        }
        let claimed = by_lane(&answer);
        let spent = spend(&demand.lane, gates, &buckets, &claimed, self.now);
        put_buckets(session, &spent).await?;
        if let Some(own) = own.filter(|_| next != turn) {
            let lane = next.as_ref().map(Lane::as_str);
            session.execute(SET_TURN, &[&own.name.as_str(), &lane]).await?;
        }
        Ok(answer)
    }

    async fn take(
        &self,
        session: &mut Session,
        demand: &LaneDemand,
        quotas: &[(Lane, u32)],
    ) -> Result<ClaimAnswer, Failure> {
        if quotas.is_empty() {
            return Ok(ClaimAnswer { gated: true, ..ClaimAnswer::default() });
        }
        let of_lane = |(lane, max): &(Lane, u32)| LaneDemand {
            lane: lane.clone(),
            max: *max,
            ..demand.clone()
        };
        let demands: Vec<LaneDemand> = quotas.iter().map(of_lane).collect();
        let take = Take {
            request: self.request,
            demands: &demands,
            total_max: quotas.iter().map(|(_, max)| max).sum(),
            promoted: true,
            gates: Vec::new(),
            gated: true,
            now: self.now,
        };
        Ok(ClaimAnswer { gated: true, ..take.run(session).await? })
    }
}

fn by_lane(answer: &ClaimAnswer) -> Vec<(Lane, u32)> {
    let mut lanes: BTreeMap<Lane, u32> = BTreeMap::new();
    for job in &answer.jobs {
        *lanes.entry(job.facts.lane()).or_default() += 1;
    }
    lanes.into_iter().collect()
}

async fn lanes_waiting(
    session: &mut Session,
    base: &Lane,
    turn: Option<&Lane>,
    jobs_max: u32,
) -> Result<LanesWaiting, Failure> {
    let (mut lanes, mut last) = (Vec::new(), None);
    let mut left = i64::from(lanes_looked_at(jobs_max));
    for LaneRange { from, to } in ranges_from(base, turn) {
        if left == 0 {
            break;
        }
        let limit = i32::try_from(left).unwrap_or(i32::MAX);
        let values: [&(dyn postgres_types::ToSql + Sync); 4] =
            [&from, &to, &limit, &i64::from(jobs_max)];
        for row in session.query(LANES_WAITING, &values).await? {
            left -= 1;
            let lane = Lane::from_stored(row.try_get(0)?);
            let jobs = u32::try_from(row.try_get::<_, i64>(1)?).unwrap_or(u32::MAX);
            last = Some(lane.clone());
            if jobs > 0 {
                lanes.push((lane, jobs));
            }
        }
    }
    Ok(LanesWaiting { lanes, ended_at: last.filter(|_| left == 0) })
}

async fn lanes_running(session: &mut Session, kind: &str) -> Result<Vec<(Lane, u32)>, Failure> {
    let rows = session.query(LANES_RUNNING, &[&kind]).await?;
    let of_row = |row: &tokio_postgres::Row| {
        let jobs = u32::try_from(row.try_get::<_, i64>(1)?).unwrap_or(u32::MAX);
        Ok((Lane::from_stored(row.try_get(0)?), jobs))
    };
    rows.iter().map(of_row).collect()
}

async fn load_buckets(
    session: &mut Session,
    gates: &[Gate],
    waiting: &[(Lane, u32)],
) -> Result<BTreeMap<BucketName, Bucket>, Failure> {
    let of_lane = |(lane, _): &(Lane, u32)| bucket_names(gates, lane);
    let mut names: Vec<BucketName> = waiting.iter().flat_map(of_lane).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let of_gates: Vec<&str> = names.iter().map(|(gate, _)| gate.as_str()).collect();
    let tenants: Vec<&str> = names.iter().map(|(_, tenant)| tenant.as_str()).collect();
    let mut buckets = BTreeMap::new();
    for row in session.query(BUCKETS, &[&of_gates, &tenants]).await? {
        let mut reader = Reader::new(&row);
        let name = (GateName::from_stored(reader.value()?), reader.value()?);
        buckets.insert(name, Bucket { level: reader.value()?, at: reader.time()? });
    }
    Ok(buckets)
}

async fn put_buckets(
    session: &mut Session,
    buckets: &BTreeMap<BucketName, Bucket>,
) -> Result<(), Failure> {
    if buckets.is_empty() {
        return Ok(());
    }
    let gates: Vec<&str> = buckets.keys().map(|(gate, _)| gate.as_str()).collect();
    let tenants: Vec<&str> = buckets.keys().map(|(_, tenant)| tenant.as_str()).collect();
    let levels: Vec<i64> = buckets.values().map(|bucket| bucket.level).collect();
    let times: Vec<Time> = buckets.values().map(|bucket| Time(bucket.at)).collect();
    session.execute(PUT_BUCKETS, &[&gates, &tenants, &levels, &times]).await?;
    Ok(())
}
