//! Jobs that wait for others, and batches that call back once.

use std::sync::Arc;

use roundsman_core::jobs::{
    BatchId, JobId, JobState, NewBatch, NewJob, OnFailure, Outcome, RunningJob,
};
use roundsman_core::ports::{
    AfterAnswer, BatchAnswer, CancelAnswer, EnqueueRequest, Enqueued, IdempotencyKey, Scope,
};

use super::fixture::{Fixture, at_once};
use super::wishes::{
    ADA, BOB, COLLECT, FIRST, MINUTE, RENDER, SECOND, done, fail, json, retry_after,
};

async fn after(fx: &Fixture, wish: NewJob, ids: &[JobId], policy: OnFailure) -> JobId {
    match fx.store.enqueue_after(wish, ids.to_vec(), policy, fx.now()).await.expect("after") {
        AfterAnswer::Stored(id) => id,
        other => panic!("expected it to be stored, got {other:?}"),
    }
}

async fn end(fx: &Fixture, job: &RunningJob, outcome: Outcome) {
    fx.land(job.lease_ref(), outcome).await;
}

async fn waits_for(fx: &Fixture, id: JobId) -> Vec<JobId> {
    fx.store.waits_for(id).await.expect("waits_for")
}

pub async fn a_job_waits_until_all_others_are_done(fx: &Arc<Fixture>) {
    let first = fx.put(fx.wish(RENDER)).await;
    let second = fx.put(fx.wish(RENDER)).await;
    let child = after(fx, fx.wish(COLLECT), &[second, first, first], OnFailure::Cancel).await;
    assert_eq!(waits_for(fx, child).await, [first, second]);
    assert_eq!(fx.state(child).await, JobState::Scheduled);
    let jobs = fx.claim(RENDER, 2).await;
    end(fx, &jobs[0], done("1")).await;
    fx.advance(MINUTE * 1000);
    fx.assert_nothing_to_claim(COLLECT).await;
    end(fx, &jobs[1], done("1")).await;
    assert_eq!(waits_for(fx, child).await, []);
    assert_eq!(fx.claim_one(COLLECT).await.facts.id, child);
}

pub async fn a_fan_out_and_a_fan_in(fx: &Arc<Fixture>) {
    let root = fx.put(fx.wish(RENDER)).await;
    let mut branches = Vec::new();
    for _ in 0..20 {
        branches.push(after(fx, fx.wish(COLLECT), &[root], OnFailure::Cancel).await);
    }
    let leaf = after(fx, fx.wish(FIRST), &branches, OnFailure::Cancel).await;
    let job = fx.claim_one(RENDER).await;
    end(fx, &job, done("1")).await;
    let jobs = fx.claim(COLLECT, 99).await;
    assert_eq!(jobs.len(), 20);
    // All at once, so that several think they are the last.
    let ends = jobs.into_iter().map(|job| {
        let fx = Arc::clone(fx);
        async move { fx.land(job.lease_ref(), done("1")).await }
    });
    at_once(ends).await;
    assert_eq!(fx.claim_one(FIRST).await.facts.id, leaf, "it is released, whoever was last");
}

pub async fn a_failure_is_followed_by_what_was_asked_for(fx: &Arc<Fixture>) {
    for ended in [JobState::Failed, JobState::Cancelled] {
        let parent = fx.put(fx.wish(RENDER)).await;
        let cancelled = after(fx, fx.wish(COLLECT), &[parent], OnFailure::Cancel).await;
        let next = after(fx, fx.wish(COLLECT), &[cancelled], OnFailure::Cancel).await;
        let runs = after(fx, fx.wish(COLLECT), &[parent], OnFailure::Run).await;
        let held = after(fx, fx.wish(COLLECT), &[parent], OnFailure::Hold).await;
        if ended == JobState::Failed {
            let job = fx.claim_one(RENDER).await;
            end(fx, &job, fail()).await;
        } else {
            let answer = fx.store.cancel(Scope::All, parent, fx.now()).await.expect("cancel");
            assert_eq!(answer, CancelAnswer::Cancelled);
        }
        assert_eq!(fx.state(cancelled).await, JobState::Cancelled);
        assert_eq!(fx.state(next).await, JobState::Cancelled, "and so on");
        let job = fx.claim_one(COLLECT).await;
        assert_eq!(job.facts.id, runs);
        end(fx, &job, done("1")).await;
        assert_eq!(waits_for(fx, held).await, [parent]);
        fx.assert_nothing_to_claim(COLLECT).await;
        // The other is tried again and completes.
        fx.store.retry(Scope::All, parent, fx.now()).await.expect("retry");
        let job = fx.claim_one(RENDER).await;
        end(fx, &job, done("1")).await;
        let job = fx.claim_one(COLLECT).await;
        assert_eq!(job.facts.id, held);
        end(fx, &job, done("1")).await;
    }
}

