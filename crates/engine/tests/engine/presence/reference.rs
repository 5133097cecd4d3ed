//! The tests that the public reference implementation has of its poll, each under its name there, in
//! the form that the rules of this one give them.

use roundsman_core::bots::{MeetingId, stream_of};
use roundsman_core::effects::Frame;
use roundsman_core::ports::EffectStore;
use roundsman_core::presence::{ClosedBy, poll_wish};

use super::daily::Mishap;
use super::{LAG, PresenceWorld, ROOM};
use crate::backend::{Backend, on_every_database};
use crate::support::{secs, until_running};

on_every_database! {
    adds_missing_sessions
    closes_stale_sessions
    updates_num_clients
    no_changes_if_synced
    mixed_add_and_remove
    handles_api_error
    closes_all_when_room_empty
    skips_if_locked
}

/// Looks at a room once, for no reason.
async fn poll(world: &PresenceWorld, id: MeetingId) {
    world.enqueue(vec![poll_wish(id, &[], world.now())]).await;
    world.run_due().await;
}

async fn told(world: &PresenceWorld, id: MeetingId) -> Vec<Frame> {
    world.world.store.frames(stream_of(id), 0, 100).await.unwrap()
}

async fn adds_missing_sessions(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open(ROOM).await;
    world.daily.joins(ROOM, "p1");
    world.daily.joins(ROOM, "p2");
    let writes = world.world.store.calls("commit_look");
    poll(&world, id).await;
    assert_eq!(world.inside(id).await, ["p1", "p2"]);
    assert_eq!(world.world.store.calls("commit_look"), writes + 1, "both at once");
    let session = world.session(id, "p1").await;
    assert_eq!(session.user_name.as_deref(), Some("P1"));
    world.check().await;
}

async fn closes_stale_sessions(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["p1", "p2"]).await;
    world.daily.leaves(ROOM, "p2");
    poll(&world, id).await;
    assert_eq!(world.inside(id).await, ["p1"]);
    let closed = world.closed(id, "p2").await;
    assert_eq!((closed.at, closed.by), (world.now(), ClosedBy::Poll));
    world.check().await;
}

async fn updates_num_clients(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["p1", "p2", "p3", "p4", "p5"]).await;
    for session in ["p3", "p4", "p5"] {
        world.daily.leaves(ROOM, session);
    }
    let before = told(&world, id).await.len();
    poll(&world, id).await;
    assert_eq!(world.meeting(id).await.num_clients, 2);
    let told = told(&world, id).await;
    assert_eq!(told.len(), before + 1, "one change");
    assert_eq!(told.last().unwrap().body.to_value()["payload"]["num_clients"], 2);
    world.check().await;
}

async fn no_changes_if_synced(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["p1", "p2"]).await;
    let (sessions, frames) = (world.sessions(id).await, told(&world, id).await);
    poll(&world, id).await;
    assert_eq!(world.sessions(id).await, sessions);
    assert_eq!(told(&world, id).await, frames, "nobody is told of nothing");
    assert_eq!(world.meeting(id).await.looks.looked_at, Some(world.now()));
    world.check().await;
}

async fn mixed_add_and_remove(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["p1", "p2"]).await;
    world.daily.leaves(ROOM, "p2");
    world.daily.joins(ROOM, "p3");
    let writes = world.world.store.calls("commit_look");
    poll(&world, id).await;
    assert_eq!(world.inside(id).await, ["p1", "p3"]);
    assert_eq!(world.world.store.calls("commit_look"), writes + 1, "in one look");
    world.check().await;
}

async fn handles_api_error(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["p1"]).await;
    let before = (world.sessions(id).await, told(&world, id).await);
    world.daily.next(ROOM, Mishap::Unavailable);
    poll(&world, id).await;
    assert_eq!((world.sessions(id).await, told(&world, id).await), before);
    assert_eq!(world.meeting(id).await.looks.failures, 1, "it is noted, and tried again");
    world.pass(secs(60)).await;
    assert_eq!(world.meeting(id).await.looks.failures, 0);
    world.check().await;
}

async fn closes_all_when_room_empty(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["p1", "p2"]).await;
    for session in ["p1", "p2"] {
        world.daily.leaves(ROOM, session);
    }
    poll(&world, id).await;
    assert_eq!(world.inside(id).await, ["p1", "p2"], "one empty answer is not enough");
    world.pass(LAG).await;
    assert_eq!(world.inside(id).await, [""; 0]);
    assert_eq!(world.daily.looks(ROOM), 2);
    world.check().await;
}

async fn skips_if_locked(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["p1"]).await;
    let other = world.another_node("w2");
    let gate = world.daily.hold(ROOM);
    world.enqueue(vec![poll_wish(id, &[], world.now())]).await;
    world.node.worker.claim_tick().await.unwrap();
    gate.reached().await;
    world.enqueue(vec![poll_wish(id, &[], world.now())]).await;
    other.run_due().await;
    assert_eq!(world.daily.looks(ROOM), 1, "the provider is not asked");
    gate.open();
    world.daily.hold_no_more();
    until_running(&world.node.worker, 0).await;
    world.node.worker.settle_tick().await.unwrap();
    // The wish is not lost.
    other.run_due().await;
    assert_eq!(world.daily.looks(ROOM), 2);
    world.check().await;
}
