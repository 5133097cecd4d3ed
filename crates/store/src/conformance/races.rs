//! Many at once on the same rows: whoever loses changes nothing, and nothing is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    Job, JobId, JobState, LeaseNo, LeaseRef, NewJob, Outcome, RunOutcome, RunningJob, Settle,
    Settled,
};
use roundsman_core::ports::{
    ClaimRequest, Heartbeat, HeartbeatAnswer, ListFilter, Scope, SweepRequest,
};

use super::fixture::{Fixture, Task, at_once, demand};
use super::wishes::{COLLECT, RENDER, SECOND, TTL, boom, done, json, key, retry_after};

/// Of a late heartbeat and a sweep on one row exactly one wins, thousands of times over.
pub async fn a_late_heartbeat_and_a_sweep_never_both_win(fx: &Arc<Fixture>) {
    const JOBS_PER_ROUND: usize = 250;
    let rounds = fx.traits.races.div_ceil(JOBS_PER_ROUND);
    let (mut beats_won, mut sweeps_won) = (0, 0);
    for _ in 0..rounds {
        let wishes = (0..JOBS_PER_ROUND).map(|_| NewJob { max_attempts: None, ..fx.wish(RENDER) });
        fx.enqueue(wishes.collect()).await;
        let jobs = fx.claim(RENDER, 1000).await;
        assert_eq!(jobs.len(), JOBS_PER_ROUND);
        fx.advance(TTL + SECOND);
        let leases: Vec<LeaseRef> = jobs.iter().map(RunningJob::lease_ref).collect();
        let (extended, rescued) = race_beats_against_sweeps(fx, &leases).await;
        assert_eq!(extended.len() + rescued, JOBS_PER_ROUND, "each row has one winner");
        for lease in &leases {
            assert_one_winner(fx, *lease, extended.contains(&lease.id)).await;
        }
        beats_won += extended.len();
        sweeps_won += rescued;
    }
    assert!(beats_won > 0 && sweeps_won > 0, "{beats_won}:{sweeps_won} is no race");
}

/// Several sweepers at once reset each job once: one attempt, one run, whoever it was.
pub async fn sweepers_at_once_add_exactly_one_attempt(fx: &Arc<Fixture>) {
    const JOBS: usize = 100;
    let wishes = (0..JOBS).map(|number| fx.keyed(RENDER, &number.to_string()));
    fx.enqueue(wishes.collect()).await;
    for round in 1..=3u32 {
        assert_eq!(fx.claim(RENDER, 1000).await.len(), JOBS);
        fx.advance(TTL + SECOND);
        let sweepers = (0..8).map(|_| {
            let fx = Arc::clone(fx);
            async move { fx.sweep().await.rescued.len() }
        });
        let rescued: usize = at_once(sweepers).await.into_iter().sum();
        assert_eq!(rescued, JOBS);
        for job in fx.list(Scope::All, ListFilter::default()).await {
            let facts = job.facts();
            assert_eq!((facts.attempt, facts.runs.total), (round, u64::from(round)));
        }
    }
    let jobs = fx.list(Scope::All, ListFilter::default()).await;
    assert!(jobs.iter().all(|job| job.state(fx.now()) == JobState::Failed));
}

/// A completion and a sweep on one row: it is completed, or it was rescued and the completion lost.
pub async fn a_completion_and_a_sweep_never_both_win(fx: &Arc<Fixture>) {
    const JOBS: usize = 300;
    fx.enqueue((0..JOBS).map(|_| fx.wish(RENDER)).collect()).await;
    let jobs = fx.claim(RENDER, 1000).await;
    fx.advance(TTL + SECOND);
    let mut tasks: Vec<Task<Vec<JobId>>> = vec![];
    for chunk in jobs.chunks(JOBS / 4) {
        let leases: Vec<LeaseRef> = chunk.iter().map(RunningJob::lease_ref).collect();
        let fx = Arc::clone(fx);
        tasks.push(Box::pin(async move {
            let mut landed = Vec::new();
            for batch in leases.chunks(5) {
                let settles = batch.iter().map(|lease| Settle {
                    lease: *lease,
                    outcome: done("1"),
                    effects: Effects::default(),
                });
                let answers = fx.settle_batch(settles.collect()).await;
                let won = |answer: &Settled| matches!(answer, Settled::Landed { .. });
                let pairs = batch.iter().zip(&answers);
                landed.extend(pairs.filter(|(_, a)| won(a)).map(|(lease, _)| lease.id));
            }
            landed
        }));
    }
    for _ in 0..2 {
        let fx = Arc::clone(fx);
        tasks.push(Box::pin(async move {
            sweep_in_small_steps(&fx).await;
            vec![]
        }));
    }
    let landed: BTreeSet<JobId> = at_once(tasks).await.into_iter().flatten().collect();
    for job in &jobs {
        let id = job.facts.id;
        let expected = if landed.contains(&id) { JobState::Completed } else { JobState::Pending };
        assert_eq!(fx.state(id).await, expected);
        assert_eq!(fx.job(id).await.facts().runs.total, 1);
    }
}

