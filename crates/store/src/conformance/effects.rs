//! What belongs to a state change is written with it or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use roundsman_core::effects::{
    Effects, Frame, LoggedTransition, NewFrame, Transition, WebhookEvent,
};
use roundsman_core::jobs::{JobState, LeaseRef, Settle, Settled};
use roundsman_core::ports::Scope;
use roundsman_core::users::UserId;

use super::fixture::{Fixture, at_once, boxed};
use super::wishes::{ADA, BOB, COLLECT, MINUTE, RENDER, SECOND, TTL, done, json, kind};

pub async fn everything_is_written_and_read_back(fx: &Arc<Fixture>) {
    assert!(commit(fx, None, everything(fx, "one", 1)).await);
    assert_everything(fx, "one", 1).await;
    fx.advance(SECOND);
    assert!(commit(fx, None, Effects::default()).await, "nothing is fine");
    assert!(commit(fx, None, everything(fx, "one", 2)).await);
    assert_everything(fx, "one", 2).await;
}

pub async fn effects_land_with_the_outcome(fx: &Arc<Fixture>) {
    fx.put(fx.wish(RENDER)).await;
    let job = fx.claim_one(RENDER).await;
    let effects = everything(fx, "one", 1);
    let settled = fx.settle_with(job.lease_ref(), done("1"), effects).await;
    let state = JobState::Completed;
    assert_eq!(settled, Settled::Landed { state });
    assert_everything(fx, "one", 1).await;
}

/// In a batch, the effects of a run whose lease is gone are left out and all others happen.
pub async fn a_stale_neighbour_takes_its_effects_with_it(fx: &Arc<Fixture>) {
    fx.enqueue((0..3).map(|_| fx.wish(RENDER)).collect()).await;
    let jobs = fx.claim(RENDER, 3).await;
    fx.land(jobs[1].lease_ref(), done("1")).await;
    let settles = jobs.iter().enumerate().map(|(number, job)| Settle {
        lease: job.lease_ref(),
        outcome: done("2"),
        effects: everything(fx, &format!("s{number}"), 1),
    });
    let answers = fx.settle_batch(settles.collect()).await;
    assert_eq!(answers[1], Settled::LeaseLost);
    for (stream, times) in [("s0", 1), ("s1", 0), ("s2", 1)] {
        assert_everything(fx, stream, times).await;
    }
    assert_eq!(fx.claim(COLLECT, 10).await.len(), 2);
}

pub async fn a_guarded_write_needs_the_lease(fx: &Arc<Fixture>) {
    fx.put(fx.wish(RENDER)).await;
    let job = fx.claim_one(RENDER).await;
    for times in 1..=3 {
        let effects = everything(fx, "one", times);
        assert!(commit(fx, Some(job.lease_ref()), effects).await);
        assert_everything(fx, "one", times).await;
    }
    // The token alone decides; only a sweep compares time.
    fx.advance(TTL * 2);
    assert!(commit(fx, Some(job.lease_ref()), Effects::default()).await);
    assert_eq!(fx.running(job.facts.id).await, job, "it is no heartbeat");
    fx.sweep().await;
    let effects = everything(fx, "one", 4);
    assert!(!commit(fx, Some(job.lease_ref()), effects).await);
    assert!(!commit(fx, Some(job.lease_ref()), Effects::default()).await);
    assert_everything(fx, "one", 3).await;
}

/// Either the guarded write was first or the sweep: never a write after the job was lost.
pub async fn a_guarded_write_and_a_sweep_never_both_have_it(fx: &Arc<Fixture>) {
    for round in 0..30 {
        let stream = format!("r{round}");
        let id = fx.put(fx.wish(RENDER)).await;
        let lease = fx.claim_one(RENDER).await.lease_ref();
        fx.advance(TTL + SECOND);
        let (writer, sweeper, name) = (Arc::clone(fx), Arc::clone(fx), stream.clone());
        let tasks = [
            boxed(async move {
                let first = commit(&writer, Some(lease), frames(&name, 1)).await;
                let second = commit(&writer, Some(lease), frames(&name, 1)).await;
                assert!(first || !second, "a lost lease came back");
                usize::from(first) + usize::from(second)
            }),
            boxed(async move {
                sweeper.sweep().await;
                0
            }),
        ];
        let written: usize = at_once(tasks).await.into_iter().sum();
        let found = fx.store.frames(stream, 0, 10).await.expect("frames").len();
        assert_eq!(found, written);
        // A sweep may have passed by a row that was being written; then the next one takes it.
        fx.sweep().await;
        assert_eq!(fx.waiting(id).await.facts.runs.total, 1);
        assert!(!commit(fx, Some(lease), Effects::default()).await);
        let answer = fx.store.cancel(Scope::All, id, fx.now()).await;
        answer.expect("cancel");
    }
}

