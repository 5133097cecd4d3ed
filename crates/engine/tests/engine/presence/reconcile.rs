//! The comparison of all rooms with the record, every half minute.

use std::collections::BTreeSet;

use roundsman_core::jobs::Job;
use roundsman_core::ports::{PresenceStore, Scope};
use roundsman_core::presence::RECONCILE_KIND;
use roundsman_engine::presence::Reconciled;
use roundsman_testkit::env;

use super::daily::Mishap;
use super::{LAG, PresenceWorld, QUIET, RECONCILE_EVERY, ROOM, pass};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{secs, until_running};

on_every_database! {
    r_1_the_timer_converges_without_any_webhook
    r_10_many_meetings_are_fresh_with_one_call
    r_10_a_domain_call_that_is_limited_floods_nobody
    r_10_without_an_answer_about_all_rooms_they_take_turns
    r_10_events_go_first_then_what_differs_then_the_rest
    r_14_different_meetings_are_looked_at_in_parallel
    r_17_a_slow_round_holds_up_no_other_meeting
    a_meeting_that_was_ended_by_mistake_is_found_and_healed
    rooms_of_others_are_left_alone
    a_round_that_fails_is_tried_again_soon
    without_a_provider_nobody_is_asked
    one_node_compares
    another_node_compares_when_one_dies
}

async fn r_1_the_timer_converges_without_any_webhook(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let mut meetings = Vec::new();
    for number in 0..20 {
        let room = format!("room-{number}");
        meetings.push((world.open_with(&room, &["a", "b", "c"]).await, room));
    }
    world.start_reconciler().await;
    world.run_due().await;
    world.daily.set_lag(LAG);
    world.pass(secs(7)).await;
    // In every room something else happens, and nobody hears of it.
    for (number, (_, room)) in meetings.iter().enumerate() {
        if number % 2 == 0 {
            world.daily.joins(room, "d");
        }
        if number % 3 == 0 {
            world.daily.leaves(room, "a");
        }
        if number % 5 == 0 {
            world.daily.leaves(room, "b");
            world.daily.leaves(room, "c");
        }
    }
    // Unchanged for a lag, and then the interval, a lag and five seconds.
    world.pass(LAG + RECONCILE_EVERY + LAG + secs(5)).await;
    for (id, room) in &meetings {
        assert_eq!(world.inside(*id).await, world.daily.inside(room), "{room}");
    }
    assert_eq!(world.inbox().await, []);
    world.check().await;
}

async fn r_10_many_meetings_are_fresh_with_one_call(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let count = match backend {
        Backend::Sqlite if env::full() => 10_000,
        Backend::Sqlite => 2000,
        Backend::Postgres => 200,
    };
    let mut meetings = Vec::new();
    for number in 0..count {
        let room = format!("room-{number}");
        world.daily.joins(&room, "a");
        meetings.push((world.open_unseen(&room).await, room));
    }
    world.run_due().await;
    world.world.clock.advance(secs(60));
    let reconciler = world.work.reconciler(&world.options);
    world.daily.forget_calls();
    // One in a hundred has changed.
    for (_, room) in meetings.iter().step_by(100) {
        world.daily.joins(room, "b");
    }
    let changed = count / 100;
    let began_at = world.now();
    let round = reconciler.tick().await.unwrap();
    let told = Reconciled { open: count, looks: changed, answered: true, ..Reconciled::default() };
    assert_eq!(round, told);
    world.run_due().await;
    assert_eq!(world.daily.count("room_presence"), changed);
    assert_eq!(world.daily.count("domain_presence"), 1);
    let fresh: BTreeSet<_> = {
        let mut fresh = BTreeSet::new();
        for (id, _) in meetings.iter().step_by(50) {
            fresh.insert(world.presence.meeting(Scope::All, *id).await.unwrap().fresh_at);
        }
        fresh
    };
    assert_eq!(fresh, BTreeSet::from([Some(began_at)]), "those that are as they were too");
    for (id, room) in meetings.iter().step_by(100) {
        assert_eq!(world.inside(*id).await, ["a", "b"], "{room}");
    }
    world.check().await;
}

async fn r_10_a_domain_call_that_is_limited_floods_nobody(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    for number in 0..10 {
        world.open_with(&format!("room-{number}"), &["a"]).await;
    }
    world.start_reconciler().await;
    world.run_due().await;
    world.daily.forget_calls();
    world.daily.set("domain_presence", Mishap::RateLimited(Some(secs(4))));
    let limited_at = world.now() + RECONCILE_EVERY;
    world.pass(RECONCILE_EVERY + secs(10)).await;
    assert_eq!(world.daily.count("room_presence"), 0);
    let times: Vec<_> = world.daily.calls().iter().map(|call| call.at).collect();
    assert_eq!(times, [limited_at, limited_at + secs(4), limited_at + secs(8)]);
    assert_eq!(world.metric("presence_domain_looks_total{outcome=\"rate_limited\"}"), 3);
    let looked = world.world.store.last_domain_look().await.unwrap();
    assert!(looked.unwrap() < limited_at, "nothing is taken for fresh");
    world.check().await;
}

