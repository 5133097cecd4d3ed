//! Going down: finish what runs, hand back what does not end in time.

use std::time::Duration;

use roundsman_core::jobs::{FinishedState, RunOutcome};
use roundsman_core::ports::Clock;
use roundsman_testkit::eventually;
use tokio_util::sync::CancellationToken;

use crate::flaky::Fault;
use crate::support::{
    HEARTBEAT, NEVER, RENDER, SOON, TTL, World, done, lane, let_others_run, scripted, soon, spec,
};

#[tokio::test]
async fn what_runs_is_finished_and_nothing_new_is_started() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let running = world.enqueue(world.wish(RENDER)).await;
    let stop = CancellationToken::new();
    let run = world.tasks.spawn(worker.clone().run(stop.clone(), NEVER));
    let start = starts.next().await;
    stop.cancel();
    let_others_run().await;
    let late = world.enqueue(world.wish(RENDER)).await;
    world.wakes.signal([(lane(RENDER), 1)]);
    assert!(starts.is_empty().await, "it has stopped claiming");
    assert!(!run.is_finished(), "it waits for what runs");

    start.reply(done("1"));
    soon(run).await.unwrap();
    assert!(matches!(world.finished(running).await.state, FinishedState::Completed { .. }));
    assert_eq!(world.waiting(late).await.facts.attempt, 0);
    world.check().await;
}

#[tokio::test]
async fn leases_are_kept_while_it_waits() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    let stop = CancellationToken::new();
    let run = world.tasks.spawn(worker.clone().run(stop.clone(), NEVER));
    let start = starts.next().await;
    stop.cancel();
    let_others_run().await;
    world.clock.advance(HEARTBEAT);
    let until = world.clock.now() + TTL;
    let extended = async || (world.running(id).await.lease.until == until).then_some(());
    eventually(SOON, extended).await.unwrap();
    start.reply(done("1"));
    soon(run).await.unwrap();
    world.check().await;
}

#[tokio::test]
async fn what_does_not_end_in_time_is_handed_back_without_using_an_attempt() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.keyed(RENDER, "a")).await;
    let stop = CancellationToken::new();
    let run = world.tasks.spawn(worker.clone().run(stop.clone(), Duration::ZERO));
    let start = starts.next().await;
    stop.cancel();
    soon(run).await.unwrap();
    assert!(start.is_gone(), "its handler was stopped");
    let job = world.waiting(id).await;
    assert_eq!((job.facts.attempt, job.not_before), (0, None));
    assert_eq!(job.facts.runs.runs[0].outcome, RunOutcome::Released);

    // Whoever comes next has it at once, as its first attempt.
    let (handler, mut starts) = scripted(spec(RENDER));
    let next = world.worker(vec![handler]);
    next.claim_tick().await.unwrap();
    assert_eq!(starts.next().await.context.job.attempt, 1);
    world.check().await;
}

#[tokio::test]
async fn a_release_that_comes_after_the_sweep_changes_nothing() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    let stop = CancellationToken::new();
    let run = world.tasks.spawn(worker.clone().run(stop.clone(), Duration::ZERO));
    starts.next().await;
    world.clock.set_wall(world.clock.now() + TTL * 2);
    world.sweeper().tick().await.unwrap();
    let swept = world.waiting(id).await;
    world.store.set("claim", Fault::Down);
    stop.cancel();
    soon(run).await.unwrap();
    assert_eq!(world.waiting(id).await, swept);
    assert_eq!(swept.facts.attempt, 1);
    world.check().await;
}

#[tokio::test]
async fn it_goes_down_even_when_nothing_can_be_written() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    let stop = CancellationToken::new();
    let run = world.tasks.spawn(worker.clone().run(stop.clone(), Duration::ZERO));
    starts.next().await;
    world.store.set("settle", Fault::Down);
    stop.cancel();
    soon(run).await.unwrap();
    assert_eq!(world.running(id).await.facts.attempt, 1, "its lease will expire");
    world.check().await;
}