pub async fn what_ended_before_counts_as_it_ended(fx: &Arc<Fixture>) {
    let completed = fx.put(fx.wish(RENDER)).await;
    let job = fx.claim_one(RENDER).await;
    end(fx, &job, done("1")).await;
    let failed = fx.put(fx.wish(RENDER)).await;
    let job = fx.claim_one(RENDER).await;
    end(fx, &job, fail()).await;
    let runs = after(fx, fx.wish(COLLECT), &[completed], OnFailure::Cancel).await;
    assert_eq!(fx.state(runs).await, JobState::Pending);
    let cancelled = after(fx, fx.wish(COLLECT), &[completed, failed], OnFailure::Cancel).await;
    assert_eq!(fx.state(cancelled).await, JobState::Cancelled);
    let held = after(fx, fx.wish(COLLECT), &[failed], OnFailure::Hold).await;
    assert_eq!(fx.state(held).await, JobState::Scheduled);
    // A person decides.
    fx.store.retry(Scope::All, held, fx.now()).await.expect("retry");
    assert_eq!(fx.state(held).await, JobState::Pending);
}

pub async fn nobody_waits_for_the_jobs_of_others(fx: &Arc<Fixture>) {
    let theirs = fx.put(NewJob { user_id: BOB, ..fx.wish(RENDER) }).await;
    let before = fx.all_jobs().await.len();
    let missing = JobId::new(1_000_000);
    for id in [theirs, missing] {
        let answer = fx.store.enqueue_after(fx.wish(RENDER), vec![id], OnFailure::Run, fx.now());
        assert_eq!(answer.await.expect("after"), AfterAnswer::NoSuchJob(id));
    }
    let waiting = fx.put(fx.keyed(RENDER, "k")).await;
    let answer =
        fx.store.enqueue_after(fx.keyed(RENDER, "k"), vec![waiting], OnFailure::Run, fx.now());
    assert_eq!(answer.await.expect("after"), AfterAnswer::KeyTaken { by: waiting });
    assert_eq!(fx.all_jobs().await.len(), before + 1);
    // Who was refused left no mark that could do harm.
    let job = fx.claim_one(RENDER).await;
    end(fx, &job, done("1")).await;
}

pub async fn however_a_job_ends_those_that_wait_are_told(fx: &Arc<Fixture>) {
    // Retried first, given back, swept, and at last done.
    let parent = fx.put(NewJob { max_attempts: None, ..fx.wish(RENDER) }).await;
    let child = after(fx, fx.wish(COLLECT), &[parent], OnFailure::Cancel).await;
    let job = fx.claim_one(RENDER).await;
    end(fx, &job, retry_after(SECOND)).await;
    fx.advance(SECOND);
    let job = fx.claim_one(RENDER).await;
    end(fx, &job, Outcome::Release).await;
    fx.claim_one(RENDER).await;
    fx.advance(MINUTE * 60);
    assert_eq!(fx.sweep().await.rescued.len(), 1);
    fx.advance(MINUTE * 60);
    let job = fx.claim_one(RENDER).await;
    fx.assert_nothing_to_claim(COLLECT).await;
    end(fx, &job, done("1")).await;
    assert_eq!(fx.claim_one(COLLECT).await.facts.id, child);
    // Given up by the sweep.
    let parent = fx.put(NewJob { max_attempts: Some(1), ..fx.wish(RENDER) }).await;
    let child = after(fx, fx.wish(FIRST), &[parent], OnFailure::Cancel).await;
    fx.claim_one(RENDER).await;
    fx.advance(MINUTE * 60);
    fx.sweep().await;
    assert_eq!(fx.state(child).await, JobState::Cancelled);
    // Folded into another, which goes on for it.
    let parent = fx.put(fx.keyed(RENDER, "k")).await;
    let child = after(fx, fx.wish(FIRST), &[parent], OnFailure::Cancel).await;
    let job = fx.claim_one(RENDER).await;
    let other = fx.put(fx.keyed(RENDER, "k")).await;
    end(fx, &job, retry_after(SECOND)).await;
    assert_eq!(waits_for(fx, child).await, [other]);
    fx.advance(SECOND);
    let job = fx.claim_one(RENDER).await;
    end(fx, &job, done("1")).await;
    assert_eq!(fx.claim_one(FIRST).await.facts.id, child);
}

