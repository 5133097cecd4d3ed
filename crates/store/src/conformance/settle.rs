//! The end of a run leaves its job where the rules say.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    Disposition, FinishedState, Job, JobError, JobState, LeaseNo, NewJob, Outcome, RunOutcome,
    RunningJob, Settle, Settled, fold, settle,
};
use roundsman_core::limits::{ERROR_MESSAGE_BYTES_MAX, RUNS_KEPT_MAX};
use roundsman_core::ports::{Scope, SweepRequest};

use super::fixture::Fixture;
use super::wishes::{
    COLLECT, FIRST, MINUTE, RENDER, SECOND, TTL, boom, catalog, done, fail, json, key, retry_after,
};

/// A jitter that is neither zero nor a round number of seconds.
const JITTER: u64 = 12_345_678_901_234_567;

pub async fn every_outcome_is_settled_by_the_rules(fx: &Arc<Fixture>) {
    for cancelled in [false, true] {
        for max_attempts in [None, Some(1), Some(3)] {
            for outcome in outcomes(fx) {
                let wish = NewJob { max_attempts, payload: json(r#"{"n":1}"#), ..fx.wish(RENDER) };
                fx.put(wish).await;
                let job = fx.claim_one(RENDER).await;
                assert_settled_by_the_rules(fx, job, outcome, cancelled).await;
                finish_all(fx, RENDER).await;
            }
        }
    }
}

/// As above with a job that has failed before, so that its log is read and written again.
pub async fn every_outcome_of_a_later_attempt_is_settled_by_the_rules(fx: &Arc<Fixture>) {
    for outcome in outcomes(fx) {
        fx.put(fx.keyed(COLLECT, "a")).await;
        for _ in 0..2 {
            let job = fx.claim_one(COLLECT).await;
            fx.land(job.lease_ref(), retry_after(SECOND)).await;
            fx.advance(SECOND);
        }
        let job = fx.claim_one(COLLECT).await;
        assert_eq!((job.facts.attempt, job.facts.runs.total), (3, 2));
        assert_settled_by_the_rules(fx, job, outcome, false).await;
        finish_all(fx, COLLECT).await;
    }
}

pub async fn a_job_that_returns_folds_into_the_one_that_waits(fx: &Arc<Fixture>) {
    let rules = catalog();
    let returning = [
        retry_after(MINUTE),
        retry_after(Duration::ZERO),
        Outcome::Release,
        Outcome::Again { at: fx.now() + MINUTE, payload: Some(json("[7]")) },
    ];
    for kind_name in [RENDER, FIRST, COLLECT] {
        for outcome in &returning {
            let first = NewJob { payload: json("[1]"), priority: 4, ..fx.keyed(kind_name, "a") };
            let id = fx.put(first).await;
            let job = fx.claim_one(kind_name).await;
            fx.advance(SECOND);
            let second = NewJob {
                payload: json("[2]"),
                max_attempts: Some(5),
                run_at: fx.now() + SECOND,
                ..fx.keyed(kind_name, "a")
            };
            let next = fx.put(second).await;
            let waiting = fx.waiting(next).await;
            fx.advance(SECOND);

            let retry = rules.retry(&job.facts.kind);
            let Disposition::Requeue(back) =
                settle(job.clone(), outcome.clone(), retry, 0, fx.now())
            else {
                panic!("{outcome:?} must requeue");
            };
            let expected = fold(waiting, back, rules.merge(&job.facts.kind), fx.now());
            let state = fx.land(job.lease_ref(), outcome.clone()).await;
            let ended = Job::Finished(Box::new(expected.ended));
            assert_eq!(state, ended.state(fx.now()), "the state of the job that ran");
            assert_eq!(fx.job(id).await, ended);
            assert_eq!(fx.waiting(next).await, expected.survivor);
            finish_all(fx, kind_name).await;
        }
    }
}

/// A job that always fails stops after its attempts, however often it is triggered meanwhile.
pub async fn a_poison_job_under_steady_triggers_stops(fx: &Arc<Fixture>) {
    const ROUNDS: usize = 30;
    fx.put(fx.keyed(RENDER, "poison")).await;
    let mut failed = Vec::new();
    for _ in 0..ROUNDS {
        let job = fx.claim_one(RENDER).await;
        assert!(job.facts.attempt <= 3);
        for _ in 0..3 {
            fx.enqueue(vec![fx.keyed(RENDER, "poison")]).await;
        }
        if fx.land(job.lease_ref(), retry_after(MINUTE)).await == JobState::Failed {
            failed.push(job.facts.id);
            continue;
        }
        fx.enqueue(vec![fx.keyed(RENDER, "poison")]).await;
        fx.assert_nothing_to_claim(RENDER).await;
        fx.advance(MINUTE);
    }
    assert_eq!(failed.len(), ROUNDS / 3, "every third run is the last");
    for id in failed {
        assert_eq!(fx.finished(id).await.facts.runs.total, 3);
    }
}

pub async fn a_job_without_a_limit_is_never_given_up(fx: &Arc<Fixture>) {
    let wish = NewJob { max_attempts: None, ..fx.keyed(RENDER, "a") };
    let id = fx.put(wish).await;
    for attempt in (1u32..).take(RUNS_KEPT_MAX + 10) {
        let job = fx.claim_one(RENDER).await;
        assert_eq!((job.facts.id, job.facts.attempt), (id, attempt));
        let state = fx.land(job.lease_ref(), retry_after(Duration::ZERO)).await;
        assert_eq!(state, JobState::Pending);
    }
    // Only the latest runs are listed, but all are counted.
    let runs = fx.waiting(id).await.facts.runs;
    assert_eq!(runs.total, RUNS_KEPT_MAX as u64 + 10);
    assert_eq!(runs.runs.len(), RUNS_KEPT_MAX);
    assert_eq!((runs.runs[0].attempt, runs.check()), (11, Ok(())));
}

pub async fn running_again_keeps_the_job(fx: &Arc<Fixture>) {
    let wish = NewJob { payload: json("0"), ..fx.keyed(RENDER, "alarm") };
    let id = fx.put(wish).await;
    for cycle in 1..=5u32 {
        let job = fx.claim_one(RENDER).await;
        assert_eq!((job.facts.id, job.facts.attempt), (id, 1));
        let again =
            Outcome::Again { at: fx.now() + MINUTE, payload: Some(json(&cycle.to_string())) };
        let state = fx.land(job.lease_ref(), again).await;
        assert_eq!(state, JobState::Scheduled);
        let waiting = fx.waiting(id).await;
        assert_eq!((waiting.facts.attempt, waiting.not_before), (0, None));
        assert_eq!(waiting.facts.payload, json(&cycle.to_string()));
        assert_eq!(waiting.facts.runs.total, u64::from(cycle));
        assert_eq!(waiting.facts.created_at, job.facts.created_at);
        fx.assert_nothing_to_claim(RENDER).await;
        fx.advance(MINUTE);
    }
}

pub async fn handing_back_gives_the_attempt_back(fx: &Arc<Fixture>) {
    let id = fx.put(fx.wish(RENDER)).await;
    let mut last_lease = None;
    for _ in 0..5 {
        let job = fx.claim_one(RENDER).await;
        assert_eq!((job.facts.id, job.facts.attempt), (id, 1));
        assert!(Some(job.lease.lease_no) > last_lease, "the token only grows");
        last_lease = Some(job.lease.lease_no);
        let state = fx.land(job.lease_ref(), Outcome::Release).await;
        assert_eq!(state, JobState::Pending);
        assert_eq!(fx.waiting(id).await.facts.attempt, 0);
    }
}

pub async fn a_batch_of_mixed_outcomes_is_answered_in_order(fx: &Arc<Fixture>) {
    let rules = catalog();
    let wishes = (0..200).map(|number| NewJob {
        key: (number % 3 == 0).then(|| key(&number.to_string())),
        max_attempts: Some(1 + number % 2),
        ..fx.wish(RENDER)
    });
    fx.enqueue(wishes.collect()).await;
    let jobs = fx.claim(RENDER, 200).await;
    assert_eq!(jobs.len(), 200);
    fx.advance(SECOND);
    let outcomes = outcomes(fx);
    let (mut settles, mut expected) = (Vec::new(), Vec::new());
    for (number, job) in jobs.into_iter().enumerate() {
        let outcome = outcomes[number % outcomes.len()].clone();
        let retry = rules.retry(&job.facts.kind);
        let mut lease = job.lease_ref();
        if number % 7 == 0 {
            lease.lease_no = LeaseNo::new(0);
            expected.push((Settled::LeaseLost, Job::Running(Box::new(job))));
        } else {
            let job = disposed(settle(job, outcome.clone(), retry, 0, fx.now()));
            let state = job.state(fx.now());
            expected.push((Settled::Landed { state }, job));
        }
        settles.push(Settle { lease, outcome, effects: Effects::default() });
    }
    let answers = fx.settle_batch(settles).await;
    for (answer, (settled, job)) in answers.iter().zip(&expected) {
        assert_eq!(answer, settled);
        assert_eq!(&fx.job(job.facts().id).await, job);
    }
    assert_eq!(fx.settle_batch(vec![]).await, vec![]);
}

/// However many fail in one call, or are taken from one holder that is gone.
pub async fn runs_that_fail_together_come_back_apart(fx: &Arc<Fixture>) {
    let wish = NewJob { max_attempts: None, ..fx.wish(RENDER) };
    fx.enqueue(vec![wish; 100]).await;
    for _ in 0..3 {
        for job in fx.claim(RENDER, 100).await {
            fx.land(job.lease_ref(), retry_after(Duration::ZERO)).await;
        }
    }
    let jobs = fx.claim(RENDER, 100).await;
    let settle = |job: &RunningJob| Settle {
        lease: job.lease_ref(),
        outcome: Outcome::Retry { error: boom(), after: None },
        effects: Effects::default(),
    };
    let settles = jobs.iter().map(settle).collect();
    fx.store.settle(settles, JITTER, fx.now()).await.expect("settle");
    assert_apart(fx).await;
    fx.advance(MINUTE * 60);
    assert_eq!(fx.claim(RENDER, 100).await.len(), 100);
    fx.advance(TTL + SECOND);
    let serving_since = roundsman_core::Timestamp::EPOCH;
    let request = SweepRequest { rows_max: 100, serving_since, jitter: JITTER };
    assert_eq!(fx.sweep_with(request).await.rescued.len(), 100);
    assert_apart(fx).await;
}

/// All wait, nearly all for different times.
async fn assert_apart(fx: &Arc<Fixture>) {
    let mut times = std::collections::BTreeSet::new();
    for job in fx.all_jobs().await {
        let Job::Waiting(job) = job else { panic!("it does not wait: {job:?}") };
        times.insert(job.due_at());
    }
    assert!(times.len() > 95, "{} different times", times.len());
}

pub async fn errors_are_kept_as_they_were_reported(fx: &Arc<Fixture>) {
    let long = "é".repeat(ERROR_MESSAGE_BYTES_MAX);
    for message in ["", "it's \"broken\" \\ 😀\n\tat line 1", &long] {
        let error = JobError::new("HTTP 500", message);
        let id = fx.put(fx.wish(RENDER)).await;
        let job = fx.claim_one(RENDER).await;
        let retry = Outcome::Retry { error: error.clone(), after: Some(SECOND) };
        fx.land(job.lease_ref(), retry).await;
        let runs = fx.waiting(id).await.facts.runs;
        assert_eq!(runs.last_error(), Some(&error));
        fx.advance(SECOND);
        let job = fx.claim_one(RENDER).await;
        let fail = Outcome::Fail { error: error.clone() };
        fx.land(job.lease_ref(), fail).await;
        let finished = fx.finished(id).await;
        assert_eq!(finished.state, FinishedState::Failed { error });
        let outcomes: Vec<_> = finished.facts.runs.runs.iter().map(|run| run.outcome).collect();
        assert_eq!(outcomes, [RunOutcome::Retry, RunOutcome::Failed]);
    }
}

/// A job may trigger its own key as an effect of its end: one more waits, whichever is written
/// first.
pub async fn a_run_may_trigger_its_own_key(fx: &Arc<Fixture>) {
    for outcome in outcomes(fx) {
        fx.put(fx.keyed(COLLECT, "a")).await;
        let job = fx.claim_one(COLLECT).await;
        let effects = Effects {
            jobs: vec![NewJob { payload: json("[9]"), ..fx.keyed(COLLECT, "a") }],
            ..Effects::default()
        };
        let settled = fx.settle_with(job.lease_ref(), outcome.clone(), effects).await;
        assert!(matches!(settled, Settled::Landed { .. }));
        let waiting: Vec<Job> =
            fx.all_jobs().await.into_iter().filter(|job| matches!(job, Job::Waiting(_))).collect();
        assert_eq!(waiting.len(), 1, "after {outcome:?}");
        let items = waiting[0].facts().payload.to_value();
        let items = items.as_array().expect("collected items").clone();
        assert!(items.contains(&9.into()), "the trigger of {outcome:?} is lost");
        finish_all(fx, COLLECT).await;
    }
}

/// One of each way a run can end.
fn outcomes(fx: &Fixture) -> Vec<Outcome> {
    vec![
        done(r#"{"ok":true}"#),
        Outcome::Again { at: fx.now() + MINUTE, payload: None },
        Outcome::Again { at: fx.now() - MINUTE, payload: Some(json("[5]")) },
        retry_after(SECOND * 5),
        retry_after(Duration::ZERO),
        Outcome::Retry { error: boom(), after: None },
        fail(),
        Outcome::Cancelled,
        Outcome::Release,
    ]
}

/// Settles with jitter and compares the job with what the rule makes of it.
async fn assert_settled_by_the_rules(
    fx: &Arc<Fixture>,
    job: RunningJob,
    outcome: Outcome,
    cancelled: bool,
) {
    let id = job.facts.id;
    if cancelled {
        let answer = fx.store.cancel(Scope::All, id, fx.now()).await;
        answer.expect("cancel");
    }
    fx.heartbeat_with(job.lease_ref(), None, Some(json("[1]"))).await;
    let job = fx.running(id).await;
    assert_eq!(job.cancel_requested, cancelled);
    fx.advance(SECOND);
    let retry = catalog().retry(&job.facts.kind);
    let lease = job.lease_ref();
    let expected = disposed(settle(job, outcome.clone(), retry, JITTER, fx.now()));
    let request = vec![Settle { lease, outcome: outcome.clone(), effects: Effects::default() }];
    let answers = fx.store.settle(request, JITTER, fx.now()).await;
    let state = expected.state(fx.now());
    assert_eq!(answers.expect("settle"), [Settled::Landed { state }]);
    assert_eq!(fx.job(id).await, expected, "{outcome:?}");
}

fn disposed(disposition: Disposition) -> Job {
    match disposition {
        Disposition::Finish(job) => Job::Finished(Box::new(job)),
        Disposition::Requeue(job) => Job::Waiting(job),
    }
}

/// Cancels whatever still waits, so that the next round starts without it.
async fn finish_all(fx: &Arc<Fixture>, kind_name: &str) {
    let of_kind = |job: &Job| job.facts().kind.as_str() == kind_name;
    for job in fx.all_jobs().await.iter().filter(|job| of_kind(job)) {
        if matches!(job, Job::Waiting(_)) {
            let answer = fx.store.cancel(Scope::All, job.facts().id, fx.now()).await;
            answer.expect("cancel");
        }
    }
}
