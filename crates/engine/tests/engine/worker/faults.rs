//! The database fails under a worker: nothing is lost, nothing happens twice.

use std::sync::Arc;

use async_trait::async_trait;
use roundsman_core::effects::{Effects, NewFrame};
use roundsman_core::jobs::{FinishedState, JobState, KindSpec, RunOutcome};
use roundsman_core::ports::{Clock, EffectStore};
use roundsman_engine::jobs::{Handler, HandlerResult, JobContext};
use roundsman_testkit::eventually;
use tokio_util::sync::CancellationToken;

use crate::flaky::Fault;
use crate::support::{
    HEARTBEAT, RENDER, SOON, TTL, World, always, done, json, let_others_run, scripted, secs, soon,
    spec, until_running,
};

fn one_frame() -> Effects {
    let frame = NewFrame { stream: "room:1".to_owned(), body: json("1") };
    Effects { frames: vec![frame], ..Effects::default() }
}

async fn frames(world: &World) -> usize {
    world.store.frames("room:1".to_owned(), 0, 100).await.unwrap().len()
}

#[tokio::test]
async fn an_end_that_cannot_be_written_is_kept_and_so_is_its_lease() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    starts.next().await.reply_with(done("1"), one_frame());
    until_running(&worker, 0).await;
    world.store.set("settle", Fault::Down);
    // Far longer than a lease lasts: it is extended although the handler has ended.
    for _ in 0..20 {
        worker.settle_tick().await.unwrap_err();
        world.clock.advance(HEARTBEAT);
        worker.keep_tick().await.unwrap();
        assert_eq!(world.sweeper().tick().await.unwrap(), 0);
    }
    assert_eq!(frames(&world).await, 0);
    world.store.mend();
    worker.settle_tick().await.unwrap();
    assert!(matches!(world.finished(id).await.state, FinishedState::Completed { .. }));
    assert_eq!(frames(&world).await, 1);
    assert!(worker.finish_within(SOON).await, "nothing is held any more");
    world.check().await;
}

#[tokio::test]
async fn an_end_whose_answer_is_lost_is_written_once() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    starts.next().await.reply_with(done("1"), one_frame());
    until_running(&worker, 0).await;
    world.store.set("settle", Fault::AnswerLost);
    worker.settle_tick().await.unwrap_err();
    world.store.mend();
    worker.settle_tick().await.unwrap();
    assert!(matches!(world.finished(id).await.state, FinishedState::Completed { .. }));
    assert_eq!(frames(&world).await, 1, "the second try found the lease gone");
    assert!(worker.finish_within(SOON).await);
    world.check().await;
}

#[tokio::test]
async fn an_end_that_the_database_refuses_fails_its_job_and_no_other() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    world.enqueue_many(RENDER, 5).await;
    worker.claim_tick().await.unwrap();
    let mut running = starts.take(5).await;
    let refused = running.remove(2);
    let bad = refused.id();
    let frame = NewFrame { stream: "poison".to_owned(), body: json("1") };
    refused.reply_with(done("1"), Effects { frames: vec![frame], ..one_frame() });
    for start in running {
        start.reply_with(done("1"), one_frame());
    }
    until_running(&worker, 0).await;

    world.store.set("settle", Fault::RefusesMentionOf("poison"));
    worker.settle_tick().await.unwrap();
    assert_eq!(frames(&world).await, 4);
    let job = world.waiting(bad).await;
    assert_eq!(job.facts.runs.last_error().unwrap().code.as_str(), "outcome_refused");
    let states = world.all_jobs(Some(RENDER)).await;
    let now = world.clock.now();
    let completed = states.iter().filter(|job| job.state(now) == JobState::Completed).count();
    assert_eq!(completed, 4);
    assert!(worker.finish_within(SOON).await);
    world.check().await;
}

/// Not even the failure can be written: it waits, and holds up nobody.
#[tokio::test]
async fn an_end_that_is_refused_in_every_form_holds_up_no_other() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let bad = world.enqueue(world.wish(RENDER)).await;
    let good = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    for start in starts.take(2).await {
        start.reply(done("1"));
    }
    until_running(&worker, 0).await;
    world.store.set("settle", Fault::RefusesMentionOf("id: JobId(1)"));
    worker.settle_tick().await.unwrap_err();
    worker.settle_tick().await.unwrap_err();
    assert!(matches!(world.finished(good).await.state, FinishedState::Completed { .. }));
    assert_eq!(world.running(bad).await.facts.attempt, 1);
    world.store.mend();
    worker.settle_tick().await.unwrap();
    assert_eq!(world.waiting(bad).await.facts.runs.total, 1);
    assert!(worker.finish_within(SOON).await);
    world.check().await;
}

