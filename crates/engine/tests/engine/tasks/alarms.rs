//! Alarms that users set.

use std::time::Duration;

use roundsman_core::alarms::SetMode;
use roundsman_core::ports::{EffectStore, Scope};
use roundsman_core::rooms::AlarmType;
use roundsman_engine::Error;
use roundsman_engine::alarms::AlarmRequest;
use serde_json::json;

use super::{TaskWorld, project};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{secs, until_running};

on_every_database! {
    alarms_fire_once_each_and_never_early
    an_alarm_survives_whatever_happens_when_it_fires
    what_cannot_be_set_is_refused
}

fn after(name: &str, secs: u64) -> AlarmRequest {
    AlarmRequest {
        name: name.to_owned(),
        after: Some(Duration::from_secs(secs)),
        payload: json!({ "n": secs }),
        ..AlarmRequest::default()
    }
}

async fn fired(world: &TaskWorld) -> Vec<String> {
    let told = world.world.store.webhook_events(0, 1000).await.unwrap();
    let fired = told.into_iter().filter(|(_, event)| event.event_type == "alarm.fired");
    let name = |body: serde_json::Value| body["alarm"]["name"].as_str().unwrap().to_owned();
    fired.map(|(_, event)| name(event.body.to_value())).collect()
}

async fn alarms_fire_once_each_and_never_early(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let scope = Scope::User(world.user);
    for (name, secs) in [("b", 20), ("a", 10), ("c", 20)] {
        world.alarms.set(scope, &project(), after(name, secs)).await.unwrap();
    }
    let shown = world.alarms.list(scope, &project()).await.unwrap();
    assert_eq!(shown.alarm_type, AlarmType::Idle, "nothing is pending, nothing has changed");
    assert_eq!(shown.alarms.len(), 3);
    world.pass(secs(9)).await;
    assert_eq!(fired(&world).await, Vec::<String>::new(), "never early");
    world.pass(secs(1)).await;
    assert_eq!(fired(&world).await, ["a"]);
    world
        .alarms
        .set(scope, &project(), AlarmRequest { mode: SetMode::Replace, ..after("b", 60) })
        .await
        .unwrap();
    world.alarms.cancel(scope, &project(), "c").await.unwrap();
    assert!(world.alarms.cancel(scope, &project(), "c").await.is_err());
    world.pass(secs(59)).await;
    assert_eq!(fired(&world).await, ["a"]);
    world.pass(secs(1)).await;
    assert_eq!(fired(&world).await, ["a", "b"]);
    assert_eq!(world.alarm_names().await, Vec::<String>::new(), "none when idle");
    let frames = world.world.store.frames("room:storyboard".to_owned(), 0, 10).await.unwrap();
    assert_eq!(frames.len(), 2, "the room is told");
    world.check().await;
}

async fn an_alarm_survives_whatever_happens_when_it_fires(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let scope = Scope::User(world.user);
    world.alarms.set(scope, &project(), after("wake", 10)).await.unwrap();
    // Its end cannot be written, then its answer is lost.
    world.world.store.set("settle", Fault::Down);
    world.world.clock.advance(secs(10));
    world.worker.claim_tick().await.unwrap();
    until_running(&world.worker, 0).await;
    assert!(world.worker.settle_tick().await.is_err());
    world.world.store.mend();
    world.worker.settle_tick().await.unwrap();
    assert_eq!(fired(&world).await, ["wake"], "at least once, and told once");
    world.check().await;
}

async fn what_cannot_be_set_is_refused(backend: Backend) {
    let world = TaskWorld::new(backend).await;
    let scope = Scope::User(world.user);
    let wrong = [
        ("name", after("task_polling", 1)),
        ("name", after("a/b", 1)),
        ("at", AlarmRequest { after: None, ..after("wake", 1) }),
        ("at", AlarmRequest { at: Some(world.now()), ..after("wake", 1) }),
        ("at", after("wake", u64::from(u32::MAX))),
        ("payload", AlarmRequest { payload: json!("a\0b"), ..after("wake", 1) }),
    ];
    for (field, request) in wrong {
        match world.alarms.set(scope, &project(), request).await {
            Err(Error::Invalid(errors)) => assert_eq!(errors[0].field, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    let long = AlarmRequest { payload: json!("x".repeat(20_000)), ..after("wake", 1) };
    assert!(matches!(
        world.alarms.set(scope, &project(), long).await,
        Err(Error::TooLarge { field: "payload", .. })
    ));
    for number in 0..20 {
        world.alarms.set(scope, &project(), after(&format!("n{number}"), 60)).await.unwrap();
    }
    assert!(world.alarms.set(scope, &project(), after("more", 60)).await.is_err());
    // The operator may look at all rooms, but names none.
    let unnamed = roundsman_core::rooms::ProjectId::new("nobody's").unwrap();
    assert!(world.alarms.set(Scope::All, &unnamed, after("wake", 1)).await.is_err());
    assert_eq!(world.alarms.list(Scope::All, &project()).await.unwrap().alarms.len(), 20);
}
