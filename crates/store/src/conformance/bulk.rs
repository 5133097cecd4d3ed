//! What is done to many jobs, one at a time, and what failed jobs need.

use std::sync::Arc;

use roundsman_core::jobs::{Job, JobError, JobId, JobState, NewJob, Outcome};
use roundsman_core::ports::{DeleteAnswer, ListFilter, ReprioritiseAnswer, Scope};

use super::fixture::Fixture;
use super::wishes::{ADA, BOB, COLLECT, MINUTE, RENDER, SECOND, done, kind};

async fn failed(fx: &Fixture, wish: NewJob, code: &str, message: &str) -> JobId {
    let lane = wish.kind.as_str().to_owned();
    let id = fx.put(NewJob { priority: 100, ..wish }).await;
    let job = fx.claim_one(&lane).await;
    assert_eq!(job.facts.id, id);
    fx.land(job.lease_ref(), Outcome::Fail { error: JobError::new(code, message) }).await;
    id
}

fn ids(jobs: &[Job]) -> Vec<JobId> {
    jobs.iter().map(|job| job.facts().id).collect()
}

pub async fn a_waiting_job_gets_another_place(fx: &Arc<Fixture>) {
    let first = fx.put(fx.wish(RENDER)).await;
    let second = fx.put(fx.wish(RENDER)).await;
    let (ours, others) = (Scope::User(ADA), Scope::User(BOB));
    let put = async |scope, id| {
        fx.store.reprioritise(scope, id, 7, fx.now()).await.expect("reprioritise")
    };
    assert_eq!(put(others, second).await, ReprioritiseAnswer::NotFound);
    assert_eq!(put(ours, second).await, ReprioritiseAnswer::Moved);
    assert_eq!(fx.waiting(second).await.facts.priority, 7);
    let job = fx.claim_one(RENDER).await;
    assert_eq!(job.facts.id, second, "it went ahead");
    let running = ReprioritiseAnswer::NotWaiting(JobState::Processing);
    assert_eq!(put(ours, second).await, running);
    fx.land(job.lease_ref(), done("1")).await;
    let over = ReprioritiseAnswer::NotWaiting(JobState::Completed);
    assert_eq!(put(ours, second).await, over);
    assert_eq!(fx.claim_one(RENDER).await.facts.id, first);
}

pub async fn what_is_over_can_be_deleted(fx: &Arc<Fixture>) {
    let id = fx.put(fx.wish(RENDER)).await;
    let delete = async |scope| fx.store.delete_job(scope, id).await.expect("delete_job");
    assert_eq!(delete(Scope::All).await, DeleteAnswer::NotFinished(JobState::Pending));
    let job = fx.claim_one(RENDER).await;
    assert_eq!(delete(Scope::All).await, DeleteAnswer::NotFinished(JobState::Processing));
    fx.land(job.lease_ref(), done("1")).await;
    assert_eq!(delete(Scope::User(BOB)).await, DeleteAnswer::NotFound);
    assert_eq!(delete(Scope::User(ADA)).await, DeleteAnswer::Deleted);
    assert_eq!(delete(Scope::User(ADA)).await, DeleteAnswer::NotFound);
}

pub async fn lists_are_narrowed_further(fx: &Arc<Fixture>) {
    let old = fx.put(fx.keyed(RENDER, "cust-1:a_b")).await;
    fx.advance(MINUTE);
    let middle = fx.put(fx.keyed(RENDER, "cust-1:b")).await;
    let running = fx.put(NewJob { priority: 9, ..fx.keyed(RENDER, "cust-2:%") }).await;
    let running_job = fx.claim_one(RENDER).await;
    assert_eq!(running_job.facts.id, running);
    fx.advance(MINUTE);
    let over = fx.put(NewJob { priority: 9, ..fx.keyed(RENDER, "cust-2:c") }).await;
    let job = fx.claim_one(RENDER).await;
    fx.land(job.lease_ref(), done("1")).await;
    for scope in [Scope::User(ADA), Scope::All] {
        let list = async |filter| ids(&fx.list(scope, filter).await);
        let prefix =
            |text: &str| ListFilter { key_prefix: Some(text.to_owned()), ..ListFilter::default() };
        assert_eq!(list(prefix("cust-1:")).await, [middle, old]);
        assert_eq!(list(prefix("cust-2:")).await, [over, running]);
        assert_eq!(list(prefix("cust-1:a%")).await, [], "letters, not patterns");
        let since = fx.now() - MINUTE;
        let from = ListFilter { created_from: Some(since), ..ListFilter::default() };
        assert_eq!(list(from).await, [over, running, middle]);
        let before = ListFilter { created_before: Some(since), ..ListFilter::default() };
        assert_eq!(list(before).await, [old]);
    }
}

pub async fn failed_jobs_are_found_by_their_error(fx: &Arc<Fixture>) {
    let timeout = failed(fx, fx.wish(RENDER), "timeout", "no answer from Example.org").await;
    let refused = failed(fx, fx.wish(COLLECT), "http_500", "example.org: 100% broken_").await;
    fx.put(fx.wish(RENDER)).await;
    for scope in [Scope::User(ADA), Scope::All] {
        let find = async |text: &str, state| {
            let error = Some(text.to_owned());
            ids(&fx.list(scope, ListFilter { error, state, ..ListFilter::default() }).await)
        };
        assert_eq!(find("xample.org", None).await, [refused, timeout]);
        assert_eq!(find("example.org", Some(JobState::Failed)).await, [refused], "to the letter");
        assert_eq!(find("timeout", None).await, [timeout], "codes too");
        assert_eq!(find("100% broken_", None).await, [refused]);
        assert_eq!(find("100_", None).await, []);
        assert_eq!(find("example", Some(JobState::Completed)).await, [], "those did not fail");
        let by_kind = ListFilter {
            kind: Some(kind(RENDER)),
            state: Some(JobState::Failed),
            ..ListFilter::default()
        };
        assert_eq!(ids(&fx.list(scope, by_kind).await), [timeout]);
    }
    let others = ListFilter { error: Some("example".to_owned()), ..ListFilter::default() };
    assert_eq!(fx.list(Scope::User(BOB), others).await, vec![]);
}

pub async fn failed_jobs_are_counted_and_kept_as_long_as_their_kind(fx: &Arc<Fixture>) {
    for _ in 0..3 {
        failed(fx, fx.wish(RENDER), "x", "y").await;
        failed(fx, fx.wish(COLLECT), "x", "y").await;
    }
    let counts = async || fx.store.dead_counts().await.expect("dead_counts");
    assert_eq!(counts().await, [(kind(COLLECT), 3), (kind(RENDER), 3)]);
    fx.advance(SECOND);
    let prune = async |rows_max| {
        let horizons = vec![(kind(RENDER), fx.now() - MINUTE)];
        fx.store.prune_dead(horizons, fx.now(), rows_max).await.expect("prune_dead")
    };
    assert_eq!(prune(2).await, 2);
    assert_eq!(prune(100).await, 1);
    assert_eq!(counts().await, [(kind(RENDER), 3)], "kept longer");
    fx.advance(MINUTE);
    assert_eq!(prune(100).await, 3);
    assert_eq!(counts().await, []);
}
