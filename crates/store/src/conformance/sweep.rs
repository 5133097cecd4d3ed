//! Jobs are taken from holders that are silent or over their time, and from nobody else.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    Disposition, FinishedState, Job, JobState, KindName, LeaseOwner, NewJob, Outcome, Rescue,
    RunOutcome, RunningJob, WorkerName, fold, rescue,
};
use roundsman_core::ports::{ClaimRequest, LaneDemand, Scope, SweepRequest};

use super::fixture::{Fixture, demand};
use super::wishes::{
    COLLECT, FIRST, MINUTE, RENDER, SECOND, TTL, catalog, done, json, kind, retry_after,
};

const MILLISECOND: Duration = Duration::from_millis(1);
/// A jitter that is neither zero nor a round number of seconds.
const JITTER: u64 = 12_345_678_901_234_567;

pub async fn a_silent_holder_loses_its_job_by_the_rules(fx: &Arc<Fixture>) {
    for cancelled in [false, true] {
        for max_attempts in [None, Some(1), Some(2)] {
            let wish = NewJob { max_attempts, ..fx.keyed(RENDER, "a") };
            let id = fx.put(wish).await;
            let job = fx.claim_one(RENDER).await;
            if cancelled {
                let answer = fx.store.cancel(Scope::All, id, fx.now()).await;
                answer.expect("cancel");
            }
            fx.advance(TTL + MILLISECOND);
            assert_rescued(fx, job, Rescue::LeaseExpired).await;
            let _ = fx.store.cancel(Scope::All, id, fx.now()).await;
        }
    }
}

/// The holder keeps its job up to the last moment of its lease and loses it right after.
pub async fn a_lease_ends_when_it_says(fx: &Arc<Fixture>) {
    let id = fx.put(fx.wish(RENDER)).await;
    fx.claim_one(RENDER).await;
    fx.advance(TTL.saturating_sub(MILLISECOND));
    assert_eq!(fx.sweep().await.rescued, vec![]);
    assert_eq!(fx.state(id).await, JobState::Processing);
    fx.advance(MILLISECOND * 2);
    let rescued = fx.sweep().await.rescued;
    assert_eq!(rescued, [(kind(RENDER), JobState::Pending)]);
    let waiting = fx.waiting(id).await;
    assert_eq!((waiting.facts.attempt, waiting.facts.runs.total), (1, 1));
}

pub async fn a_heartbeat_moves_the_end_of_the_lease(fx: &Arc<Fixture>) {
    fx.put(fx.wish(RENDER)).await;
    let job = fx.claim_one(RENDER).await;
    for _ in 0..5 {
        fx.advance(TTL.saturating_sub(MILLISECOND));
        assert_eq!(fx.sweep().await.rescued, vec![]);
        fx.heartbeat(job.lease_ref()).await;
    }
    // A beat may also shorten it.
    fx.heartbeat_with(job.lease_ref(), Some(MINUTE), None).await;
    fx.advance(MINUTE + MILLISECOND);
    assert_eq!(fx.sweep().await.rescued.len(), 1);
}

pub async fn a_deadline_ends_a_run_that_heartbeats(fx: &Arc<Fixture>) {
    for (max_attempts, process) in [(Some(3), false), (Some(1), true), (None, false)] {
        let wish = NewJob { max_attempts, ..fx.wish(RENDER) };
        let id = fx.put(wish).await;
        let owner = if process { LeaseOwner::Process(5) } else { LeaseOwner::Outside };
        let terms = LaneDemand { deadline: Some(TTL * 2), ..demand(RENDER, 1) };
        let job = claim_as(fx, owner, terms).await;
        for _ in 0..4 {
            fx.advance((TTL / 2).saturating_sub(MILLISECOND));
            fx.heartbeat(job.lease_ref()).await;
            assert_eq!(fx.sweep().await.rescued, vec![]);
        }
        fx.advance(SECOND);
        let job = fx.running(id).await;
        assert_rescued(fx, job, Rescue::DeadlineExceeded).await;
        let _ = fx.store.cancel(Scope::All, id, fx.now()).await;
    }
}

