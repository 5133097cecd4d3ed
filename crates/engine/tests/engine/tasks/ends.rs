//! Ends of tasks: each is written once, to the task and to the document, whoever brings it (L-7, L-11, L-12).

use roundsman_core::ports::{Polled, Scope, TaskStore};
use roundsman_core::tasks::{PRUNE_KIND, SWEEP_KIND, TaskStage, TaskStatus};
use roundsman_engine::jobs::periodic_wish;
use roundsman_engine::tasks::{BroadcastWish, TaskOptions};
use serde_json::json;

use super::outside::{Generator, OnPoll};
use super::{TaskWorld, head_of, project};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{secs, until_running};

on_every_database! {
    files_are_kept_before_their_links_expire
    a_task_cancelled_during_a_look_stays_cancelled
    a_broadcast_and_a_look_that_race_end_it_once
    a_round_that_has_lost_its_lease_writes_nothing
    a_lost_answer_of_the_database_ends_it_once
    a_document_that_cannot_be_read_is_told_later
    what_an_operator_has_lost_is_set_again
    what_ended_long_ago_is_forgotten_unless_it_has_files
}

async fn files_are_kept_before_their_links_expire(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    world.generator.succeeds("ext-1");
    world.generator.dead_link("ext-1", true);
    world.jump(secs(10)).await;
    let waiting = world.task(&task).await;
    assert_eq!((waiting.status, waiting.stage), (TaskStatus::Processing, TaskStage::Collecting));
    assert_eq!(
        world.notebook.told(),
        Vec::<String>::new(),
        "nobody is told of a link that is dead"
    );
    world.generator.dead_link("ext-1", false);
    world.pass(secs(30)).await;
    let over = world.task(&task).await;
    assert_eq!(over.status, TaskStatus::Completed);
    let data = over.result_data.as_ref().unwrap().to_value();
    assert_eq!(
        (data["seconds"].clone(), data["files"][0]["media_type"].clone()),
        (json!(5), json!("video/mp4"))
    );
    assert!(!data.to_string().contains("sig=secret"), "the provider's link is shown to nobody");
    assert_eq!(over.files.len(), 1);
    world.check().await;
}

async fn a_task_cancelled_during_a_look_stays_cancelled(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    world.generator.succeeds("ext-1");
    let gate = world.world.store.hold("tasks_by_id");
    world.world.clock.advance(secs(10));
    world.worker.claim_tick().await.unwrap();
    gate.reached().await;
    let cancelled =
        world.tasks.cancel(Scope::User(world.user), &task.id.to_string()).await.unwrap();
    assert_eq!(cancelled.status, TaskStatus::Cancelled);
    world.world.store.hold_no_more();
    gate.open();
    until_running(&world.worker, 0).await;
    world.worker.settle_tick().await.unwrap();
    world.run_due().await;
    assert_eq!(world.task(&task).await.status, TaskStatus::Cancelled, "what comes late is ignored");
    assert_eq!(world.notebook.told(), [format!("{} cancelled", task.id)]);
    assert_eq!(world.generator.cancelled(), ["ext-1"]);
    let again = world.tasks.cancel(Scope::All, &task.id.to_string()).await.unwrap();
    assert_eq!(again.status, TaskStatus::Cancelled);
    world.check().await;
}

async fn a_broadcast_and_a_look_that_race_end_it_once(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    let failure = roundsman_core::ports::TaskFailure {
        code: roundsman_core::ports::FailureCode::Provider,
        message: "it broke".to_owned(),
    };
    world.generator.on_poll("ext-1", OnPoll::Answer(Polled::Failed(failure)));
    let gate = world.world.store.hold("tasks_by_id");
    world.world.clock.advance(secs(10));
    world.worker.claim_tick().await.unwrap();
    gate.reached().await;
    let wish = || BroadcastWish {
        task_id: task.id.to_string(),
        result_url: Some("https://example.org/a.mp4".to_owned()),
        result_data: Some(json!({ "description": "a cat" })),
        error: None,
    };
    let (over, is_applied) = world.tasks.broadcast(&project(), wish()).await.unwrap();
    assert_eq!((over.status, is_applied), (TaskStatus::Completed, true));
    world.world.store.hold_no_more();
    gate.open();
    until_running(&world.worker, 0).await;
    world.worker.settle_tick().await.unwrap();
    let (after, is_applied) = world.tasks.broadcast(&project(), wish()).await.unwrap();
    assert_eq!((after.status, is_applied), (TaskStatus::Completed, false), "applied once");
    assert_eq!(world.notebook.told(), [format!("{} completed", task.id)]);
    assert_eq!(head_of(&world).await, 1);
    let elsewhere = roundsman_core::rooms::ProjectId::new("elsewhere").unwrap();
    assert!(world.tasks.broadcast(&elsewhere, wish()).await.is_err(), "it is another room's");
    world.check().await;
}

