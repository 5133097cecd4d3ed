//! The alarm `snapshot`.

use roundsman_core::ports::{Clock, JobStore, RoomStore, Scope};
use roundsman_core::rooms::{AppendRules, SNAPSHOT_KIND};
use roundsman_engine::rooms::RoomLimits;
use serde_json::json;

use super::{Client, RoomWorld, project};
use crate::backend::{Backend, on_every_database};
use crate::support::secs;

on_every_database! {
    an_alarm_is_set_only_while_there_is_something_to_merge
    a_long_log_is_merged_at_once
    an_alarm_that_was_lost_is_set_again
    snapshots_come_every_five_minutes_however_busy_the_room_is
}

async fn an_alarm_is_set_only_while_there_is_something_to_merge(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let mut one = Client::join(&world.rooms, 1).await;
    assert_eq!(world.alarms().await, 0, "nothing was written");
    one.write("a", json!(1)).await.unwrap();
    one.write("b", json!(2)).await.unwrap();
    assert_eq!(world.alarms().await, 1);
    world.pass(secs(299)).await;
    assert!(world.room().await.is_dirty(), "it is not early");
    world.pass(secs(1)).await;
    let room = world.room().await;
    assert_eq!((room.is_dirty(), room.snapshot_seq), (false, 2));
    assert_eq!(world.alarms().await, 0, "and costs nothing from now on");
    assert_eq!(world.said().await["nodes"], json!({"a": 1, "b": 2}));
    one.write("c", json!(3)).await.unwrap();
    assert_eq!(world.alarms().await, 1);
    assert_eq!(world.said().await["nodes"], json!({"a": 1, "b": 2, "c": 3}));
    world.world.check().await;
}

async fn a_long_log_is_merged_at_once(backend: Backend) {
    let rules = AppendRules { snapshot_updates: 5, ..AppendRules::default() };
    let world = RoomWorld::with(backend, RoomLimits { rules, ..RoomLimits::default() }).await;
    let mut one = Client::join(&world.rooms, 1).await;
    for number in 0..5 {
        one.write("a", json!(number)).await.unwrap();
    }
    world.run_due().await;
    assert_eq!(world.room().await.snapshot_seq, 5);
}

async fn an_alarm_that_was_lost_is_set_again(backend: Backend) {
    let world = RoomWorld::new(backend).await;
    let mut one = Client::join(&world.rooms, 1).await;
    one.write("a", json!(1)).await.unwrap();
    let jobs = world.world.all_jobs(Some(SNAPSHOT_KIND)).await;
    let [alarm] = &jobs[..] else { panic!("{jobs:?}") };
    let now = world.world.clock.now();
    world.world.store.cancel(Scope::All, alarm.facts().id, now).await.unwrap();
    world.pass(secs(360)).await;
    assert!(world.room().await.is_dirty(), "nobody comes");
    assert_eq!(world.rooms.rearm().await.unwrap(), 0, "it is not late enough");
    world.pass(secs(1)).await;
    assert_eq!(world.rooms.rearm().await.unwrap(), 1);
    assert_eq!(world.rooms.rearm().await.unwrap(), 0, "it is set");
    world.run_due().await;
    assert!(!world.room().await.is_dirty());
    assert_eq!(world.rooms.rearm().await.unwrap(), 0);
}

/// L-13: an hour in which something is written every ten seconds.
async fn snapshots_come_every_five_minutes_however_busy_the_room_is(backend: Backend) {
    let rules = AppendRules { snapshot_updates: 100_000, ..AppendRules::default() };
    let world = RoomWorld::with(backend, RoomLimits { rules, ..RoomLimits::default() }).await;
    let mut one = Client::join(&world.rooms, 1).await;
    for second in (0..3600).step_by(10) {
        one.write("a", json!(second)).await.unwrap();
        world.pass(secs(10)).await;
    }
    let versions = world.world.store.room_versions(project(), None, 100).await.unwrap();
    assert!(versions.len() >= 11, "{} snapshots in an hour", versions.len());
    let times: Vec<_> = versions.iter().rev().map(|version| version.at).collect();
    for pair in times.windows(2) {
        assert!(pair[1] <= pair[0] + secs(320), "{pair:?}");
    }
    world.world.check().await;
}
