//! What triggers a look: events that come twice, late, in the wrong order, or while somebody looks.

use std::time::Duration;

use roundsman_core::limits::MERGED_ITEMS_MAX;
use roundsman_core::presence::{ClosedBy, POLL_KIND, read_hints};
use roundsman_engine::presence::HearAnswer;

use super::daily::Mishap;
use super::{LAG, PresenceWorld, QUIET, ROOM, pass};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{secs, until_running};

on_every_database! {
    r_2_a_webhook_that_comes_ten_times_is_one_look
    r_3_events_in_the_wrong_order_and_an_hour_late_are_only_hints
    r_4_an_event_during_a_look_is_looked_at_again
    r_4_what_was_heard_before_such_an_event_is_not_forgotten
    r_4_the_timer_does_not_take_the_look_after_the_lag_away
    r_5_a_worker_that_dies_with_the_trigger_does_not_lose_it
    r_6_every_event_is_followed_by_a_look_after_the_lag
    a_trigger_survives_a_commit_whose_answer_is_lost
    what_piles_up_while_nobody_answers_is_bounded
}

async fn r_2_a_webhook_that_comes_ten_times_is_one_look(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open(ROOM).await;
    let other = world.another_node("w2");
    world.daily.joins(ROOM, "a");
    let event = world.joined_event(ROOM, "a");
    let (node, now) = (&world.node, world.now());
    let answers: Vec<HearAnswer> = std::thread::scope(|scope| {
        let heard: Vec<_> = (0..10).map(|_| scope.spawn(|| node.hears(&event, now))).collect();
        heard.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let taken = answers.iter().filter(|answer| **answer == HearAnswer::Taken).count();
    let repeated = answers.iter().filter(|answer| **answer == HearAnswer::Repeated).count();
    assert_eq!((taken, repeated), (1, 9));
    world.pass(secs(120)).await;
    assert_eq!(world.daily.looks(ROOM), 2, "at once and after the lag");
    // Another node does not know that it was heard.
    assert_eq!(other.hears(&event, world.now()), HearAnswer::Taken);
    pass(&world.world, &[&world.node, &other], secs(120)).await;
    assert_eq!(world.daily.looks(ROOM), 4);
    assert_eq!(world.sessions(id).await.len(), 1);
    world.check().await;
}

async fn r_3_events_in_the_wrong_order_and_an_hour_late_are_only_hints(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.daily.joins(ROOM, "b");
    let joined_b = world.joined_event(ROOM, "b");
    world.world.clock.advance(secs(20));
    world.daily.leaves(ROOM, "b");
    world.daily.joins(ROOM, "c");
    let (left_b, joined_c) = (world.left_event(ROOM, "b"), world.joined_event(ROOM, "c"));
    // The leave comes before the join.
    world.node.hears(&left_b, world.now());
    world.pass(secs(5)).await;
    world.node.hears(&joined_b, world.now());
    world.pass(secs(60)).await;
    assert_eq!(world.inside(id).await, ["a", "c"]);
    let b = world.session(id, "b").await;
    let stay = world.daily.stay(ROOM, "b");
    assert_eq!(b.joined_at, stay.person.joined_at);
    assert_eq!(
        b.closed.map(|closed| (closed.at, closed.by)),
        stay.until.zip(Some(ClosedBy::Event))
    );

    // An hour later it is told again that c came and that b did, by a node that heard neither.
    world.daily.leaves(ROOM, "c");
    world.pass(secs(3600)).await;
    let late = world.another_node("w2");
    late.hears(&joined_c, world.now());
    late.hears(&joined_b, world.now());
    pass(&world.world, &[&world.node, &late], secs(60)).await;
    assert_eq!(world.inside(id).await, ["a"]);
    assert_eq!(world.sessions(id).await.len(), 3);
    assert_eq!(world.session(id, "b").await, b);
    world.check().await;
}

async fn r_4_an_event_during_a_look_is_looked_at_again(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.comes(ROOM, "b");
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    let gate = world.daily.hold(ROOM);
    world.node.worker.claim_tick().await.unwrap();
    gate.reached().await;
    // The answer is made; now somebody comes.
    world.comes(ROOM, "c");
    let heard_at = world.now();
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    world.node.worker.claim_tick().await.unwrap();
    gate.open();
    world.daily.hold_no_more();
    until_running(&world.node.worker, 0).await;
    world.node.worker.settle_tick().await.unwrap();
    assert_eq!(world.inside(id).await, ["a", "b"]);
    world.run_due().await;
    assert_eq!(world.inside(id).await, ["a", "b", "c"]);
    assert_eq!(world.daily.look_times(ROOM)[1], heard_at + QUIET, "no later than that");
    world.check().await;
}

async fn r_4_what_was_heard_before_such_an_event_is_not_forgotten(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a", "b"]).await;
    world.daily.set_lag(secs(10));
    world.goes(ROOM, "b");
    let left_at = world.now();
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    let gate = world.daily.hold(ROOM);
    world.node.worker.claim_tick().await.unwrap();
    gate.reached().await;
    world.comes(ROOM, "c");
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    gate.open();
    world.daily.hold_no_more();
    until_running(&world.node.worker, 0).await;
    world.node.worker.settle_tick().await.unwrap();
    assert_eq!(world.inside(id).await, ["a", "b"], "the provider still shows b");
    world.pass(secs(60)).await;
    assert_eq!(world.inside(id).await, ["a", "c"]);
    let closed = world.closed(id, "b").await;
    assert_eq!((closed.at, closed.by), (left_at, ClosedBy::Event));
    world.check().await;
}

async fn r_4_the_timer_does_not_take_the_look_after_the_lag_away(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a", "b"]).await;
    world.daily.set_lag(secs(14));
    world.goes(ROOM, "b");
    let left_at = world.now();
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    let gate = world.daily.hold(ROOM);
    world.node.worker.claim_tick().await.unwrap();
    gate.reached().await;
    // The timer asks for a look too, and has nothing to tell.
    world.daily.set("domain_presence", Mishap::Unavailable);
    world.work.reconciler(&world.options).tick().await.unwrap();
    gate.open();
    world.daily.hold_no_more();
    until_running(&world.node.worker, 0).await;
    world.node.worker.settle_tick().await.unwrap();
    world.pass(secs(60)).await;
    assert_eq!(*world.daily.look_times(ROOM).last().unwrap(), left_at + LAG);
    let closed = world.closed(id, "b").await;
    assert_eq!((closed.at, closed.by), (left_at, ClosedBy::Event));
    world.check().await;
}

async fn r_5_a_worker_that_dies_with_the_trigger_does_not_lose_it(backend: Backend) {
    let mut world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a", "b"]).await;
    world.goes(ROOM, "b");
    let left_at = world.now();
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    let gate = world.daily.hold(ROOM);
    world.node.worker.claim_tick().await.unwrap();
    gate.reached().await;
    // It has taken the flag and dies; its answer never comes.
    world.restart();
    world.daily.hold_no_more();
    world.run_due().await;
    assert_eq!(world.inside(id).await, ["a", "b"]);
    world.world.clock.advance(secs(121));
    assert_eq!(world.world.sweeper().tick().await.unwrap(), 1);
    world.pass(secs(10)).await;
    assert_eq!(world.inside(id).await, ["a"]);
    let closed = world.closed(id, "b").await;
    assert_eq!((closed.at, closed.by), (left_at, ClosedBy::Event), "with what it knew");
    world.check().await;
}

async fn r_6_every_event_is_followed_by_a_look_after_the_lag(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open(ROOM).await;
    world.daily.set_lag(LAG);
    let mut heard = Vec::new();
    // Never quiet for a second, for half a minute.
    for number in 0..40 {
        world.comes(ROOM, &format!("p{number:02}"));
        heard.push(world.now());
        world.pass(Duration::from_millis(750)).await;
    }
    world.pass(secs(60)).await;
    let looks = world.daily.look_times(ROOM);
    let last_heard = *heard.last().unwrap();
    for at in heard {
        let first = looks.iter().find(|look| **look >= at).unwrap();
        assert!(first.since(at) <= secs(3), "a look at most three seconds after {at}");
        let after_lag = looks.iter().find(|look| **look >= at + LAG).unwrap();
        assert!(*after_lag <= last_heard + LAG);
    }
    assert_eq!(world.inside(id).await.len(), 40);
    assert!(looks.len() <= 20, "{} looks for 40 events", looks.len());
    assert!(world.waiting_polls().await.is_empty());
    world.check().await;
}

async fn a_trigger_survives_a_commit_whose_answer_is_lost(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.comes(ROOM, "b");
    world.world.store.set("commit_look", Fault::AnswerLost);
    world.pass(QUIET).await;
    assert_eq!(world.inside(id).await, ["a", "b"], "it was written, but nobody knows");
    world.world.store.mend();
    world.world.store.set("commit_look", Fault::Down);
    world.pass(secs(20)).await;
    world.world.store.mend();
    world.pass(secs(60)).await;
    assert_eq!(world.inside(id).await, ["a", "b"]);
    assert_eq!(world.sessions(id).await.len(), 2);
    let errors =
        world.metric(&format!("jobs_failures_total{{kind=\"{POLL_KIND}\",code=\"storage\"}}"));
    assert!(errors >= 2, "{}", world.world.metrics.encode());
    world.check().await;
}

async fn what_piles_up_while_nobody_answers_is_bounded(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.daily.set_room(ROOM, Mishap::Unavailable);
    for burst in 0..8 {
        for number in 0..100 {
            world.comes(ROOM, &format!("p{burst}-{number:02}"));
        }
        world.pass(secs(2)).await;
    }
    let polls = world.waiting_polls().await;
    let [poll] = &polls[..] else { panic!("{polls:?}") };
    let hints = read_hints(&poll.facts().payload.to_value());
    assert_eq!(hints.len(), MERGED_ITEMS_MAX);
    assert_eq!(hints.last().unwrap().session.as_deref(), Some("p7-99"), "the newest are kept");
    world.daily.mend();
    world.pass(secs(60)).await;
    assert_eq!(world.inside(id).await.len(), 801, "a look shows what events had no place for");
    assert!(world.waiting_polls().await.is_empty());
    world.check().await;
}
