//! What becomes of a job by how its handler ends.

use roundsman_core::effects::{Effects, NewFrame, Transition, WebhookEvent};
use roundsman_core::jobs::{FinishedState, JobError, Outcome, RunOutcome};
use roundsman_core::ports::{Clock, EffectStore};
use roundsman_core::users::UserId;

use crate::support::{
    RENDER, TTL, World, done, json, lane, retry, scripted, secs, spec, until_running, woken,
};

/// One of every sort.
fn effects(world: &World) -> Effects {
    Effects {
        jobs: vec![world.wish("tasks.next")],
        frames: vec![NewFrame { stream: "room:1".to_owned(), body: json("{\"n\":1}") }],
        transitions: vec![Transition {
            entity: "meeting",
            entity_id: 5,
            from_state: None,
            to_state: "active".to_owned(),
            cause: "test".to_owned(),
            detail: None,
        }],
        webhooks: vec![WebhookEvent {
            user_id: UserId::new(1),
            event_id: "evt_1".to_owned(),
            event_type: "meeting.started".to_owned(),
            body: json("{}"),
        }],
        ..Effects::default()
    }
}

/// How many jobs, frames, transitions and webhooks there are of those above.
async fn landed(world: &World) -> [usize; 4] {
    let frames = world.store.frames("room:1".to_owned(), 0, 10).await.unwrap();
    let transitions = world.store.transitions("meeting".to_owned(), 5).await.unwrap();
    let webhooks = world.store.webhook_events(0, 10).await.unwrap();
    let jobs = world.all_jobs(Some("tasks.next")).await;
    [jobs.len(), frames.len(), transitions.len(), webhooks.len()]
}

#[tokio::test]
async fn a_result_and_every_effect_land_together() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    let listener = world.wakes.listen(&[lane("tasks.next")]);
    worker.claim_tick().await.unwrap();

    starts.next().await.reply_with(done("{\"pages\":3}"), effects(&world));
    until_running(&worker, 0).await;
    assert_eq!(world.running(id).await.facts.attempt, 1, "an outcome is not a write");
    assert_eq!(landed(&world).await, [0; 4]);

    worker.settle_tick().await.unwrap();
    let job = world.finished(id).await;
    assert_eq!(job.state, FinishedState::Completed { result: json("{\"pages\":3}") });
    assert_eq!(landed(&world).await, [1; 4]);
    assert!(woken(&listener), "whoever works on the new job is told");
    world.check().await;
}

#[tokio::test]
async fn effects_that_come_too_late_do_not_land() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    starts.next().await.reply_with(done("1"), effects(&world));
    until_running(&worker, 0).await;

    world.clock.advance(TTL + secs(1));
    assert_eq!(world.sweeper().tick().await.unwrap(), 1);
    worker.settle_tick().await.unwrap();

    assert_eq!(landed(&world).await, [0; 4]);
    assert_eq!(world.waiting(id).await.facts.runs.runs[0].outcome, RunOutcome::LeaseExpired);
    assert!(world.metrics.encode().contains("roundsman_leases_lost_total 1"));
    world.check().await;
}

#[tokio::test]
async fn a_panic_is_a_failed_attempt_and_nobody_elses() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let bad = world.enqueue(world.wish(RENDER)).await;
    let good = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    for start in starts.take(2).await {
        if start.id() == bad { start.panic("no such page") } else { start.reply(done("1")) }
    }
    until_running(&worker, 0).await;
    worker.settle_tick().await.unwrap();

    let runs = world.waiting(bad).await.facts.runs;
    let error = runs.last_error().unwrap();
    assert_eq!(error.code.as_str(), "panic");
    assert!(error.message.contains("no such page"), "{error:?}");
    assert!(matches!(world.finished(good).await.state, FinishedState::Completed { .. }));

    // The worker goes on: the same job gets its next attempt.
    world.clock.advance(secs(300));
    worker.claim_tick().await.unwrap();
    assert_eq!(starts.next().await.context.job.attempt, 2);
    world.check().await;
}

#[tokio::test]
async fn failures_back_off_until_attempts_are_used_up_and_all_are_remembered() {
    let world = World::with(vec![spec(RENDER)]);
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    for attempt in 1..=3u32 {
        worker.claim_tick().await.unwrap();
        let start = starts.next().await;
        assert_eq!(start.context.job.attempt, attempt);
        world.clock.advance(secs(u64::from(attempt)));
        start.reply(retry(&format!("broken_{attempt}")));
        until_running(&worker, 0).await;
        worker.settle_tick().await.unwrap();
        if attempt < 3 {
            let job = world.waiting(id).await;
            let wait = job.due_at().since(world.clock.now());
            assert!(wait <= secs(1 << attempt), "{wait:?} after attempt {attempt}");
            assert_eq!(job.not_before, Some(job.due_at()), "no trigger may come first");
            world.clock.advance(wait);
        }
    }
    let job = world.finished(id).await;
    let FinishedState::Failed { error } = &job.state else { panic!("{:?}", job.state) };
    assert_eq!(error.code.as_str(), "broken_3");
    let kept: Vec<_> = job
        .facts
        .runs
        .runs
        .iter()
        .map(|run| {
            let took = run.ended_at.since(run.started_at).as_secs();
            let code = run.error.as_ref().unwrap().code.as_str().to_owned();
            (run.attempt, took, run.worker.as_str().to_owned(), code)
        })
        .collect();
    let expected: Vec<_> = [(1, "broken_1"), (2, "broken_2"), (3, "broken_3")]
        .map(|(n, code)| (n, u64::from(n), "w1".to_owned(), code.to_owned()))
        .into();
    assert_eq!(kept, expected);

    world.clock.advance(secs(10_000));
    worker.claim_tick().await.unwrap();
    assert!(starts.is_empty().await, "a failed job is not tried again by itself");
    world.check().await;
}

#[tokio::test]
async fn a_failure_for_good_is_not_tried_again() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    let error = JobError::new("gone", "there is nothing to render");
    starts.next().await.reply(Outcome::Fail { error: error.clone() });
    until_running(&worker, 0).await;
    worker.settle_tick().await.unwrap();
    let job = world.finished(id).await;
    assert_eq!((job.state, job.facts.attempt), (FinishedState::Failed { error }, 1));
    assert!(world.metrics.encode().contains("code=\"gone\""));
    world.check().await;
}

#[tokio::test]
async fn a_job_that_runs_again_stays_the_same_job() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.keyed(RENDER, "a")).await;
    for round in 0..30 {
        let wait = worker.claim_tick().await.unwrap();
        let start = starts.next().await;
        assert_eq!((start.id(), start.context.job.attempt), (id, 1), "after {wait:?}");
        let at = world.clock.now() + secs(60);
        let payload = Some(json(&round.to_string()));
        start.reply(Outcome::Again { at, payload });
        until_running(&worker, 0).await;
        worker.settle_tick().await.unwrap();
        let job = world.waiting(id).await;
        assert_eq!((job.facts.attempt, job.due_at(), job.not_before), (0, at, None));
        assert_eq!(job.facts.payload, json(&round.to_string()));

        // It is not due yet, and the worker knows when it will be.
        assert_eq!(worker.claim_tick().await.unwrap(), secs(60));
        assert!(starts.is_empty().await);
        world.clock.advance(secs(60));
    }
    assert_eq!(world.waiting(id).await.facts.runs.total, 30);
    world.check().await;
}
