//! The rounds of a room over its tasks (L-1, L-4, L-5, L-6, L-8, L-10).

use std::time::Duration;

use roundsman_core::jobs::Job;
use roundsman_core::ports::{AlarmStore, Clock, FailureCode, Polled};
use roundsman_core::tasks::{DEADLINE_EXCEEDED, TaskStage, TaskStatus};

use super::outside::{Generator, OnPoll, unclear};
use super::{TaskWorld, project};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{secs, until_running};

on_every_database! {
    tasks_are_looked_at_every_ten_seconds_until_they_are_over
    a_thousand_tasks_of_a_room_are_one_round
    a_slow_one_does_not_delay_the_others
    rounds_that_fail_come_back
    failing_looks_count_and_unfinished_ones_do_not
    every_task_ends_by_its_deadline
    tasks_of_a_service_are_asked_for_together
    a_clock_that_jumps_makes_no_storm
    a_task_made_while_a_round_ends_is_looked_at
}

async fn tasks_are_looked_at_every_ten_seconds_until_they_are_over(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    assert_eq!(world.alarm_names().await, ["task_polling"]);
    world.pass(secs(9)).await;
    assert_eq!(world.generator.asked(), Vec::<String>::new(), "never early");
    world.pass(secs(51)).await;
    assert_eq!(world.generator.asked().len(), 6, "six times a minute");
    world.generator.succeeds("ext-1");
    world.pass(secs(10)).await;
    let over = world.task(&task).await;
    assert_eq!((over.status, over.polls), (TaskStatus::Completed, 6));
    assert_eq!(world.alarm_names().await, ["snapshot"], "the round is the last one");
    world.generator.asked();
    world.pass(secs(60)).await;
    assert_eq!(world.generator.asked(), Vec::<String>::new(), "L2: nobody is asked any more");
    let rounds = world.rounds().await;
    assert!(rounds.iter().all(|job| matches!(job, Job::Finished(_))), "{rounds:?}");
    world.check().await;
}

async fn a_thousand_tasks_of_a_room_are_one_round(backend: Backend) {
    const TASKS: usize = 150;
    let generator = Generator::with("kling", |can| can.batch_max = 20);
    let world = TaskWorld::with(backend, generator).await;
    for _ in 0..TASKS {
        world.make().await;
    }
    world.run_due().await;
    assert_eq!(world.generator.paid(), TASKS);
    for number in 1..=TASKS {
        if number % 2 == 0 {
            world.generator.on_poll(&format!("ext-{number}"), failed());
        }
    }
    world.jump(secs(10)).await;
    let mut asked = world.generator.asked();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), TASKS, "all of them in one round");
    assert!(world.generator.batches().iter().all(|batch| *batch <= 20));
    assert_eq!(world.tasks.pending(&project()).await.unwrap(), 75);
    world.jump(secs(10)).await;
    assert_eq!(world.generator.asked().len(), 75, "those that are left");
    world.assert_looked_after().await;
}

async fn a_slow_one_does_not_delay_the_others(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let mut made = Vec::new();
    for _ in 0..12 {
        made.push(world.make().await);
    }
    world.run_due().await;
    for slow in ["ext-1", "ext-2", "ext-3"] {
        world.generator.on_poll(slow, OnPoll::Hang);
    }
    for number in 4..=12 {
        world.generator.on_poll(&format!("ext-{number}"), failed());
    }
    world.world.clock.advance(secs(10));
    world.worker.claim_tick().await.unwrap();
    // The others are written while three hang.
    let store = world.world.store.clone();
    let over = roundsman_testkit::eventually(secs(10), async || {
        let looks = roundsman_core::ports::TaskStore::task_looks(&*store, project(), 100).await;
        (looks.unwrap().len() == 3).then_some(())
    });
    over.await.unwrap();
    until_running(&world.worker, 0).await;
    world.worker.settle_tick().await.unwrap();
    for task in &made[..3] {
        let slow = world.task(task).await;
        assert_eq!((slow.status, slow.retry_count), (TaskStatus::Processing, 1));
        assert_eq!(slow.error_code(), Some("unavailable"));
    }
    world.assert_looked_after().await;
    world.check().await;
}

async fn rounds_that_fail_come_back(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    // A mistake in an executor ends the round, not the alarm.
    world.generator.on_poll("ext-1", OnPoll::Panic);
    for _ in 0..20 {
        world.jump(secs(301)).await;
        world.assert_looked_after().await;
    }
    let alarm = world.world.store.alarms(project(), 10).await.unwrap().remove(0);
    assert_eq!((alarm.name.as_str(), alarm.attempts_failed), ("task_polling", 20));
    assert!(alarm.is_failing());
    assert!(alarm.last_error.unwrap().message.contains("a mistake in an executor"));
    // So does a database that is away.
    world.generator.on_poll("ext-1", OnPoll::Answer(Polled::Pending { progress_percent: None }));
    world.world.store.set("task_looks", Fault::Down);
    world.jump(secs(301)).await;
    world.world.store.mend();
    world.assert_looked_after().await;
    world.jump(secs(301)).await;
    let alarm = world.world.store.alarms(project(), 10).await.unwrap().remove(0);
    assert_eq!(alarm.attempts_failed, 0, "it is well again");
    world.generator.succeeds("ext-1");
    world.pass(secs(20)).await;
    assert_eq!(world.task(&task).await.status, TaskStatus::Completed);
    world.check().await;
}

