//! Schedules: fired by whichever node comes first, at their time, once.

use std::sync::Arc;

use roundsman_core::jobs::{Job, JobState, LeaseOwner, Role, SCHEDULE_KIND};
use roundsman_core::ports::Clock;
use roundsman_core::users::{Authenticated, TokenId, UserId};
use roundsman_engine::jobs::{JobWish, ScheduleKeeper, ScheduleWish, Worker, schedule_spec};

use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{World, secs, until_running};

on_every_database! {
    a_schedule_fires_at_its_time_whichever_node_comes_first
    what_was_missed_while_all_nodes_were_away_is_dealt_with_as_asked
    a_lost_answer_fires_nothing_twice
}

const OWN: &str = "report";

fn ada() -> Authenticated {
    Authenticated::User { user_id: UserId::new(1), token_id: TokenId::new(1), scopes: vec![] }
}

fn every(every_secs: u32, missed: &str) -> ScheduleWish {
    ScheduleWish {
        every_secs: Some(every_secs),
        missed: Some(missed.to_owned()),
        job: Some(JobWish { kind: OWN.to_owned(), ..JobWish::default() }),
        ..ScheduleWish::default()
    }
}

fn node(world: &World) -> Arc<Worker> {
    let keeper = ScheduleKeeper {
        store: world.store.clone(),
        clock: world.clock.clone(),
        wakes: world.wakes.clone(),
        metrics: world.metrics.clone(),
    };
    world.worker_with(vec![Arc::new(keeper)], |options| options.roles = vec![Role::Scheduler])
}

/// Lets a node do whatever is due. Returns how long it would wait.
async fn round(worker: &Worker) -> std::time::Duration {
    let wait = worker.claim_tick().await.unwrap();
    until_running(worker, 0).await;
    let _ = worker.settle_tick().await;
    wait
}

async fn fired(world: &World) -> usize {
    world.all_jobs(Some(OWN)).await.len()
}

async fn a_schedule_fires_at_its_time_whichever_node_comes_first(backend: Backend) {
    let world = World::on(backend, vec![schedule_spec()]).await;
    assert!(matches!(world.owner(), LeaseOwner::Process(_)));
    let (one, other) = (node(&world), node(&world));
    let schedule = world.jobs().create_schedule(&ada(), every(60, "once")).await.unwrap();
    assert_eq!(round(&one).await, secs(60), "it sleeps until there is something to do");
    for times in 1..=5 {
        world.clock.advance(secs(60));
        tokio::join!(round(&one), round(&other));
        assert_eq!(fired(&world).await, times);
    }
    let shown = world.jobs().schedule(&ada(), schedule.id.get()).await.unwrap();
    assert_eq!((shown.fired, shown.missed, shown.last_at), (5, 0, Some(world.clock.now())));
    let keepers = world.all_jobs(Some(SCHEDULE_KIND)).await;
    assert_eq!(keepers.len(), 1);
    assert_eq!(keepers[0].state(world.clock.now()), JobState::Scheduled);
    world.jobs().delete_schedule(&ada(), schedule.id.get()).await.unwrap();
    world.clock.advance(secs(60));
    round(&one).await;
    assert_eq!(fired(&world).await, 5);
    let keepers = world.all_jobs(Some(SCHEDULE_KIND)).await;
    assert!(matches!(keepers[0], Job::Finished(_)), "nothing is left to look after");
    assert!(world.metrics.encode().contains("roundsman_schedules_fired_total 5"));
    world.check().await;
}

async fn what_was_missed_while_all_nodes_were_away_is_dealt_with_as_asked(backend: Backend) {
    for (missed, expected) in [("skip", 0), ("once", 1), ("all", 3)] {
        let world = World::on(backend, vec![schedule_spec()]).await;
        let made = world.jobs().create_schedule(&ada(), every(3600, missed)).await.unwrap();
        // Three hours and two minutes.
        world.clock.advance(secs(3 * 3600 + 120));
        let node = node(&world);
        round(&node).await;
        assert_eq!(fired(&world).await, expected, "{missed}");
        let shown = world.jobs().schedule(&ada(), made.id.get()).await.unwrap();
        assert_eq!(shown.missed, 3 - expected as u64, "{missed}");
        assert_eq!(shown.next_at, Some(made.created_at + secs(4 * 3600)));
        world.check().await;
    }
}

async fn a_lost_answer_fires_nothing_twice(backend: Backend) {
    let world = World::on(backend, vec![schedule_spec()]).await;
    let node = node(&world);
    world.jobs().create_schedule(&ada(), every(60, "all")).await.unwrap();
    world.clock.advance(secs(60));
    // It is written, and nobody is told: the keeper tries again, finds it done, and goes on.
    world.store.set("fire_schedule", Fault::AnswerLost);
    round(&node).await;
    world.store.mend();
    world.clock.advance(secs(30));
    round(&node).await;
    assert_eq!(fired(&world).await, 1);
    world.clock.advance(secs(30));
    round(&node).await;
    assert_eq!(fired(&world).await, 2);
    world.check().await;
}
