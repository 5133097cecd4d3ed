//! The database's clock steps by an hour, as when it fails over to another machine.

use std::time::Duration;

use roundsman_core::effects::{Effects, NewFrame};
use roundsman_core::jobs::{Job, JobState};
use roundsman_core::ports::{Clock, EffectStore};

use crate::support::{
    HEARTBEAT, RENDER, World, done, json, let_others_run, scripted, secs, spec, until_running,
};

const HOUR: Duration = Duration::from_secs(3600);

/// Twenty jobs run, each with an effect, while the clock steps by `step` and everything that looks
/// at clocks goes on. In the end each has run to completion with its effect exactly once.
async fn survives(step: impl Fn(&World)) {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let sweeper = world.sweeper();
    sweeper.tick().await.unwrap();
    world.enqueue_many(RENDER, 20).await;
    worker.claim_tick().await.unwrap();
    let running = starts.take(20).await;
    world.clock.advance(HEARTBEAT);
    worker.keep_tick().await.unwrap();

    step(&world);
    assert_eq!(sweeper.tick().await.unwrap(), 0, "living holders are not taken for dead");
    worker.keep_tick().await.unwrap();
    for _ in 0..10 {
        world.clock.advance(HEARTBEAT);
        worker.keep_tick().await.unwrap();
        assert_eq!(sweeper.tick().await.unwrap(), 0, "living holders are not taken for dead");
    }
    let_others_run().await;
    assert!(running.iter().all(|start| !start.is_gone()), "no handler was stopped");
    worker.claim_tick().await.unwrap();
    assert!(starts.is_empty().await, "no job was started twice");

    for start in running {
        let frame = NewFrame { stream: "room:1".to_owned(), body: json("1") };
        let effects = Effects { frames: vec![frame], ..Effects::default() };
        start.reply_with(done("1"), effects);
    }
    until_running(&worker, 0).await;
    worker.settle_tick().await.unwrap();
    let jobs = world.all_jobs(Some(RENDER)).await;
    assert!(jobs.iter().all(|job| job.state(world.clock.now()) == JobState::Completed));
    assert!(jobs.iter().all(|job| job.facts().attempt == 1));
    assert_eq!(world.store.frames("room:1".to_owned(), 0, 100).await.unwrap().len(), 20);
    world.check().await;
}

#[tokio::test]
async fn an_hour_forward() {
    survives(|world| world.clock.set_wall(world.clock.now() + HOUR)).await;
}

#[tokio::test]
async fn an_hour_back() {
    survives(|world| world.clock.set_wall(world.clock.now() - HOUR)).await;
}

/// Whoever is really dead is found all the same, somewhat later.
#[tokio::test]
async fn the_dead_are_found_after_a_step_forward() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let dead = world.worker(vec![handler]);
    let sweeper = world.sweeper();
    sweeper.tick().await.unwrap();
    let id = world.enqueue(world.wish(RENDER)).await;
    dead.claim_tick().await.unwrap();
    starts.next().await;
    world.clock.set_wall(world.clock.now() + HOUR);
    let mut waited = 0;
    while sweeper.tick().await.unwrap() == 0 {
        world.clock.advance(secs(10));
        waited += 10;
        assert!(waited <= 600, "the dead holder is never found");
    }
    assert!(matches!(world.job(id).await, Job::Waiting(_)));
    world.check().await;
}