async fn batch(fx: &Fixture, jobs: Vec<NewJob>, callback: bool) -> (BatchId, Vec<Enqueued>) {
    let callback = callback.then(|| NewJob { payload: json("7"), ..fx.keyed(FIRST, "called") });
    let new = NewBatch { user_id: ADA, name: "b".to_owned(), jobs, callback };
    match fx.store.create_batch(new, None, fx.now()).await.expect("create_batch") {
        BatchAnswer::Stored(id, jobs) => (id, jobs),
        other => panic!("expected it to be stored, got {other:?}"),
    }
}

async fn shown(fx: &Fixture, id: BatchId) -> roundsman_core::jobs::Batch {
    fx.store.batch(Scope::User(ADA), id, fx.now()).await.expect("batch").expect("it is there")
}

pub async fn a_batch_reports_and_calls_back_once(fx: &Arc<Fixture>) {
    let later = NewJob { run_at: fx.now() + MINUTE, ..fx.wish(COLLECT) };
    let jobs = vec![fx.wish(RENDER), fx.wish(RENDER), fx.wish(RENDER), later];
    let (id, enqueued) = batch(fx, jobs, true).await;
    assert_eq!(enqueued.len(), 4);
    let others = fx.store.batch(Scope::User(BOB), id, fx.now()).await.expect("batch");
    assert_eq!(others, None);
    let at = shown(fx, id).await;
    assert_eq!((at.total, at.counts, at.finished_at), (4, [1, 3, 0, 0, 0, 0], None));
    let running = fx.claim(RENDER, 3).await;
    end(fx, &running[0], done("1")).await;
    end(fx, &running[1], fail()).await;
    assert_eq!(shown(fx, id).await.counts, [1, 0, 1, 1, 1, 0]);
    fx.store.cancel(Scope::All, enqueued[3].id, fx.now()).await.expect("cancel");
    fx.assert_nothing_to_claim(FIRST).await;
    end(fx, &running[2], done("1")).await;
    let at = shown(fx, id).await;
    assert_eq!((at.counts, at.finished_at), ([0, 0, 0, 2, 1, 1], Some(fx.now())));
    let call = fx.claim_one(FIRST).await;
    assert_eq!((Some(call.facts.id), call.facts.payload.as_str()), (at.callback, "7"));
    end(fx, &call, done("1")).await;
    // What is tried again after the end does not end it twice.
    fx.store.retry(Scope::All, running[1].facts.id, fx.now()).await.expect("retry");
    let job = fx.claim_one(RENDER).await;
    end(fx, &job, done("1")).await;
    fx.assert_nothing_to_claim(FIRST).await;
    fx.advance(SECOND);
    assert_eq!(fx.store.prune_batches(fx.now(), 10).await.expect("prune"), 1);
    assert_eq!(fx.store.batch(Scope::All, id, fx.now()).await.expect("batch"), None);
}

pub async fn a_retry_before_the_end_reopens_a_member(fx: &Arc<Fixture>) {
    let (id, _) = batch(fx, vec![fx.wish(RENDER), fx.wish(RENDER)], true).await;
    let jobs = fx.claim(RENDER, 2).await;
    end(fx, &jobs[0], fail()).await;
    fx.store.retry(Scope::All, jobs[0].facts.id, fx.now()).await.expect("retry");
    assert_eq!(shown(fx, id).await.counts, [0, 1, 1, 0, 0, 0]);
    end(fx, &jobs[1], done("1")).await;
    fx.assert_nothing_to_claim(FIRST).await;
    let job = fx.claim_one(RENDER).await;
    end(fx, &job, done("1")).await;
    assert_eq!(shown(fx, id).await.counts, [0, 0, 0, 2, 0, 0]);
    fx.claim_one(FIRST).await;
}

