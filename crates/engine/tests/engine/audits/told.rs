//! Whoever waits for an audit hears how it ended, once, also if nobody was left to say it.

use roundsman_core::audits::{AuditId, AuditStatus, RUN_KIND};
use roundsman_core::jobs::Lane;
use roundsman_core::ports::{EffectStore, ListFilter, ObserveErrorKind, Scope};
use roundsman_core::users::{Authenticated, TokenId, UserId};
use roundsman_core::webhooks::DELIVER_KIND;
use roundsman_engine::jobs::{BulkAction, BulkWish};

use super::{ADA, BOB, GOOD, Look, Office, PAGE};
use crate::backend::{Backend, on_every_database};
use crate::support::{TTL, kind, let_others_run, secs, until, woken};

on_every_database! {
    every_end_is_told_once_whoever_brings_it
    whoever_delivers_is_woken_by_a_cancel
}

/// The audits that were told of, in that order, and how.
async fn told(office: &Office) -> Vec<(i64, String, String)> {
    let events = office.world.store.webhook_events(0, 100).await.unwrap();
    let said = |event: &roundsman_core::effects::WebhookEvent| {
        let body: serde_json::Value = serde_json::from_str(event.body.as_str()).unwrap();
        let code = body["audit"]["error_code"].as_str().unwrap_or_default().to_owned();
        (body["audit"]["id"].as_i64().unwrap(), event.event_type.clone(), code)
    };
    events.iter().map(|(_, event)| said(event)).collect()
}

fn failed(id: AuditId, code: &str) -> (i64, String, String) {
    (id.get(), "audit.failed".to_owned(), code.to_owned())
}

async fn every_end_is_told_once_whoever_brings_it(backend: Backend) {
    let office = Office::on(backend).await;
    // It completes.
    let done = office.ask(ADA, PAGE).await.id;
    office.round().await;
    let mut expected = vec![(done.get(), "audit.completed".to_owned(), String::new())];
    assert_eq!(told(&office).await, expected);
    // It cannot succeed.
    office.pages.set([Look::Fails(ObserveErrorKind::BlockedTarget)]);
    let hopeless = office.ask(ADA, PAGE).await.id;
    office.round().await;
    expected.push(failed(hopeless, "blocked_target"));
    assert_eq!(told(&office).await, expected);
    // Its last attempt fails as those before it.
    office.pages.set([Look::Fails(ObserveErrorKind::Timeout)]);
    let slow = office.ask(ADA, PAGE).await.id;
    for _ in 0..3 {
        assert_eq!(told(&office).await, expected, "it has attempts left");
        office.round().await;
        office.pass(secs(300));
    }
    expected.push(failed(slow, "timeout"));
    assert_eq!(told(&office).await, expected);
    // Its workers die, one after the other; nobody is left but the sweep.
    office.pages.set([Look::Hangs(GOOD)]);
    let doomed = office.ask(BOB, PAGE).await.id;
    for number in 0..3 {
        assert_eq!(told(&office).await, expected, "it has attempts left");
        let worker = office.another(&format!("doomed{number}"));
        worker.claim_tick().await.unwrap();
        let_others_run().await;
        office.pass(TTL + secs(1));
        office.world.sweeper().tick().await.unwrap();
    }
    expected.push(failed(doomed, "crashed"));
    assert_eq!(told(&office).await, expected);
    // Somebody cancels it: while it waits, while it runs, and with many others.
    let waits = office.ask(ADA, PAGE).await.id;
    office.audits.cancel(Scope::User(ADA), waits).await.unwrap();
    expected.push(failed(waits, "cancelled"));
    assert_eq!(told(&office).await, expected);
    let looks = office.pages.asked();
    let runs = office.ask(ADA, PAGE).await.id;
    office.worker.claim_tick().await.unwrap();
    office.looked(looks + 1).await;
    office.audits.cancel(Scope::User(ADA), runs).await.unwrap();
    assert_eq!(told(&office).await, expected, "its worker has yet to hear of it");
    office.pass(secs(30));
    office.worker.keep_tick().await.unwrap();
    until("it stops", || office.worker.running_count() == 0).await;
    office.worker.settle_tick().await.unwrap();
    expected.push(failed(runs, "cancelled"));
    assert_eq!(told(&office).await, expected);
    expected.extend(cancel_many(&office).await);
    let mut all = told(&office).await;
    all.sort();
    expected.sort();
    assert_eq!(all, expected);
    // Each has one job that delivers it, and nothing that comes later tells anything again.
    office.pass(TTL * 10);
    office.world.sweeper().tick().await.unwrap();
    assert_eq!(told(&office).await.len(), expected.len());
    assert_eq!(office.world.all_jobs(Some(DELIVER_KIND)).await.len(), expected.len());
    assert_eq!(office.status(doomed).await, AuditStatus::Failed);
    office.world.check().await;
}

/// Several audits wait, and their owner cancels all that wait.
async fn cancel_many(office: &Office) -> Vec<(i64, String, String)> {
    let mut asked = Vec::new();
    for number in 0..5 {
        asked.push(office.ask(BOB, &format!("{PAGE}{number}")).await.id);
    }
    let wish = BulkWish {
        action: BulkAction::Cancel,
        filter: ListFilter { kind: Some(kind(RUN_KIND)), ..ListFilter::default() },
        user_id: None,
        before: None,
        jobs_max: 100,
    };
    let caller = Authenticated::User { user_id: BOB, token_id: TokenId::new(1), scopes: vec![] };
    let report = office.world.jobs().bulk(&caller, wish).await.unwrap();
    assert_eq!(report.changed, 5);
    asked.into_iter().map(|id| failed(id, "cancelled")).collect()
}

async fn whoever_delivers_is_woken_by_a_cancel(backend: Backend) {
    let office = Office::on(backend).await;
    let lane = Lane::of(UserId::SYSTEM, &kind(DELIVER_KIND));
    let listener = office.world.wakes.listen(&[lane]);
    let audit = office.ask(ADA, PAGE).await;
    assert!(!woken(&listener));
    office.audits.cancel(Scope::User(ADA), audit.id).await.unwrap();
    assert!(woken(&listener));
    office.world.check().await;
}
