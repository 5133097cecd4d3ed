//! The ends of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    JobId, JobState, KindCatalog, LeaseNo, LeaseRef, Outcome, RunningJob, Settle, Settled, settle,
    spread,
};

use super::landing::land;
use super::waiting::identity;
use crate::postgres::columns::{self, running_columns};
use crate::postgres::effects::write_effects;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::session::Session;
use crate::postgres::types::Time;

pub(super) struct SettleRuns<'a> {
    settles: &'a [Settle],
    catalog: &'a KindCatalog,
    jitter: u64,
    now: Timestamp,
    /// What a try has committed whose second half has to be repeated: the next try would find those
    /// leases gone, and must not take that for lost.
    written: Mutex<BTreeMap<LeaseRef, JobState>>,
}

/// The end of a run, and its place in the call.
type Given<'s> = (usize, &'s Settle);

impl Operation for SettleRuns<'_> {
    type Answer = Vec<Settled>;

    async fn run(&self, session: &mut Session) -> Result<Vec<Settled>, Failure> {
        // The first word about a lease counts; by then it is gone for the others.
        let mut seen = BTreeSet::new();
        let firsts: Vec<bool> =
            self.settles.iter().map(|settle| seen.insert(settle.lease)).collect();
        let mut states = self.written.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (plain, others): (Vec<Given>, Vec<Given>) = self
            .settles
            .iter()
            .enumerate()
            .filter(|(place, _)| firsts[*place])
            .filter(|(_, settle)| !states.contains_key(&settle.lease))
            .partition(|(_, settle)| is_plain(settle));
        if others.is_empty() {
            // Most batches: one statement that commits by itself.
            self.finish(session, plain.clone(), &mut states).await.map_err(Failure::Commit)?;
            let left = not_yet(&plain, &states);
            if !left.is_empty() {
                self.written.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&states);
                // Lost, or linked: those are few.
                session.begin();
                self.settle_others(session, &left, &mut states).await?;
                session.commit().await?;
            }
        } else {
            session.begin();
            self.finish(session, plain.clone(), &mut states).await?;
            let mut left = not_yet(&plain, &states);
            left.extend(others);
            self.settle_others(session, &left, &mut states).await?;
            session.commit().await?;
        }
        let answer = |(settle, first): (&Settle, bool)| match states.get(&settle.lease) {
            Some(&state) if first => Settled::Landed { state },
            _ => Settled::LeaseLost,
        };
        Ok(self.settles.iter().zip(firsts).map(answer).collect())
    }
}

/// The delete is the fence: it finds the row with the lease's number or nothing. The run that ends
/// here goes into columns, whether or not there were others before it: readers put it after those
/// in the log, which therefore need not be opened. A job whose end somebody has to be told of is left
/// to the way of the others.
pub(super) const FINISH: &str = "-- finish
WITH done AS (
    DELETE FROM roundsman.job_running r
     USING unnest($1::bigint[], $2::bigint[], $3::text[]) AS given(given_id, given_lease, result)
     WHERE r.id = given_id AND r.lease_no = given_lease AND NOT r.linked
    RETURNING r.*, given.result
)
INSERT INTO roundsman.job_finished
    (id, user_id, state, priority, attempt, max_attempts, run_at, triggered_at, created_at,
     finished_at, lease_no, claimed_at, worker, kind, key, payload, result, runs, progress,
     lane)
SELECT id, user_id, 3, priority, attempt, max_attempts, run_at, triggered_at, created_at, $4,
       lease_no, claimed_at, worker, kind, key, payload, result, runs, progress,
       lane
  FROM done
RETURNING id, lease_no";

/// Takes running jobs out of their table, in the order of their numbers.
pub(super) const TAKE: &str = concat!(
    "-- take
DELETE FROM roundsman.job_running r
 USING unnest($1::bigint[], $2::bigint[]) AS given(given_id, given_lease)
 WHERE r.id = given_id AND r.lease_no = given_lease
RETURNING ",
    running_columns!()
);

impl<'a> SettleRuns<'a> {
    pub(super) fn new(
        settles: &'a [Settle],
        catalog: &'a KindCatalog,
        jitter: u64,
        now: Timestamp,
    ) -> Self {
        SettleRuns { settles, catalog, jitter, now, written: Mutex::default() }
    }