async fn failing_looks_count_and_unfinished_ones_do_not(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let slow = world.accepted().await;
    world.pass(secs(300)).await;
    let found = world.task(&slow).await;
    assert_eq!((found.status, found.retry_count, found.polls), (TaskStatus::Processing, 0, 30));
    // Two that come to nothing, then one that is answered: it is as if nothing had been.
    for _ in 0..2 {
        world.generator.next_poll("ext-1", answer(unclear(FailureCode::Unavailable, None)));
    }
    world.pass(secs(45)).await;
    assert_eq!(world.task(&slow).await.retry_count, 0);
    // It is asked too often: that is nobody's failure.
    let later = Some(Duration::from_secs(25));
    for _ in 0..5 {
        world.generator.next_poll("ext-1", answer(unclear(FailureCode::RateLimited, later)));
    }
    world.generator.asked();
    world.pass(secs(100)).await;
    assert_eq!(world.task(&slow).await.retry_count, 0);
    assert!(world.generator.asked().len() <= 5, "not before it may");
    // The generator knows it no more.
    world.generator.on_poll("ext-1", answer(Polled::NotFound));
    world.pass(secs(120)).await;
    let over = world.task(&slow).await;
    assert_eq!((over.status, over.error_code()), (TaskStatus::Failed, Some("not_found")));
    assert_eq!(over.retry_count, 3);
    assert_eq!(world.alarm_names().await, ["snapshot"]);
    world.check().await;
}

async fn every_task_ends_by_its_deadline(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let polled = world.accepted().await;
    let collected = world.accepted().await;
    world.generator.succeeds("ext-2");
    world.generator.dead_link("ext-2", true);
    world.jump(secs(10)).await;
    assert_eq!(world.task(&collected).await.stage, TaskStage::Collecting);
    for _ in 0..72 {
        world.jump(secs(100)).await;
    }
    let over = world.task(&polled).await;
    assert_eq!(over.error_code(), Some(DEADLINE_EXCEEDED));
    assert!(over.completed_at.unwrap() <= over.deadline_at + secs(100), "at its end, not later");
    let lost = world.task(&collected).await;
    assert_eq!(lost.error_code(), Some("result_unavailable"));
    assert!(world.alarm_names().await.iter().all(|name| name == "snapshot"));
    world.check().await;
}

async fn tasks_of_a_service_are_asked_for_together(backend: Backend) {
    let generator = Generator::with("kling", |can| can.batch_max = 5);
    let world = TaskWorld::with(backend, generator).await;
    for _ in 0..12 {
        world.make().await;
    }
    world.run_due().await;
    world.jump(secs(10)).await;
    let mut batches = world.generator.batches();
    batches.sort_unstable();
    assert_eq!(batches, [2, 5, 5]);
}

async fn a_clock_that_jumps_makes_no_storm(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    world.accepted().await;
    world.pass(secs(10)).await;
    world.generator.asked();
    let now = world.now();
    world.world.clock.set_wall(now - secs(3600));
    world.pass(secs(60)).await;
    assert!(world.generator.asked().len() <= 1, "it waits until its time has come again");
    world.world.clock.set_wall(now + secs(3600));
    world.run_due().await;
    assert_eq!(world.generator.asked().len(), 1, "one round, however much was missed");
    world.assert_looked_after().await;
    assert_eq!(world.world.clock.now(), now + secs(3600));
}

/// L-1, at the one place where it could go wrong: the round has found nothing and is about to end.
async fn a_task_made_while_a_round_ends_is_looked_at(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    world.tasks.trigger(&project()).await.unwrap();
    world.tasks.pending(&project()).await.unwrap();
    let gate = world.world.store.hold("task_looks");
    world.world.clock.advance(secs(10));
    world.worker.claim_tick().await.unwrap();
    gate.reached().await;
    gate.open();
    gate.reached().await;
    // It has seen that there is nothing, twice; now there is something.
    world.world.store.hold_no_more();
    let made = world.make().await;
    gate.open();
    until_running(&world.worker, 0).await;
    world.worker.settle_tick().await.unwrap();
    world.assert_looked_after().await;
    world.generator.succeeds("ext-1");
    world.pass(secs(30)).await;
    assert_eq!(world.task(&made).await.status, TaskStatus::Completed);
    world.check().await;
}

fn answer(polled: Polled) -> OnPoll {
    OnPoll::Answer(polled)
}

fn failed() -> OnPoll {
    let code = FailureCode::Provider;
    let failure = roundsman_core::ports::TaskFailure { code, message: "it broke".to_owned() };
    OnPoll::Answer(Polled::Failed(failure))
}
