//! What the public reference implementation gets wrong (the numbers are those of its list of
//! defects), and this one must not.

use std::time::Duration;

use roundsman_core::ports::{EffectStore, InboxOutcome, PresenceStore, Scope};
use roundsman_core::presence::{ClosedBy, EndReason, Participant};
use roundsman_engine::presence::HearAnswer;
use serde_json::json;

use super::daily::{Mishap, person};
use super::{LAG, PresenceWorld, QUIET, RECONCILE_EVERY, ROOM, event};
use crate::backend::{Backend, on_every_database};
use crate::support::{secs, until_running};

on_every_database! {
    defect_1_a_session_that_reappears_breaks_nothing
    defect_2_a_trigger_during_a_look_is_not_lost
    defect_3_leaving_and_coming_back_does_not_end_the_meeting
    defect_4_a_room_that_is_gone_is_not_asked_for_ever
    defect_5_one_odd_record_spoils_nothing
    defect_6_the_number_of_clients_is_that_of_the_sessions
    defect_7_leaves_have_their_own_time_and_short_visits_are_kept
    defect_8_a_meeting_ended_by_mistake_comes_back
    defect_9_the_provider_is_not_flooded
    defect_11_two_meetings_in_rooms_of_one_name
}

async fn defect_1_a_session_that_reappears_breaks_nothing(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a", "b"]).await;
    world.start_timers().await;
    world.run_due().await;
    world.daily.set_room(ROOM, Mishap::Without("b".to_owned()));
    world.comes(ROOM, "c");
    world.pass(secs(20)).await;
    assert_eq!(world.inside(id).await, ["a", "c"]);
    assert_eq!(world.closed(id, "b").await.by, ClosedBy::Poll);
    // It is shown again, together with somebody new; and one goes in the same look.
    world.daily.mend();
    world.daily.leaves(ROOM, "a");
    world.comes(ROOM, "d");
    world.pass(secs(20)).await;
    assert_eq!(world.inside(id).await, ["b", "c", "d"]);
    assert_eq!(world.metric("presence_changes_total{change=\"reopened\"}"), 1);
    assert!(world.meeting(id).await.is_active());
    let b = world.session(id, "b").await;
    assert_eq!(b.joined_at, world.daily.stay(ROOM, "b").person.joined_at);
    let steps = world.world.store.transitions("meeting".to_owned(), id.get()).await.unwrap();
    let reopened = steps.iter().find(|step| step.cause == "session_reopened").unwrap();
    assert_eq!(reopened.detail.as_ref().unwrap().to_value()["sessions"], json!(["b"]), "logged");

    // One whose leave the provider has told and shown stays closed.
    world.goes(ROOM, "b");
    world.pass(secs(30)).await;
    world.daily.next(ROOM, Mishap::Stale(secs(35)));
    world.comes(ROOM, "e");
    world.pass(secs(2)).await;
    assert!(!world.inside(id).await.contains(&"b".to_owned()));
    world.check().await;
}

async fn defect_2_a_trigger_during_a_look_is_not_lost(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    let other = world.another_node("w2");
    world.comes(ROOM, "b");
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    let gate = world.daily.hold(ROOM);
    world.node.worker.claim_tick().await.unwrap();
    gate.reached().await;
    // Another node hears of somebody while the lock is held.
    world.daily.joins(ROOM, "c");
    other.hears(&world.joined_event(ROOM, "c"), world.now());
    world.world.clock.advance(QUIET);
    other.tick().await;
    assert_eq!(world.daily.looks(ROOM), 1, "skipped, because somebody looks");
    gate.open();
    world.daily.hold_no_more();
    until_running(&world.node.worker, 0).await;
    world.node.worker.settle_tick().await.unwrap();
    other.tick().await;
    assert_eq!(world.inside(id).await, ["a", "b", "c"], "without any timer");
    world.check().await;
}