#[tokio::test]
async fn a_claim_that_fails_starts_nothing() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    world.store.set("claim", Fault::Down);
    worker.claim_tick().await.unwrap_err();
    assert!(starts.is_empty().await);
    assert_eq!(world.waiting(id).await.facts.attempt, 0);
    world.store.mend();
    worker.claim_tick().await.unwrap();
    starts.next().await;
    world.check().await;
}

#[tokio::test]
async fn a_claim_whose_answer_is_lost_comes_back_with_the_sweep() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    world.store.set("claim", Fault::AnswerLost);
    worker.claim_tick().await.unwrap_err();
    world.store.mend();
    assert_eq!(world.running(id).await.facts.attempt, 1, "held by nobody who knows of it");
    world.clock.advance(TTL + secs(1));
    assert_eq!(world.sweeper().tick().await.unwrap(), 1);
    worker.claim_tick().await.unwrap();
    assert_eq!(starts.next().await.context.job.attempt, 2);
    world.check().await;
}

#[tokio::test]
async fn a_heartbeat_that_fails_is_sent_again_with_the_next_look() {
    let world = World::new();
    let (handler, mut starts) = scripted(spec(RENDER));
    let worker = world.worker(vec![handler]);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    let start = starts.next().await;
    world.clock.advance(HEARTBEAT);
    world.store.set("heartbeat", Fault::Down);
    worker.keep_tick().await.unwrap_err();
    world.clock.advance(secs(1));
    worker.keep_tick().await.unwrap_err();
    world.store.mend();
    world.clock.advance(secs(1));
    worker.keep_tick().await.unwrap();
    assert_eq!(world.running(id).await.lease.until, world.clock.now() + TTL);
    let_others_run().await;
    assert!(!start.is_gone());
    world.check().await;
}

/// The loops themselves, through an outage of everything.
#[tokio::test]
async fn a_running_worker_waits_through_an_outage_without_hammering() {
    let world = World::new();
    let worker = world.worker(vec![always(spec(RENDER), done("1"))]);
    let stop = CancellationToken::new();
    world.store.set("claim", Fault::Down);
    let id = world.enqueue(world.wish(RENDER)).await;
    let run = world.tasks.spawn(worker.clone().run(stop.clone(), SOON));
    let tried = |times| {
        let store = world.store.clone();
        eventually(SOON, async move || (store.calls("claim") >= times).then_some(()))
    };
    tried(1).await.unwrap();
    let_others_run().await;
    assert_eq!(world.store.calls("claim"), 1, "it rests after a failure");
    tried(2).await.unwrap();
    world.store.mend();
    world.store.set("settle", Fault::Down);
    let store = world.store.clone();
    eventually(SOON, async move || (store.calls("settle") >= 2).then_some(())).await.unwrap();
    world.store.mend();
    let finished =
        async || world.job(id).await.state(world.clock.now()).is_terminal().then_some(());
    eventually(SOON, finished).await.unwrap();
    stop.cancel();
    soon(run).await.unwrap();
    world.check().await;
}

/// Panics when it is dropped before its end.
struct Spiteful(KindSpec);

struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped too early");
    }
}

#[async_trait]
impl Handler for Spiteful {
    fn spec(&self) -> KindSpec {
        self.0.clone()
    }

    async fn run(&self, _context: JobContext) -> HandlerResult {
        let _spite = PanicsOnDrop;
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_handler_that_panics_while_it_is_stopped_gives_its_slot_back() {
    let world = World::new();
    let mut short = spec(RENDER);
    short.deadline = Some(secs(10));
    let worker = world.worker_with(vec![Arc::new(Spiteful(short))], |options| options.slots = 1);
    let id = world.enqueue(world.wish(RENDER)).await;
    worker.claim_tick().await.unwrap();
    let_others_run().await;
    world.clock.advance(secs(11));
    worker.keep_tick().await.unwrap();
    until_running(&worker, 0).await;
    worker.settle_tick().await.unwrap();
    let run = world.waiting(id).await.facts.runs.runs[0].clone();
    assert_eq!((run.outcome, run.error.unwrap().code.as_str()), (RunOutcome::Retry, "panic"));
    world.check().await;
}
