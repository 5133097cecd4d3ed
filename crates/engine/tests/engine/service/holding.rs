//! What the holder of a lease may do, and what happens to one who holds it no longer.

use roundsman_core::jobs::{FinishedState, Job, JobError, LeaseRef, Progress, RunOutcome};
use roundsman_core::ports::Clock;
use roundsman_core::users::Authenticated;
use roundsman_engine::Error;
use roundsman_engine::jobs::{JobLimits, Jobs};

use super::{OWN, ada, claim_one, enqueue, fields, wish};
use crate::support::{RENDER, TTL, World, json, scripted, secs, spec};

/// The answers to everything that a holder may do.
async fn all_writes(jobs: &Jobs, caller: &Authenticated, lease: LeaseRef) -> Vec<Error> {
    let error = || JobError::new("broken", "it broke");
    vec![
        jobs.heartbeat(caller, lease, None, Some("1".to_owned())).await.unwrap_err(),
        jobs.complete(caller, lease, Some("1".to_owned())).await.unwrap_err(),
        jobs.fail(caller, lease, error(), false, None).await.unwrap_err(),
        jobs.fail(caller, lease, error(), true, None).await.unwrap_err(),
        jobs.release(caller, lease).await.unwrap_err(),
        jobs.cancelled(caller, lease).await.unwrap_err(),
    ]
}

#[tokio::test]
async fn a_heartbeat_extends_the_lease_and_tells_of_a_cancel() {
    let world = World::new();
    let jobs = world.jobs();
    let id = enqueue(&jobs, &ada(), wish(OWN)).await;
    let lease = claim_one(&jobs, &ada()).await.lease_ref();
    world.clock.advance(secs(100));
    let progress = Some("{\"done\":0.5}".to_owned());
    let answer = jobs.heartbeat(&ada(), lease, None, progress).await.unwrap();
    assert_eq!(answer, (world.clock.now() + TTL, false));
    assert_eq!(world.running(id).await.progress, Some(Progress(json("{\"done\":0.5}"))));
    let answer = jobs.heartbeat(&ada(), lease, Some(9), None).await.unwrap();
    assert_eq!(answer, (world.clock.now() + secs(9), false));

    jobs.cancel(&ada(), id).await.unwrap();
    let answer = jobs.heartbeat(&ada(), lease, None, None).await.unwrap();
    assert_eq!(answer, (world.clock.now() + TTL, true));
    let job = jobs.cancelled(&ada(), lease).await.unwrap();
    assert!(
        matches!(job, Job::Finished(job) if matches!(job.state, FinishedState::Cancelled { .. }))
    );
    world.check().await;
}

#[tokio::test]
async fn a_holder_ends_its_run_in_one_of_four_ways() {
    let world = World::new();
    let jobs = world.jobs();
    let error = || JobError::new("broken", "it broke");

    enqueue(&jobs, &ada(), wish(OWN)).await;
    let lease = claim_one(&jobs, &ada()).await.lease_ref();
    let job = jobs.complete(&ada(), lease, Some("[1,2]".to_owned())).await.unwrap();
    let Job::Finished(job) = job else { panic!("{job:?}") };
    assert_eq!(job.state, FinishedState::Completed { result: json("[1,2]") });

    enqueue(&jobs, &ada(), wish(OWN)).await;
    let lease = claim_one(&jobs, &ada()).await.lease_ref();
    let job = jobs.fail(&ada(), lease, error(), false, Some(secs(77))).await.unwrap();
    let Job::Waiting(job) = job else { panic!("{job:?}") };
    assert_eq!((job.due_at(), job.facts.attempt), (world.clock.now() + secs(77), 1));

    world.clock.advance(secs(77));
    let lease = claim_one(&jobs, &ada()).await.lease_ref();
    let job = jobs.release(&ada(), lease).await.unwrap();
    let Job::Waiting(job) = job else { panic!("{job:?}") };
    assert_eq!((job.facts.attempt, job.due_at() <= world.clock.now()), (1, true));
    assert_eq!(job.facts.runs.runs[1].outcome, RunOutcome::Released);

    let lease = claim_one(&jobs, &ada()).await.lease_ref();
    let job = jobs.fail(&ada(), lease, error(), true, None).await.unwrap();
    let Job::Finished(job) = job else { panic!("{job:?}") };
    assert_eq!(job.state, FinishedState::Failed { error: error() });
    world.check().await;
}

#[tokio::test]
async fn a_holder_that_was_replaced_is_refused_everything() {
    let world = World::new();
    let jobs = world.jobs();
    let sweeper = world.sweeper();
    sweeper.tick().await.unwrap();
    let id = enqueue(&jobs, &ada(), wish(OWN)).await;
    let stale = claim_one(&jobs, &ada()).await.lease_ref();
    world.clock.advance(TTL + secs(1));
    assert_eq!(sweeper.tick().await.unwrap(), 1);

    let before = world.job(id).await;
    for error in all_writes(&jobs, &ada(), stale).await {
        assert!(matches!(error, Error::LeaseLost), "while it waits again: {error:?}");
    }
    assert_eq!(world.job(id).await, before);

    let current = claim_one(&jobs, &ada()).await;
    for error in all_writes(&jobs, &ada(), stale).await {
        assert!(matches!(error, Error::LeaseLost), "while another has it: {error:?}");
    }
    assert_eq!(world.running(id).await, current);

    jobs.complete(&ada(), current.lease_ref(), Some("\"second\"".to_owned())).await.unwrap();
    let ended = world.job(id).await;
    for lease in [stale, current.lease_ref()] {
        for error in all_writes(&jobs, &ada(), lease).await {
            assert!(matches!(error, Error::LeaseLost), "after it has ended: {error:?}");
        }
    }
    assert_eq!(world.job(id).await, ended);
    world.check().await;
}

#[tokio::test]
async fn jobs_that_the_server_runs_are_out_of_reach() {
    let world = World::new();
    let jobs = world.jobs();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    let lease = starts.next().await.lease();
    let before = world.running(id).await;
    for error in all_writes(&jobs, &Authenticated::Admin, lease).await {
        assert!(matches!(error, Error::Forbidden { .. }), "{error:?}");
    }
    assert_eq!(world.running(id).await, before);
    world.check().await;
}

#[tokio::test]
async fn what_cannot_be_stored_is_refused_and_the_lease_stays() {
    let world = World::new();
    let limits = JobLimits { result_bytes_max: 100, ..JobLimits::default() };
    let jobs = world.jobs_with(limits);
    let id = enqueue(&jobs, &ada(), wish(OWN)).await;
    let lease = claim_one(&jobs, &ada()).await.lease_ref();
    let deep = "[".repeat(10_000);
    for text in ["{", "NaN", "\"\\u0000\""] {
        let refused = jobs.complete(&ada(), lease, Some(text.to_owned())).await;
        assert_eq!(fields(refused), ["result"]);
        let refused = jobs.heartbeat(&ada(), lease, None, Some(text.to_owned())).await;
        assert_eq!(fields(refused), ["progress"]);
    }
    for text in [deep, format!("\"{}\"", "x".repeat(99))] {
        let refused = jobs.complete(&ada(), lease, Some(text)).await.unwrap_err();
        assert!(matches!(refused, Error::TooLarge { field: "result", bytes_max: 100, .. }));
    }
    assert_eq!(fields(jobs.heartbeat(&ada(), lease, Some(4), None).await), ["lease_secs"]);
    assert_eq!(world.running(id).await.lease_ref(), lease);
    let fits = format!("\"{}\"", "x".repeat(98));
    jobs.complete(&ada(), lease, Some(fits)).await.unwrap();
    world.check().await;
}
