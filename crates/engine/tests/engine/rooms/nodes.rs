//! Two nodes on one database.

use std::sync::Arc;

use roundsman_core::jobs::Role;
use roundsman_engine::rooms::{Mail, RoomLimits};
use serde_json::json;

use super::{Client, RoomWorld, SilentBus, local_bus, project, rooms_of};
use crate::backend::{Backend, on_every_database};
use crate::support::{secs, until};

on_every_database! {
    updates_and_presence_reach_other_nodes
    what_the_bus_has_lost_is_found_in_the_log
    what_was_merged_meanwhile_is_found_too
    two_nodes_make_one_snapshot
}

async fn updates_and_presence_reach_other_nodes(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let bus = Arc::new(local_bus());
    let here = rooms_of(&world.world, bus.clone(), RoomLimits::default());
    let there = rooms_of(&world.world, bus, RoomLimits::default());
    let (mut one, mut two) = (Client::join(&here, 1).await, Client::join(&there, 2).await);
    for round in 0..5 {
        one.write("a", json!(round)).await.unwrap();
        two.write("b", json!(round)).await.unwrap();
    }
    two.sees(&json!({"a": 4, "b": 4})).await;
    one.sees(&json!({"a": 4, "b": 4})).await;
    // A change over HTTP at one node is told at the other.
    there.patch(&project(), json!({"nodes": {"a": null}})).await.unwrap();
    one.sees(&json!({"b": 4})).await;
    two.sees(&json!({"b": 4})).await;

    // Who is where, as a client says it.
    let said = loro_presence();
    let (speaker, _) = here.join_presence(&project(), &Arc::default()).await.unwrap();
    let (listener, _) = there.join_presence(&project(), &Arc::default()).await.unwrap();
    assert!(here.tell_presence(&speaker, said.clone()).await);
    until("presence", || listener.mailbox().take() == Some(Mail::Presence(said.clone()))).await;
    assert!(!here.tell_presence(&speaker, "garbage that says nothing".into()).await);
}

/// The state of a client that says nothing of itself yet: what it sends when it joins.
fn loro_presence() -> bytes::Bytes {
    // A list of no entries, in the encoding of Loro's ephemeral store.
    bytes::Bytes::from_static(&[0])
}

async fn what_the_bus_has_lost_is_found_in_the_log(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let here = rooms_of(&world.world, Arc::new(SilentBus(local_bus())), RoomLimits::default());
    let there = rooms_of(&world.world, Arc::new(SilentBus(local_bus())), RoomLimits::default());
    let (mut one, mut two) = (Client::join(&here, 1).await, Client::join(&there, 2).await);
    one.write("a", json!(1)).await.unwrap();
    two.write("b", json!(2)).await.unwrap();
    one.write("c", json!(3)).await.unwrap();
    assert_eq!((two.hear(), two.nodes()), (None, json!({"b": 2})), "nothing was told");
    there.look().await.unwrap();
    here.look().await.unwrap();
    two.sees(&json!({"a": 1, "b": 2, "c": 3})).await;
    one.sees(&json!({"a": 1, "b": 2, "c": 3})).await;
    assert_eq!(one.membership.mailbox().take(), None, "and told once");
}

async fn what_was_merged_meanwhile_is_found_too(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let there = rooms_of(&world.world, Arc::new(SilentBus(local_bus())), RoomLimits::default());
    let (mut one, mut two) = (Client::join(&world.rooms, 1).await, Client::join(&there, 2).await);
    one.write("a", json!(1)).await.unwrap();
    one.write("b", json!(2)).await.unwrap();
    world.pass(secs(300)).await;
    assert!(!world.room().await.is_dirty());
    two.write("c", json!(3)).await.unwrap();
    there.look().await.unwrap();
    two.sees(&json!({"a": 1, "b": 2, "c": 3})).await;
    two.write("d", json!(4)).await.unwrap();
    assert_eq!(world.said().await["nodes"], json!({"a": 1, "b": 2, "c": 3, "d": 4}));
}

/// L-7, for snapshots: the lease of the job and the place of the snapshot decide.
async fn two_nodes_make_one_snapshot(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let other = world.world.worker_with(world.rooms.handlers(), |options| {
        options.roles = vec![Role::Worker];
    });
    let mut one = Client::join(&world.rooms, 1).await;
    one.write("a", json!(1)).await.unwrap();
    world.world.clock.advance(secs(300));
    // Whoever has it is held until both have tried.
    let gate = world.world.store.hold("compact_room");
    let (mine, theirs) = tokio::join!(world.worker.claim_tick(), other.claim_tick());
    mine.unwrap();
    theirs.unwrap();
    assert_eq!(world.worker.running_count() + other.running_count(), 1);
    gate.reached().await;
    world.world.store.hold_no_more();
    gate.open();
    crate::support::until_running(&world.worker, 0).await;
    crate::support::until_running(&other, 0).await;
    world.worker.settle_tick().await.unwrap();
    other.settle_tick().await.unwrap();
    assert_eq!(world.room().await.snapshot_seq, 1);
}
