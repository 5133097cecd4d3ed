//! The rounds of a room over its tasks (L-1, L-4, L-5, L-6, L-8, L-10).

use std::time::Duration;

use roundsman_core::jobs::Job;
use roundsman_core::ports::{AlarmStore, Clock, FailureCode, Polled, Scope, TaskFilter, TaskStore};
use roundsman_core::tasks::{DEADLINE_EXCEEDED, Task, TaskStage, TaskStatus};
use roundsman_engine::tasks::TaskOptions;

use super::outside::{Generator, OnPoll, unclear, video};
use super::{PROJECT, TaskWorld, project};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{secs, until_running};

on_every_database! {
    tasks_are_looked_at_every_ten_seconds_until_they_are_over
    a_thousand_tasks_of_a_room_are_one_round
    rooms_that_are_due_at_once_are_all_served
    a_slow_one_does_not_delay_the_others
    rounds_that_fail_come_back
    an_executor_that_panics_costs_its_task_only
    a_service_that_changes_its_mind_is_heard_once
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
    world.generator.asked();
    // L2: the round that saw it being fetched comes once more, finds nothing and is the last one.
    world.pass(secs(10)).await;
    assert_eq!(world.alarm_names().await, ["snapshot"], "no round after one cycle");
    world.pass(secs(60)).await;
    assert_eq!(world.generator.asked(), Vec::<String>::new(), "nobody is asked any more");
    let rounds = world.rounds().await;
    assert!(rounds.iter().all(|job| matches!(job, Job::Finished(_))), "{rounds:?}");
    world.check().await;
}

/// L-6.
async fn a_thousand_tasks_of_a_room_are_one_round(backend: Backend) {
    const TASKS: usize = 1000;
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
    assert_eq!(world.tasks.pending(&project()).await.unwrap(), TASKS as u64 / 2);
    world.jump(secs(10)).await;
    assert_eq!(world.generator.asked().len(), TASKS / 2, "those that are left");
    world.assert_looked_after().await;
}

/// L-6: each is asked for once, and one that hangs keeps nobody waiting. Ten thousand of them, with their
/// lateness, are the business of `bench/alarms`.
async fn rooms_that_are_due_at_once_are_all_served(backend: Backend) {
    const ROOMS: usize = 300;
    let world = TaskWorld::new(backend).await;
    for number in 0..ROOMS {
        world.make_in(&format!("room-{number}")).await;
    }
    world.run_due().await;
    world.generator.on_poll("ext-1", OnPoll::Hang);
    world.jump(secs(10)).await;
    let mut asked = world.generator.asked();
    assert_eq!(asked.len(), ROOMS, "nobody is asked for twice");
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), ROOMS, "everybody is asked for");
    assert_eq!(world.rounds().await.len(), ROOMS, "one alarm for each room");
}

async fn a_slow_one_does_not_delay_the_others(backend: Backend) {
    const SLOW: [&str; 3] = ["ext-1", "ext-2", "ext-3"];
    let world = TaskWorld::new(backend).await;
    for _ in 0..12 {
        world.make().await;
    }
    world.run_due().await;
    for slow in SLOW {
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
        let looks = store.task_looks(project(), 100).await;
        (looks.unwrap().len() == 3).then_some(())
    });
    over.await.unwrap();
    until_running(&world.worker, 0).await;
    world.worker.settle_tick().await.unwrap();
    let slow = store.tasks(Scope::All, TaskFilter::default(), None, 100).await.unwrap();
    let is_slow = |task: &Task| SLOW.contains(&task.external_task_id.as_deref().unwrap());
    let slow: Vec<Task> = slow.into_iter().filter(is_slow).collect();
    assert_eq!(slow.len(), SLOW.len());
    for task in slow {
        assert_eq!((task.status, task.retry_count), (TaskStatus::Processing, 1));
        assert_eq!(task.error_code(), Some("unavailable"));
    }
    world.assert_looked_after().await;
    world.check().await;
}

/// L-4. In one room nothing works, for days; it never gives up, and its neighbour notices nothing.
async fn rounds_that_fail_come_back(backend: Backend) {
    const FAILURES: u32 = 1000;
    let long = |options: &mut TaskOptions| options.rules.deadline = secs(365 * 24 * 3600);
    let world = TaskWorld::with_options(backend, Generator::new("kling"), long).await;
    let task = world.accepted().await;
    let neighbour = world.make_in("elsewhere").await;
    world.run_due().await;
    world.world.store.set("task_looks", Fault::PanicsAtMentionOf(PROJECT));
    for failure in 0..FAILURES {
        world.jump(secs(301)).await;
        if failure % 100 == 0 {
            let alarm = world.world.store.alarms(project(), 10).await.unwrap().remove(0);
            assert_eq!((alarm.name.as_str(), alarm.attempts_failed), ("task_polling", failure + 1));
            assert!(alarm.at <= world.now() + secs(301), "{alarm:?}");
        }
    }
    let alarm = world.world.store.alarms(project(), 10).await.unwrap().remove(0);
    assert!(alarm.is_failing());
    assert!(alarm.last_error.unwrap().message.contains("a mistake that a test has made"));
    let polls = world.task(&neighbour).await.polls;
    assert!(polls >= FAILURES, "its neighbour was looked at {polls} times");
    // A database that is away is no different.
    world.world.store.set("task_looks", Fault::Down);
    world.jump(secs(301)).await;
    world.world.store.mend();
    world.jump(secs(301)).await;
    let alarm = world.world.store.alarms(project(), 10).await.unwrap().remove(0);
    assert_eq!(alarm.attempts_failed, 0, "it is well again");
    world.generator.succeeds("ext-1");
    world.pass(secs(20)).await;
    assert_eq!(world.task(&task).await.status, TaskStatus::Completed);
    world.check().await;
}

/// L-4 and L-5: whoever made a mistake in an executor pays with that task.
async fn an_executor_that_panics_costs_its_task_only(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let (broken, sound) = (world.accepted().await, world.accepted().await);
    world.generator.on_poll("ext-1", OnPoll::Panic);
    world.generator.succeeds("ext-2");
    world.pass(secs(10)).await;
    assert_eq!(world.task(&sound).await.status, TaskStatus::Completed);
    let waiting = world.task(&broken).await;
    assert_eq!((waiting.retry_count, waiting.error_code()), (1, Some("odd")));
    world.pass(secs(60)).await;
    let over = world.task(&broken).await;
    assert_eq!((over.status, over.error_code()), (TaskStatus::Failed, Some("odd")));
    assert_eq!(world.alarm_names().await, ["snapshot"]);
    world.check().await;
}

/// L-5: done is done, whatever the service says afterwards.
async fn a_service_that_changes_its_mind_is_heard_once(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    world.generator.next_poll("ext-1", answer(Polled::Succeeded(video("ext-1"))));
    // Its files are asked for, and it says that it goes on.
    world.jump(secs(10)).await;
    let waiting = world.task(&task).await;
    assert_eq!((waiting.status, waiting.stage), (TaskStatus::Processing, TaskStage::Collecting));
    world.generator.succeeds("ext-1");
    world.pass(secs(15)).await;
    let over = world.task(&task).await;
    assert_eq!(over.status, TaskStatus::Completed);
    world.generator.on_poll("ext-1", failed());
    world.tasks.trigger(&project()).await.unwrap();
    world.pass(secs(30)).await;
    assert_eq!(world.task(&task).await, over, "what is over stays over");
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
