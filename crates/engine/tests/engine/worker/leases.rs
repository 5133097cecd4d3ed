//! Leases: kept while a handler runs, and what happens when one is lost.

use roundsman_core::effects::{Effects, NewFrame};
use roundsman_core::jobs::{FinishedState, Progress, RunOutcome};
use roundsman_core::ports::{Clock, EffectStore};

use crate::flaky::Fault;
use crate::support::{
    HEARTBEAT, MICROSECOND, RENDER, TTL, World, done, json, just_under, let_others_run, scripted,
    secs, spec, until_running,
};

#[tokio::test]
async fn many_leases_are_extended_with_one_call() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    world.enqueue_many(RENDER, 50).await;
    worker.claim_tick().await.unwrap();
    let starts = starts.take(50).await;

    worker.keep_tick().await.unwrap();
    assert_eq!(world.store.calls("heartbeat"), 0, "nothing is due yet");
    world.clock.advance(HEARTBEAT);
    worker.keep_tick().await.unwrap();
    worker.keep_tick().await.unwrap();
    assert_eq!(world.store.calls("heartbeat"), 1);
    for start in &starts {
        let lease = world.running(start.id()).await.lease;
        assert_eq!((lease.heartbeat_at, lease.until), (world.clock.now(), world.clock.now() + TTL));
    }
    world.check().await;
}

#[tokio::test]
async fn a_job_that_reports_for_ever_ends_at_its_deadline() {
    let world = World::new();
    let mut slow = spec(RENDER);
    slow.deadline = Some(secs(100));
    let (handler, mut starts) = scripted(slow);
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    let start = starts.next().await;
    for _ in 0..3 {
        world.clock.advance(HEARTBEAT);
        worker.keep_tick().await.unwrap();
        let_others_run().await;
        assert!(!start.is_gone());
        assert_eq!(world.running(id).await.lease.until, world.clock.now() + TTL);
    }
    world.clock.advance(just_under(secs(10)));
    worker.keep_tick().await.unwrap();
    let_others_run().await;
    assert!(!start.is_gone(), "the deadline is not over yet");

    world.clock.advance(MICROSECOND);
    worker.keep_tick().await.unwrap();
    start.gone().await;
    until_running(&worker, 0).await;
    worker.settle_tick().await.unwrap();
    let job = world.waiting(id).await;
    assert_eq!(job.facts.attempt, 1, "it was an attempt");
    assert_eq!(job.facts.runs.last_error().unwrap().code.as_str(), "deadline_exceeded");
    world.check().await;
}

#[tokio::test]
async fn a_deadline_is_enforced_by_the_sweep_when_the_worker_does_not() {
    let world = World::new();
    let mut slow = spec(RENDER);
    slow.deadline = Some(secs(100));
    let (handler, mut starts) = scripted(slow);
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    let start = starts.next().await;
    world.clock.set_wall(world.clock.now() + secs(101));
    assert_eq!(world.sweeper().tick().await.unwrap(), 1);
    let job = world.waiting(id).await;
    assert_eq!(job.facts.runs.runs[0].outcome, RunOutcome::DeadlineExceeded);
    start.reply(done("1"));
    until_running(&worker, 0).await;
    worker.settle_tick().await.unwrap();
    assert_eq!(world.waiting(id).await, job, "what comes afterwards changes nothing");
    world.check().await;
}

#[tokio::test]
async fn a_handler_whose_job_was_taken_is_stopped_by_its_next_heartbeat() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    let zombie = starts.next().await;

    // For everybody else five minutes pass, for this process only one heartbeat's time.
    world.clock.set_wall(world.clock.now() + TTL + secs(1));
    world.clock.advance_monotonic(HEARTBEAT);
    assert_eq!(world.sweeper().tick().await.unwrap(), 1);
    let_others_run().await;
    assert!(!zombie.is_gone(), "it does not know yet");

    // Whatever it writes by itself is refused, too.
    let frame = NewFrame { stream: "room:1".to_owned(), body: json("1") };
    let effects = Effects { frames: vec![frame], ..Effects::default() };
    let guard = Some(zombie.lease());
    assert!(!world.store.commit(guard, effects, world.clock.now()).await.unwrap());

    worker.keep_tick().await.unwrap();
    zombie.gone().await;
    until_running(&worker, 0).await;
    worker.settle_tick().await.unwrap();
    assert_eq!(world.store.calls("settle"), 0, "there is nothing to write");
    let job = world.waiting(id).await;
    assert_eq!((job.facts.attempt, job.facts.runs.total), (1, 1));
    assert_eq!(world.store.frames("room:1".to_owned(), 0, 10).await.unwrap(), []);
    world.check().await;
}

