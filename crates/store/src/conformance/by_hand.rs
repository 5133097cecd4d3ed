//! What a person asks for: cancel and try again.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::jobs::{
    CancelCause, FinishedState, Job, JobId, JobState, NewJob, Outcome, WaitingJob, retry_by_hand,
};
use roundsman_core::ports::{CancelAnswer, HeartbeatAnswer, RetryAnswer, Scope};

use super::fixture::{Fixture, at_once, boxed};
use super::wishes::{ADA, BOB, MINUTE, RENDER, SECOND, TTL, done, fail, json, retry_after};

pub async fn a_waiting_job_is_cancelled_at_once(fx: &Arc<Fixture>) {
    for run_at in [fx.now(), fx.now() + MINUTE] {
        let wish = NewJob { run_at, payload: json("7"), ..fx.keyed(RENDER, "a") };
        let id = fx.put(wish).await;
        let facts = fx.waiting(id).await.facts;
        fx.advance(SECOND);
        assert_eq!(cancel(fx, Scope::User(ADA), id).await, CancelAnswer::Cancelled);
        let finished = fx.finished(id).await;
        assert_eq!(finished.facts, facts);
        let cause = CancelCause::Requested;
        assert_eq!(finished.state, FinishedState::Cancelled { cause });
        assert_eq!(finished.finished_at, fx.now());
        fx.advance(MINUTE);
        fx.assert_nothing_to_claim(RENDER).await;
        let again = CancelAnswer::Finished(JobState::Cancelled);
        assert_eq!(cancel(fx, Scope::All, id).await, again);
    }
}

pub async fn the_holder_of_a_running_job_is_told(fx: &Arc<Fixture>) {
    let id = fx.put(fx.keyed(RENDER, "a")).await;
    let job = fx.claim_one(RENDER).await;
    for _ in 0..2 {
        let answer = cancel(fx, Scope::User(ADA), id).await;
        assert_eq!(answer, CancelAnswer::Requested);
        assert!(fx.running(id).await.cancel_requested);
    }
    let answer = fx.heartbeat(job.lease_ref()).await;
    let told = HeartbeatAnswer::Extended { until: fx.now() + TTL, cancel_requested: true };
    assert_eq!(answer, told);
    // A trigger that came after the cancel is another wish and stays.
    let next = fx.put(fx.keyed(RENDER, "a")).await;
    let state = fx.land(job.lease_ref(), Outcome::Cancelled).await;
    assert_eq!(state, JobState::Cancelled);
    let next_run = fx.claim_one(RENDER).await;
    assert_eq!(next_run.facts.id, next);
    assert!(!next_run.cancel_requested);
}

pub async fn what_has_ended_cannot_be_cancelled(fx: &Arc<Fixture>) {
    let endings = [
        (done("1"), JobState::Completed),
        (fail(), JobState::Failed),
        (Outcome::Cancelled, JobState::Cancelled),
    ];
    for (outcome, state) in endings {
        let id = fx.put(fx.wish(RENDER)).await;
        let job = fx.claim_one(RENDER).await;
        fx.land(job.lease_ref(), outcome).await;
        let before = fx.finished(id).await;
        fx.advance(SECOND);
        let answer = cancel(fx, Scope::All, id).await;
        assert_eq!(answer, CancelAnswer::Finished(state));
        assert_eq!(fx.finished(id).await, before);
    }
}

pub async fn a_cancelled_key_is_free_again(fx: &Arc<Fixture>) {
    let first = fx.put(fx.keyed(RENDER, "a")).await;
    cancel(fx, Scope::All, first).await;
    let second = fx.put(fx.keyed(RENDER, "a")).await;
    assert_eq!(fx.claim_one(RENDER).await.facts.id, second);
}

pub async fn the_jobs_of_others_are_not_there(fx: &Arc<Fixture>) {
    let waiting = fx.put(fx.wish(RENDER)).await;
    let running = fx.claim_one(RENDER).await.facts.id;
    assert_eq!(waiting, running);
    let waiting = fx.put(fx.wish(RENDER)).await;
    let finished = fx.put(fx.wish("other")).await;
    cancel(fx, Scope::All, finished).await;
    let before = fx.all_jobs().await;
    for id in [waiting, running, finished, JobId::new(i64::MAX), JobId::new(0)] {
        let scope = Scope::User(BOB);
        assert_eq!(cancel(fx, scope, id).await, CancelAnswer::NotFound);
        assert_eq!(retry(fx, scope, id).await, RetryAnswer::NotFound);
        assert_eq!(fx.find(scope, id).await, None);
    }
    let nobody = JobId::new(i64::MAX);
    assert_eq!(cancel(fx, Scope::All, nobody).await, CancelAnswer::NotFound);
    assert_eq!(retry(fx, Scope::All, nobody).await, RetryAnswer::NotFound);
    assert_eq!(fx.all_jobs().await, before);
}

