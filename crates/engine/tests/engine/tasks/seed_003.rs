//! The edge cases that the architecture of seed 003 lists, one by one. The first two are reversed: a
//! task does not wait for somebody to be connected.

use roundsman_core::ports::{RoomStore, Scope};
use roundsman_core::rooms::AlarmType;
use roundsman_core::tasks::TaskStatus;

use super::outside::OnPoll;
use super::{PROJECT, TaskWorld, head_of, project};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::secs;

on_every_database! {
    edge_case_1_without_a_connection_tasks_are_polled
    edge_case_2_a_task_submitted_without_a_connection_is_seen_by_a_later_client
    edge_case_3_an_alarm_that_fails_is_set_again
    edge_case_4_when_all_tasks_are_complete_the_room_rests
    edge_case_5_all_pending_tasks_are_polled_in_one_cycle
    edge_case_6_a_task_that_is_stuck_ends_after_max_retries
}

/// L-8. Nobody is connected in any of these tests: there is nothing here to connect to.
async fn edge_case_1_without_a_connection_tasks_are_polled(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    world.generator.succeeds("ext-1");
    world.pass(secs(10)).await;
    assert_eq!(world.task(&task).await.status, TaskStatus::Completed);
    world.check().await;
}

async fn edge_case_2_a_task_submitted_without_a_connection_is_seen_by_a_later_client(
    backend: Backend,
) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    world.generator.succeeds("ext-1");
    world.pass(secs(10)).await;
    // Whoever opens the room now loads what is stored.
    let stored = world.world.store.load_room(project()).await.unwrap().expect("a room");
    assert_eq!(stored.updates.len(), 1);
    let said = String::from_utf8(stored.updates[0].payload.to_vec()).unwrap();
    assert_eq!(said, format!("{} completed", task.id));
    world.check().await;
}

async fn edge_case_3_an_alarm_that_fails_is_set_again(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    world.generator.succeeds("ext-1");
    world.world.store.set("task_looks", Fault::PanicsAtMentionOf(PROJECT));
    world.pass(secs(10)).await;
    world.world.store.mend();
    assert_eq!(world.alarm_names().await, ["task_polling"], "not some other mode");
    world.pass(secs(5)).await;
    assert_eq!(world.task(&task).await.status, TaskStatus::Completed);
    world.check().await;
}

async fn edge_case_4_when_all_tasks_are_complete_the_room_rests(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let mode = async || world.alarms.list(Scope::All, &project()).await.unwrap().alarm_type;
    world.accepted().await;
    world.accepted().await;
    assert_eq!(mode().await, AlarmType::TaskPolling);
    world.generator.succeeds("ext-1");
    world.pass(secs(10)).await;
    assert_eq!(mode().await, AlarmType::TaskPolling, "one is left");
    world.generator.succeeds("ext-2");
    world.pass(secs(10)).await;
    assert_eq!(mode().await, AlarmType::Snapshot, "the results are in the document");
    // The round that saw the last one being fetched comes once more and finds nothing.
    world.pass(secs(10)).await;
    assert_eq!(
        (world.alarm_names().await, head_of(&world).await),
        (vec!["snapshot".to_owned()], 2)
    );
    world.check().await;
}

async fn edge_case_5_all_pending_tasks_are_polled_in_one_cycle(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    for _ in 0..25 {
        world.make().await;
    }
    world.run_due().await;
    world.jump(secs(10)).await;
    assert_eq!(world.generator.asked().len(), 25, "more than the ten of the seed");
    assert_eq!(world.rounds().await.len(), 1, "one alarm");
    world.check().await;
}

async fn edge_case_6_a_task_that_is_stuck_ends_after_max_retries(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let task = world.accepted().await;
    assert_eq!(task.max_retries, 3);
    world.generator.on_poll("ext-1", OnPoll::Hang);
    for _ in 0..3 {
        assert_eq!(world.task(&task).await.status, TaskStatus::Processing);
        world.jump(secs(40)).await;
    }
    let over = world.task(&task).await;
    assert_eq!((over.status, over.retry_count), (TaskStatus::Failed, 3));
    assert_eq!(world.notebook.told(), [format!("{} failed", task.id)], "the node is told, too");
    world.check().await;
}