pub async fn numbers_of_a_stream_have_no_gap(fx: &Arc<Fixture>) {
    const WRITERS: usize = 16;
    const WRITES: usize = 10;
    let writers = (0..WRITERS).map(|number| {
        let fx = Arc::clone(fx);
        async move {
            for _ in 0..WRITES {
                // Two streams in one write, in both orders: neither deadlock nor gap.
                let (one, two) = if number % 2 == 0 { ("a", "b") } else { ("b", "a") };
                let mut effects = frames(one, 2);
                effects.frames.extend(frames(two, 1).frames);
                assert!(commit(&fx, None, effects).await);
            }
        }
    });
    at_once(writers).await;
    for stream in ["a", "b"] {
        let found = fx.store.frames(stream.to_owned(), 0, 10_000).await;
        let numbers: Vec<i64> = found.expect("frames").iter().map(|f| f.seq).collect();
        let count = i64::try_from(WRITERS * WRITES * 3 / 2).expect("small");
        assert_eq!(numbers, (1..=count).collect::<Vec<_>>());
    }
}

pub async fn frames_are_read_from_a_place_on(fx: &Arc<Fixture>) {
    commit(fx, None, frames("a", 5)).await;
    commit(fx, None, frames("A", 1)).await;
    let read = async |stream: &str, after, rows_max| {
        let found = fx.store.frames(stream.to_owned(), after, rows_max).await;
        let found: Vec<Frame> = found.expect("frames");
        found.iter().map(|frame| frame.seq).collect::<Vec<_>>()
    };
    assert_eq!(read("a", 0, 100).await, [1, 2, 3, 4, 5]);
    assert_eq!(read("a", 2, 2).await, [3, 4]);
    assert_eq!(read("a", 5, 100).await, Vec::<i64>::new());
    assert_eq!(read("A", 0, 100).await, [1]);
    assert_eq!(read("none", 0, 100).await, Vec::<i64>::new());
    assert_eq!(read("a", -1, 1).await, [1]);
}

pub async fn the_steps_of_each_entity_are_logged_in_order(fx: &Arc<Fixture>) {
    let step = |entity_id, from: Option<&str>, to: &str| Transition {
        entity: "meeting",
        entity_id,
        from_state: from.map(ToOwned::to_owned),
        to_state: to.to_owned(),
        cause: "test".to_owned(),
        detail: None,
    };
    let write = async |transitions| {
        let effects = Effects { transitions, ..Effects::default() };
        commit(fx, None, effects).await;
    };
    write(vec![
        step(1, None, "requested"),
        step(2, None, "requested"),
        step(1, Some("requested"), "joining"),
    ])
    .await;
    fx.advance(SECOND);
    write(vec![step(1, Some("joining"), "active")]).await;
    let log: Vec<LoggedTransition> = transitions(fx, "meeting", 1).await;
    let states: Vec<_> = log.iter().map(|step| step.to_state.as_str()).collect();
    assert_eq!(states, ["requested", "joining", "active"]);
    assert!(log.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert_eq!(log[2].at, log[0].at + SECOND);
    assert_eq!(transitions(fx, "meeting", 2).await.len(), 1);
    assert_eq!(transitions(fx, "token", 1).await, vec![]);
}

pub async fn webhook_events_are_numbered(fx: &Arc<Fixture>) {
    for (number, user_id) in [ADA, BOB, ADA].into_iter().enumerate() {
        let webhooks =
            (0..2).map(|event| webhook(user_id, "meeting.completed", number * 2 + event));
        let effects = Effects { webhooks: webhooks.collect(), ..Effects::default() };
        commit(fx, None, effects).await;
    }
    let read = async |after, rows_max| {
        let found = fx.store.webhook_events(after, rows_max).await;
        found.expect("webhook_events")
    };
    let all = read(0, 100).await;
    assert_eq!(all.len(), 6);
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0));
    let users: Vec<_> = all.iter().map(|(_, event)| event.user_id).collect();
    assert_eq!(users, [ADA, ADA, BOB, BOB, ADA, ADA]);
    assert_eq!(read(all[1].0, 2).await, all[2..4]);
    assert_eq!(read(all[5].0, 2).await, vec![]);
}