/// L-7: two nodes have the same room, because one stood still for longer than its lease.
async fn a_round_that_has_lost_its_lease_writes_nothing(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    let failure = roundsman_core::ports::TaskFailure {
        code: roundsman_core::ports::FailureCode::Provider,
        message: "it broke".to_owned(),
    };
    world.generator.next_poll("ext-1", OnPoll::Answer(Polled::Failed(failure)));
    world.generator.succeeds("ext-1");
    let gate = world.world.store.hold("tasks_by_id");
    world.world.clock.advance(secs(10));
    world.worker.claim_tick().await.unwrap();
    gate.reached().await;
    world.world.store.hold_no_more();
    // Its lease is over; it does not know. Another node takes the room.
    world.world.clock.advance(secs(31));
    world.world.sweeper().tick().await.unwrap();
    let other = super::start(&world.world, &world.work);
    world.world.clock.advance(secs(10));
    other.claim_tick().await.unwrap();
    until_running(&other, 0).await;
    other.settle_tick().await.unwrap();
    assert_eq!(world.task(&task).await.error_code(), Some("provider"), "the other one was first");
    gate.open();
    until_running(&world.worker, 0).await;
    world.worker.settle_tick().await.unwrap();
    world.run_due().await;
    assert_eq!(world.task(&task).await.status, TaskStatus::Failed, "a zombie writes nothing");
    assert_eq!((world.notebook.told().len(), head_of(&world).await), (1, 1));
    world.check().await;
}

async fn what_ended_long_ago_is_forgotten_unless_it_has_files(backend: Backend) {
    let keep = |options: &mut TaskOptions| options.keep_for = secs(3600);
    let world = TaskWorld::with_options(backend, Generator::new("kling"), keep).await;
    let failed = world.accepted().await;
    world.tasks.cancel(Scope::All, &failed.id.to_string()).await.unwrap();
    let with_file = world.accepted().await;
    world.generator.succeeds("ext-2");
    world.pass(secs(10)).await;
    world.world.enqueue(periodic_wish(PRUNE_KIND, world.now())).await;
    world.jump(secs(3000)).await;
    assert_eq!(world.task(&failed).await.status, TaskStatus::Cancelled, "not before its time");
    world.jump(secs(1300)).await;
    let gone = world.tasks.get(Scope::All, &failed.id.to_string()).await.unwrap();
    assert_eq!(gone, None);
    let kept = world.task(&with_file).await;
    assert_eq!((kept.status, kept.files.len()), (TaskStatus::Completed, 1), "documents link to it");
}

async fn a_lost_answer_of_the_database_ends_it_once(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    world.generator.succeeds("ext-1");
    world.jump(secs(10)).await;
    assert_eq!(world.task(&task).await.status, TaskStatus::Completed);
    let second = world.accepted().await;
    world.generator.succeeds("ext-2");
    world.world.clock.advance(secs(10));
    world.world.store.set("change_task", Fault::AnswerLost);
    world.run_due().await;
    world.world.store.mend();
    for _ in 0..5 {
        world.jump(secs(301)).await;
    }
    let over = world.task(&second).await;
    assert_eq!(over.status, TaskStatus::Completed);
    assert_eq!(head_of(&world).await, 2, "one update for each");
    world.world.check().await;
}

async fn a_document_that_cannot_be_read_is_told_later(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    world.generator.succeeds("ext-1");
    world.notebook.tear(true);
    world.jump(secs(10)).await;
    let over = world.task(&task).await;
    assert_eq!((over.status, over.applied_at), (TaskStatus::Completed, None), "the task ends");
    world.world.enqueue(periodic_wish(SWEEP_KIND, world.now())).await;
    world.pass(secs(70)).await;
    assert_eq!(world.world.store.untold_tasks(10).await.unwrap().len(), 1, "still torn");
    world.notebook.tear(false);
    world.pass(secs(70)).await;
    assert_eq!(world.notebook.told(), [format!("{} completed", task.id)]);
    assert_eq!(world.world.store.untold_tasks(10).await.unwrap(), []);
    world.check().await;
}

async fn what_an_operator_has_lost_is_set_again(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    let jobs = world.jobs_waiting().await;
    for job in jobs {
        let now = world.now();
        roundsman_core::ports::JobStore::cancel(&*world.world.store, Scope::All, job, now)
            .await
            .unwrap();
    }
    assert_eq!(world.alarm_names().await, Vec::<String>::new());
    world.world.enqueue(periodic_wish(SWEEP_KIND, world.now())).await;
    world.run_due().await;
    assert_eq!(world.alarm_names().await, ["task_polling"]);
    world.generator.succeeds("ext-1");
    world.pass(secs(20)).await;
    assert_eq!(world.task(&task).await.status, TaskStatus::Completed);
    world.check().await;
}