pub async fn a_job_that_kills_its_workers_stops(fx: &Arc<Fixture>) {
    let id = fx.put(fx.keyed(RENDER, "poison")).await;
    for attempt in 1..=3 {
        let job = fx.claim_one(RENDER).await;
        assert_eq!(job.facts.attempt, attempt);
        fx.advance(TTL + SECOND);
        assert_eq!(fx.sweep().await.rescued.len(), 1);
        assert_eq!(fx.sweep().await.rescued, vec![], "once");
    }
    fx.assert_nothing_to_claim(RENDER).await;
    let finished = fx.finished(id).await;
    let FinishedState::Failed { error } = finished.state else {
        panic!("expected it to have failed: {finished:?}");
    };
    assert_eq!(error.code.as_str(), "crashed");
    let outcomes: Vec<_> = finished.facts.runs.runs.iter().map(|run| run.outcome).collect();
    assert_eq!(outcomes, [RunOutcome::LeaseExpired; 3]);
}

pub async fn a_rescued_job_folds_into_the_one_that_waits(fx: &Arc<Fixture>) {
    let rules = catalog();
    for kind_name in [RENDER, FIRST, COLLECT] {
        let first = NewJob { payload: json("[1]"), max_attempts: None, ..fx.keyed(kind_name, "a") };
        let id = fx.put(first).await;
        let job = fx.claim_one(kind_name).await;
        fx.land(job.lease_ref(), retry_after(SECOND)).await;
        fx.advance(SECOND);
        let job = fx.claim_one(kind_name).await;
        let second = NewJob { payload: json("[2]"), priority: 9, ..fx.keyed(kind_name, "a") };
        let next = fx.put(second).await;
        let waiting = fx.waiting(next).await;
        fx.advance(TTL + SECOND);
        let retry = rules.retry(&job.facts.kind);
        let gone = rescue(job, Rescue::LeaseExpired, retry, JITTER, fx.now());
        let Disposition::Requeue(back) = gone else {
            panic!("a first attempt is not the last");
        };
        assert!(back.not_before > Some(fx.now()), "it has to back off");
        let expected = fold(waiting, back, rules.merge(&kind(kind_name)), fx.now());
        assert_eq!(sweep_with_jitter(fx).await.len(), 1);
        assert_eq!(fx.finished(id).await, expected.ended);
        assert_eq!(fx.waiting(next).await, expected.survivor);
        assert_eq!(expected.survivor.facts.attempt, 2, "attempts go with it");
        fx.assert_nothing_to_claim(kind_name).await;
    }
}

/// Our own outage must not look like the death of a worker outside; what happens inside this
/// process needs no such grace.
pub async fn an_outside_worker_gets_one_full_lease_after_an_outage(fx: &Arc<Fixture>) {
    let outside = fx.put(fx.wish(RENDER)).await;
    claim_as(fx, LeaseOwner::Outside, demand(RENDER, 1)).await;
    let inside = fx.put(fx.wish(RENDER)).await;
    claim_as(fx, LeaseOwner::Process(3), demand(RENDER, 1)).await;
    fx.advance(TTL * 10);
    let serving_since = fx.now();
    let sweep = async || {
        fx.sweep_with(SweepRequest { rows_max: 100, serving_since, jitter: 0 }).await.rescued
    };
    assert_eq!(sweep().await.len(), 1);
    assert_eq!(fx.state(inside).await, JobState::Pending);
    fx.advance(TTL.saturating_sub(MILLISECOND));
    assert_eq!(sweep().await, vec![]);
    assert_eq!(fx.state(outside).await, JobState::Processing);
    fx.advance(MILLISECOND * 2);
    assert_eq!(sweep().await.len(), 1);
    assert_eq!(fx.state(outside).await, JobState::Pending);
}

