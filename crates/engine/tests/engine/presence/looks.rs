//! Looks at rooms: answers that fail, lie, come too late, or show odd things.

use std::time::Duration;

use roundsman_core::jobs::Job;
use roundsman_core::ports::{EffectStore, PresenceStore, Scope, Urgency};
use roundsman_core::presence::{ClosedBy, EndReason, Participant};
use serde_json::json;

use super::daily::{Mishap, person};
use super::{LAG, PresenceWorld, QUIET, RECONCILE_EVERY, ROOM, event};
use crate::backend::{Backend, on_every_database};
use crate::support::{secs, until_running};

on_every_database! {
    r_6_a_zombie_writes_nothing
    r_7_what_is_no_answer_closes_nobody
    r_7_the_operator_hears_of_the_third_failure_and_the_room_is_asked_less_often
    r_8_an_empty_answer_for_a_full_room_needs_a_second_look
    r_8_an_empty_answer_is_believed_when_the_provider_says_that_the_meeting_ended
    r_8_a_real_end_without_events_is_closed_in_time_and_flagged
    r_9_a_stale_answer_closes_nobody_who_has_just_come
    r_10_a_provider_that_asks_for_patience_gets_it
    r_11_who_leaves_and_comes_back_has_two_sessions
    r_12_odd_people_and_many_of_them
    r_13_a_meeting_that_ends_during_a_look_is_not_opened_again
    r_13_a_room_that_is_gone_ends_its_meeting_after_a_grace
    a_meeting_that_was_ended_by_its_owner_is_not_even_looked_at
    events_go_before_the_timer
}

async fn r_6_a_zombie_writes_nothing(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a", "b"]).await;
    let other = world.another_node("w2");
    world.comes(ROOM, "c");
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    let gate = world.daily.hold(ROOM);
    world.node.worker.claim_tick().await.unwrap();
    gate.reached().await;
    world.daily.hold_no_more();
    // The answer hangs for longer than the lock holds; meanwhile two go.
    world.world.clock.advance(secs(121));
    world.daily.leaves(ROOM, "b");
    world.daily.leaves(ROOM, "c");
    assert_eq!(world.world.sweeper().tick().await.unwrap(), 1);
    super::pass(&world.world, &[&other], secs(10)).await;
    assert_eq!(world.inside(id).await, ["a"]);
    let written = world.meeting(id).await;
    // It wakes up and wants to write that all three are there.
    gate.open();
    until_running(&world.node.worker, 0).await;
    world.node.worker.settle_tick().await.unwrap();
    assert_eq!(world.inside(id).await, ["a"]);
    assert_eq!(world.meeting(id).await, written);
    assert_eq!(world.metric("presence_stale_looks_total"), 1);
    world.check().await;
}

async fn r_7_what_is_no_answer_closes_nobody(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a", "b"]).await;
    let mishaps = [
        Mishap::Unavailable,
        Mishap::Odd,
        Mishap::Refused,
        Mishap::RateLimited(None),
        Mishap::RateLimited(Some(secs(7))),
    ];
    world.start_reconciler().await;
    for mishap in mishaps {
        world.daily.mend();
        world.pass(secs(120)).await;
        assert_eq!(world.meeting(id).await.looks.failures, 0);
        world.daily.set("room_presence", mishap.clone());
        world.daily.set("domain_presence", mishap.clone());
        // Events ask for looks that nobody answers.
        let session = format!("x{}", world.now().as_micros());
        world.comes(ROOM, &session);
        world.pass(secs(100)).await;
        world.goes(ROOM, &session);
        world.pass(secs(100)).await;
        assert_eq!(world.inside(id).await, ["a", "b"], "{mishap:?}");
        let looks = world.meeting(id).await.looks;
        let is_failure = !matches!(mishap, Mishap::RateLimited(_));
        assert_eq!(looks.failures > 0, is_failure, "{mishap:?}: {looks:?}");
        assert_eq!(looks.failing_since.is_some(), is_failure);
    }
    world.daily.mend();
    world.pass(secs(60)).await;
    let looks = world.meeting(id).await.looks;
    assert_eq!((looks.failures, looks.failing_since, looks.failure), (0, None, None));
    assert_eq!(world.inside(id).await, ["a", "b"]);
    world.check().await;
}

