//! What may be asked for, and what is answered.

use bytes::Bytes;
use roundsman_core::jobs::{Job, Json};
use roundsman_core::ports::Clock;
use roundsman_core::users::Authenticated;
use roundsman_engine::Error;
use roundsman_engine::jobs::{IdempotencyWish, JobLimits, JobWish};

use super::{OWN, ada, enqueue, fields, keyed, user, wish};
use crate::flaky::Fault;
use crate::support::{RENDER, World, json, secs};

fn idempotent(key: &str, body: &'static str) -> IdempotencyWish {
    IdempotencyWish { route: "POST /jobs", key: key.to_owned(), body: Bytes::from(body) }
}

#[tokio::test]
async fn a_wish_becomes_the_job_it_describes() {
    let world = World::new();
    let jobs = world.jobs();
    let run_at = world.clock.now() + secs(60);
    let full = JobWish {
        kind: OWN.to_owned(),
        key: Some("a".to_owned()),
        payload: Some("{\"page\":1}".to_owned()),
        priority: Some(-7),
        run_at: Some(run_at),
        max_attempts: Some(9),
        tenant: None,
    };
    let id = enqueue(&jobs, &ada(), full).await;
    let facts = world.waiting(id).await.facts;
    assert_eq!((facts.kind.as_str(), facts.key.unwrap().as_str()), (OWN, "a"));
    assert_eq!((facts.payload, facts.priority), (json("{\"page\":1}"), -7));
    assert_eq!((facts.run_at, facts.max_attempts), (run_at, Some(9)));

    let id = enqueue(&jobs, &ada(), wish(OWN)).await;
    let facts = world.waiting(id).await.facts;
    assert_eq!((facts.payload, facts.run_at), (Json::null(), world.clock.now()));
    assert_eq!(facts.max_attempts, Some(3), "what its kind says");
    world.check().await;
}

#[tokio::test]
async fn every_problem_of_every_field_is_reported() {
    let world = World::new();
    let jobs = world.jobs();
    let wrong = JobWish {
        kind: "Not A Kind".to_owned(),
        key: Some(String::new()),
        payload: Some("{".to_owned()),
        priority: Some(101),
        run_at: None,
        max_attempts: Some(0),
        tenant: Some("\n".to_owned()),
    };
    let expected = ["kind", "key", "payload", "tenant", "priority", "max_attempts"];
    assert_eq!(fields(jobs.enqueue(&ada(), vec![wrong.clone()], None).await), expected);

    let several = vec![wish(OWN), wrong.clone(), wish("1st")];
    let told = fields(jobs.enqueue(&ada(), several, None).await);
    let expected: Vec<String> = expected
        .iter()
        .map(|field| format!("jobs[1].{field}"))
        .chain(["jobs[2].kind".into()])
        .collect();
    assert_eq!(told, expected);
    let many = fields(jobs.enqueue(&ada(), vec![wrong; 100], None).await);
    assert_eq!(many.len(), 50, "past some number the list helps nobody");
    assert!(world.all_jobs(None).await.is_empty(), "one wrong wish stores none");
    world.check().await;
}

#[tokio::test]
async fn each_limit_is_refused_just_beyond_it() {
    let world = World::new();
    let jobs = world.jobs();
    let deep = "[".repeat(65) + &"]".repeat(65);
    let refused = [
        (JobWish { key: Some("k".repeat(201)), ..wish(OWN) }, "key"),
        (JobWish { key: Some("a\nb".to_owned()), ..wish(OWN) }, "key"),
        (JobWish { payload: Some(deep), ..wish(OWN) }, "payload"),
        (JobWish { payload: Some("\"\\u0000\"".to_owned()), ..wish(OWN) }, "payload"),
        (JobWish { priority: Some(-101), ..wish(OWN) }, "priority"),
        (JobWish { priority: Some(i64::MAX), ..wish(OWN) }, "priority"),
        (JobWish { max_attempts: Some(1001), ..wish(OWN) }, "max_attempts"),
        (JobWish { max_attempts: Some(-1), ..wish(OWN) }, "max_attempts"),
        (wish(&"k".repeat(65)), "kind"),
    ];
    for (wish, field) in refused {
        assert_eq!(
            fields(jobs.enqueue(&ada(), vec![wish.clone()], None).await),
            [field],
            "{wish:?}"
        );
    }
    let accepted = [
        JobWish { key: Some("k".repeat(200)), ..wish(OWN) },
        JobWish { payload: Some("[".repeat(64) + &"]".repeat(64)), ..wish(OWN) },
        JobWish { priority: Some(-100), max_attempts: Some(1000), ..wish(OWN) },
        wish(&"k".repeat(64)),
    ];
    assert_eq!(jobs.enqueue(&ada(), accepted.to_vec(), None).await.unwrap().jobs.len(), 4);
    world.check().await;
}

