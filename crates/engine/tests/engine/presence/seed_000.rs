//! Scenarios 4 to 10 of seed 000 and its master diagram, step by step.

use std::time::Duration;

use roundsman_core::bots::stream_of;
use roundsman_core::jobs::WorkerName;
use roundsman_core::ports::{EffectStore, PresenceStore};
use roundsman_core::presence::{ClosedBy, judge_wish, read_hints};
use roundsman_core::users::Authenticated;

use super::daily::Mishap;
use super::{LAG, PresenceWorld, QUIET, RECONCILE_EVERY, ROOM, pass};
use crate::backend::{Backend, on_every_database};
use crate::support::{let_others_run, secs, until_running};

on_every_database! {
    scenario_4_webhook_triggers_poll
    scenario_5_event_coalescing
    scenario_6_lost_webhook_recovery
    scenario_7_reconciliation_is_unconditional_but_not_redundant
    scenario_8_two_workers_see_the_same_poll_flag
    scenario_9_two_workers_polling_different_meetings
    scenario_10_process_meetings_overlap
    master_diagram
}

async fn scenario_4_webhook_triggers_poll(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["user1", "user2", "user3"]).await;
    let calls_before = world.world.store.calls("enqueue");

    // The webhook sets a flag and nothing else.
    world.comes(ROOM, "user4");
    assert_eq!(world.inside(id).await.len(), 3);
    assert_eq!(world.world.store.calls("enqueue"), calls_before);
    assert_eq!(world.daily.looks(ROOM), 0);

    // The flag is the waiting row; it knows what was heard.
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    let flags = world.waiting_polls().await;
    let [flag] = &flags[..] else { panic!("one flag: {flags:?}") };
    let hints = read_hints(&flag.facts().payload.to_value());
    assert_eq!(hints[0].session.as_deref(), Some("user4"));

    // The worker takes it under its lock, looks and writes.
    let gate = world.daily.hold(ROOM);
    world.node.worker.claim_tick().await.unwrap();
    gate.reached().await;
    let leases = world.world.jobs().leases(&Authenticated::Admin, None, 10).await.unwrap();
    let names: Vec<&str> = leases.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, [format!("meeting_presence_poll:{id}")]);
    assert_eq!(leases[0].1.lease.ttl, secs(120));
    assert_eq!(world.waiting_polls().await.len(), 0, "the flag is cleared");
    gate.open();
    world.daily.hold_no_more();
    until_running(&world.node.worker, 0).await;
    world.node.worker.settle_tick().await.unwrap();
    assert_eq!(world.inside(id).await, ["user1", "user2", "user3", "user4"]);
    assert_eq!(world.meeting(id).await.num_clients, 4);

    let frames = world.world.store.frames(stream_of(id), 0, 100).await.unwrap();
    let told = frames.last().unwrap().body.to_value();
    assert_eq!(told["type"], "presence.changed");
    assert_eq!(told["payload"]["num_clients"], 4);
    assert_eq!(told["payload"]["joined"][0]["session_id"], "user4");

    // Once more after the provider's lag, and then never again.
    world.pass(secs(120)).await;
    assert_eq!(world.daily.looks(ROOM), 2);
    assert!(world.waiting_polls().await.is_empty());
    world.check().await;
}

async fn scenario_5_event_coalescing(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["user1"]).await;
    let began_at = world.now();
    world.comes(ROOM, "user2");
    world.pass(Duration::from_millis(500)).await;
    world.comes(ROOM, "user3");
    world.pass(Duration::from_millis(800)).await;
    world.comes(ROOM, "user4");
    let last_at = world.now();
    world.pass(secs(60)).await;
    assert_eq!(world.inside(id).await, ["user1", "user2", "user3", "user4"]);
    let looks = world.daily.look_times(ROOM);
    assert_eq!(looks, [last_at + QUIET, last_at + LAG], "3 webhooks, 1 poll, 1 after the lag");
    assert!(looks[0].since(began_at) < secs(3));
    let joined_at = world.session(id, "user3").await.joined_at;
    assert_eq!(joined_at, world.daily.stay(ROOM, "user3").person.joined_at);
    world.check().await;
}

