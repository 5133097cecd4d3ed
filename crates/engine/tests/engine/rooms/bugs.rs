//! Mistakes with documents that the system behind seed 003 had, as tests that fail if we make them,
//! too. They are numbered as the list of known defects is.

use bytes::Bytes;
use roundsman_core::jobs::Job;
use roundsman_core::ports::{Clock, DocumentError, RoomDocuments, RoomStore};
use roundsman_core::rooms::{
    AppendRules, NewUpdate, SNAPSHOT_KIND, TaskCompletion, TaskOutcome, UpdateOrigin,
};
use roundsman_engine::rooms::JoinError;
use serde_json::json;

use super::{Client, RoomWorld, project};
use crate::backend::{Backend, on_every_database};
use crate::support::secs;

on_every_database! {
    bug_5_a_room_that_nobody_is_in_keeps_its_document
    bug_6_a_damaged_document_is_an_error_and_stays_as_it_is
    bug_9_failures_are_written_too
}

fn completion(world: &RoomWorld, task: &str, outcome: TaskOutcome) -> TaskCompletion {
    TaskCompletion {
        project: project(),
        task_id: task.to_owned(),
        node_id: Some("n".to_owned()),
        outcome,
        at: world.world.clock.now(),
    }
}

/// Results and snapshots of a room that is not in memory begin with what is stored.
async fn bug_5_a_room_that_nobody_is_in_keeps_its_document(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let mut one = Client::join(&world.rooms, 1).await;
    one.write("n", json!({"data": {"taskId": "t1", "status": "generating"}})).await.unwrap();
    drop(one);
    world.world.clock.advance(secs(60));
    world.rooms.look().await.unwrap();
    let outcome = TaskOutcome::Completed {
        result_url: Some("https://x/v.mp4".to_owned()),
        result_data: None,
        label: None,
        description: None,
    };
    let completion = completion(&world, "t1", outcome);
    let update = world.rooms.completion_update(&completion).await.unwrap().expect("a change");
    assert_eq!(update.origin, UpdateOrigin::Task);
    world.world.store.append_updates(vec![update], world.world.clock.now()).await.unwrap();
    assert_eq!(world.rooms.completion_update(&completion).await.unwrap(), None, "once");
    world.pass(secs(300)).await;
    assert!(!world.room().await.is_dirty(), "the snapshot was made with nobody there");
    let late = Client::join(&world.rooms, 2).await;
    assert_eq!(late.nodes()["n"]["data"]["src"], "https://x/v.mp4");
    assert_eq!(late.document.to_json()["tasks"]["t1"]["status"], "completed");
}

async fn bug_6_a_damaged_document_is_an_error_and_stays_as_it_is(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let mut one = Client::join(&world.rooms, 1).await;
    one.write("a", json!(1)).await.unwrap();
    drop(one);
    world.world.clock.advance(secs(60));
    world.rooms.look().await.unwrap();
    let damage = NewUpdate {
        project: project(),
        payload: Bytes::from_static(b"not an update"),
        origin: UpdateOrigin::Client,
        rules: AppendRules::default(),
    };
    world.world.store.append_updates(vec![damage], world.world.clock.now()).await.unwrap();
    let before = world.world.store.load_room(project()).await.unwrap();
    let joined = world.rooms.join(&project(), Bytes::new(), &std::sync::Arc::default()).await;
    let Err(JoinError::Document(DocumentError::Unreadable { .. })) = joined else {
        panic!("nobody gets another document in its place");
    };
    assert!(world.rooms.read(&project()).await.is_err());
    assert!(world.rooms.patch(&project(), json!({"nodes": {"b": 1}})).await.is_err());
    let done = completion(&world, "t1", TaskOutcome::Cancelled);
    let written = world.rooms.completion_update(&done).await;
    assert!(matches!(written, Err(DocumentError::Unreadable { .. })), "{written:?}");
    world.pass(secs(300)).await;
    let jobs = world.world.all_jobs(Some(SNAPSHOT_KIND)).await;
    let [Job::Waiting(alarm)] = &jobs[..] else { panic!("{jobs:?}") };
    assert!(alarm.not_before.is_some(), "the alarm fails, is tried again and is seen");
    assert_eq!(world.world.store.load_room(project()).await.unwrap(), before);
}

async fn bug_9_failures_are_written_too(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let mut one = Client::join(&world.rooms, 1).await;
    one.write("n", json!({"data": {"taskId": "t1"}})).await.unwrap();
    let outcome =
        TaskOutcome::Failed { code: "deadline".to_owned(), message: "too late".to_owned() };
    let update = world.rooms.completion_update(&completion(&world, "t1", outcome)).await;
    let update = update.unwrap().expect("a change");
    let payload = update.payload.clone();
    world.world.store.append_updates(vec![update], world.world.clock.now()).await.unwrap();
    let appended = roundsman_core::rooms::AppendedUpdate { project: project(), seq: 2, payload };
    world.rooms.appended(appended).await;
    one.hear();
    assert_eq!(one.nodes()["n"]["data"]["error"], "too late");
    assert_eq!(one.document.to_json()["tasks"]["t1"]["error_code"], "deadline");
}
