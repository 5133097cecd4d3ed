//! How much a worker takes at once, and of what.

use std::time::Duration;

use roundsman_core::jobs::{Job, JobState, Role};
use roundsman_core::ports::Clock;

use crate::flaky::Fault;
use crate::support::{NEVER, RENDER, World, always, done, scripted, secs, spec, until_running};

#[tokio::test]
async fn claims_are_sized_by_free_slots() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker_with(vec![handler], |options| {
        options.slots = 5;
        options.claim_max = 3;
    });
    world.enqueue_many(RENDER, 20).await;
    assert_eq!(worker.claim_tick().await.unwrap(), Duration::ZERO, "there are slots left");
    assert_eq!(worker.running_count(), 3);
    assert_eq!(worker.claim_tick().await.unwrap(), NEVER, "a free slot will wake it");
    assert_eq!(worker.running_count(), 5);
    let claims = world.store.calls("claim");
    worker.claim_tick().await.unwrap();
    assert_eq!(world.store.calls("claim"), claims, "without a slot the database is not asked");

    let mut running = starts.take(5).await;
    running.pop().unwrap().reply(done("1"));
    until_running(&worker, 4).await;
    worker.claim_tick().await.unwrap();
    assert_eq!(worker.running_count(), 5, "a slot is free when its handler has ended");
    let processing = |job: &Job| matches!(job, Job::Running(_));
    let held = world.all_jobs(Some(RENDER)).await.iter().filter(|job| processing(job)).count();
    assert_eq!(held, 6, "five run, the end of one is yet to be written");
    world.check().await;
}

#[tokio::test]
async fn a_kind_may_have_fewer_slots_than_its_worker() {
    let world = World::new();
    let mut rare = spec("tasks.rare");
    rare.concurrency = Some(2);
    let (rare_handler, mut rare_starts) = scripted(rare);
    let (handler, starts) = scripted(spec(RENDER));
    let worker = world.worker_with(vec![rare_handler, handler], |options| options.slots = 10);
    world.enqueue_many("tasks.rare", 10).await;
    worker.claim_tick().await.unwrap();
    worker.claim_tick().await.unwrap();
    assert_eq!(worker.running_count(), 2);

    world.enqueue_many(RENDER, 20).await;
    worker.claim_tick().await.unwrap();
    assert_eq!(worker.running_count(), 10, "the others take the rest");
    rare_starts.next().await.reply(done("1"));
    until_running(&worker, 9).await;
    worker.claim_tick().await.unwrap();
    assert_eq!(worker.running_count(), 10);
    assert!(!starts.is_empty().await);
    world.check().await;
}

#[tokio::test]
async fn a_worker_claims_only_the_kinds_of_its_roles() {
    let world = World::new();
    let mut periodic = spec("tasks.periodic");
    periodic.role = Role::Scheduler;
    let (handler, mut starts) = scripted(periodic);
    let plain = world.worker(vec![handler.clone()]);
    let scheduler =
        world.worker_with(vec![handler], |options| options.roles = vec![Role::Scheduler]);
    world.enqueue(world.wish("tasks.periodic")).await;
    plain.claim_tick().await.unwrap();
    assert!(starts.is_empty().await);
    scheduler.claim_tick().await.unwrap();
    starts.next().await;
    world.check().await;
}

#[tokio::test]
async fn a_worker_that_cannot_write_ends_takes_no_more_work() {
    let world = World::new();
    let worker = world.worker_with(vec![always(spec(RENDER), done("1"))], |options| {
        options.slots = 2;
    });
    world.store.set("settle", Fault::Down);
    world.enqueue_many(RENDER, 100).await;
    for _ in 0..100 {
        worker.claim_tick().await.unwrap();
        until_running(&worker, 0).await;
    }
    let running = |job: &Job| job.state(world.clock.now()) == JobState::Processing;
    let held = world.all_jobs(Some(RENDER)).await.iter().filter(|job| running(job)).count();
    assert!(held <= 2 * 4 + 2, "{held} jobs are held though nothing can be written");

    world.store.mend();
    for _ in 0..100 {
        worker.settle_tick().await.unwrap();
        worker.claim_tick().await.unwrap();
        until_running(&worker, 0).await;
    }
    worker.settle_tick().await.unwrap();
    let jobs = world.all_jobs(Some(RENDER)).await;
    assert!(jobs.iter().all(|job| job.state(world.clock.now()) == JobState::Completed));
    world.check().await;
}

#[tokio::test]
async fn the_next_look_is_when_the_next_job_comes_due() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker_with(vec![handler], |options| options.poll_every = secs(5));
    assert_eq!(worker.claim_tick().await.unwrap(), secs(5));
    let mut later = world.wish(RENDER);
    later.run_at = world.clock.now() + secs(8);
    world.enqueue(later).await;
    assert_eq!(worker.claim_tick().await.unwrap(), secs(5));
    world.clock.advance(secs(5));
    assert_eq!(worker.claim_tick().await.unwrap(), secs(3));
    world.clock.advance(secs(3));
    worker.claim_tick().await.unwrap();
    starts.next().await;
    world.check().await;
}
