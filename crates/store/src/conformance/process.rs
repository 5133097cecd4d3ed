//! What a new server process finds and takes over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::jobs::{
    Disposition, Job, JobState, LeaseOwner, NewJob, Rescue, RunningJob, Settled, WorkerName, rescue,
};
use roundsman_core::ports::{
    ClaimRequest, HeartbeatAnswer, PROCESS_GONE_AFTER, ProcessStart, SweepRequest,
};

use super::fixture::{Fixture, at_once, demand};
use super::wishes::{MICROSECOND, RENDER, SECOND, catalog, done};

pub async fn every_start_has_a_mark_of_its_own(fx: &Arc<Fixture>) {
    let mut seen = BTreeSet::new();
    for _ in 0..5 {
        let start = begin(fx).await;
        let LeaseOwner::Process(number) = start.owner else {
            panic!("a process is not outside");
        };
        assert!(seen.last().is_none_or(|last| *last < number), "they grow");
        seen.insert(number);
        assert_eq!(start.rescued, 0);
    }
    let many = at_once((0..8).map(|_| {
        let fx = Arc::clone(fx);
        async move { begin(&fx).await.owner }
    }))
    .await;
    for owner in many {
        let LeaseOwner::Process(number) = owner else {
            panic!("a process is not outside");
        };
        assert!(seen.insert(number), "a mark was given twice");
    }
}

/// An exclusive database takes over at once what the dead process held; a shared one cannot know
/// that it is dead and leaves it to the sweep.
pub async fn a_new_process_takes_over_only_from_the_dead(fx: &Arc<Fixture>) {
    let old = begin(fx).await.owner;
    fx.enqueue((0..3).map(|_| fx.wish(RENDER)).collect()).await;
    let last_try = NewJob { max_attempts: Some(1), ..fx.keyed(RENDER, "last") };
    fx.put(last_try).await;
    let inside = claim_as(fx, old, 4).await;
    fx.put(fx.wish(RENDER)).await;
    let outside = claim_as(fx, LeaseOwner::Outside, 1).await;
    fx.land(inside[2].lease_ref(), done("1")).await;
    fx.advance(SECOND);

    let start = begin(fx).await;
    assert_ne!(start.owner, old);
    let dead = [&inside[0], &inside[1], &inside[3]];
    if fx.traits.exclusive {
        assert_eq!(start.rescued, 3);
        for job in dead {
            let retry = catalog().retry(&job.facts.kind);
            let gone = rescue(job.clone(), Rescue::OwnerGone, retry, 0, fx.now());
            let expected = match gone {
                Disposition::Finish(job) => Job::Finished(Box::new(job)),
                Disposition::Requeue(job) => Job::Waiting(job),
            };
            assert_eq!(fx.job(job.facts.id).await, expected);
            let answer = fx.heartbeat(job.lease_ref()).await;
            assert_eq!(answer, HeartbeatAnswer::LeaseLost);
        }
    } else {
        assert_eq!(start.rescued, 0);
        for job in dead {
            assert_eq!(&fx.running(job.facts.id).await, job);
        }
    }
    assert_eq!(fx.running(outside[0].facts.id).await, outside[0]);
    assert_eq!(fx.state(inside[2].facts.id).await, JobState::Completed);
}

/// On a shared database the lock of a process ends with it. Two looks that find it free, a while apart
/// and without a sign of life in between, are needed: until then its leases are its own.
pub async fn what_a_process_that_is_gone_has_held_is_taken_before_its_time(fx: &Arc<Fixture>) {
    let old = begin(fx).await.owner;
    keep(fx, old).await;
    fx.enqueue((0..3).map(|_| fx.wish(RENDER)).collect()).await;
    let inside = claim_as(fx, old, 2).await;
    let outside = claim_as(fx, LeaseOwner::Outside, 1).await;
    for _ in 0..3 {
        fx.advance(PROCESS_GONE_AFTER);
        assert_eq!(fx.sweep().await.rescued, [], "it lives");
    }

    let start = begin(fx).await;
    // A store keeps one process: it lets go of the old one.
    keep(fx, start.owner).await;
    if fx.traits.exclusive {
        assert_eq!(start.rescued, 2, "nobody else can be alive");
    } else {
        assert_eq!(start.rescued, 0);
        assert_eq!(sweeps_until_rescued(fx).await, None, "seen once");
        keep(fx, old).await;
        assert_eq!(fx.sweep().await.rescued, [], "it was back in time");
        keep(fx, start.owner).await;
        assert_eq!(sweeps_until_rescued(fx).await, None, "seen once again");
        let beat = fx.heartbeat(inside[0].lease_ref()).await;
        assert!(matches!(beat, HeartbeatAnswer::Extended { .. }), "{beat:?}");
        fx.advance(MICROSECOND);
        assert_eq!(fx.sweep().await.rescued, [], "it has no lock, and lives");
        assert_eq!(sweeps_until_rescued(fx).await, None, "looked at anew");
        fx.advance(MICROSECOND);
        let request = SweepRequest { rows_max: 10, serving_since: fx.now(), jitter: 0 };
        assert_eq!(fx.sweep_with(request).await.rescued, [], "we were away, and so may it");
        let rescued = fx.sweep().await.rescued;
        assert_eq!(rescued.len(), 2, "{rescued:?}");
    }
    for job in &inside {
        assert!(fx.now() < job.lease.until);
        assert_eq!(fx.state(job.facts.id).await, JobState::Pending);
        assert_eq!(fx.heartbeat(job.lease_ref()).await, HeartbeatAnswer::LeaseLost);
        assert_eq!(fx.settle(job.lease_ref(), done("1")).await, Settled::LeaseLost);
    }
    assert_eq!(fx.running(outside[0].facts.id).await, outside[0], "only time ends this one");
    assert_eq!(claim_as(fx, start.owner, 2).await.len(), 2);
    fx.advance(PROCESS_GONE_AFTER);
    assert_eq!(fx.sweep().await.rescued, [], "and the new one lives");
}

/// Sweeps, and again just before what is gone counts as gone.
async fn sweeps_until_rescued(fx: &Fixture) -> Option<usize> {
    let mut sweeps = 0;
    for by in [Duration::ZERO, PROCESS_GONE_AFTER.saturating_sub(MICROSECOND)] {
        fx.advance(by);
        sweeps += 1;
        if !fx.sweep().await.rescued.is_empty() {
            return Some(sweeps);
        }
    }
    None
}

async fn keep(fx: &Fixture, owner: LeaseOwner) {
    fx.store.keep_process(owner, fx.now()).await.expect("keep_process");
}

async fn begin(fx: &Fixture) -> ProcessStart {
    let start = fx.store.begin_process(0, fx.now()).await;
    start.expect("begin_process")
}

async fn claim_as(fx: &Fixture, owner: LeaseOwner, count: u32) -> Vec<RunningJob> {
    let request = ClaimRequest {
        worker: WorkerName::new("w"),
        owner,
        demands: vec![demand(RENDER, count)],
        total_max: count,
    };
    let jobs = fx.claim_with(request).await.jobs;
    assert_eq!(jobs.len(), count as usize);
    jobs
}