#[tokio::test]
async fn the_new_attempt_wins_over_the_zombie() {
    let world = World::new();
    let (old_handler, mut old_starts) = scripted(spec(RENDER));
    let (new_handler, mut new_starts) = scripted(spec(RENDER));
    let old = world.worker(vec![old_handler]);
    let new = world.worker(vec![new_handler]);
    let id = world.enqueue(world.keyed(RENDER, "a")).await;
    old.claim_tick().await.unwrap();
    let zombie = old_starts.next().await;
    world.clock.advance(TTL + secs(1));
    world.sweeper().tick().await.unwrap();
    new.claim_tick().await.unwrap();
    let second = new_starts.next().await;
    assert_eq!((second.id(), second.context.job.attempt), (id, 2));
    assert!(second.lease().lease_no > zombie.lease().lease_no);

    zombie.reply(done("\"zombie\""));
    until_running(&old, 0).await;
    old.settle_tick().await.unwrap();
    assert_eq!(world.running(id).await.lease_ref(), second.lease());

    second.reply(done("\"second\""));
    until_running(&new, 0).await;
    new.settle_tick().await.unwrap();
    let state = world.finished(id).await.state;
    assert_eq!(state, FinishedState::Completed { result: json("\"second\"") });
    world.check().await;
}

#[tokio::test]
async fn a_worker_that_cannot_be_heard_stops_by_its_own_clock() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    let start = starts.next().await;
    world.store.set("heartbeat", Fault::Down);
    world.clock.advance_monotonic(just_under(TTL));
    worker.keep_tick().await.unwrap_err();
    let_others_run().await;
    assert!(!start.is_gone(), "until then the lease is its own");

    world.clock.advance_monotonic(MICROSECOND);
    let heartbeats = world.store.calls("heartbeat");
    worker.keep_tick().await.unwrap();
    assert_eq!(world.store.calls("heartbeat"), heartbeats, "a lease given up is not extended");
    start.gone().await;
    until_running(&worker, 0).await;
    worker.settle_tick().await.unwrap();
    assert_eq!(world.store.calls("settle"), 0);

    // The sweep finds it in time: nothing has kept the lease alive.
    world.clock.set_wall(world.clock.now() + TTL + MICROSECOND);
    assert_eq!(world.sweeper().tick().await.unwrap(), 1);
    assert_eq!(world.waiting(id).await.facts.attempt, 1);
    world.check().await;
}

#[tokio::test]
async fn a_process_that_slept_past_its_lease_does_not_keep_others_from_the_job() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    let start = starts.next().await;
    world.clock.advance(TTL + MICROSECOND);
    worker.keep_tick().await.unwrap();
    start.gone().await;
    assert_eq!(world.sweeper().tick().await.unwrap(), 1, "its lease was not extended once more");
    assert_eq!(world.waiting(id).await.facts.attempt, 1);
    world.check().await;
}

#[tokio::test]
async fn heartbeats_count_from_when_they_were_sent() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    let start = starts.next().await;
    // The database answers a heartbeat only after most of a lease.
    world.clock.advance(HEARTBEAT);
    let gate = world.store.hold("heartbeat");
    let keeping = worker.clone();
    let keep = world.tasks.spawn(async move { keeping.keep_tick().await });
    gate.reached().await;
    world.clock.advance(TTL.saturating_sub(secs(1)));
    world.store.hold_no_more();
    gate.open();
    keep.await.unwrap().unwrap();
    let_others_run().await;
    assert!(!start.is_gone());
    world.store.set("heartbeat", Fault::Down);
    world.clock.advance(secs(1));
    let _ = worker.keep_tick().await;
    start.gone().await;
    world.check().await;
}

#[tokio::test]
async fn progress_is_stored_with_the_next_look_and_survives_an_outage() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    let start = starts.next().await;
    start.context.report_progress(json("{\"page\":1}"));
    worker.keep_tick().await.unwrap();
    let progress = |text| Some(Progress(json(text)));
    assert_eq!(world.running(id).await.progress, progress("{\"page\":1}"));

    start.context.report_progress(json("{\"page\":2}"));
    world.store.set("heartbeat", Fault::Down);
    worker.keep_tick().await.unwrap_err();
    world.store.mend();
    worker.keep_tick().await.unwrap();
    assert_eq!(world.running(id).await.progress, progress("{\"page\":2}"));

    start.reply(done("1"));
    until_running(&worker, 0).await;
    worker.settle_tick().await.unwrap();
    assert_eq!(world.finished(id).await.progress, progress("{\"page\":2}"));
    world.check().await;
}