pub async fn wishes_of_a_batch_that_join_are_one_member(fx: &Arc<Fixture>) {
    let known = fx.put(fx.keyed(RENDER, "k")).await;
    let jobs = vec![fx.keyed(RENDER, "k"), fx.keyed(RENDER, "k"), fx.keyed(RENDER, "other")];
    let (id, enqueued) = batch(fx, jobs, false).await;
    assert_eq!((enqueued[0].id, enqueued[0].coalesced, enqueued[1].id), (known, true, known));
    assert_eq!(shown(fx, id).await.total, 2);
    for job in fx.claim(RENDER, 2).await {
        end(fx, &job, done("1")).await;
    }
    let at = shown(fx, id).await;
    assert_eq!((at.finished_at, at.callback), (Some(fx.now()), None));
}

pub async fn of_many_last_ones_at_once_one_calls_back(fx: &Arc<Fixture>) {
    for _ in 0..5 {
        let (id, _) = batch(fx, (0..16).map(|_| fx.wish(RENDER)).collect(), true).await;
        let ends = fx.claim(RENDER, 16).await.into_iter().enumerate().map(|(number, job)| {
            let fx = Arc::clone(fx);
            let outcome = if number % 4 == 0 { fail() } else { done("1") };
            async move { fx.land(job.lease_ref(), outcome).await }
        });
        at_once(ends).await;
        assert_eq!(shown(fx, id).await.counts, [0, 0, 0, 12, 4, 0]);
        let call = fx.claim_one(FIRST).await;
        assert_eq!(shown(fx, id).await.callback, Some(call.facts.id));
        end(fx, &call, done("1")).await;
        fx.assert_nothing_to_claim(FIRST).await;
    }
}

pub async fn a_repeated_batch_is_made_once(fx: &Arc<Fixture>) {
    let key = |body: u8| IdempotencyKey {
        user_id: ADA,
        route: "POST /batches",
        key: "k".to_owned(),
        body_hash: [body; 32],
    };
    let ask = |fx: Arc<Fixture>, key: IdempotencyKey| async move {
        let jobs = vec![fx.wish(RENDER), fx.keyed(RENDER, "a"), fx.keyed(RENDER, "a")];
        let new = NewBatch { user_id: ADA, name: "b".to_owned(), jobs, callback: None };
        fx.store.create_batch(new, Some(key), fx.now()).await.expect("create_batch")
    };
    // Many at once: one of them makes it, and all are told of the same.
    let answers = at_once((0..20).map(|_| ask(Arc::clone(fx), key(1)))).await;
    let (mut stored, mut made) = (0, Vec::new());
    for answer in answers {
        match answer {
            BatchAnswer::Stored(id, jobs) => {
                stored += 1;
                made.push((id, jobs));
            }
            BatchAnswer::Replayed(id, jobs) => made.push((id, jobs)),
            BatchAnswer::KeyReused => panic!("the body is the same"),
        }
    }
    assert_eq!(stored, 1);
    assert!(made.iter().all(|one| *one == made[0]), "{made:?}");
    assert_eq!(fx.all_jobs().await.len(), 2);
    let (id, jobs) = made.swap_remove(0);
    let flags: Vec<_> = jobs.iter().map(|job| job.coalesced).collect();
    assert_eq!((flags, shown(fx, id).await.total), (vec![false, false, true], 2));
    assert_eq!(ask(Arc::clone(fx), key(2)).await, BatchAnswer::KeyReused);
    // The same name on another route is another request.
    let request = EnqueueRequest {
        jobs: vec![fx.wish(RENDER)],
        idempotency: Some(IdempotencyKey { route: "POST /jobs", ..key(1) }),
    };
    fx.store.enqueue(request, fx.now()).await.expect("enqueue");
    assert_eq!(fx.all_jobs().await.len(), 3);
    // It stays answered when the batch is over.
    for job in fx.claim(RENDER, 9).await {
        end(fx, &job, done("1")).await;
    }
    assert_eq!(ask(Arc::clone(fx), key(1)).await, BatchAnswer::Replayed(id, jobs));
    fx.assert_nothing_to_claim(RENDER).await;
}
