//! The nine defects of the original's queue (`WebScore360`, its worker and its schema), each shown not to be
//! here. The two that are left are the fetcher's and the judge's: see `crates/providers` and `crates/audit`.

use std::time::Duration;

use roundsman_core::audits::{AuditStatus, RUN_KIND};
use roundsman_core::jobs::RunOutcome;
use roundsman_core::ports::{Clock, JobStore, ObserveErrorKind, PruneRequest, Scope};
use roundsman_engine::Error;
use roundsman_engine::audits::run_spec;
use tokio_util::sync::CancellationToken;

use super::{ADA, BAD, GOOD, Look, Office, PAGE, round};
use crate::backend::{Backend, on_every_database};
use crate::support::{NEVER, TTL, just_under, let_others_run, secs, soon, until};

on_every_database! {
    defect_1_the_next_audit_is_claimed_when_one_ends
    defect_2_a_zombie_completes_nothing
    defect_3_a_rescue_looks_again_before_it_takes
    defect_4_one_clock_says_what_is_stalled
    defect_5_an_attempt_that_will_be_repeated_is_never_shown_as_failed
    defect_6_crashes_and_errors_are_counted_alike
    defect_7_a_shutdown_hands_back_what_it_has_stopped
    defect_8_errors_are_kept_backed_off_and_told_once
    defect_9_an_audit_outlives_its_job_and_is_read_as_it_is
}

/// One worker drains a backlog without a poll in between: the original took one job each five seconds.
async fn defect_1_the_next_audit_is_claimed_when_one_ends(backend: Backend) {
    let office = Office::on(backend).await;
    let mut asked = Vec::new();
    for number in 0..20 {
        asked.push(office.ask(ADA, &format!("{PAGE}{number}")).await.id);
    }
    let stop = CancellationToken::new();
    // Polling never comes, and the clock stands still: only ends and wishes wake the worker.
    let run = office.world.tasks.spawn(office.worker.clone().run(stop.clone(), NEVER));
    office.looked(20).await;
    let late = office.ask(ADA, "https://example.org/late").await.id;
    office.looked(21).await;
    stop.cancel();
    soon(run).await.unwrap();
    asked.push(late);
    for id in asked {
        assert_eq!(office.status(id).await, AuditStatus::Completed);
    }
    office.world.check().await;
}

async fn defect_2_a_zombie_completes_nothing(backend: Backend) {
    let office = Office::on(backend).await;
    office.pages.set([Look::Hangs(BAD), Look::Shows(GOOD)]);
    let audit = office.ask(ADA, PAGE).await;
    let zombie = office.another("zombie");
    zombie.claim_tick().await.unwrap();
    office.looked(1).await;
    // It is paused past its lease, and somebody else does its work.
    office.pass(TTL + secs(1));
    office.world.sweeper().tick().await.unwrap();
    office.round().await;
    let kept = office.seen(audit.id).await;
    assert_eq!((kept.state.status, kept.state.retry_count), (AuditStatus::Completed, 1));
    office.pages.go_on();
    until("the zombie is done", || zombie.running_count() == 0).await;
    zombie.settle_tick().await.unwrap();
    assert_eq!(office.seen(audit.id).await, kept, "nothing of the zombie's was written");
    office.world.check().await;
}

async fn defect_3_a_rescue_looks_again_before_it_takes(backend: Backend) {
    let office = Office::on(backend).await;
    let audit = office.ask(ADA, PAGE).await;
    office.round().await;
    office.pass(TTL * 10);
    assert_eq!(office.world.sweeper().tick().await.unwrap(), 0);
    assert_eq!(office.status(audit.id).await, AuditStatus::Completed);
    assert_eq!(office.pages.asked(), 1, "it is not made again");
    // A heartbeat that comes before the sweep keeps the audit, however late it is.
    office.pages.set([Look::Hangs(GOOD)]);
    let late = office.ask(ADA, PAGE).await;
    office.worker.claim_tick().await.unwrap();
    office.looked(2).await;
    office.pass(secs(30));
    office.worker.keep_tick().await.unwrap();
    office.pass(just_under(TTL));
    assert_eq!(office.world.sweeper().tick().await.unwrap(), 0);
    office.pages.go_on();
    until("it ends", || office.worker.running_count() == 0).await;
    office.worker.settle_tick().await.unwrap();
    let state = office.seen(late.id).await.state;
    assert_eq!((state.status, state.retry_count), (AuditStatus::Completed, 0));
    office.world.check().await;
}