async fn r_7_the_operator_hears_of_the_third_failure_and_the_room_is_asked_less_often(
    backend: Backend,
) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.daily.set_room(ROOM, Mishap::Unavailable);
    world.comes(ROOM, "b");
    let began_at = world.now();
    world.pass(secs(600)).await;
    assert_eq!(world.metric("presence_alerts_total"), 1, "once for one outage");
    let looks = world.meeting(id).await.looks;
    assert_eq!(looks.failing_since, Some(began_at + QUIET));
    assert!(looks.failure.unwrap().contains("503"));
    let asked = world.daily.look_times(ROOM);
    assert_eq!(looks.failures as usize, asked.len());
    assert!((20..150).contains(&asked.len()), "{} times in ten minutes", asked.len());
    assert!(asked.windows(2).all(|pair| pair[1].since(pair[0]) <= secs(30)));
    let polls = world.waiting_polls().await;
    let [Job::Waiting(job)] = &polls[..] else { panic!("{polls:?}") };
    assert_eq!(job.facts.runs.last_error().unwrap().code.as_str(), "provider");

    world.daily.mend();
    world.pass(secs(60)).await;
    assert_eq!(world.inside(id).await, ["a", "b"]);
    world.check().await;
}

async fn r_8_an_empty_answer_for_a_full_room_needs_a_second_look(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a", "b", "c"]).await;
    world.daily.next(ROOM, Mishap::Empty);
    world.comes(ROOM, "d");
    world.pass(QUIET).await;
    assert_eq!(world.inside(id).await, ["a", "b", "c"]);
    assert!(world.meeting(id).await.looks.empty_since.is_some());
    world.pass(secs(60)).await;
    assert_eq!(world.inside(id).await, ["a", "b", "c", "d"]);
    assert_eq!(world.meeting(id).await.looks.empty_since, None);
    assert!(world.sessions(id).await.iter().all(|session| session.closed.is_none()));
    world.check().await;
}

async fn r_8_an_empty_answer_is_believed_when_the_provider_says_that_the_meeting_ended(
    backend: Backend,
) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a", "b"]).await;
    world.daily.leaves(ROOM, "a");
    world.daily.leaves(ROOM, "b");
    let ended = world.ended_event(ROOM);
    world.node.hears(&ended, world.now());
    world.pass(QUIET).await;
    assert_eq!(world.inside(id).await, [""; 0]);
    world.check().await;
}

async fn r_8_a_real_end_without_events_is_closed_in_time_and_flagged(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let people = ["a", "b", "c", "d", "e"];
    let id = world.open_with(ROOM, &people).await;
    world.start_reconciler().await;
    world.run_due().await;
    world.daily.set_lag(LAG);
    // So that the next comparison just misses it.
    world.pass(secs(16)).await;
    for session in people {
        world.daily.leaves(ROOM, session);
    }
    // The provider shows it after its lag; from then on the bound counts.
    world.pass(LAG + RECONCILE_EVERY).await;
    assert_eq!(world.inside(id).await.len(), 5, "an empty answer alone is not believed");
    world.pass(LAG + secs(5)).await;
    assert_eq!(world.inside(id).await, [""; 0]);
    assert_eq!(world.metric("presence_flagged_total"), 1);
    assert_eq!(world.metric("presence_changes_total{change=\"vanished\"}"), 5);
    world.check().await;
}

async fn r_9_a_stale_answer_closes_nobody_who_has_just_come(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.comes(ROOM, "b");
    world.pass(secs(2)).await;
    assert_eq!(world.inside(id).await, ["a", "b"]);
    // A replica that is behind answers the next question.
    world.daily.next(ROOM, Mishap::Stale(secs(12)));
    world.comes(ROOM, "c");
    world.pass(secs(2)).await;
    assert_eq!(world.inside(id).await, ["a", "b"], "older than b");
    world.pass(secs(60)).await;
    assert_eq!(world.inside(id).await, ["a", "b", "c"]);
    assert!(world.sessions(id).await.iter().all(|session| session.closed.is_none()));
    world.check().await;
}

