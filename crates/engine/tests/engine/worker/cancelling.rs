//! Stopping a job that runs.

use roundsman_core::jobs::{CancelCause, FinishedState, Job};
use roundsman_core::users::Authenticated;
use tokio_util::sync::CancellationToken;

use crate::support::{
    HEARTBEAT, RENDER, SOON, World, done, let_others_run, scripted, soon, spec, until_running,
};

#[tokio::test]
async fn a_holder_learns_of_a_cancel_with_its_heartbeat() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    let start = starts.next().await;
    let job = world.jobs().cancel(&Authenticated::Admin, id).await.unwrap();
    assert!(matches!(job, Job::Running(job) if job.cancel_requested));
    let_others_run().await;
    assert!(!start.is_gone(), "this worker's loop is not running, so it hears no signal");

    world.clock.advance(HEARTBEAT);
    worker.keep_tick().await.unwrap();
    start.gone().await;
    until_running(&worker, 0).await;
    worker.settle_tick().await.unwrap();
    let cause = CancelCause::Requested;
    assert_eq!(world.finished(id).await.state, FinishedState::Cancelled { cause });
    world.check().await;
}

#[tokio::test]
async fn a_running_worker_hears_of_a_cancel_at_once() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let cancelled = world.enqueue(world.wish(RENDER)).await;
    let other = world.enqueue(world.wish(RENDER)).await;
    let stop = CancellationToken::new();
    let run = world.tasks.spawn(worker.clone().run(stop.clone(), SOON));
    let mut both = starts.take(2).await;
    both.sort_by_key(super::super::support::Started::id);

    world.jobs().cancel(&Authenticated::Admin, cancelled).await.unwrap();
    both[0].gone().await;
    assert!(!both[1].is_gone());
    assert_eq!(world.store.calls("heartbeat"), 0, "the clock stands still: no heartbeat is due");
    both.pop().unwrap().reply(done("1"));
    stop.cancel();
    soon(run).await.unwrap();
    let cause = CancelCause::Requested;
    assert_eq!(world.finished(cancelled).await.state, FinishedState::Cancelled { cause });
    assert!(matches!(world.finished(other).await.state, FinishedState::Completed { .. }));
    world.check().await;
}

#[tokio::test]
async fn what_is_done_stays_done_when_the_cancel_comes_late() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    starts.next().await.reply(done("1"));
    until_running(&worker, 0).await;
    world.jobs().cancel(&Authenticated::Admin, id).await.unwrap();
    world.clock.advance(HEARTBEAT);
    worker.keep_tick().await.unwrap();
    worker.settle_tick().await.unwrap();
    assert!(matches!(world.finished(id).await.state, FinishedState::Completed { .. }));
    world.check().await;
}
