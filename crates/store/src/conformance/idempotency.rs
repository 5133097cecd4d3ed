//! The same request, however often it is sent, is carried out once.

use std::sync::Arc;

use roundsman_core::ports::{EnqueueAnswer, EnqueueRequest, Enqueued, IdempotencyKey};

use super::fixture::{Fixture, at_once};
use super::wishes::{ADA, BOB, COLLECT, MINUTE, RENDER, done, json};

pub async fn a_repeated_request_is_answered_as_before(fx: &Arc<Fixture>) {
    fx.put(fx.keyed(RENDER, "b")).await;
    let request = || EnqueueRequest {
        jobs: vec![
            fx.keyed(RENDER, "a"),
            fx.keyed(RENDER, "b"),
            fx.keyed(RENDER, "a"),
            fx.wish(RENDER),
        ],
        idempotency: Some(name("k")),
    };
    let EnqueueAnswer::Stored(first) = enqueue(fx, request()).await else {
        panic!("the first time it is carried out");
    };
    let flags: Vec<_> = first.iter().map(|one| one.coalesced).collect();
    assert_eq!(flags, [false, true, true, false]);
    let before = fx.all_jobs().await;
    fx.advance(MINUTE);
    let replayed = EnqueueAnswer::Replayed(first);
    assert_eq!(enqueue(fx, request()).await, replayed);
    assert_eq!(fx.all_jobs().await, before, "not even a trigger is added");
    // It stays answered when its jobs are over.
    for job in fx.claim(RENDER, 10).await {
        fx.land(job.lease_ref(), done("1")).await;
    }
    assert_eq!(enqueue(fx, request()).await, replayed);
    fx.assert_nothing_to_claim(RENDER).await;
}

pub async fn a_key_with_another_body_is_refused(fx: &Arc<Fixture>) {
    let first = EnqueueRequest { jobs: vec![fx.wish(RENDER)], idempotency: Some(name("k")) };
    enqueue(fx, first).await;
    let before = fx.all_jobs().await;
    let mut hash = [7; 32];
    hash[31] = 8;
    let second = EnqueueRequest {
        jobs: vec![fx.wish(COLLECT), fx.keyed(RENDER, "a")],
        idempotency: Some(IdempotencyKey { body_hash: hash, ..name("k") }),
    };
    assert_eq!(enqueue(fx, second).await, EnqueueAnswer::KeyReused);
    assert_eq!(fx.all_jobs().await, before);
}

pub async fn keys_are_apart_per_user_and_route(fx: &Arc<Fixture>) {
    let names = [
        name("k"),
        name("K"),
        name("k "),
        name("ключ 😀"),
        IdempotencyKey { user_id: BOB, ..name("k") },
        IdempotencyKey { route: "other", ..name("k") },
    ];
    for idempotency in &names {
        let request =
            EnqueueRequest { jobs: vec![fx.wish(RENDER)], idempotency: Some(idempotency.clone()) };
        let first = enqueue(fx, request.clone()).await;
        let EnqueueAnswer::Stored(stored) = first else {
            panic!("{idempotency:?} met another key: {first:?}");
        };
        assert_eq!(enqueue(fx, request).await, EnqueueAnswer::Replayed(stored));
    }
    assert_eq!(fx.all_jobs().await.len(), names.len());
}

pub async fn a_request_without_jobs_is_remembered_too(fx: &Arc<Fixture>) {
    let request = || EnqueueRequest { jobs: vec![], idempotency: Some(name("k")) };
    let first = enqueue(fx, request()).await;
    assert_eq!(first, EnqueueAnswer::Stored(vec![]));
    let second = enqueue(fx, request()).await;
    assert_eq!(second, EnqueueAnswer::Replayed(vec![]));
}

/// Fifty copies of one request at once: one row, and one answer for all.
pub async fn fifty_copies_at_once_make_one_job(fx: &Arc<Fixture>) {
    for keyed in [false, true] {
        let callers = (0..50).map(|_| {
            let fx = Arc::clone(fx);
            async move {
                let mut wish = fx.wish(COLLECT);
                wish.payload = json("[1]");
                if keyed {
                    wish.key = fx.keyed(COLLECT, "a").key;
                }
                let request = EnqueueRequest {
                    jobs: vec![wish],
                    idempotency: Some(name(if keyed { "keyed" } else { "plain" })),
                };
                enqueue(&fx, request).await
            }
        });
        let answers = at_once(callers).await;
        let mut stored: Vec<Vec<Enqueued>> = Vec::new();
        let mut replayed: Vec<Vec<Enqueued>> = Vec::new();
        for answer in answers {
            match answer {
                EnqueueAnswer::Stored(jobs) => stored.push(jobs),
                EnqueueAnswer::Replayed(jobs) => replayed.push(jobs),
                EnqueueAnswer::KeyReused => panic!("the bodies are the same"),
            }
        }
        assert_eq!((stored.len(), replayed.len()), (1, 49));
        assert!(replayed.iter().all(|jobs| *jobs == stored[0]));
        let payload = fx.waiting(stored[0][0].id).await.facts.payload;
        assert_eq!(payload, json("[1]"), "it was carried out once");
    }
    assert_eq!(fx.all_jobs().await.len(), 2);
}

/// Two bodies under one key at once: one of them wins, all of the others learn it.
pub async fn two_bodies_at_once_leave_one(fx: &Arc<Fixture>) {
    let callers = (0..20).map(|number: u8| {
        let fx = Arc::clone(fx);
        async move {
            let body = number % 2;
            let request = EnqueueRequest {
                jobs: vec![fx.wish(RENDER)],
                idempotency: Some(IdempotencyKey { body_hash: [body; 32], ..name("k") }),
            };
            (body, enqueue(&fx, request).await)
        }
    });
    let answers = at_once(callers).await;
    let winner = answers
        .iter()
        .find(|(_, answer)| matches!(answer, EnqueueAnswer::Stored(_)))
        .expect("one was carried out")
        .0;
    for (body, answer) in &answers {
        let refused = *answer == EnqueueAnswer::KeyReused;
        assert_eq!(refused, *body != winner, "{answers:?}");
    }
    assert_eq!(fx.all_jobs().await.len(), 1);
}

fn name(key: &str) -> IdempotencyKey {
    IdempotencyKey { user_id: ADA, route: "jobs", key: key.to_owned(), body_hash: [7; 32] }
}

async fn enqueue(fx: &Fixture, request: EnqueueRequest) -> EnqueueAnswer {
    fx.store.enqueue(request, fx.now()).await.expect("enqueue")
}