async fn r_10_a_provider_that_asks_for_patience_gets_it(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.daily.next(ROOM, Mishap::RateLimited(Some(secs(20))));
    world.comes(ROOM, "b");
    let asked_at = world.now() + QUIET;
    world.pass(secs(15)).await;
    // Further events do not shorten it.
    world.comes(ROOM, "c");
    world.pass(secs(30)).await;
    let times = world.daily.look_times(ROOM);
    assert_eq!(times[..2], [asked_at, asked_at + secs(20)]);
    assert_eq!(world.meeting(id).await.looks.failures, 0, "it is no failure of the room");
    assert_eq!(world.inside(id).await, ["a", "b", "c"]);
    assert_eq!(world.metric("presence_looks_total{outcome=\"rate_limited\"}"), 1);
    world.check().await;
}

async fn r_11_who_leaves_and_comes_back_has_two_sessions(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["other"]).await;
    let ada = |session: &str| Participant {
        user_id: Some("ada".to_owned()),
        user_name: Some("Ada".to_owned()),
        ..person(session, world.now())
    };
    world.daily.joins_as(ROOM, ada("first"));
    world.hears_joined(ROOM, "first");
    world.pass(secs(60)).await;
    world.goes(ROOM, "first");
    world.world.clock.advance(Duration::from_millis(300));
    world.daily.joins_as(ROOM, ada("second"));
    world.hears_joined(ROOM, "second");
    world.pass(secs(60)).await;
    assert_eq!(world.inside(id).await, ["other", "second"]);
    let mut of_ada = world.sessions(id).await;
    of_ada.retain(|session| session.user_id.as_deref() == Some("ada"));
    assert_eq!(of_ada.len(), 2);
    let stay = world.daily.stay(ROOM, "first");
    assert_eq!(of_ada[0].closed.map(|closed| closed.at), stay.until);
    world.check().await;
}

async fn r_12_odd_people_and_many_of_them(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open(ROOM).await;
    let now = world.now();
    for number in 0..500 {
        let mut person = person(&format!("s{number:03}"), now);
        match number % 5 {
            // Two devices of one person, and people of whom nothing is known.
            0 => person.user_id = Some("one and the same".to_owned()),
            1 => (person.user_id, person.user_name) = (None, None),
            2 => person.user_name = Some("مرحبا 👩‍🚀 \u{202e}x".to_owned()),
            3 => person.user_name = Some("n".repeat(512)),
            // A clock that is ahead of ours.
            _ => person.joined_at = now + secs(3600),
        }
        world.daily.joins_as(ROOM, person);
    }
    world.hears_joined(ROOM, "s000");
    world.world.clock.advance(secs(3600));
    world.pass(secs(60)).await;
    assert_eq!(world.inside(id).await.len(), 500);
    let session = world.session(id, "s004").await;
    assert!(session.joined_at <= world.now());
    // Half of them go in one look.
    for number in 0..250 {
        world.daily.leaves(ROOM, &format!("s{number:03}"));
    }
    world.hears_left(ROOM, "s000");
    world.pass(secs(60)).await;
    assert_eq!(world.inside(id).await.len(), 250);
    assert_eq!(world.sessions(id).await.len(), 500);
    // Eight kilobytes of name, of somebody whom only events tell of.
    let visit = json!({
        "room": ROOM, "session_id": "visitor", "user_id": null, "user_name": "🙂".repeat(2048),
        "joined_at": now.as_secs_f64(), "duration": 60.5,
    });
    world.node.hears(&event("participant.left", "visit", &visit, world.now()), world.now());
    world.pass(secs(60)).await;
    let visitor = world.session(id, "visitor").await;
    assert_eq!((visitor.user_name, visitor.user_id), (Some("🙂".repeat(128)), None));
    assert_eq!(world.inside(id).await.len(), 250);
    world.check().await;
}

