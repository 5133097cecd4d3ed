//! Mistakes that the system behind seed 003 had, as tests that fail if we make them, too. They are
//! numbered as the list of known defects is; those of documents are tested with rooms.

use roundsman_core::ports::{Clock, FailureCode, Polled, RoomStore, Scope, TaskStore};
use roundsman_core::rooms::{AlarmType, TaskOutcome};
use roundsman_core::tasks::{SUBMIT_UNKNOWN, TaskStage, TaskStatus, completion};
use serde_json::json;

use super::outside::{OnPoll, OnSubmit, unclear};
use super::{PROJECT, TaskWorld, project, wish};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{secs, until};

on_every_database! {
    bug_1_recovery_sets_an_alarm_that_somebody_serves
    bug_2_an_exception_does_not_stop_polling
    bug_3_polling_and_snapshots_have_alarms_of_their_own
    bug_4_a_cold_start_moves_no_alarm
    bug_7_a_task_that_crashed_while_it_was_sent_is_counted_and_ends
    bug_8_more_than_ten_pending_tasks_keep_polling
    bug_9_labels_are_set_and_failures_reach_the_document
    bug_10_a_paid_submission_is_not_repeated
    bug_11_polling_needs_no_client
    bug_12_a_look_that_fails_for_ever_ends_the_task
    bug_13_submissions_at_once_are_sent_once
}

async fn bug_1_recovery_sets_an_alarm_that_somebody_serves(backend: Backend) {
    let mut world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    world.die().await;
    let shown = world.alarms.list(Scope::All, &project()).await.unwrap();
    assert_eq!(shown.alarm_type, AlarmType::TaskPolling);
    assert_eq!(shown.alarms[0].name, shown.alarm_type.as_str(), "the mode names an alarm");
    world.generator.succeeds("ext-1");
    world.run_due().await;
    assert_eq!(world.task(&task).await.status, TaskStatus::Completed);
}

async fn bug_2_an_exception_does_not_stop_polling(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    world.world.store.set("task_looks", Fault::PanicsAtMentionOf(PROJECT));
    world.pass(secs(15)).await;
    assert!(world.world.store.calls("task_looks") >= 2, "it is tried again");
    world.world.store.mend();
    world.generator.succeeds("ext-1");
    // A few failures back off two, four, eight seconds and so on at most.
    world.pass(secs(70)).await;
    assert_eq!(world.task(&task).await.status, TaskStatus::Completed);
}

async fn bug_3_polling_and_snapshots_have_alarms_of_their_own(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    world.accepted().await;
    world.accepted().await;
    world.generator.succeeds("ext-1");
    world.pass(secs(10)).await;
    let at = async |name: &str| {
        let shown = world.alarms.list(Scope::All, &project()).await.unwrap();
        shown.alarms.into_iter().find(|alarm| alarm.name == name).map(|alarm| alarm.at)
    };
    let snapshot_at = at("snapshot").await.expect("the document is dirty");
    for _ in 0..5 {
        world.pass(secs(10)).await;
        world.tasks.trigger(&project()).await.unwrap();
        assert_eq!(at("snapshot").await, Some(snapshot_at), "polling does not move it");
        assert!(at("task_polling").await.unwrap() <= world.now() + secs(10));
    }
}

async fn bug_4_a_cold_start_moves_no_alarm(backend: Backend) {
    let mut world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    let due = world.world.store.task_looks(project(), 10).await.unwrap()[0].next_poll_at;
    // Processes come and go, each with a room that somebody opens.
    for _ in 0..5 {
        world.world.clock.advance(secs(1));
        let now = world.world.clock.now();
        world.world.store.open_room(world.user, project(), now).await.unwrap();
        world.worker = super::start(&world.world, &world.work);
        let shown = world.alarms.list(Scope::All, &project()).await.unwrap();
        assert_eq!(Some(shown.alarms[0].at), due, "the poll is due when it was");
    }
    world.generator.succeeds("ext-1");
    world.pass(secs(5)).await;
    assert_eq!(world.task(&task).await.status, TaskStatus::Completed);
}