async fn defect_3_leaving_and_coming_back_does_not_end_the_meeting(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["first"]).await;
    let scope = Scope::User(world.user);
    world.start_timers().await;
    world.run_due().await;
    for round in 0..5 {
        // The page is loaded anew, at a different moment of the minute each time.
        let before = world.inside(id).await.remove(0);
        world.goes(ROOM, &before);
        world.pass(secs(25)).await;
        world.presence.joining(scope, id, "tab").await.unwrap();
        world.pass(secs(4)).await;
        let session = format!("again-{round}");
        world.daily.joins(ROOM, &session);
        world.presence.joined(scope, id, "tab").await.unwrap();
        world.pass(secs(7)).await;
        assert!(world.meeting(id).await.is_active(), "round {round}");
        assert_eq!(world.inside(id).await, [session]);
    }
    assert_eq!(world.metric("presence_ended_total{reason=\"everyone_left\"}"), 0);
    world.check().await;
}

async fn defect_4_a_room_that_is_gone_is_not_asked_for_ever(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a", "b"]).await;
    world.start_timers().await;
    world.run_due().await;
    world.daily.delete(ROOM);
    world.pass(secs(120)).await;
    assert_eq!(world.meeting(id).await.end_reason, Some(EndReason::RoomGone));
    assert_eq!(world.inside(id).await, [""; 0]);
    let asked = world.daily.looks(ROOM);
    assert!(asked <= 6, "{asked}");
    world.pass(secs(3600)).await;
    assert_eq!(world.daily.looks(ROOM), asked);
    world.check().await;
}

async fn defect_5_one_odd_record_spoils_nothing(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    let nobody = |session: &str| Participant {
        user_id: None,
        user_name: None,
        ..person(session, world.now())
    };
    world.daily.joins_as(ROOM, nobody("anonymous"));
    world.daily.joins(ROOM, "b");
    let now = world.now();
    let payloads = [
        ("participant.joined", json!({"room": ROOM, "session_id": "anonymous", "user_name": ""})),
        ("participant.joined", json!({"room": ROOM, "user_name": null})),
        ("participant.left", json!({"room": ROOM, "session_id": "x", "duration": "long"})),
        ("meeting.started", json!({"room": ROOM, "start_ts": 1})),
        ("dialout.error", json!({"anything": [1, 2, {"deep": null}]})),
        ("recording.ready-to-download", json!({"recording_id": 7})),
        ("an.event.of.tomorrow", json!(null)),
    ];
    for (number, (kind, payload)) in payloads.iter().enumerate() {
        let answer = world.node.hears(&event(kind, &format!("e{number}"), payload, now), now);
        assert_ne!(answer, HearAnswer::Full, "{kind}");
    }
    world.pass(secs(60)).await;
    assert_eq!(world.inside(id).await, ["a", "anonymous", "b"]);
    let session = world.session(id, "anonymous").await;
    assert_eq!((session.user_id, session.user_name), (None, None));
    let inbox = world.inbox().await;
    assert_eq!(inbox.len(), payloads.len());
    assert!(inbox.iter().any(|event| event.event.outcome == InboxOutcome::Odd));
    world.check().await;
}

async fn defect_6_the_number_of_clients_is_that_of_the_sessions(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a", "b"]).await;
    // Two of an answer are one; one who left is still shown; one who is there is not.
    world.goes(ROOM, "b");
    world.daily.next(ROOM, Mishap::Stale(secs(5)));
    world.pass(QUIET).await;
    assert_eq!(world.inside(id).await.len(), 2);
    assert_eq!(world.meeting(id).await.num_clients, 2);
    world.comes(ROOM, "c");
    world.daily.next(ROOM, Mishap::Without("a".to_owned()));
    world.pass(QUIET).await;
    let inside = world.inside(id).await;
    assert_eq!(world.meeting(id).await.num_clients as usize, inside.len());
    world.pass(secs(60)).await;
    assert_eq!(world.inside(id).await, ["a", "c"]);
    assert_eq!(world.meeting(id).await.num_clients, 2);
    world.check().await;
}

