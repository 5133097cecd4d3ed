//! Of every audit that fails its user is told, once, by whatever ends it.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::audits::{Audit, RUN_KIND};
use roundsman_core::effects::{Effects, WebhookEvent};
use roundsman_core::jobs::{Job, JobError, Outcome, RunningJob, Settle, Settled};
use roundsman_core::ports::{CancelAnswer, ListFilter, RetryAnswer, Scope};
use roundsman_core::webhooks::DELIVER_KIND;

use super::audits::{cancel, create, end};
use super::fixture::{Fixture, at_once, boxed};
use super::wishes::{ADA, BOB, MINUTE, RENDER, SECOND, TTL, fail, kind};

const PAGE: &str = "https://example.org/";

pub async fn a_failed_audit_is_told_once_whatever_ends_it(fx: &Arc<Fixture>) {
    let mut expected = Vec::new();
    for (number, (ends, code)) in [
        ("done", None),
        ("late", None),
        ("failed", Some("blocked_target")),
        ("crashed", Some("crashed")),
        ("given up", Some("timeout")),
        ("waiting", Some("cancelled")),
        ("running", Some("cancelled")),
        ("crashed when cancelled", Some("cancelled")),
    ]
    .into_iter()
    .enumerate()
    {
        let audit = create(fx, [ADA, BOB][number % 2], &format!("{PAGE}{number}")).await;
        if ends == "waiting" {
            cancel(fx, &audit, CancelAnswer::Cancelled).await;
        } else {
            let run = fx.claim_one(RUN_KIND).await;
            bring_to_its_end(fx, &audit, &run, ends).await;
            let late = Settled::LeaseLost;
            assert_eq!(fx.settle(run.lease_ref(), fail()).await, late, "{ends} is over");
        }
        if let Some(code) = code {
            expected.push((audit.user_id, audit.id.get(), audit.website_url, code.to_owned()));
        }
        let told: Vec<_> = events(fx).await.iter().map(said).collect();
        assert_eq!(told, expected, "after one that ended as {ends}");
        fx.advance(MINUTE);
        fx.sweep().await;
    }
    let told = events(fx).await;
    assert_eq!(told.len(), expected.len(), "nobody tells it again");
    // Each has somebody to deliver it.
    let mut keys = deliveries(fx).await;
    keys.sort();
    let mut ids: Vec<String> = told.into_iter().map(|event| event.event_id).collect();
    ids.sort();
    assert_eq!(keys, ids);
}

pub async fn what_will_be_tried_again_is_not_told(fx: &Arc<Fixture>) {
    let audit = create(fx, ADA, PAGE).await;
    let slow = || JobError::new("timeout", "slow");
    let run = fx.claim_one(RUN_KIND).await;
    fx.land(run.lease_ref(), Outcome::Release).await;
    let run = fx.claim_one(RUN_KIND).await;
    let after = Some(Duration::ZERO);
    fx.land(run.lease_ref(), Outcome::Retry { error: slow(), after }).await;
    fx.claim_one(RUN_KIND).await;
    fx.advance(TTL + SECOND);
    fx.sweep().await;
    assert_eq!(events(fx).await, [], "it has attempts left");
    let last = fx.claim_one(RUN_KIND).await;
    // Jobs of other kinds that fail are nobody's audits.
    let other = fx.put(fx.wish(RENDER)).await;
    let mut settles = vec![(last.lease_ref(), Outcome::Retry { error: slow(), after: None })];
    settles.push((fx.claim_one(RENDER).await.lease_ref(), fail()));
    let settle = |(lease, outcome)| Settle { lease, outcome, effects: Effects::default() };
    fx.settle_batch(settles.into_iter().map(settle).collect()).await;
    assert!(matches!(fx.job(other).await, Job::Finished(_)));
    let told: Vec<_> = events(fx).await.iter().map(said).collect();
    assert_eq!(told, [(ADA, audit.id.get(), PAGE.to_owned(), "timeout".to_owned())]);
}