/// The grace is one lease: a worker whose lease began after the outage has no more than that.
pub async fn the_grace_is_no_longer_than_one_lease(fx: &Arc<Fixture>) {
    let serving_since = fx.now();
    fx.advance(MINUTE);
    fx.put(fx.wish(RENDER)).await;
    let job = fx.claim_one(RENDER).await;
    // Claimed for the usual time but extended by less: the grace counts what it was claimed for.
    fx.heartbeat_with(job.lease_ref(), Some(SECOND), None).await;
    let request = SweepRequest { rows_max: 100, serving_since, jitter: 0 };
    fx.advance(TTL.saturating_sub(MINUTE + MILLISECOND));
    assert_eq!(fx.sweep_with(request).await.rescued, vec![]);
    fx.advance(MILLISECOND * 2);
    assert_eq!(fx.sweep_with(request).await.rescued.len(), 1);
}

pub async fn a_sweep_takes_no_more_than_it_may(fx: &Arc<Fixture>) {
    fx.enqueue((0..25).map(|_| fx.wish(RENDER)).collect()).await;
    assert_eq!(fx.claim(RENDER, 25).await.len(), 25);
    fx.advance(TTL + SECOND);
    let request = SweepRequest { rows_max: 10, serving_since: Timestamp::EPOCH, jitter: 0 };
    let mut counts = Vec::new();
    for _ in 0..4 {
        counts.push(fx.sweep_with(request).await.rescued.len());
    }
    assert_eq!(counts, [10, 10, 5, 0]);
    let none = SweepRequest { rows_max: 0, ..request };
    assert_eq!(fx.sweep_with(none).await.rescued, vec![]);
}

pub async fn only_the_silent_ones_are_taken(fx: &Arc<Fixture>) {
    fx.enqueue((0..10).map(|_| fx.wish(RENDER)).collect()).await;
    let jobs = fx.claim(RENDER, 9).await;
    fx.advance(TTL.saturating_sub(SECOND));
    fx.land(jobs[0].lease_ref(), done("1")).await;
    fx.land(jobs[1].lease_ref(), Outcome::Release).await;
    for job in &jobs[2..5] {
        fx.heartbeat(job.lease_ref()).await;
    }
    fx.advance(SECOND * 2);
    assert_eq!(fx.sweep().await.rescued.len(), 4);
    for job in &jobs[2..5] {
        assert_eq!(fx.state(job.facts.id).await, JobState::Processing);
    }
    for job in &jobs[5..] {
        assert_eq!(fx.state(job.facts.id).await, JobState::Pending);
    }
}

/// Sweeps once and compares what became of the job with what the rule makes of it.
async fn assert_rescued(fx: &Arc<Fixture>, job: RunningJob, why: Rescue) {
    let job =
        RunningJob { cancel_requested: fx.running(job.facts.id).await.cancel_requested, ..job };
    let (id, kind_name) = (job.facts.id, job.facts.kind.clone());
    let retry = catalog().retry(&kind_name);
    let expected = match rescue(job, why, retry, JITTER, fx.now()) {
        Disposition::Finish(job) => Job::Finished(Box::new(job)),
        Disposition::Requeue(job) => Job::Waiting(job),
    };
    let rescued = sweep_with_jitter(fx).await;
    assert_eq!(rescued, [(kind_name, expected.state(fx.now()))]);
    assert_eq!(fx.job(id).await, expected);
}

async fn sweep_with_jitter(fx: &Arc<Fixture>) -> Vec<(KindName, JobState)> {
    let request = SweepRequest { rows_max: 100, serving_since: Timestamp::EPOCH, jitter: JITTER };
    fx.sweep_with(request).await.rescued
}

async fn claim_as(fx: &Arc<Fixture>, owner: LeaseOwner, demand: LaneDemand) -> RunningJob {
    let request =
        ClaimRequest { worker: WorkerName::new("w"), owner, demands: vec![demand], total_max: 1 };
    let mut jobs = fx.claim_with(request).await.jobs;
    assert_eq!(jobs.len(), 1);
    jobs.remove(0)
}