async fn defect_7_leaves_have_their_own_time_and_short_visits_are_kept(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a", "b"]).await;
    world.daily.leaves(ROOM, "b");
    let left_at = world.now();
    // The event comes eight seconds after what it tells of.
    world.pass(secs(8)).await;
    world.hears_left(ROOM, "b");
    // And somebody comes and goes between two looks.
    world.comes(ROOM, "visitor");
    let came_at = world.now();
    world.world.clock.advance(Duration::from_millis(400));
    world.goes(ROOM, "visitor");
    let went_at = world.now();
    world.pass(secs(60)).await;
    let closed = world.closed(id, "b").await;
    assert_eq!((closed.at, closed.by), (left_at, ClosedBy::Event));
    let visit = world.session(id, "visitor").await;
    assert_eq!(visit.joined_at, came_at);
    assert_eq!(visit.closed.map(|closed| (closed.at, closed.by)), Some((went_at, ClosedBy::Event)));
    assert_eq!(world.metric("presence_changes_total{change=\"visit\"}"), 1);

    // A leave that a look found first gets the time of its event.
    world.daily.joins(ROOM, "c");
    world.hears_joined(ROOM, "c");
    world.pass(secs(60)).await;
    world.daily.leaves(ROOM, "c");
    let left_at = world.now();
    world.pass(secs(5)).await;
    world.comes(ROOM, "d");
    world.pass(secs(2)).await;
    assert_eq!(world.closed(id, "c").await.by, ClosedBy::Poll);
    world.hears_left(ROOM, "c");
    world.pass(secs(20)).await;
    let closed = world.closed(id, "c").await;
    assert_eq!((closed.at, closed.by), (left_at, ClosedBy::Event));
    world.check().await;
}

async fn defect_8_a_meeting_ended_by_mistake_comes_back(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open(ROOM).await;
    world.start_timers().await;
    // Nobody comes for half an hour, so it ends; then people come after all, and no event says so.
    world.pass(secs(1900)).await;
    assert_eq!(world.meeting(id).await.end_reason, Some(EndReason::NeverUsed));
    world.daily.joins(ROOM, "late");
    world.pass(RECONCILE_EVERY + LAG).await;
    assert!(world.meeting(id).await.is_active());
    assert_eq!(world.inside(id).await, ["late"]);
    // The same with an event.
    world.goes(ROOM, "late");
    world.pass(secs(180)).await;
    assert_eq!(world.meeting(id).await.end_reason, Some(EndReason::EveryoneLeft));
    world.comes(ROOM, "later");
    world.pass(secs(2)).await;
    assert!(world.meeting(id).await.is_active());
    world.check().await;
}

async fn defect_9_the_provider_is_not_flooded(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    for number in 0..30 {
        world.open_with(&format!("room-{number}"), &["a"]).await;
    }
    world.start_timers().await;
    world.run_due().await;
    world.daily.forget_calls();
    // Ten minutes in which nothing changes: one call each half minute, whatever the number.
    world.pass(secs(600)).await;
    assert_eq!(world.daily.count("room_presence"), 0);
    assert_eq!(world.daily.count("domain_presence"), 20);
    // The same event a hundred times: one look, and one after the lag.
    world.daily.joins("room-7", "b");
    let joined = world.joined_event("room-7", "b");
    for _ in 0..100 {
        world.node.hears(&joined, world.now());
    }
    world.pass(secs(25)).await;
    assert_eq!(world.daily.looks("room-7"), 2);
    assert_eq!(world.metric("presence_events_total{outcome=\"repeated\"}"), 99);
    world.check().await;
}

async fn defect_11_two_meetings_in_rooms_of_one_name(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let first = world.open_with(ROOM, &["a"]).await;
    world.goes(ROOM, "a");
    let late = world.left_event(ROOM, "a");
    world.start_timers().await;
    world.pass(secs(180)).await;
    assert!(!world.meeting(first).await.is_active());
    let before = (world.meeting(first).await, world.sessions(first).await);

    let second = world.open_unseen(ROOM).await;
    world.comes(ROOM, "b");
    world.pass(secs(60)).await;
    assert_eq!(world.inside(second).await, ["b"], "events are about the meeting that is open");
    // A leave of the first one comes late, to a node that has not heard it.
    let other = world.another_node("w2");
    other.hears(&late, world.now());
    super::pass(&world.world, &[&world.node, &other], secs(60)).await;
    assert_eq!(world.sessions(second).await.len(), 1, "nobody visited before it was made");
    assert_eq!((world.meeting(first).await, world.sessions(first).await), before);
    let open = world.world.store.open_presences(None, 10).await.unwrap();
    assert_eq!(open.len(), 1);
    world.check().await;
}