async fn r_13_a_meeting_that_ends_during_a_look_is_not_opened_again(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.comes(ROOM, "b");
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    let gate = world.daily.hold(ROOM);
    world.node.worker.claim_tick().await.unwrap();
    gate.reached().await;
    let ended = world.presence.deactivate(Scope::User(world.user), id).await.unwrap();
    assert!(!ended.meeting.is_active());
    gate.open();
    world.daily.hold_no_more();
    until_running(&world.node.worker, 0).await;
    world.node.worker.settle_tick().await.unwrap();
    world.pass(secs(60)).await;
    let meeting = world.meeting(id).await;
    assert!(!meeting.is_active() && meeting.end_reason == Some(EndReason::Deactivated));
    assert_eq!(world.inside(id).await, [""; 0]);
    assert_eq!(world.closed(id, "a").await.by, ClosedBy::Deactivated);
    world.check().await;
}

async fn r_13_a_room_that_is_gone_ends_its_meeting_after_a_grace(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.daily.next(ROOM, Mishap::NotFound);
    world.start_timers().await;
    world.daily.set("domain_presence", Mishap::Empty);
    world.pass(secs(31)).await;
    assert_eq!(world.inside(id).await, ["a"]);
    world.daily.mend();
    world.pass(secs(61)).await;
    assert_eq!(world.meeting(id).await.looks.gone_since, None, "it was there after all");

    world.daily.delete(ROOM);
    let deleted_at = world.now();
    world.pass(secs(100)).await;
    let meeting = world.meeting(id).await;
    assert_eq!(meeting.end_reason, Some(EndReason::RoomGone));
    let closed = world.closed(id, "a").await;
    assert_eq!(closed.by, ClosedBy::RoomGone);
    assert!(closed.at.since(deleted_at) <= RECONCILE_EVERY);
    let asked = world.daily.looks(ROOM);
    world.pass(secs(600)).await;
    assert_eq!(world.daily.looks(ROOM), asked, "nobody asks for what is gone");
    world.check().await;
}

async fn a_meeting_that_was_ended_by_its_owner_is_not_even_looked_at(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.presence.deactivate(Scope::All, id).await.unwrap();
    world.comes(ROOM, "b");
    world.start_reconciler().await;
    world.pass(secs(120)).await;
    assert_eq!(world.daily.looks(ROOM), 0);
    let inbox = world.inbox().await;
    assert_eq!(inbox[0].event.reason.as_deref(), Some("unknown_room"));
    let steps = world.world.store.transitions("meeting".to_owned(), id.get()).await.unwrap();
    assert_eq!(steps.last().unwrap().cause, "deactivated");
    assert_eq!(world.world.store.open_presences(None, 10).await.unwrap(), []);
    world.check().await;
}

async fn events_go_before_the_timer(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    for number in 0..5 {
        world.open(&format!("room-{number}")).await;
    }
    world.daily.set("domain_presence", Mishap::Unavailable);
    world.work.reconciler(&world.options).tick().await.unwrap();
    world.comes("room-4", "a");
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    world.daily.forget_calls();
    let one_by_one =
        world.world.worker_with(vec![world.work.poller()], |options| options.slots = 1);
    for _ in 0..5 {
        one_by_one.claim_tick().await.unwrap();
        until_running(&one_by_one, 0).await;
        one_by_one.settle_tick().await.unwrap();
    }
    let mut calls = world.daily.calls();
    calls.retain(|call| call.name == "room_presence");
    assert_eq!(calls.len(), 5);
    let urgencies: Vec<_> = calls.iter().map(|call| call.urgency.unwrap()).collect();
    assert_eq!(calls[0].room.as_deref(), Some("room-4"));
    assert_eq!(urgencies[0], Urgency::Event);
    assert!(urgencies[1..].iter().all(|urgency| *urgency == Urgency::Routine));
    world.check().await;
}