pub async fn a_finished_job_is_tried_anew_by_the_rules(fx: &Arc<Fixture>) {
    for outcome in [done("1"), fail(), Outcome::Cancelled] {
        let wish = NewJob { payload: json("[1]"), priority: 3, ..fx.keyed(RENDER, "a") };
        let id = fx.put(wish).await;
        for step in [retry_after(SECOND), outcome] {
            let job = fx.claim_one(RENDER).await;
            fx.land(job.lease_ref(), step).await;
            fx.advance(SECOND);
        }
        let expected = retry_by_hand(fx.finished(id).await, fx.now());
        assert_eq!(retry(fx, Scope::User(ADA), id).await, RetryAnswer::Requeued);
        assert_eq!(fx.waiting(id).await, expected);
        let job = fx.claim_one(RENDER).await;
        assert_eq!((job.facts.id, job.facts.attempt), (id, 1));
        assert_eq!(job.facts.runs.total, 2, "what happened is not forgotten");
        fx.land(job.lease_ref(), done("2")).await;
        assert_eq!(fx.finished(id).await.facts.runs.total, 3);
    }
}

pub async fn a_waiting_job_is_retried_without_its_backoff(fx: &Arc<Fixture>) {
    let id = fx.put(fx.keyed(RENDER, "a")).await;
    let job = fx.claim_one(RENDER).await;
    fx.land(job.lease_ref(), retry_after(MINUTE)).await;
    assert_due_after_retry(fx, id, 2).await;

    let wish = NewJob { run_at: fx.now() + MINUTE, ..fx.keyed(RENDER, "b") };
    let id = fx.put(wish).await;
    assert_due_after_retry(fx, id, 1).await;

    // One that is due already keeps its place.
    let id = fx.put(fx.keyed(RENDER, "c")).await;
    let before = fx.waiting(id).await;
    fx.advance(SECOND);
    assert_eq!(retry(fx, Scope::All, id).await, RetryAnswer::Requeued);
    assert_eq!(fx.waiting(id).await.due_at(), before.due_at());
}

pub async fn a_running_job_is_not_retried(fx: &Arc<Fixture>) {
    let id = fx.put(fx.wish(RENDER)).await;
    let job = fx.claim_one(RENDER).await;
    assert_eq!(retry(fx, Scope::All, id).await, RetryAnswer::Running);
    assert_eq!(fx.running(id).await, job);
}

pub async fn a_key_that_waits_already_is_not_given_twice(fx: &Arc<Fixture>) {
    let old = fx.put(fx.keyed(RENDER, "a")).await;
    let job = fx.claim_one(RENDER).await;
    fx.land(job.lease_ref(), fail()).await;
    let new = fx.put(fx.keyed(RENDER, "a")).await;
    let before = fx.all_jobs().await;
    let taken = RetryAnswer::KeyTaken { by: new };
    assert_eq!(retry(fx, Scope::All, old).await, taken);
    assert_eq!(fx.all_jobs().await, before);
    // While the other one runs, the key may wait again.
    let job = fx.claim_one(RENDER).await;
    assert_eq!(retry(fx, Scope::All, old).await, RetryAnswer::Requeued);
    fx.assert_nothing_to_claim(RENDER).await;
    fx.land(job.lease_ref(), done("1")).await;
    assert_eq!(fx.claim_one(RENDER).await.facts.id, old);
}

/// A retried job may be the one that a later failure folds into: its older runs stay the older.
pub async fn a_run_folds_into_a_job_that_was_retried_by_hand(fx: &Arc<Fixture>) {
    let old = fx.put(fx.keyed(RENDER, "a")).await;
    let job = fx.claim_one(RENDER).await;
    fx.land(job.lease_ref(), fail()).await;
    let new = fx.put(fx.keyed(RENDER, "a")).await;
    let job = fx.claim_one(RENDER).await;
    assert_eq!(retry(fx, Scope::All, old).await, RetryAnswer::Requeued);
    fx.land(job.lease_ref(), retry_after(Duration::ZERO)).await;
    assert_eq!(fx.state(new).await, JobState::Cancelled);
    let survivor = fx.waiting(old).await;
    assert_eq!((survivor.facts.attempt, survivor.facts.runs.total), (1, 2));
    assert_eq!(survivor.facts.runs.check(), Ok(()));
}