#[tokio::test]
async fn requests_are_bounded_in_jobs_and_bytes() {
    let world = World::new();
    let limits =
        JobLimits { payload_bytes_max: 10, jobs_per_request_max: 3, ..JobLimits::default() };
    let jobs = world.jobs_with(limits);
    assert_eq!(fields(jobs.enqueue(&ada(), vec![], None).await), ["jobs"]);
    assert_eq!(fields(jobs.enqueue(&ada(), vec![wish(OWN); 4], None).await), ["jobs"]);
    let payload = |text: &str| JobWish { payload: Some(text.to_owned()), ..wish(OWN) };
    jobs.enqueue(&ada(), vec![payload("\"12345678\""); 3], None).await.unwrap();
    let refused = jobs.enqueue(&ada(), vec![payload("\"123456789\"")], None).await.unwrap_err();
    let too_large = Error::TooLarge { field: "payload", bytes: 11, bytes_max: 10 };
    assert_eq!(refused.to_string(), too_large.to_string());
    assert_eq!(world.all_jobs(None).await.len(), 3);
    world.check().await;
}

#[tokio::test]
async fn built_in_kinds_are_the_operators() {
    let world = World::new();
    let jobs = world.jobs();
    for kind in [RENDER, "jobs", "presence.poll"] {
        assert_eq!(fields(jobs.enqueue(&ada(), vec![wish(kind)], None).await), ["kind"]);
        jobs.enqueue(&Authenticated::Admin, vec![wish(kind)], None).await.unwrap();
    }
    assert_eq!(world.all_jobs(None).await.len(), 3);
    world.check().await;
}

#[tokio::test]
async fn triggers_with_a_key_join_what_waits() {
    let world = World::new();
    let jobs = world.jobs();
    let wishes = vec![keyed(OWN, "a"), keyed(OWN, "a"), keyed(OWN, "b")];
    let report = jobs.enqueue(&ada(), wishes, None).await.unwrap();
    let coalesced: Vec<bool> = report.jobs.iter().map(|job| job.coalesced).collect();
    assert_eq!(coalesced, [false, true, false]);
    assert_eq!(report.jobs[0].id, report.jobs[1].id);
    let other = enqueue(&jobs, &user(2), keyed(OWN, "a")).await;
    assert_ne!(other, report.jobs[0].id, "keys are a user's own");
    world.check().await;
}

#[tokio::test]
async fn the_same_request_again_gets_the_same_answer() {
    let world = World::new();
    let jobs = world.jobs();
    let send = |key: &'static str, body: &'static str| {
        let jobs = jobs.clone();
        async move {
            jobs.enqueue(&ada(), vec![wish(OWN), wish(OWN)], Some(idempotent(key, body))).await
        }
    };
    let first = send("k1", "body").await.unwrap();
    assert!(!first.replayed);
    let again = send("k1", "body").await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.jobs, first.jobs);
    let reused = send("k1", "other body").await.unwrap_err();
    assert!(matches!(reused, Error::IdempotencyKeyReused), "{reused:?}");
    assert!(!send("k2", "body").await.unwrap().replayed);
    let others =
        jobs.enqueue(&user(2), vec![wish(OWN)], Some(idempotent("k1", "x"))).await.unwrap();
    assert!(!others.replayed, "keys are a user's own");
    assert_eq!(world.all_jobs(None).await.len(), 5);

    let at_once = (0..50).map(|_| send("k3", "body"));
    let answers = futures_util::future::join_all(at_once).await;
    let mut ids: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().jobs[0].id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 1);
    world.check().await;
}

#[tokio::test]
async fn an_idempotency_key_is_visible_ascii() {
    let world = World::new();
    let jobs = world.jobs();
    for key in ["", "a b", "é", "a\n", &"k".repeat(256)] {
        let refused = jobs.enqueue(&ada(), vec![wish(OWN)], Some(idempotent(key, ""))).await;
        assert_eq!(fields(refused), ["Idempotency-Key"], "{key:?}");
    }
    jobs.enqueue(&ada(), vec![wish(OWN)], Some(idempotent(&"k".repeat(255), ""))).await.unwrap();
    world.check().await;
}

#[tokio::test]
async fn a_replayed_request_after_a_lost_answer_stores_nothing_twice() {
    let world = World::new();
    let jobs = world.jobs();
    world.store.set("enqueue", Fault::AnswerLost);
    let lost = jobs.enqueue(&ada(), vec![wish(OWN)], Some(idempotent("k", "b"))).await.unwrap_err();
    assert!(matches!(&lost, Error::Store(error) if error.is_transient()), "{lost:?}");
    world.store.mend();
    let report = jobs.enqueue(&ada(), vec![wish(OWN)], Some(idempotent("k", "b"))).await.unwrap();
    assert!(report.replayed);
    let stored = world.all_jobs(None).await;
    assert!(matches!(&stored[..], [Job::Waiting(job)] if job.facts.id == report.jobs[0].id));
    world.check().await;
}