pub async fn an_audit_that_fails_again_by_hand_is_told_again(fx: &Arc<Fixture>) {
    let audit = create(fx, ADA, PAGE).await;
    for failures in 1..=3 {
        let run = fx.claim_one(RUN_KIND).await;
        fx.land(run.lease_ref(), fail()).await;
        assert_eq!(events(fx).await.len(), failures);
        fx.advance(SECOND);
        let again = fx.store.retry(Scope::User(ADA), audit.job_id, fx.now()).await;
        assert_eq!(again.expect("retry"), RetryAnswer::Requeued);
    }
    let run = fx.claim_one(RUN_KIND).await;
    end(fx, &audit, &run, "done").await;
    assert_eq!(events(fx).await.len(), 3, "success is told by whoever found something");
}

pub async fn of_many_who_end_an_audit_at_once_one_tells_it(fx: &Arc<Fixture>) {
    let mut audits = Vec::new();
    for number in 0..4 {
        audits.push(create(fx, ADA, &format!("{PAGE}{number}")).await);
    }
    let runs = [fx.claim_one(RUN_KIND).await, fx.claim_one(RUN_KIND).await];
    let cancels = (0..4).flat_map(|_| audits.clone()).map(|audit| {
        let fx = Arc::clone(fx);
        boxed(async move {
            fx.store.cancel(Scope::All, audit.job_id, fx.now()).await.expect("cancel");
        })
    });
    let ends = runs.iter().flat_map(|run| [run.lease_ref(); 3]).map(|lease| {
        let fx = Arc::clone(fx);
        // Who comes first is not known; the lease is gone for the others.
        boxed(async move {
            let _ = fx.settle(lease, fail()).await;
        })
    });
    at_once(cancels.chain(ends).collect::<Vec<_>>()).await;
    let mut told: Vec<i64> = events(fx).await.iter().map(|event| said(event).1).collect();
    told.sort_unstable();
    let mut all: Vec<i64> = audits.iter().map(|audit| audit.id.get()).collect();
    all.sort_unstable();
    assert_eq!(told, all);
}

async fn bring_to_its_end(fx: &Fixture, audit: &Audit, run: &RunningJob, how: &str) {
    match how {
        "given up" => {
            let mut lease = run.lease_ref();
            for again in [true, true, false] {
                let error = JobError::new("timeout", "slow");
                let after = Some(Duration::ZERO);
                fx.land(lease, Outcome::Retry { error, after }).await;
                if again {
                    lease = fx.claim_one(RUN_KIND).await.lease_ref();
                }
            }
        }
        "crashed when cancelled" => {
            cancel(fx, audit, CancelAnswer::Requested).await;
            assert_eq!(events_of(fx, audit).await, 0, "its worker has yet to hear of it");
            fx.advance(TTL + SECOND);
            fx.sweep().await;
        }
        other => end(fx, audit, run, other).await,
    }
}

async fn events(fx: &Fixture) -> Vec<WebhookEvent> {
    let stored = fx.store.webhook_events(0, 100).await.expect("webhook_events");
    stored.into_iter().map(|(_, event)| event).collect()
}

async fn events_of(fx: &Fixture, audit: &Audit) -> usize {
    events(fx).await.iter().filter(|event| said(event).1 == audit.id.get()).count()
}

/// Whom it is told to, the audit, its page and why it failed.
fn said(event: &WebhookEvent) -> (roundsman_core::users::UserId, i64, String, String) {
    assert_eq!(event.event_type, "audit.failed");
    let body: serde_json::Value = serde_json::from_str(event.body.as_str()).expect("JSON");
    let audit = &body["audit"];
    assert_eq!(audit["status"], "failed");
    let text = |name: &str| audit[name].as_str().expect("a text").to_owned();
    let id = audit["id"].as_i64().expect("a number");
    (event.user_id, id, text("website_url"), text("error_code"))
}

/// The events for which a job waits.
async fn deliveries(fx: &Fixture) -> Vec<String> {
    let filter = ListFilter { kind: Some(kind(DELIVER_KIND)), ..ListFilter::default() };
    let jobs = fx.list(Scope::All, filter).await;
    let key = |job: &Job| job.facts().key.as_ref().map(|key| key.as_str().to_owned());
    jobs.iter().filter_map(key).collect()
}
