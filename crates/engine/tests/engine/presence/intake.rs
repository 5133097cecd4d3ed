//! What becomes of events before anybody looks: in memory, bounded, and through an outage.

use std::time::Duration;

use roundsman_core::jobs::Job;
use roundsman_core::ports::InboxOutcome;
use roundsman_core::presence::{ClosedBy, read_hints};
use roundsman_engine::health::Health;
use roundsman_engine::presence::{HearAnswer, IntakeOptions, PresenceLimits};
use roundsman_testkit::eventually;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Node, PresenceWorld, QUIET, ROOM, event};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{SOON, secs, soon};

on_every_database! {
    events_of_rooms_that_nobody_knows_are_kept_and_counted
    odd_and_foreign_events_are_kept_with_the_reason
    events_wait_while_the_database_is_away
    everything_is_sent_on_at_the_end
    a_burst_in_many_rooms_is_one_statement
    looks_are_asked_for_no_faster_than_they_can_be_made
    rooms_that_nobody_knows_do_not_use_up_the_pace
}

async fn events_of_rooms_that_nobody_knows_are_kept_and_counted(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    world.daily.joins("elsewhere", "x");
    assert_eq!(world.hears_joined("elsewhere", "x"), HearAnswer::Taken, "it is not known yet");
    world.pass(secs(3)).await;
    let inbox = world.inbox().await;
    assert_eq!(inbox.len(), 1);
    let kept = &inbox[0].event;
    assert_eq!(
        (kept.outcome, kept.reason.as_deref()),
        (InboxOutcome::Ignored, Some("unknown_room"))
    );
    assert_eq!((kept.room.as_deref(), &*kept.kind), (Some("elsewhere"), "participant.joined"));
    assert!(kept.payload.contains("ptcpt-join-elsewhere-x"));
    assert_eq!(world.world.all_jobs(None).await, []);
    assert_eq!(world.metric("presence_unknown_room_events_total"), 1);
    world.check().await;
}

async fn odd_and_foreign_events_are_kept_with_the_reason(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open(ROOM).await;
    let now = world.now();
    let hears = |event: &serde_json::Value| world.node.hears(event, now);
    let known = json!({ "room": ROOM, "session_id": "s" });
    let cases = [
        (event("participant.joined", "1", &known, now), HearAnswer::Taken, None),
        (event("participant.joined", "2", &json!({"room": 7}), now), HearAnswer::Odd, Some("")),
        (event("streaming.started", "3", &known, now), HearAnswer::Ignored, Some("not_acted_on")),
        (json!({"test": "test"}), HearAnswer::Ignored, Some("ping")),
        (json!([1, 2]), HearAnswer::Odd, Some("")),
        (json!({"type": "participant.left", "id": "4"}), HearAnswer::Odd, Some("")),
    ];
    for (event, answer, _) in &cases {
        assert_eq!(hears(event), *answer, "{event}");
    }
    assert_eq!(hears(&cases[0].0), HearAnswer::Repeated);
    world.pass(secs(60)).await;
    let mut inbox = world.inbox().await;
    inbox.sort_by_key(|event| event.id);
    assert_eq!(inbox.len(), cases.len());
    for (event, answer, reason) in &cases {
        let body = event.to_string();
        let kept = inbox.iter().find(|kept| kept.event.payload == body).unwrap();
        let outcome = match answer {
            HearAnswer::Taken => InboxOutcome::Taken,
            HearAnswer::Odd => InboxOutcome::Odd,
            _ => InboxOutcome::Ignored,
        };
        assert_eq!(kept.event.outcome, outcome, "{event}");
        match *reason {
            None => assert_eq!(kept.event.reason, None),
            Some("") => assert!(kept.event.reason.is_some()),
            told => assert_eq!(kept.event.reason.as_deref(), told),
        }
        let found = world.presence.inbox_event(kept.id).await.unwrap();
        assert_eq!(found.as_ref(), Some(kept));
    }
    assert_eq!(world.inside(id).await, [""; 0]);
    world.check().await;
}

async fn events_wait_while_the_database_is_away(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a", "b"]).await;
    world.goes(ROOM, "b");
    let left_at = world.now();
    for call in ["meetings_of_rooms", "enqueue", "keep_inbox"] {
        world.world.store.set(call, Fault::Down);
        if call == "keep_inbox" {
            world.world.clock.advance(secs(1));
            world.node.intake.tick().await.unwrap();
        }
        for _ in 0..20 {
            world.world.clock.advance(secs(1));
            world.node.intake.tick().await.unwrap_err();
            let wait = world.node.intake.due_in().unwrap();
            assert!(wait > Duration::ZERO && wait <= secs(1), "it does not hammer: {wait:?}");
        }
        world.comes(ROOM, &format!("during-{call}"));
        world.world.store.mend();
    }
    world.pass(secs(60)).await;
    let inside = world.inside(id).await;
    assert_eq!(inside.len(), 4, "{inside:?}");
    let closed = world.closed(id, "b").await;
    assert_eq!((closed.at, closed.by), (left_at, ClosedBy::Event), "with what was heard then");
    assert_eq!(world.inbox().await.len(), 4);
    assert_eq!(world.node.intake.due_in(), None);
    world.check().await;
}