async fn scenario_6_lost_webhook_recovery(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["user1", "user2"]).await;
    world.start_reconciler().await;
    world.run_due().await;
    world.daily.set_lag(LAG);
    // Right after a comparison, and nobody hears of it.
    world.daily.joins(ROOM, "user3");
    world.pass(RECONCILE_EVERY + LAG).await;
    assert_eq!(world.inside(id).await, ["user1", "user2", "user3"]);
    assert_eq!(world.meeting(id).await.num_clients, 3);
    let stay = world.daily.stay(ROOM, "user3");
    assert_eq!(world.session(id, "user3").await.joined_at, stay.person.joined_at);
    world.check().await;
}

async fn scenario_7_reconciliation_is_unconditional_but_not_redundant(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["user1"]).await;
    world.start_reconciler().await;
    world.run_due().await;
    world.pass(secs(27)).await;
    world.comes(ROOM, "user2");
    world.pass(secs(2)).await;
    assert_eq!(world.inside(id).await, ["user1", "user2"], "polled a second ago");
    let compared = world.daily.count("domain_presence");

    // The timer compares it all the same; it is as it should be, so nobody polls.
    world.pass(secs(2)).await;
    assert_eq!(world.daily.count("domain_presence"), compared + 1);
    assert_eq!(world.daily.looks(ROOM), 1);

    // If nothing is known of all rooms, each is polled, however recently it was.
    world.pass(secs(28)).await;
    let polled = world.daily.looks(ROOM);
    world.daily.set("domain_presence", Mishap::Unavailable);
    world.pass(secs(3)).await;
    assert_eq!(world.daily.looks(ROOM), polled + 1);
    assert_eq!(world.inside(id).await, ["user1", "user2"]);
    world.check().await;
}

async fn scenario_8_two_workers_see_the_same_poll_flag(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["user1"]).await;
    let other = world.another_node("w2");
    world.comes(ROOM, "user2");
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    let gate = world.daily.hold(ROOM);
    world.node.worker.claim_tick().await.unwrap();
    gate.reached().await;
    // Cleared atomically: the other worker finds nothing, and a new flag waits for the first.
    other.worker.claim_tick().await.unwrap();
    assert_eq!(other.worker.running_count(), 0);
    world.comes(ROOM, "user3");
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    other.worker.claim_tick().await.unwrap();
    assert_eq!((other.worker.running_count(), world.daily.looks(ROOM)), (0, 1));

    gate.open();
    world.daily.hold_no_more();
    until_running(&world.node.worker, 0).await;
    world.node.worker.settle_tick().await.unwrap();
    assert_eq!(world.inside(id).await, ["user1", "user2"]);
    other.run_due().await;
    assert_eq!(world.inside(id).await, ["user1", "user2", "user3"]);
    world.check().await;
}

async fn scenario_9_two_workers_polling_different_meetings(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let [first, second] = [world.open("mtg-123").await, world.open("mtg-456").await];
    let worker = |name: &str| {
        let name = WorkerName::new(name);
        world.world.worker_with(vec![world.work.poller()], |options| {
            (options.name, options.slots) = (name, 1);
        })
    };
    let (a, b) = (worker("a"), worker("b"));
    world.comes("mtg-123", "user1");
    world.comes("mtg-456", "user2");
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    let gates = [world.daily.hold("mtg-123"), world.daily.hold("mtg-456")];
    a.claim_tick().await.unwrap();
    b.claim_tick().await.unwrap();
    // Both are under way at the same time.
    for gate in &gates {
        gate.reached().await;
    }
    assert_eq!((a.running_count(), b.running_count()), (1, 1));
    for gate in &gates {
        gate.open();
    }
    for worker in [&a, &b] {
        until_running(worker, 0).await;
        worker.settle_tick().await.unwrap();
    }
    assert_eq!(world.inside(first).await, ["user1"]);
    assert_eq!(world.inside(second).await, ["user2"]);
    world.check().await;
}

