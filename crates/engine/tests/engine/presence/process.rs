//! When meetings end, and when they do not.

use roundsman_core::ports::{EffectStore, NewInboxEvent, PresenceStore, Scope};
use roundsman_core::presence::{EndReason, PROCESS_KIND};
use roundsman_engine::jobs::periodic_wish;
use roundsman_engine::presence::MeetingWish;

use super::daily::Mishap;
use super::{PresenceWorld, ROOM};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::secs;

on_every_database! {
    a_meeting_ends_when_everyone_has_left_for_the_grace
    who_is_on_their_way_keeps_a_meeting_open
    a_meeting_that_nobody_came_to_ends_after_half_an_hour
    a_planned_meeting_ends_after_its_time
    nobody_ends_a_meeting_while_the_provider_is_silent
    many_empty_meetings_are_decided_about_in_one_round
    what_nobody_needs_is_deleted
    a_decision_that_cannot_be_written_is_made_again
}

async fn start(world: &PresenceWorld) {
    world.enqueue(vec![periodic_wish(PROCESS_KIND, world.now())]).await;
    world.run_due().await;
}

async fn a_meeting_ends_when_everyone_has_left_for_the_grace(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.goes(ROOM, "a");
    let left_at = world.now();
    world.pass(secs(20)).await;
    start(&world).await;
    assert!(world.meeting(id).await.is_active(), "twenty seconds are not enough");
    world.pass(secs(70)).await;
    let meeting = world.meeting(id).await;
    assert_eq!(meeting.end_reason, Some(EndReason::EveryoneLeft));
    assert!(meeting.ended_at.unwrap().since(left_at) >= secs(30));
    assert_eq!(meeting.last_left_at, Some(left_at));
    let steps = world.world.store.transitions("meeting".to_owned(), id.get()).await.unwrap();
    let steps: Vec<_> = steps.iter().map(|step| (&*step.to_state, &*step.cause)).collect();
    assert_eq!(steps, [("open", "user"), ("completed", "everyone_left")]);
    world.check().await;
}

async fn who_is_on_their_way_keeps_a_meeting_open(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    let scope = Scope::User(world.user);
    world.goes(ROOM, "a");
    world.pass(secs(40)).await;
    // Back in a moment: for the provider nobody is there, and for us somebody is coming.
    world.presence.joining(scope, id, "browser-1").await.unwrap();
    start(&world).await;
    assert!(world.meeting(id).await.is_active());
    world.daily.joins(ROOM, "a2");
    world.presence.joined(scope, id, "browser-1").await.unwrap();
    world.pass(secs(120)).await;
    assert!(world.meeting(id).await.is_active());
    assert_eq!(world.inside(id).await, ["a2"]);

    // Who says so and does not come is not waited for.
    world.goes(ROOM, "a2");
    world.pass(secs(10)).await;
    world.presence.joining(scope, id, "browser-2").await.unwrap();
    world.pass(secs(130)).await;
    assert!(!world.meeting(id).await.is_active());
    world.check().await;
}

async fn a_meeting_that_nobody_came_to_ends_after_half_an_hour(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open(ROOM).await;
    start(&world).await;
    world.pass(secs(29 * 60)).await;
    assert!(world.meeting(id).await.is_active());
    world.pass(secs(3 * 60)).await;
    assert_eq!(world.meeting(id).await.end_reason, Some(EndReason::NeverUsed));
    world.check().await;
}

async fn a_planned_meeting_ends_after_its_time(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let wish = MeetingWish {
        room: Some(ROOM.to_owned()),
        starts_at: Some(world.now() + secs(3600)),
        ends_at: Some(world.now() + secs(7200)),
        ..MeetingWish::default()
    };
    let id = world.presence.create(world.user, wish).await.unwrap().meeting.id;
    start(&world).await;
    world.pass(secs(7199)).await;
    assert!(world.meeting(id).await.is_active());
    world.pass(secs(70)).await;
    assert_eq!(world.meeting(id).await.end_reason, Some(EndReason::ScheduleOver));
    world.check().await;
}

async fn nobody_ends_a_meeting_while_the_provider_is_silent(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.start_timers().await;
    world.goes(ROOM, "a");
    world.pass(secs(3)).await;
    assert_eq!(world.inside(id).await, [""; 0]);
    world.daily.set("room_presence", Mishap::Unavailable);
    world.daily.set("domain_presence", Mishap::Unavailable);
    world.pass(secs(600)).await;
    assert!(world.meeting(id).await.is_active(), "who knows who is there");
    world.daily.mend();
    world.pass(secs(120)).await;
    assert!(!world.meeting(id).await.is_active());
    world.check().await;
}

async fn many_empty_meetings_are_decided_about_in_one_round(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let count = match backend {
        Backend::Sqlite => 1500,
        Backend::Postgres => 120,
    };
    for number in 0..count {
        world.open_unseen(&format!("room-{number}")).await;
    }
    world.run_due().await;
    let kept = world.open_with(ROOM, &["a"]).await;
    world.world.clock.advance(secs(1800));
    let round = world.work.processor(&world.options).tick().await.unwrap();
    assert_eq!(round.empty, count);
    world.run_due().await;
    let counts = world.world.store.presence_counts().await.unwrap();
    assert_eq!((counts.open, counts.clients), (1, 1));
    assert!(world.meeting(kept).await.is_active());
    assert_eq!(world.metric("presence_ended_total{reason=\"never_used\"}"), count as u64);
    world.check().await;
}

async fn what_nobody_needs_is_deleted(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    let event = |number: usize| NewInboxEvent {
        service: "daily",
        event: format!("e{number}"),
        kind: "participant.joined".to_owned(),
        room: None,
        outcome: roundsman_core::ports::InboxOutcome::Odd,
        reason: None,
        payload: "{}".to_owned(),
    };
    let events = (0..2500).map(event).collect();
    world.world.store.keep_inbox(events, world.now()).await.unwrap();
    world.presence.joining(Scope::All, id, "c").await.unwrap();
    let processor = world.work.processor(&world.options);
    assert_eq!(processor.tick().await.unwrap().pruned, 0);
    world.world.clock.advance(secs(7200));
    assert_eq!(processor.tick().await.unwrap().pruned, 1, "nobody is expected any more");
    world.world.clock.advance(world.options.inbox_for);
    let round = processor.tick().await.unwrap();
    assert_eq!((round.pruned, world.inbox().await.len()), (2500, 0));
    assert_eq!(world.metric("presence_open_meetings"), 1);
    world.check().await;
}

async fn a_decision_that_cannot_be_written_is_made_again(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.goes(ROOM, "a");
    world.pass(secs(60)).await;
    world.world.store.set("judge_presence", Fault::AnswerLost);
    start(&world).await;
    assert!(!world.meeting(id).await.is_active(), "it was made, but nobody knows");
    world.world.store.mend();
    world.pass(secs(60)).await;
    let steps = world.world.store.transitions("meeting".to_owned(), id.get()).await.unwrap();
    assert_eq!(steps.len(), 2, "and is not made twice");
    world.check().await;
}
