//! What is past its retention goes, and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::Timestamp;
use roundsman_core::effects::{Effects, NewFrame};
use roundsman_core::jobs::{JobId, NewJob, Outcome};
use roundsman_core::ports::{
    EnqueueAnswer, EnqueueRequest, IdempotencyKey, PruneReport, PruneRequest,
};

use super::fixture::Fixture;
use super::wishes::{ADA, MINUTE, RENDER, SECOND, done, fail, json};

/// Keeps everything; cases move one limit at a time.
const KEEP: PruneRequest = PruneRequest {
    completed_before: Timestamp::EPOCH,
    failed_before: Timestamp::EPOCH,
    cancelled_before: Timestamp::EPOCH,
    idempotency_before: Timestamp::EPOCH,
    frames_before: Timestamp::EPOCH,
    buckets_before: Timestamp::EPOCH,
    rows_max: 100,
};

pub async fn each_end_has_its_own_retention(fx: &Arc<Fixture>) {
    let limits: [fn(Timestamp) -> PruneRequest; 3] = [
        |limit| PruneRequest { completed_before: limit, ..KEEP },
        |limit| PruneRequest { failed_before: limit, ..KEEP },
        |limit| PruneRequest { cancelled_before: limit, ..KEEP },
    ];
    let outcomes = [done("1"), fail(), Outcome::Cancelled];
    let mut old = Vec::new();
    for outcome in &outcomes {
        old.push(ended(fx, outcome.clone()).await);
    }
    fx.advance(MINUTE);
    let mut young = Vec::new();
    for outcome in &outcomes {
        young.push(ended(fx, outcome.clone()).await);
    }
    let limit = fx.now() - SECOND;
    assert_eq!(prune(fx, KEEP).await, PruneReport::default());
    for (number, request) in limits.into_iter().enumerate() {
        let report = prune(fx, request(limit)).await;
        let expected = PruneReport { jobs: 1, ..PruneReport::default() };
        assert_eq!(report, expected);
        let mut kept: BTreeSet<JobId> = old[number + 1..].iter().copied().collect();
        kept.extend(&young);
        let found: BTreeSet<_> = fx.all_jobs().await.iter().map(|job| job.facts().id).collect();
        assert_eq!(found, kept);
    }
}

pub async fn what_is_not_over_is_never_pruned(fx: &Arc<Fixture>) {
    let waiting = fx.put(fx.wish(RENDER)).await;
    let running = fx.claim_one(RENDER).await.facts.id;
    assert_eq!(waiting, running);
    fx.put(fx.wish(RENDER)).await;
    let later = NewJob { run_at: fx.now() + MINUTE, ..fx.wish(RENDER) };
    fx.put(later).await;
    fx.advance(MINUTE * 1000);
    let before = fx.all_jobs().await;
    assert_eq!(prune(fx, everything_before(fx.now())).await.jobs, 0);
    assert_eq!(fx.all_jobs().await, before);
}

pub async fn pruning_stops_at_its_limit_and_says_so(fx: &Arc<Fixture>) {
    for _ in 0..25 {
        ended(fx, done("1")).await;
    }
    fx.advance(SECOND);
    let request = PruneRequest { rows_max: 10, ..everything_before(fx.now()) };
    let mut reports = Vec::new();
    for _ in 0..3 {
        let report = prune(fx, request).await;
        reports.push((report.jobs, report.more));
    }
    assert_eq!(reports, [(10, true), (10, true), (5, false)]);
    assert_eq!(prune(fx, request).await, PruneReport::default());
}

pub async fn a_pruned_idempotency_key_may_be_used_again(fx: &Arc<Fixture>) {
    let request = |fx: &Fixture| EnqueueRequest {
        jobs: vec![fx.wish(RENDER)],
        idempotency: Some(IdempotencyKey {
            user_id: ADA,
            route: "jobs",
            key: "k".to_owned(),
            body_hash: [1; 32],
        }),
    };
    let enqueue = async || {
        let answer = fx.store.enqueue(request(fx), fx.now()).await;
        answer.expect("enqueue")
    };
    let first = enqueue().await;
    fx.advance(MINUTE);
    let limit = PruneRequest { idempotency_before: fx.now() - MINUTE - SECOND, ..KEEP };
    assert_eq!(prune(fx, limit).await.idempotency_keys, 0);
    assert!(matches!(enqueue().await, EnqueueAnswer::Replayed(_)));
    let limit = PruneRequest { idempotency_before: fx.now(), ..KEEP };
    assert_eq!(prune(fx, limit).await.idempotency_keys, 1);
    let again = enqueue().await;
    assert!(matches!(again, EnqueueAnswer::Stored(_)));
    assert_ne!(again, first, "a job of its own");
}

/// Frames go, but the numbers of a stream never start again.
pub async fn a_pruned_stream_goes_on_counting(fx: &Arc<Fixture>) {
    let write = async |count: usize| {
        let frame = NewFrame { stream: "s".to_owned(), body: json("1") };
        let effects = Effects { frames: vec![frame; count], ..Effects::default() };
        let written = fx.store.commit(None, effects, fx.now()).await;
        assert!(written.expect("commit"));
    };
    let numbers = async || {
        let frames = fx.store.frames("s".to_owned(), 0, 100).await;
        let frames = frames.expect("frames");
        frames.iter().map(|frame| frame.seq).collect::<Vec<_>>()
    };
    write(3).await;
    fx.advance(MINUTE);
    write(2).await;
    let limit = PruneRequest { frames_before: fx.now(), ..KEEP };
    assert_eq!(prune(fx, limit).await.frames, 3);
    assert_eq!(numbers().await, [4, 5]);
    fx.advance(MINUTE);
    let limit = PruneRequest { frames_before: fx.now(), ..KEEP };
    assert_eq!(prune(fx, limit).await.frames, 2);
    write(1).await;
    assert_eq!(numbers().await, [6]);
}

async fn ended(fx: &Arc<Fixture>, outcome: Outcome) -> JobId {
    let id = fx.put(fx.wish(RENDER)).await;
    let job = fx.claim_one(RENDER).await;
    fx.land(job.lease_ref(), outcome).await;
    id
}

async fn prune(fx: &Arc<Fixture>, request: PruneRequest) -> PruneReport {
    fx.store.prune(request).await.expect("prune")
}

fn everything_before(limit: Timestamp) -> PruneRequest {
    PruneRequest {
        buckets_before: limit,
        completed_before: limit,
        failed_before: limit,
        cancelled_before: limit,
        idempotency_before: limit,
        frames_before: limit,
        rows_max: 100,
    }
}