/// Thirty-two workers trigger, claim and settle the same few keys as fast as they can: no key ever
/// runs twice at once, tokens grow with every claim, and the last trigger of each key is followed
/// by a run.
pub async fn a_key_never_runs_twice_at_once(fx: &Arc<Fixture>) {
    const WORKERS: usize = 32;
    const ROUNDS: usize = 20;
    const KEYS: usize = 4;
    let board = Arc::new(Mutex::new(Board::default()));
    let workers = (0..WORKERS).map(|worker| {
        let (fx, board) = (Arc::clone(fx), Arc::clone(&board));
        async move {
            for round in 0..ROUNDS {
                let name = format!("k{}", (worker * 7 + round * 3) % KEYS);
                let number = worker * ROUNDS + round;
                let wish = NewJob {
                    payload: json(&format!("[{number}]")),
                    max_attempts: None,
                    ..fx.keyed(COLLECT, &name)
                };
                fx.enqueue(vec![wish]).await;
                for job in fx.claim(COLLECT, 2).await {
                    with(&board, |board| board.begin(&job));
                    let outcome = match (number + job.facts.attempt as usize) % 5 {
                        0 => retry_after(Duration::ZERO),
                        1 => Outcome::Release,
                        _ => done("1"),
                    };
                    if matches!(outcome, Outcome::Done { .. }) {
                        with(&board, |board| board.note_items(&job));
                    }
                    with(&board, |board| board.end(&job));
                    fx.land(job.lease_ref(), outcome).await;
                }
            }
        }
    });
    at_once(workers).await;
    // Whatever still waits is run by somebody who fails no more; then every trigger was seen.
    loop {
        let jobs = fx.claim(COLLECT, 100).await;
        if jobs.is_empty() {
            break;
        }
        for job in jobs {
            with(&board, |board| board.note_items(&job));
            fx.land(job.lease_ref(), done("1")).await;
        }
    }
    let seen = with(&board, |board| board.items.len());
    assert_eq!(seen, WORKERS * ROUNDS, "the trigger of somebody was lost");
    let left = fx.all_jobs().await;
    assert!(left.iter().all(|job| matches!(job, Job::Finished(_))));
}

/// Claims, sweeps, heartbeats, settles, cancels and retries of few rows by many callers: no call
/// fails, and every job ends in one place.
pub async fn everything_at_once_fails_nobody(fx: &Arc<Fixture>) {
    let callers = (0..24usize).map(|caller| {
        let fx = Arc::clone(fx);
        async move {
            for round in 0..12usize {
                let name = format!("k{}", (caller + round) % 3);
                let id = fx.enqueue(vec![fx.keyed(RENDER, &name)]).await[0].id;
                match (caller + round) % 6 {
                    0 => drop(fx.store.cancel(Scope::All, id, fx.now()).await.expect("cancel")),
                    1 => drop(fx.store.retry(Scope::All, id, fx.now()).await.expect("retry")),
                    2 => drop(short_claim(&fx).await),
                    3 => {
                        fx.advance(SECOND * 10);
                        fx.sweep().await;
                    }
                    _ => {
                        for job in short_claim(&fx).await {
                            fx.heartbeat(job.lease_ref()).await;
                            let retry =
                                Outcome::Retry { error: boom(), after: Some(Duration::ZERO) };
                            let outcome = if round % 2 == 0 { done("1") } else { retry };
                            fx.settle(job.lease_ref(), outcome).await;
                        }
                    }
                }
            }
        }
    });
    at_once(callers).await;
    super::assert_keys_are_unique(&fx.all_jobs().await);
}

/// What is running now, and what was ever seen, as the workers themselves know it.
#[derive(Default)]
struct Board {
    running: BTreeSet<String>,
    last_lease: BTreeMap<String, LeaseNo>,
    items: BTreeSet<u64>,
}

impl Board {
    fn begin(&mut self, job: &RunningJob) {
        let key = key_of(job);
        let last = self.last_lease.insert(key.clone(), job.lease.lease_no);
        assert!(last < Some(job.lease.lease_no), "the token went back");
        assert!(self.running.insert(key), "two hold {job:?}");
    }