/// Heartbeat, lease and stall are all the database's time: what a worker's wall clock says is nowhere.
async fn defect_4_one_clock_says_what_is_stalled(backend: Backend) {
    let office = Office::on(backend).await;
    office.pages.set([Look::Hangs(GOOD)]);
    let audit = office.ask(ADA, PAGE).await;
    office.worker.claim_tick().await.unwrap();
    office.looked(1).await;
    office.pass(secs(30));
    office.worker.keep_tick().await.unwrap();
    let state = office.seen(audit.id).await.state;
    assert_eq!(state.last_heartbeat, Some(office.world.clock.now()));
    assert_eq!(state.progress.unwrap().as_str(), r#"{"done":1,"of":3,"step":"resources"}"#);
    office.pass(TTL);
    assert_eq!(office.world.sweeper().tick().await.unwrap(), 0, "it is not over yet");
    office.pass(Duration::from_micros(1));
    assert_eq!(office.world.sweeper().tick().await.unwrap(), 1);
    let state = office.seen(audit.id).await.state;
    assert_eq!((state.status, state.retry_count), (AuditStatus::Pending, 1));
    office.world.check().await;
}

async fn defect_5_an_attempt_that_will_be_repeated_is_never_shown_as_failed(backend: Backend) {
    let office = Office::on(backend).await;
    office.pages.set([Look::Fails(ObserveErrorKind::Timeout)]);
    let audit = office.ask(ADA, PAGE).await;
    let mut shown = vec![office.status(audit.id).await];
    for _ in 0..3 {
        office.worker.claim_tick().await.unwrap();
        shown.push(office.status(audit.id).await);
        until("it ends", || office.worker.running_count() == 0).await;
        shown.push(office.status(audit.id).await);
        office.worker.settle_tick().await.unwrap();
        shown.push(office.status(audit.id).await);
        office.pass(secs(300));
    }
    let last = shown.pop();
    assert_eq!(last, Some(AuditStatus::Failed));
    assert!(!shown.contains(&AuditStatus::Failed), "{shown:?}");
    office.world.check().await;
}

async fn defect_6_crashes_and_errors_are_counted_alike(backend: Backend) {
    let office = Office::on(backend).await;
    assert_eq!(run_spec(&office.work.settings).max_attempts, Some(3));
    office.pages.set([Look::Fails(ObserveErrorKind::ConnectFailure)]);
    let fails = office.ask(ADA, PAGE).await;
    for _ in 0..5 {
        office.round().await;
        office.pass(secs(300));
    }
    let looks = office.pages.asked();
    office.pages.set([Look::Hangs(GOOD)]);
    let crashes = office.ask(ADA, "https://example.org/crash").await;
    for number in 0..5 {
        // Each is a process that dies: nobody hears of it again.
        let worker = office.another(&format!("doomed{number}"));
        worker.claim_tick().await.unwrap();
        let_others_run().await;
        office.pass(TTL + secs(1));
        office.world.sweeper().tick().await.unwrap();
    }
    assert_eq!((looks, office.pages.asked() - looks), (3, 3));
    for (id, code) in [(fails.id, "connect_failure"), (crashes.id, "crashed")] {
        let state = office.seen(id).await.state;
        assert_eq!((state.status, state.retry_count), (AuditStatus::Failed, 2), "{code}");
        assert_eq!((state.error.unwrap().code.as_str(), state.troubles.len()), (code, 3));
    }
    office.world.check().await;
}

async fn defect_7_a_shutdown_hands_back_what_it_has_stopped(backend: Backend) {
    let office = Office::on(backend).await;
    office.pages.set([Look::Hangs(BAD), Look::Shows(GOOD)]);
    let audit = office.ask(ADA, PAGE).await;
    let stop = CancellationToken::new();
    let leaving = office.another("leaving");
    let run = office.world.tasks.spawn(leaving.clone().run(stop.clone(), Duration::ZERO));
    office.looked(1).await;
    stop.cancel();
    soon(run).await.unwrap();
    let state = office.seen(audit.id).await.state;
    assert_eq!((state.status, state.retry_count), (AuditStatus::Pending, 0), "no attempt is used");
    assert_eq!(state.troubles[0].outcome, RunOutcome::Released);
    // The one that was stopped does not go on in secret.
    office.pages.go_on();
    office.round().await;
    let seen = office.seen(audit.id).await;
    assert_eq!((seen.state.status, office.pages.asked()), (AuditStatus::Completed, 2));
    assert_eq!(seen.state.processing_worker_id.as_deref(), Some("w1"));
    office.world.check().await;
}

async fn defect_8_errors_are_kept_backed_off_and_told_once(backend: Backend) {
    let office = Office::on(backend).await;
    let kinds =
        [ObserveErrorKind::DnsFailure, ObserveErrorKind::Timeout, ObserveErrorKind::HttpStatus];
    office.pages.set(kinds.map(Look::Fails));
    let audit = office.ask(ADA, PAGE).await;
    let mut waits = Vec::new();
    for _ in 0..3 {
        office.round().await;
        let state = office.seen(audit.id).await.state;
        if let Some(next_at) = state.next_attempt_at {
            waits.push(next_at.since(office.world.clock.now()));
            // Not a moment earlier.
            office.round().await;
        }
        office.pass(secs(300));
    }
    assert!(waits[0] <= secs(10) && waits[1] <= secs(20), "{waits:?}");
    assert_eq!(office.pages.asked(), 3);
    let state = office.seen(audit.id).await.state;
    let codes: Vec<_> = state
        .troubles
        .iter()
        .map(|run| (run.attempt, run.error.as_ref().unwrap().code.as_str().to_owned()))
        .collect();
    let expected = kinds.map(|kind| kind.as_str().to_owned());
    assert_eq!(codes, [1, 2, 3].into_iter().zip(expected).collect::<Vec<_>>());
    let events = roundsman_core::ports::EffectStore::webhook_events(&*office.world.store, 0, 10);
    let events = events.await.unwrap();
    assert_eq!(events.len(), 1, "one event for one end: {events:?}");
    assert_eq!(events[0].1.event_type, "audit.failed");
    office.world.check().await;
}

/// The tables that are claimed from hold what waits and nothing else, and what is shown is read anew.
async fn defect_9_an_audit_outlives_its_job_and_is_read_as_it_is(backend: Backend) {
    let office = Office::on(backend).await;
    let mut ended = Vec::new();
    for (number, look) in
        [Look::Shows(GOOD), Look::Fails(ObserveErrorKind::BlockedTarget)].into_iter().enumerate()
    {
        office.pages.set([look]);
        let audit = office.ask(ADA, &format!("{PAGE}{number}")).await;
        office.round().await;
        ended.push(office.seen(audit.id).await);
    }
    let stopped = office.ask(ADA, PAGE).await;
    ended.push(office.audits.cancel(Scope::User(ADA), stopped.id).await.unwrap());
    office.pages.set([Look::Hangs(GOOD)]);
    let running = office.ask(ADA, PAGE).await;
    office.worker.claim_tick().await.unwrap();
    office.looked(3).await;
    let told = office.audits.cancel(Scope::User(ADA), running.id).await.unwrap();
    assert_eq!(told.state.status, AuditStatus::Processing, "its worker has yet to hear of it");
    office.pass(secs(30));
    office.worker.keep_tick().await.unwrap();
    until("it stops", || office.worker.running_count() == 0).await;
    office.worker.settle_tick().await.unwrap();
    ended.push(office.seen(running.id).await);
    for audit in &ended[2..] {
        assert_eq!(audit.state.error.as_ref().unwrap().code.as_str(), "cancelled");
        let again = office.audits.cancel(Scope::All, audit.id).await;
        assert!(matches!(again, Err(Error::WrongState { .. })));
    }
    office.pass(secs(60));
    let now = office.world.clock.now();
    let all = PruneRequest {
        completed_before: now,
        failed_before: now,
        cancelled_before: now,
        idempotency_before: now,
        buckets_before: now,
        frames_before: now,
        rows_max: 100,
    };
    office.world.store.prune(all).await.unwrap();
    assert!(office.world.all_jobs(Some(RUN_KIND)).await.is_empty());
    for audit in ended {
        assert_eq!(office.seen(audit.id).await, audit);
        let again = office.audits.cancel(Scope::All, audit.id).await;
        assert!(matches!(again, Err(Error::WrongState { .. })), "also without its job");
    }
    round(&office.worker).await;
    office.world.check().await;
}
