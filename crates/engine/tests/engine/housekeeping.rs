//! Pruning: what is past its retention goes, a bounded piece at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::effects::{Effects, NewFrame};
use roundsman_core::jobs::{Job, JobError, JobId, Outcome, Role};
use roundsman_core::ports::{Clock, EffectStore, JobStore, Scope};
use roundsman_engine::jobs::{Housekeeping, PRUNE_KIND, Worker, prune_spec};

use crate::flaky::Fault;
use crate::support::{RENDER, World, done, json, scripted, secs, spec, until_running};

const OPTIONS: Housekeeping = Housekeeping {
    failed_of_kinds: Vec::new(),
    every: std::time::Duration::from_secs(1000),
    rows_max: 100,
    completed_for: std::time::Duration::from_secs(100),
    failed_for: std::time::Duration::from_secs(200),
    cancelled_for: std::time::Duration::from_secs(300),
    idempotency_for: std::time::Duration::from_secs(400),
    frames_for: std::time::Duration::from_secs(100),
};

fn pruner(world: &World, options: Housekeeping) -> Arc<Worker> {
    let handler = options.handler(
        world.store.clone(),
        world.clock.clone(),
        world.random.clone(),
        world.metrics.clone(),
    );
    world.worker_with(vec![handler], |options| options.roles = vec![Role::Scheduler])
}

/// Runs the pruning job that is due.
async fn prune(worker: &Worker) {
    worker.claim_tick().await.unwrap();
    until_running(worker, 0).await;
    worker.settle_tick().await.unwrap();
}

/// One job of each end.
async fn one_of_each(world: &World) -> [JobId; 3] {
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let mut ids = Vec::new();
    let error = JobError::new("broken", "it broke");
    for outcome in [done("1"), Outcome::Fail { error }, Outcome::Cancelled] {
        ids.push(world.enqueue(world.wish(RENDER)).await);
        worker.claim_tick().await.unwrap();
        starts.next().await.reply(outcome);
        until_running(&worker, 0).await;
        worker.settle_tick().await.unwrap();
    }
    ids.try_into().unwrap()
}

async fn exist(world: &World, ids: [JobId; 3]) -> [bool; 3] {
    let mut found = [false; 3];
    for (found, id) in found.iter_mut().zip(ids) {
        *found = world.store.job(Scope::All, id).await.unwrap().is_some();
    }
    found
}

#[tokio::test]
async fn each_state_is_kept_for_its_own_time() {
    let world = World::with(vec![prune_spec()]);
    let every = std::time::Duration::from_millis(500);
    let options = Housekeeping { every, ..OPTIONS };
    let worker = pruner(&world, options);
    let id = world.enqueue(Housekeeping::wish(world.clock.now())).await;
    let ids = one_of_each(&world).await;
    let effects = Effects {
        frames: vec![NewFrame { stream: "room:1".to_owned(), body: json("1") }],
        ..Effects::default()
    };
    world.store.commit(None, effects, world.clock.now()).await.unwrap();
    let waiting = world.enqueue(world.wish(RENDER)).await;
    for (time, expected) in [
        (100, [true, true, true]),
        (101, [false, true, true]),
        (201, [false, false, true]),
        (301, [false, false, false]),
    ] {
        let ended_at = world.clock.monotonic();
        world.clock.advance(secs(time).saturating_sub(ended_at));
        prune(&worker).await;
        assert_eq!(exist(&world, ids).await, expected, "after {time} s");
        let frames = world.store.frames("room:1".to_owned(), 0, 10).await.unwrap().len();
        assert_eq!(frames, usize::from(time <= 100));
    }
    assert!(matches!(world.job(waiting).await, Job::Waiting(_)), "only the finished go");
    let own = world.waiting(id).await;
    assert_eq!((own.facts.kind.as_str(), own.facts.attempt), (PRUNE_KIND, 0));
    assert!(world.metrics.encode().contains("roundsman_rows_pruned_total 4"));
    world.check().await;
}

#[tokio::test]
async fn one_run_does_a_bounded_amount_of_work() {
    let world = World::with(vec![prune_spec()]);
    let worker = pruner(&world, Housekeeping { rows_max: 2, ..OPTIONS });
    for _ in 0..30 {
        one_of_each(&world).await;
    }
    world.clock.advance(secs(10_000));
    world.enqueue(Housekeeping::wish(world.clock.now())).await;
    prune(&worker).await;
    assert_eq!(world.store.calls("prune"), 20);
    // Failed ones are found by their kind, in rounds as large beside those of the others.
    assert_eq!(world.all_jobs(Some(RENDER)).await.len(), 90 - (40 + 30));
    world.clock.advance(OPTIONS.every * 2);
    prune(&worker).await;
    assert_eq!(world.all_jobs(Some(RENDER)).await.len(), 0);
    assert_eq!(world.store.calls("prune"), 20 + 11, "it stops when there is no more");
    world.check().await;
}

#[tokio::test]
async fn it_comes_round_at_its_interval_with_at_most_a_tenth_of_jitter() {
    let world = World::with(vec![prune_spec()]);
    let worker = pruner(&world, OPTIONS);
    let id = world.enqueue(Housekeeping::wish(world.clock.now())).await;
    let mut late = BTreeSet::new();
    for _ in 0..50 {
        prune(&worker).await;
        let wait = world.waiting(id).await.due_at().since(world.clock.now());
        assert!(wait >= OPTIONS.every && wait <= OPTIONS.every * 11 / 10, "{wait:?}");
        late.insert(wait.saturating_sub(OPTIONS.every).as_secs() / 10);
        world.clock.advance(wait);
    }
    assert!(late.len() >= 8, "the jitter spreads over all of the tenth: {late:?}");

    // A start repeats the wish; there is still one job.
    assert_eq!(world.enqueue(Housekeeping::wish(world.clock.now())).await, id);
    assert_eq!(world.all_jobs(Some(PRUNE_KIND)).await.len(), 1);
    world.check().await;
}

#[tokio::test]
async fn a_failure_backs_off_and_is_never_given_up() {
    let world = World::with(vec![prune_spec()]);
    let worker = pruner(&world, OPTIONS);
    let id = world.enqueue(Housekeeping::wish(world.clock.now())).await;
    world.store.set("prune", Fault::Down);
    for attempt in 1..=20 {
        prune(&worker).await;
        let job = world.waiting(id).await;
        assert_eq!(job.facts.attempt, attempt);
        assert_eq!(job.facts.runs.last_error().unwrap().code.as_str(), "storage");
        let wait = job.due_at().since(world.clock.now());
        assert!(wait <= secs(300));
        world.clock.advance(wait);
    }
    world.store.mend();
    prune(&worker).await;
    assert_eq!(world.waiting(id).await.facts.attempt, 0);
    world.check().await;
}