async fn everything_is_sent_on_at_the_end(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let id = world.open_with(ROOM, &["a"]).await;
    world.comes(ROOM, "b");
    world.daily.joins("elsewhere", "x");
    world.hears_joined("elsewhere", "x");
    // Nothing is due; the process goes down.
    world.node.intake.flush().await.unwrap();
    assert_eq!(world.inbox().await.len(), 2);
    let successor = world.another_node("w2");
    successor.run_due().await;
    assert_eq!(world.inside(id).await, ["a", "b"]);
    assert_eq!(world.node.intake.due_in(), None);
    world.check().await;
}

async fn a_burst_in_many_rooms_is_one_statement(backend: Backend) {
    let world = PresenceWorld::new(backend).await;
    let rooms: Vec<String> = (0..50).map(|number| format!("room-{number}")).collect();
    for room in &rooms {
        world.open_unseen(room).await;
    }
    world.run_due().await;
    for room in &rooms {
        for session in ["a", "b", "c"] {
            world.comes(room, session);
        }
    }
    let store = &world.world.store;
    let before = (store.calls("enqueue"), store.calls("meetings_of_rooms"));
    world.world.clock.advance(QUIET);
    world.node.intake.tick().await.unwrap();
    let after = (store.calls("enqueue"), store.calls("meetings_of_rooms"));
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1));
    assert_eq!(world.waiting_polls().await.len(), 50);
    let kept_before = store.calls("keep_inbox");
    world.pass(secs(60)).await;
    assert_eq!(store.calls("keep_inbox") - kept_before, 1, "and so are the events of the inbox");
    let kept_max = PresenceLimits::default().inbox_taken_per_sec_max as usize;
    assert_eq!(world.inbox().await.len(), kept_max, "of 150 in the same second");
    world.check().await;
}

/// Five in a second, ten at once; with a meeting in each of so many rooms.
async fn in_rooms(backend: Backend, rooms: usize, buffered_max: usize) -> PresenceWorld {
    let limits = PresenceLimits {
        looks_asked_per_sec_max: 5,
        rooms_buffered_max: buffered_max,
        ..PresenceLimits::default()
    };
    let world = PresenceWorld::with(backend, limits).await;
    for number in 0..rooms {
        world.open_unseen(&format!("room-{number:02}")).await;
    }
    world.run_due().await;
    world
}

fn everywhere_comes(world: &PresenceWorld, rooms: usize, session: &str) {
    for number in 0..rooms {
        world.comes(&format!("room-{number:02}"), session);
    }
}

/// Sends on what is due; how many looks were asked for, and with how many statements.
async fn asked(world: &PresenceWorld) -> (usize, usize) {
    let store = &world.world.store;
    let (polls, before) = (world.waiting_polls().await.len(), store.calls("enqueue"));
    world.node.intake.tick().await.unwrap();
    (world.waiting_polls().await.len() - polls, store.calls("enqueue") - before)
}

async fn looks_are_asked_for_no_faster_than_they_can_be_made(backend: Backend) {
    const ROOMS: usize = 23;
    let world = in_rooms(backend, ROOMS, 1000).await;
    everywhere_comes(&world, ROOMS, "a");
    world.world.clock.advance(QUIET);
    assert_eq!(asked(&world).await, (10, 1), "as many as were saved");
    assert_eq!(asked(&world).await, (0, 0));
    // Somebody else comes to rooms that wait here: it is told with the one before.
    for number in 15..ROOMS {
        world.comes(&format!("room-{number:02}"), "b");
    }
    for step in 0..2 {
        assert_eq!(world.node.intake.due_in(), Some(secs(1)));
        world.world.clock.advance(secs(1));
        assert_eq!(asked(&world).await, (5, 1), "step {step}");
    }
    world.world.clock.advance(secs(1));
    assert_eq!(asked(&world).await, (3, 1), "the last ones");
    let events: usize = world.waiting_polls().await.iter().map(hints).sum();
    assert_eq!(events, ROOMS + (ROOMS - 15), "with everything that was heard");
    world.pass(secs(60)).await;
    assert_eq!(world.daily.looks("room-22"), 3, "when it was opened, for both, and after the lag");
    assert_eq!(world.node.intake.due_in(), None);
    world.check().await;
}

fn hints(poll: &Job) -> usize {
    read_hints(&poll.facts().payload.to_value()).len()
}

