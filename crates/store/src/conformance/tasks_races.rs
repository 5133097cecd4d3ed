//! Many at once on the same task and the same room: whoever loses changes nothing, nothing is lost.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::jobs::{Job, Json, Outcome};
use roundsman_core::ports::{ChangeAnswer, TaskChange};
use roundsman_core::tasks::{
    POLLING_KIND, TaskEvent, TaskId, TaskStatus, come_back_at, room_stream,
};

use super::fixture::{Fixture, at_once, boxed};
use super::task::{
    RULES, apply, change, create, failed, head_of, live_jobs, made, owner, polling, produced,
    project, stepped, update, wish,
};

/// L-12: of all who end a task at once one does, and one is told.
pub async fn of_many_ends_one_is_told(fx: &Arc<Fixture>) {
    const ROUNDS: u32 = 20;
    for number in 0..ROUNDS {
        let known = polling(fx, "p", number).await;
        let events = [produced(), failed("provider"), TaskEvent::Cancelled, produced()];
        let ends = events.map(|event| {
            let fx = Arc::clone(fx);
            let id = known.id;
            async move {
                let end = TaskChange { update: Some(update("p")), ..change(id, event) };
                matches!(apply(&fx, end).await, ChangeAnswer::Changed { .. })
            }
        });
        let ended = at_once(ends).await.into_iter().filter(|ended| *ended).count();
        assert_eq!(ended, 1);
    }
    assert_eq!(head_of(fx, "p").await, i64::from(ROUNDS), "one update for each");
    let told = fx.store.frames(room_stream(&project("p")), 0, 1000).await.expect("it works");
    assert_eq!(told.len(), ROUNDS as usize, "one frame for each");
}

/// L-1: tasks are made while the round of their room ends because it has found none. Whenever one is
/// there, somebody comes back for it.
pub async fn a_task_is_never_without_its_round(fx: &Arc<Fixture>) {
    const ROUNDS: u32 = 40;
    let ada = owner(fx, "p").await;
    for number in 0..ROUNDS {
        let makes = {
            let fx = Arc::clone(fx);
            boxed(async move {
                let wish = wish(&fx, ada, "p", number);
                create(&fx, vec![wish]).await.remove(0).id
            })
        };
        let looks = {
            let fx = Arc::clone(fx);
            boxed(async move {
                let running = fx.claim(POLLING_KIND, 1).await.pop();
                let looks = fx.store.task_looks(project("p"), 100).await.expect("it works");
                if let Some(running) = running {
                    let outcome = match come_back_at(&looks, RULES, fx.now()) {
                        Some(at) => Outcome::Again { at, payload: None },
                        None => Outcome::Done { result: Json::null() },
                    };
                    fx.land(running.lease_ref(), outcome).await;
                }
                TaskId::new(0)
            })
        };
        let made = at_once([makes, looks]).await.into_iter().max().expect("it works");
        let rounds = live_jobs(fx, POLLING_KIND, "p").await;
        assert_eq!(rounds.len(), 1, "exactly one comes back");
        let Job::Waiting(waiting) = &rounds[0] else { panic!("nobody is under way") };
        assert!(waiting.due_at() <= fx.now() + RULES.poll_every, "in time");
        fx.advance(Duration::from_secs(20));
        stepped(fx, made, TaskEvent::Cancelled).await;
    }
}

/// Slots are taken by several at once, and never more than there are.
pub async fn slots_are_never_taken_twice(fx: &Arc<Fixture>) {
    let mut ids = Vec::new();
    for number in 0..24 {
        ids.push(made(fx, &format!("p{number}"), number).await.id);
    }
    let sends = ids.iter().map(|id| {
        let (fx, id) = (Arc::clone(fx), *id);
        async move {
            let send = TaskChange { slots_max: Some(5), ..change(id, TaskEvent::Sending) };
            matches!(apply(&fx, send).await, ChangeAnswer::Changed { .. })
        }
    });
    let sent = at_once(sends.collect::<Vec<_>>()).await.into_iter().filter(|sent| *sent).count();
    assert_eq!(sent, 5);
}

/// Ends, hints, new tasks and sweeps of one room at once: nobody fails, nobody waits for ever.
pub async fn everything_at_once_fails_nobody(fx: &Arc<Fixture>) {
    let ada = owner(fx, "p").await;
    let mut known = Vec::new();
    for number in 0..12 {
        known.push(polling(fx, "p", number).await);
    }
    let mut work = Vec::new();
    for task in &known {
        let (fx, id) = (Arc::clone(fx), task.id);
        work.push(boxed(async move {
            let end = TaskChange { update: Some(update("p")), ..change(id, produced()) };
            drop(apply(&fx, end).await);
        }));
    }
    for number in 0..12 {
        let fx = Arc::clone(fx);
        work.push(boxed(async move {
            let external = format!("ext-p-{number}");
            fx.store.hint_task("kling".to_owned(), external, fx.now()).await.expect("it works");
        }));
    }
    for number in 100..106 {
        let (makes, sweeps) = (Arc::clone(fx), Arc::clone(fx));
        work.push(boxed(async move {
            let wish = wish(&makes, ada, "p", number);
            drop(create(&makes, vec![wish]).await);
        }));
        work.push(boxed(async move {
            sweeps.store.rearm_tasks(None, 100, sweeps.now()).await.expect("it works");
        }));
    }
    at_once(work).await;
    let counts = fx.store.task_counts().await.expect("it works");
    assert_eq!(counts, [(TaskStatus::Pending, 6)]);
    assert_eq!(head_of(fx, "p").await, 12);
}
