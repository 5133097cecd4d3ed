//! What a new server process finds and takes over.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::jobs::{
    Disposition, Job, JobState, LeaseOwner, NewJob, Rescue, RunningJob, WorkerName, rescue,
};
use roundsman_core::ports::{ClaimRequest, HeartbeatAnswer, ProcessStart};

use super::fixture::{Fixture, at_once, demand};
use super::wishes::{RENDER, SECOND, catalog, done};

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