async fn rooms_that_nobody_knows_do_not_use_up_the_pace(backend: Backend) {
    let world = in_rooms(backend, 5, 1000).await;
    for number in 0..40 {
        let room = format!("elsewhere-{number}");
        world.daily.joins(&room, "x");
        world.hears_joined(&room, "x");
    }
    everywhere_comes(&world, 5, "a");
    world.world.clock.advance(QUIET);
    assert_eq!(asked(&world).await, (5, 1));
    assert_eq!(world.metric("presence_unknown_room_events_total"), 40);
    world.pass(secs(60)).await;
    world.check().await;
}

#[tokio::test]
async fn when_places_become_few_the_pace_does_not_hold() {
    const ROOMS: usize = 20;
    let world = in_rooms(Backend::Sqlite, ROOMS, ROOMS).await;
    everywhere_comes(&world, ROOMS, "a");
    world.world.clock.advance(QUIET);
    assert_eq!(asked(&world).await, (ROOMS, 1), "others will need their places");
    everywhere_comes(&world, 5, "b");
    world.world.clock.advance(QUIET);
    assert_eq!(asked(&world).await, (0, 0), "and it is made up for");
    // The process goes down: nothing waits for its turn then.
    let before = world.world.store.calls("enqueue");
    world.node.intake.flush().await.unwrap();
    assert_eq!(world.world.store.calls("enqueue") - before, 1);
    assert_eq!(world.node.intake.due_in(), None);
    world.pass(secs(60)).await;
    world.check().await;
}

#[tokio::test]
async fn what_waits_is_bounded() {
    let limits = PresenceLimits {
        rooms_buffered_max: 10,
        hints_per_room_max: 5,
        hints_buffered_max: 20,
        inbox_queued_rows_max: 8,
        events_remembered_max: 50,
        ..PresenceLimits::default()
    };
    let world = PresenceWorld::with(Backend::Sqlite, limits).await;
    let id = world.open(ROOM).await;
    for number in 0..200 {
        world.comes(ROOM, &format!("p{number}"));
    }
    let mut full = 0;
    for number in 0..20 {
        let room = format!("room-{number}");
        let session = format!("y{number}");
        world.daily.joins(&room, &session);
        full += usize::from(world.hears_joined(&room, &session) == HearAnswer::Full);
    }
    assert!(full >= 10, "there is a place for ten rooms: {full}");
    assert_eq!(world.metric("limit_hits_total{limit=\"presence_rooms\"}"), full as u64);
    assert!(world.metric("limit_hits_total{limit=\"presence_inbox\"}") > 100);
    world.pass(secs(60)).await;
    assert_eq!(world.inside(id).await.len(), 200, "a look shows what events had no place for");
    assert_eq!(world.daily.looks(ROOM), 2, "and is repeated after the lag of the last");
    assert!(world.inbox().await.len() <= 8);
    world.check().await;
}

#[tokio::test]
async fn hearing_is_quick() {
    let world = PresenceWorld::new(Backend::Sqlite).await;
    world.open(ROOM).await;
    let events: Vec<_> = (0..2000)
        .map(|number| {
            let payload = json!({ "room": ROOM, "session_id": number.to_string() });
            event("participant.joined", &number.to_string(), &payload, world.now())
        })
        .collect();
    let statements = world.world.store.calls("enqueue");
    for event in &events {
        world.node.hears(event, world.now());
    }
    assert_eq!(world.world.store.calls("enqueue"), statements, "without any statement");
    assert_eq!(world.metric("presence_events_total{outcome=\"taken\"}"), 2000);
}

/// The loop itself, in real time: it wakes when something is due, and flushes at the end.
#[tokio::test]
async fn the_loop_wakes_when_something_is_due() {
    let world = PresenceWorld::new(Backend::Sqlite).await;
    world.open(ROOM).await;
    let options = IntakeOptions { quiet: Duration::from_millis(20), ..IntakeOptions::default() };
    let intake = world.work.intake(options);
    let node = Node { intake: intake.clone(), worker: world.node.worker.clone() };
    let stop = CancellationToken::new();
    let health = Health::new(world.world.clock.clone());
    let run = world.world.tasks.spawn(intake.run(health.clone(), stop.clone()));
    let reported = async || (!health.report().is_empty()).then_some(());
    eventually(SOON, reported).await.unwrap();
    world.daily.joins(ROOM, "a");
    node.hears(&world.joined_event(ROOM, "a"), world.now());
    world.world.clock.advance(Duration::from_millis(20));
    let asked = async || (world.waiting_polls().await.len() == 1).then_some(());
    eventually(SOON, asked).await.unwrap();

    world.daily.joins(ROOM, "b");
    node.hears(&world.joined_event(ROOM, "b"), world.now());
    stop.cancel();
    soon(run).await.unwrap();
    assert_eq!(world.inbox().await.len(), 2);
    assert_eq!(node.intake.due_in(), None);
    world.check().await;
}