    /// Before the settle is sent, because the next holder may begin before it returns.
    fn end(&mut self, job: &RunningJob) {
        self.running.remove(&key_of(job));
    }

    fn note_items(&mut self, job: &RunningJob) {
        let payload = job.facts.payload.to_value();
        let items = payload.as_array().expect("collected items");
        self.items.extend(items.iter().filter_map(serde_json::Value::as_u64));
    }
}

fn with<T>(board: &Mutex<Board>, look: impl FnOnce(&mut Board) -> T) -> T {
    look(&mut board.lock().unwrap_or_else(PoisonError::into_inner))
}

fn key_of(job: &RunningJob) -> String {
    job.facts.key.as_ref().unwrap_or(&key("none")).as_str().to_owned()
}

/// Sends a late heartbeat for every lease, in small batches, while two sweepers run. Returns the
/// jobs whose heartbeat won, and how many the sweepers took.
async fn race_beats_against_sweeps(
    fx: &Arc<Fixture>,
    leases: &[LeaseRef],
) -> (BTreeSet<JobId>, usize) {
    let mut tasks: Vec<Task<(Vec<JobId>, usize)>> = Vec::new();
    for part in leases.chunks(leases.len().div_ceil(2)) {
        let (fx, part) = (Arc::clone(fx), part.to_vec());
        tasks.push(Box::pin(async move {
            let mut won = Vec::new();
            for batch in part.chunks(5) {
                let beats = batch.iter().map(|lease| Heartbeat {
                    lease: *lease,
                    ttl: None,
                    progress: None,
                });
                let answers = fx.store.heartbeat(beats.collect(), fx.now()).await;
                let answers = answers.expect("heartbeat");
                let pairs = batch.iter().zip(answers);
                let extended = pairs.filter(|(_, a)| *a != HeartbeatAnswer::LeaseLost);
                won.extend(extended.map(|(lease, _)| lease.id));
                // A store that never waits would keep the sweepers from their turn.
                tokio::task::yield_now().await;
            }
            (won, 0)
        }));
    }
    for _ in 0..2 {
        let fx = Arc::clone(fx);
        tasks.push(Box::pin(async move { (vec![], sweep_in_small_steps(&fx).await) }));
    }
    let answers = at_once(tasks).await;
    let rescued = answers.iter().map(|(_, rescued)| rescued).sum();
    let won = answers.into_iter().flat_map(|(won, _)| won).collect();
    (won, rescued)
}

/// Sweeps a few rows at a time until there is nothing left to take.
async fn sweep_in_small_steps(fx: &Fixture) -> usize {
    let request = SweepRequest { rows_max: 5, serving_since: Timestamp::EPOCH, jitter: 0 };
    let mut rescued = 0;
    loop {
        let report = fx.sweep_with(request).await;
        if report.rescued.is_empty() {
            return rescued;
        }
        rescued += report.rescued.len();
        tokio::task::yield_now().await;
    }
}

async fn assert_one_winner(fx: &Fixture, lease: LeaseRef, beat_won: bool) {
    match fx.job(lease.id).await {
        Job::Running(job) => {
            assert!(beat_won, "neither won {lease:?}");
            assert_eq!(job.lease_ref(), lease);
            assert_eq!(job.lease.until, fx.now() + TTL);
            assert_eq!(job.facts.runs.total, 0);
            // Out of the way of the next round.
            fx.land(lease, done("1")).await;
        }
        Job::Waiting(job) => {
            assert!(!beat_won, "both won {lease:?}");
            let runs = &job.facts.runs;
            assert_eq!((runs.total, job.facts.attempt), (1, 1));
            assert_eq!(runs.runs[0].outcome, RunOutcome::LeaseExpired);
            let answer = fx.store.cancel(Scope::All, lease.id, fx.now()).await;
            answer.expect("cancel");
        }
        Job::Finished(job) => panic!("nobody ended {job:?}"),
    }
}

/// Claims up to two jobs for ten seconds, so that the sweeps find something to take.
async fn short_claim(fx: &Fixture) -> Vec<RunningJob> {
    let mut terms = demand(RENDER, 2);
    terms.lease_ttl = SECOND * 10;
    let request = ClaimRequest {
        worker: roundsman_core::jobs::WorkerName::new("w"),
        owner: roundsman_core::jobs::LeaseOwner::Outside,
        demands: vec![terms],
        total_max: 2,
    };
    fx.claim_with(request).await.jobs
}