/// One of each effect, marked with the stream's name and how often it was written.
fn everything(fx: &Fixture, stream: &str, time: usize) -> Effects {
    let mut effects = frames(stream, 2);
    effects.jobs = vec![fx.wish(COLLECT)];
    effects.transitions = vec![Transition {
        entity: "thing",
        entity_id: entity_of(stream),
        from_state: (time > 1).then(|| format!("state {}", time - 1)),
        to_state: format!("state {time}"),
        cause: format!("because of {stream} 'é'"),
        detail: Some(json(r#"{"a":[1,null]}"#)),
    }];
    effects.webhooks = vec![webhook(BOB, stream, time)];
    effects
}

/// Everything of `stream` was written `times` times, the last time now.
async fn assert_everything(fx: &Fixture, stream: &str, times: usize) {
    let found = fx.store.frames(stream.to_owned(), 0, 100).await;
    let found: Vec<Frame> = found.expect("frames");
    assert_eq!(found.len(), 2 * times);
    let events = fx.store.webhook_events(0, 1000).await.expect("events");
    let mine: Vec<_> =
        events.iter().map(|(_, event)| event).filter(|event| event.event_type == stream).collect();
    assert_eq!(mine.len(), times);
    let log = transitions(fx, "thing", entity_of(stream)).await;
    assert_eq!(log.len(), times);
    if times == 0 {
        return;
    }
    assert_eq!(*mine[0], webhook(BOB, stream, 1));
    assert_eq!(found[1].body, json(r#"{"frame":2}"#));
    assert_eq!(found[0].stream, stream);
    let last = log.last().expect("logged");
    assert_eq!(last.detail, Some(json(r#"{"a":[1,null]}"#)));
    assert_eq!(last.cause, format!("because of {stream} 'é'"));
    let depths = fx.store.depths(fx.now() + MINUTE).await.expect("depths");
    let waiting: BTreeMap<_, _> =
        depths.into_iter().map(|depth| (depth.kind, depth.pending)).collect();
    assert!(waiting[&kind(COLLECT)] >= times as u64);
}

fn entity_of(stream: &str) -> i64 {
    stream.bytes().fold(0, |sum, byte| sum * 256 + i64::from(byte))
}

fn frames(stream: &str, count: u32) -> Effects {
    let frames = (1..=count).map(|number| NewFrame {
        stream: stream.to_owned(),
        body: json(&format!(r#"{{"frame":{number}}}"#)),
    });
    Effects { frames: frames.collect(), ..Effects::default() }
}

/// An event of its own for every time: an id names one event.
fn webhook(user_id: UserId, event_type: &str, time: usize) -> WebhookEvent {
    WebhookEvent {
        user_id,
        event_id: format!("evt_{event_type}_{time}"),
        event_type: event_type.to_owned(),
        body: json(r#"{"text":"it's é"}"#),
    }
}

async fn transitions(fx: &Fixture, entity: &str, entity_id: i64) -> Vec<LoggedTransition> {
    let log = fx.store.transitions(entity.to_owned(), entity_id).await;
    log.expect("transitions")
}

async fn commit(fx: &Fixture, guard: Option<LeaseRef>, effects: Effects) -> bool {
    let written = fx.store.commit(guard, effects, fx.now()).await;
    written.expect("commit")
}