/// What nobody knows anything about is asked for no faster than it can be answered, and every room has
/// its turn.
async fn r_10_without_an_answer_about_all_rooms_they_take_turns(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    for number in 0..510 {
        world.open_unseen(&format!("room-{number}")).await;
    }
    world.run_due().await;
    world.daily.set("domain_presence", Mishap::Unavailable);
    world.start_reconciler().await;
    for looks in [500, 10, 500] {
        world.daily.forget_calls();
        world.run_due().await;
        assert_eq!(world.daily.count("domain_presence"), 1);
        assert_eq!(world.daily.count("room_presence"), looks);
        let rooms: BTreeSet<_> = world.daily.calls().into_iter().map(|call| call.room).collect();
        assert_eq!(rooms.len(), looks + 1, "each of them once");
        world.world.clock.advance(RECONCILE_EVERY);
    }
    // One answer, and all of them are known again.
    world.daily.mend();
    world.daily.forget_calls();
    world.run_due().await;
    assert_eq!(world.daily.count("room_presence"), 0);
    world.check().await;
}

async fn r_10_events_go_first_then_what_differs_then_the_rest(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    for number in 0..6 {
        world.open(&format!("room-{number}")).await;
    }
    let reconciler = world.work.reconciler(&world.options);
    world.daily.set("domain_presence", Mishap::Unavailable);
    assert_eq!(reconciler.tick().await.unwrap().looks, 6);
    world.daily.mend();
    world.daily.joins("room-3", "a");
    assert_eq!(reconciler.tick().await.unwrap().looks, 1);
    world.comes("room-5", "b");
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    world.daily.forget_calls();
    let one_by_one =
        world.world.worker_with(vec![world.work.poller()], |options| options.slots = 1);
    for _ in 0..6 {
        one_by_one.claim_tick().await.unwrap();
        until_running(&one_by_one, 0).await;
        one_by_one.settle_tick().await.unwrap();
    }
    let rooms: Vec<String> = world.daily.calls().into_iter().filter_map(|call| call.room).collect();
    assert_eq!(rooms[..2], ["room-5", "room-3"]);
    assert_eq!(rooms.iter().collect::<BTreeSet<_>>().len(), 6, "each of them once");
    world.check().await;
}

async fn r_14_different_meetings_are_looked_at_in_parallel(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let rooms: Vec<String> = (0..32).map(|number| format!("room-{number}")).collect();
    for room in &rooms {
        world.open(room).await;
        world.daily.joins(room, "a");
    }
    let gates: Vec<_> = rooms.iter().map(|room| world.daily.hold(room)).collect();
    world.work.reconciler(&world.options).tick().await.unwrap();
    world.node.worker.claim_tick().await.unwrap();
    for gate in &gates {
        gate.reached().await;
    }
    assert_eq!(world.node.worker.running_count(), 32, "all of them at once");
    for gate in &gates {
        gate.open();
    }
    until_running(&world.node.worker, 0).await;
    world.node.worker.settle_tick().await.unwrap();
    let counts = world.world.store.presence_counts().await.unwrap();
    assert_eq!((counts.open, counts.clients), (32, 32));
    world.check().await;
}

async fn r_17_a_slow_round_holds_up_no_other_meeting(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let slow = world.open("slow").await;
    let quick = world.open("quick").await;
    let other = world.another_node("w2");
    world.start_reconciler().await;
    world.run_due().await;
    world.daily.joins("slow", "a");
    let gate = world.daily.hold("slow");
    world.world.clock.advance(RECONCILE_EVERY);
    // The first round asks for a look that does not end.
    world.node.worker.claim_tick().await.unwrap();
    until_running(&world.node.worker, 0).await;
    world.node.worker.settle_tick().await.unwrap();
    world.node.worker.claim_tick().await.unwrap();
    gate.reached().await;
    // The next ones go on without it, and no second look at it is begun.
    world.daily.joins("slow", "b");
    world.daily.joins("quick", "c");
    for _ in 0..3 {
        pass(&world.world, &[&other], RECONCILE_EVERY).await;
        world.node.worker.keep_tick().await.unwrap();
    }
    assert_eq!(world.inside(quick).await, ["c"]);
    assert_eq!(world.daily.looks("slow"), 1);
    world.daily.hold_no_more();
    gate.open();
    until_running(&world.node.worker, 0).await;
    world.node.worker.settle_tick().await.unwrap();
    assert_eq!(world.inside(slow).await, ["a"]);
    other.run_due().await;
    assert_eq!(world.inside(slow).await, ["a", "b"]);
    world.check().await;
}