async fn bug_7_a_task_that_crashed_while_it_was_sent_is_counted_and_ends(backend: Backend) {
    let mut world = TaskWorld::new(backend).await;
    world.generator.on_submit(OnSubmit::TakenThenHang);
    let task = world.make().await;
    world.worker.claim_tick().await.unwrap();
    until("it is sent", || world.generator.paid() == 1).await;
    assert_eq!(world.tasks.pending(&project()).await.unwrap(), 1, "it is pending");
    world.assert_looked_after().await;
    world.die().await;
    world.run_due().await;
    assert_eq!(world.task(&task).await.error_code(), Some(SUBMIT_UNKNOWN), "it ends");
    assert_eq!(world.tasks.pending(&project()).await.unwrap(), 0);
}

async fn bug_8_more_than_ten_pending_tasks_keep_polling(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    for _ in 0..15 {
        world.make().await;
    }
    world.run_due().await;
    for number in 1..=10 {
        world.generator.succeeds(&format!("ext-{number}"));
    }
    world.pass(secs(11)).await;
    assert_eq!(world.tasks.pending(&project()).await.unwrap(), 5);
    assert!(world.alarm_names().await.contains(&"task_polling".to_owned()), "five are left");
}

async fn bug_9_labels_are_set_and_failures_reach_the_document(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    world.generator.succeeds("ext-1");
    world.pass(secs(10)).await;
    let told = completion(&world.task(&task).await).unwrap();
    let TaskOutcome::Completed { label, .. } = told.outcome else { panic!("{told:?}") };
    assert_eq!(label.as_deref(), Some("a cat on a roof"));
    world.generator.on_submit(OnSubmit::TakenAnswerLost);
    let failed = world.make().await;
    world.run_due().await;
    assert!(world.notebook.told().contains(&format!("{} failed", failed.id)));
}

async fn bug_10_a_paid_submission_is_not_repeated(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    // What came of a submission cannot be written, and the job is tried again and again.
    let gate = world.world.store.hold("change_task");
    let task = world.make().await;
    world.worker.claim_tick().await.unwrap();
    gate.reached().await;
    world.world.store.hold_no_more();
    world.world.store.set("change_task", Fault::Down);
    gate.open();
    crate::support::until_running(&world.worker, 0).await;
    world.worker.settle_tick().await.unwrap();
    for _ in 0..3 {
        world.jump(secs(301)).await;
    }
    world.world.store.mend();
    world.jump(secs(301)).await;
    assert_eq!((world.generator.submissions(), world.generator.paid()), (1, 1));
    let over = world.task(&task).await;
    assert_eq!(over.error_code(), Some(SUBMIT_UNKNOWN), "nobody pays twice silently");
}

async fn bug_11_polling_needs_no_client(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    world.accepted().await;
    world.pass(secs(30)).await;
    assert_eq!(world.generator.asked().len(), 3);
}

async fn bug_12_a_look_that_fails_for_ever_ends_the_task(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    let forbidden = unclear(FailureCode::Unauthorized, None);
    world.generator.on_poll("ext-1", OnPoll::Answer(forbidden));
    world.pass(secs(60)).await;
    let over = world.task(&task).await;
    assert_eq!((over.status, over.error_code()), (TaskStatus::Failed, Some("unauthorized")));
    assert_eq!(world.generator.asked().len(), 3);
    assert_eq!(world.alarm_names().await, ["snapshot"], "nobody is touched for ever");
}

async fn bug_13_submissions_at_once_are_sent_once(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.tasks.create(world.user, wish("p2")).await.unwrap();
    // Several processes find the same task.
    let others: Vec<_> = (0..4).map(|_| super::start(&world.world, &world.work)).collect();
    for other in &others {
        other.claim_tick().await.unwrap();
    }
    world.worker.claim_tick().await.unwrap();
    for other in others.iter().chain([&world.worker]) {
        crate::support::until_running(other, 0).await;
        other.settle_tick().await.unwrap();
    }
    assert_eq!((world.generator.submissions(), world.generator.paid()), (1, 1));
    assert_eq!(world.task(&task).await.stage, TaskStage::Polling);
    let pending = Polled::Pending { progress_percent: None };
    world.generator.on_poll("ext-1", OnPoll::Answer(pending));
    assert_eq!(task.params.to_value(), json!({ "prompt": "a cat on a roof" }));
}