pub async fn many_retries_at_once_requeue_one_job_of_a_key(fx: &Arc<Fixture>) {
    let mut failed = Vec::new();
    for _ in 0..4 {
        failed.push(fx.put(fx.keyed(RENDER, "a")).await);
        let job = fx.claim_one(RENDER).await;
        fx.land(job.lease_ref(), fail()).await;
    }
    let callers = (0..16).map(|number: usize| {
        let (fx, id) = (Arc::clone(fx), failed[number % 4]);
        async move { (id, retry(&fx, Scope::All, id).await) }
    });
    let answers = at_once(callers).await;
    let jobs = fx.all_jobs().await;
    let waiting: Vec<JobId> = jobs
        .iter()
        .filter(|job| matches!(job, Job::Waiting(_)))
        .map(|job| job.facts().id)
        .collect();
    assert_eq!(waiting.len(), 1, "{answers:?}");
    for (id, answer) in answers {
        let expected = if id == waiting[0] {
            RetryAnswer::Requeued
        } else {
            RetryAnswer::KeyTaken { by: waiting[0] }
        };
        assert_eq!(answer, expected);
    }
}

/// Terminal is absorbing: a job that completes is completed, whether or not somebody was about to
/// cancel it, and both learn the same.
pub async fn a_cancel_that_meets_a_completion(fx: &Arc<Fixture>) {
    for _ in 0..50 {
        let id = fx.put(fx.wish(RENDER)).await;
        let lease = fx.claim_one(RENDER).await.lease_ref();
        let (canceller, worker) = (Arc::clone(fx), Arc::clone(fx));
        let both: Vec<Option<CancelAnswer>> = at_once([
            boxed(async move { Some(cancel(&canceller, Scope::All, id).await) }),
            boxed(async move {
                assert_eq!(worker.land(lease, done("1")).await, JobState::Completed);
                None
            }),
        ])
        .await;
        let answer = both.into_iter().flatten().next().expect("one cancelled");
        assert!(
            matches!(answer, CancelAnswer::Requested | CancelAnswer::Finished(JobState::Completed)),
            "{answer:?}"
        );
        assert_eq!(fx.state(id).await, JobState::Completed);
    }
}

/// Of a cancel and a claim that meet, the first decides and the other sees it.
pub async fn a_cancel_that_meets_a_claim(fx: &Arc<Fixture>) {
    for _ in 0..50 {
        let id = fx.put(fx.wish(RENDER)).await;
        let (canceller, worker) = (Arc::clone(fx), Arc::clone(fx));
        let both: Vec<Result<CancelAnswer, usize>> = at_once([
            boxed(async move { Ok(cancel(&canceller, Scope::All, id).await) }),
            boxed(async move { Err(worker.claim(RENDER, 1).await.len()) }),
        ])
        .await;
        let claimed = both.iter().find_map(|one| one.err()).expect("one claimed");
        let answer = both.iter().find_map(|one| one.ok()).expect("one cancelled");
        match (answer, claimed) {
            (CancelAnswer::Cancelled, 0) => assert_eq!(fx.state(id).await, JobState::Cancelled),
            (CancelAnswer::Requested, 1) => {
                let job = fx.running(id).await;
                assert!(job.cancel_requested, "the holder must learn of it");
                fx.land(job.lease_ref(), Outcome::Cancelled).await;
            }
            other => panic!("both, or neither, had their way: {other:?}"),
        }
    }
}

async fn assert_due_after_retry(fx: &Arc<Fixture>, id: JobId, attempt: u32) {
    fx.assert_nothing_to_claim(RENDER).await;
    assert_eq!(retry(fx, Scope::All, id).await, RetryAnswer::Requeued);
    let waiting: WaitingJob = fx.waiting(id).await;
    assert!(waiting.due_at() <= fx.now());
    assert_eq!(waiting.not_before, None);
    let job = fx.claim_one(RENDER).await;
    assert_eq!((job.facts.id, job.facts.attempt), (id, attempt));
    fx.land(job.lease_ref(), done("1")).await;
}

async fn cancel(fx: &Fixture, scope: Scope, id: JobId) -> CancelAnswer {
    fx.store.cancel(scope, id, fx.now()).await.expect("cancel")
}

async fn retry(fx: &Fixture, scope: Scope, id: JobId) -> RetryAnswer {
    fx.store.retry(scope, id, fx.now()).await.expect("retry")
}