async fn scenario_10_process_meetings_overlap(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let slow = world.open_with("meeting-123", &["user1"]).await;
    world.goes("meeting-123", "user1");
    world.pass(secs(60)).await;
    let processor = world.work.processor(&world.options);
    let judge = |name: &str| {
        let name = WorkerName::new(name);
        world.world.worker_with(vec![world.work.judge()], |options| options.name = name)
    };
    let (one, two, three) = (judge("worker-1"), judge("worker-2"), judge("worker-3"));

    // The first takes the lock and is slow.
    assert_eq!(processor.tick().await.unwrap().empty, 1);
    let gate = world.world.store.hold("judge_presence");
    one.claim_tick().await.unwrap();
    gate.reached().await;
    world.world.store.hold_no_more();
    let leases = world.world.jobs().leases(&Authenticated::Admin, None, 10).await.unwrap();
    assert_eq!(leases[0].0, format!("meeting_process_lock:{slow}"));
    assert_eq!(leases[0].1.lease.ttl, secs(120));

    // The next run goes on with other meetings and leaves this one alone.
    let other = world.open_with("meeting-456", &["user2"]).await;
    world.goes("meeting-456", "user2");
    world.pass(secs(59)).await;
    world.world.enqueue(judge_wish(slow, world.now())).await;
    processor.tick().await.unwrap();
    two.claim_tick().await.unwrap();
    until_running(&two, 0).await;
    two.settle_tick().await.unwrap();
    assert!(!world.meeting(other).await.is_active());
    two.claim_tick().await.unwrap();
    let_others_run().await;
    assert_eq!(two.running_count(), 0);
    assert_eq!(world.world.store.calls("judge_presence"), 2);

    // When it is done, a later run may.
    gate.open();
    until_running(&one, 0).await;
    one.settle_tick().await.unwrap();
    three.claim_tick().await.unwrap();
    until_running(&three, 0).await;
    three.settle_tick().await.unwrap();
    assert_eq!(world.world.store.calls("judge_presence"), 3);
    assert!(!world.meeting(slow).await.is_active());
    world.check().await;
}

async fn master_diagram(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["ada", "bob"]).await;
    world.start_timers().await;
    world.run_due().await;
    let nodes = [&world.node, &world.another_node("w2")];
    let writes = || world.world.store.calls("commit_look");
    let written = writes();

    // Events are triggers: several of them, one poll, with joins and leaves in it.
    world.comes(ROOM, "eve");
    world.goes(ROOM, "bob");
    let left_at = world.now();
    assert_eq!(writes(), written, "no write but the poll's");
    pass(&world.world, &nodes, secs(2)).await;
    assert_eq!(world.inside(id).await, ["ada", "eve"]);
    assert_eq!(writes(), written + 1);
    let closed = world.closed(id, "bob").await;
    assert_eq!((closed.at, closed.by), (left_at, ClosedBy::Event));

    // The timer is the backup for what no event tells.
    world.daily.joins(ROOM, "joe");
    world.daily.leaves(ROOM, "ada");
    pass(&world.world, &nodes, RECONCILE_EVERY + secs(1)).await;
    assert_eq!(world.inside(id).await, ["eve", "joe"]);
    assert_eq!(world.closed(id, "ada").await.by, ClosedBy::Poll);

    // Everyone leaves: the meeting ends, once.
    for session in ["eve", "joe"] {
        world.goes(ROOM, session);
    }
    pass(&world.world, &nodes, secs(180)).await;
    let meeting = world.meeting(id).await;
    assert!(!meeting.is_active() && meeting.num_clients == 0);
    assert_eq!(world.metric("presence_ended_total{reason=\"everyone_left\"}"), 1);
    assert_eq!(world.world.store.open_presences(None, 10).await.unwrap(), []);
    world.check().await;
}