    /// Writes what is done and has no effects.
    async fn finish(
        &self,
        session: &mut Session,
        mut settles: Vec<Given<'_>>,
        states: &mut BTreeMap<LeaseRef, JobState>,
    ) -> Result<(), tokio_postgres::Error> {
        if settles.is_empty() {
            return Ok(());
        }
        // By number, so that batches that meet wait for each other in one direction.
        settles.sort_unstable_by_key(|(_, settle)| settle.lease);
        let (ids, lease_nos) = lease_columns(settles.iter().map(|(_, settle)| settle.lease));
        let results: Vec<&str> =
            settles.iter().filter_map(|(_, settle)| result_of(settle)).collect();
        let rows = session.query(FINISH, &[&ids, &lease_nos, &results, &Time(self.now)]).await?;
        for row in &rows {
            // By number and lease: an earlier lease of the same job may be among those given.
            let (id, lease_no) = (JobId::new(row.try_get(0)?), LeaseNo::new(row.try_get(1)?));
            states.insert(LeaseRef { id, lease_no }, JobState::Completed);
        }
        Ok(())
    }

    async fn settle_others(
        &self,
        session: &mut Session,
        settles: &[Given<'_>],
        states: &mut BTreeMap<LeaseRef, JobState>,
    ) -> Result<(), Failure> {
        let mut running = take(session, settles.iter().map(|(_, settle)| settle.lease)).await?;
        if touch_each_other(settles, &running) {
            for given in settles {
                self.settle_together(session, &[*given], &mut running, states).await?;
            }
            return Ok(());
        }
        self.settle_together(session, settles, &mut running, states).await
    }

    /// Settles runs whose jobs and effects have nothing to do with each other.
    async fn settle_together(
        &self,
        session: &mut Session,
        settles: &[Given<'_>],
        running: &mut BTreeMap<LeaseRef, RunningJob>,
        states: &mut BTreeMap<LeaseRef, JobState>,
    ) -> Result<(), Failure> {
        let mut dispositions = Vec::with_capacity(settles.len());
        let mut effects: Vec<&Effects> = Vec::new();
        let mut leases = Vec::with_capacity(settles.len());
        for (place, each) in settles {
            let Some(job) = running.remove(&each.lease) else {
                continue;
            };
            let retry = self.catalog.retry(&job.facts.kind);
            let outcome = each.outcome.clone();
            let jitter = spread(self.jitter, *place);
            dispositions.push(settle(job, outcome, retry, jitter, self.now));
            effects.push(&each.effects);
            leases.push(each.lease);
        }
        let landed = land(session, dispositions, self.catalog, self.now).await?;
        for lease in leases {
            if let Some(&state) = landed.get(&lease.id) {
                states.insert(lease, state);
            }
        }
        write_effects(session, &effects, self.catalog, self.now).await?;
        Ok(())
    }
}

async fn take(
    session: &mut Session,
    leases: impl Iterator<Item = LeaseRef>,
) -> Result<BTreeMap<LeaseRef, RunningJob>, Failure> {
    let leases: BTreeSet<LeaseRef> = leases.collect();
    let (ids, lease_nos) = lease_columns(leases.into_iter());
    let rows = session.query(TAKE, &[&ids, &lease_nos]).await?;
    let mut jobs = BTreeMap::new();
    for row in &rows {
        let job = columns::running(row)?;
        jobs.insert(job.lease_ref(), job);
    }
    Ok(jobs)
}

/// Whether the order of these runs matters: one triggers the key of another, or its own. Then they
/// are written one by one, so that the outcome is that of the order in which they were given.
fn touch_each_other(settles: &[Given<'_>], running: &BTreeMap<LeaseRef, RunningJob>) -> bool {
    let keys: BTreeSet<_> = running.values().filter_map(|job| identity(&job.facts)).collect();
    settles.iter().flat_map(|(_, settle)| &settle.effects.jobs).any(|wish| {
        let key = wish.key.clone().map(|key| (wish.user_id, wish.kind.clone(), key));
        key.is_some_and(|key| keys.contains(&key))
    })
}

fn not_yet<'s>(settles: &[Given<'s>], states: &BTreeMap<LeaseRef, JobState>) -> Vec<Given<'s>> {
    settles.iter().copied().filter(|(_, settle)| !states.contains_key(&settle.lease)).collect()
}

fn is_plain(settle: &Settle) -> bool {
    result_of(settle).is_some() && settle.effects.is_empty()
}

fn result_of(settle: &Settle) -> Option<&str> {
    match &settle.outcome {
        Outcome::Done { result } => Some(result.as_str()),
        _ => None,
    }
}

fn lease_columns(leases: impl Iterator<Item = LeaseRef>) -> (Vec<i64>, Vec<i64>) {
    leases.map(|LeaseRef { id, lease_no }| (JobId::get(id), lease_no.get())).unzip()
}