async fn a_meeting_that_was_ended_by_mistake_is_found_and_healed(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.start_timers().await;
    world.run_due().await;
    // The provider is wrong for minutes, and the meeting ends.
    world.daily.set("room_presence", Mishap::Empty);
    world.daily.set("domain_presence", Mishap::Empty);
    world.pass(secs(300)).await;
    assert!(!world.meeting(id).await.is_active());
    world.daily.mend();
    world.pass(RECONCILE_EVERY).await;
    let meeting = world.meeting(id).await;
    assert!(meeting.is_active() && meeting.end_reason.is_none());
    assert_eq!(world.inside(id).await, ["a"]);
    assert_eq!(world.metric("presence_changes_total{change=\"healed\"}"), 1);
    assert_eq!(world.metric("presence_changes_total{change=\"reopened\"}"), 1);
    world.check().await;
}

async fn rooms_of_others_are_left_alone(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    for room in ["somebody-elses", "not a name of ours", ""] {
        world.daily.joins(room, "x");
    }
    let round = world.work.reconciler(&world.options).tick().await.unwrap();
    assert_eq!((round.open, round.looks), (1, 0));
    assert_eq!(world.world.store.open_presences(None, 10).await.unwrap()[0].meeting_id, id);
    world.check().await;
}

async fn a_round_that_fails_is_tried_again_soon(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.start_reconciler().await;
    world.run_due().await;
    world.daily.joins(ROOM, "b");
    world.world.store.set("open_presences", Fault::Down);
    world.pass(RECONCILE_EVERY + secs(60)).await;
    let jobs = world.world.all_jobs(Some(RECONCILE_KIND)).await;
    let [Job::Waiting(job)] = &jobs[..] else { panic!("{jobs:?}") };
    assert!(job.facts.attempt > 2, "it is not given up: {job:?}");
    world.world.store.mend();
    world.pass(secs(15)).await;
    assert_eq!(world.inside(id).await, ["a", "b"]);
    world.check().await;
}

async fn without_a_provider_nobody_is_asked(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    world.daily.set("domain_presence", Mishap::NotConfigured);
    world.daily.set("room_presence", Mishap::NotConfigured);
    let id = world.open_unseen(ROOM).await;
    world.start_reconciler().await;
    world.pass(secs(600)).await;
    assert_eq!(world.daily.looks(ROOM), 1, "nobody tries for ever");
    assert_eq!(world.meeting(id).await.looks.failures, 0);
    assert!(world.waiting_polls().await.is_empty());
    world.check().await;
}

async fn one_node_compares(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    world.open_with(ROOM, &["a"]).await;
    let nodes = [&world.node, &world.another_node("w2"), &world.another_node("w3")];
    for _ in &nodes {
        // Every node asks for it when it starts.
        world.start_reconciler().await;
    }
    world.daily.forget_calls();
    let began_at = world.now();
    pass(&world.world, &nodes, secs(300)).await;
    let times: Vec<_> = world.daily.calls().iter().map(|call| call.at).collect();
    let expected: Vec<_> = (0..=10).map(|round| began_at + RECONCILE_EVERY * round).collect();
    assert_eq!(times, expected);
    world.check().await;
}

async fn another_node_compares_when_one_dies(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    let other = world.another_node("w2");
    world.daily.joins(ROOM, "b");
    world.start_reconciler().await;
    let gate = world.world.store.hold("open_presences");
    world.node.worker.claim_tick().await.unwrap();
    gate.reached().await;
    world.world.store.hold_no_more();
    pass(&world.world, &[&other], secs(14)).await;
    assert_eq!(world.daily.count("domain_presence"), 1, "somebody does it");
    world.world.clock.advance(secs(2));
    assert_eq!(world.world.sweeper().tick().await.unwrap(), 1);
    pass(&world.world, &[&other], secs(5)).await;
    assert_eq!(world.inside(id).await, ["a", "b"]);
    assert_eq!(world.daily.count("domain_presence"), 2);
    // The dead one comes back, and does no harm.
    gate.open();
    until_running(&world.node.worker, 0).await;
    world.node.worker.settle_tick().await.unwrap();
    pass(&world.world, &[&world.node, &other], secs(120)).await;
    assert_eq!(world.daily.count("domain_presence"), 6, "every half minute, as before");
    assert_eq!(world.inside(id).await, ["a", "b"]);
    world.check().await;
}
