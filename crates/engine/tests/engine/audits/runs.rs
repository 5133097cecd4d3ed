//! One audit from the wish to its end.

use roundsman_core::audits::AuditStatus;
use roundsman_core::ports::{AuditFilter, AuditStore, ObserveErrorKind, Scope};
use roundsman_engine::Error;
use roundsman_engine::audits::{AuditRequest, ReportFormat, StoredReport, WantedOptions};

use super::{ADA, BAD, BOB, GOOD, Look, Office, PAGE, round, wish};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::secs;

on_every_database! {
    what_was_found_is_kept_compared_and_rendered
    errors_that_pass_are_tried_again_and_others_are_not
    rules_say_who_goes_first
    nobody_has_more_than_their_share
}

async fn what_was_found_is_kept_compared_and_rendered(backend: Backend) {
    let office = Office::on(backend).await;
    office.pages.set([Look::Shows(BAD), Look::Shows(GOOD)]);
    let first = office.ask(ADA, "EXAMPLE.org").await;
    assert_eq!((first.website_url.as_str(), first.state.status), (PAGE, AuditStatus::Pending));
    office.round().await;
    let request = AuditRequest {
        options: WantedOptions { browser: Some(true), obey_robots: Some(false) },
        ..wish(PAGE)
    };
    let second = office.audits.create(ADA, request).await.unwrap().audit;
    let stranger = office.ask(BOB, PAGE).await;
    office.round().await;
    let asked = office.pages.asked.lock().unwrap().clone();
    assert!(asked.iter().all(|wish| !wish.allow_private), "that is for the command line alone");
    assert!(asked.iter().any(|wish| wish.in_browser && !wish.obey_robots));
    let seen = office.seen(second.id).await;
    let found = seen.summary.unwrap();
    assert_eq!(found.previous_id, Some(first.id));
    assert_eq!(office.seen(stranger.id).await.summary.unwrap().previous_id, None);
    assert_eq!((found.attempt, found.duration_ms, found.has_screenshot), (1, 350, true));
    let report = office.audits.report(Scope::User(ADA), second.id).await.unwrap();
    let stored = StoredReport::read(&report).unwrap();
    assert_eq!(i16::from(stored.verdict.overall), found.scores.overall);
    let comparison = stored.comparison.unwrap();
    assert!(comparison.overall > 0 && !comparison.mended.is_empty(), "{comparison:?}");
    assert!(report.raw_data.as_str().contains("seo_title_tag"));
    let scope = Scope::User(ADA);
    let html = office.audits.rendered(scope, second.id, ReportFormat::Html).await.unwrap();
    assert!(String::from_utf8(html).unwrap().contains("example.org"));
    let pdf = office.audits.rendered(scope, second.id, ReportFormat::Pdf).await.unwrap();
    assert!(pdf.starts_with(b"%PDF"));
    let png = office.audits.screenshot(scope, second.id).await.unwrap();
    assert_eq!(png, b"\x89PNG made up");
    for denied in [
        office.audits.get(Scope::User(BOB), second.id).await.err(),
        office.audits.report(Scope::User(BOB), second.id).await.err(),
        office.audits.cancel(Scope::User(BOB), second.id).await.err(),
        office.audits.screenshot(Scope::User(BOB), second.id).await.err(),
    ] {
        assert!(matches!(denied, Some(Error::NotFound { .. })), "{denied:?}");
    }
    let metrics = office.world.metrics.encode();
    assert!(metrics.contains("audit_attempts_total{code=\"completed\"} 3"), "{metrics}");
    assert!(metrics.contains("audit_phase_seconds_count{phase=\"judge\"} 3"));
    office.world.check().await;
}

async fn errors_that_pass_are_tried_again_and_others_are_not(backend: Backend) {
    let office = Office::on(backend).await;
    for kind in ObserveErrorKind::ALL {
        office.pages.set([Look::Fails(kind)]);
        let audit = office.ask(ADA, &format!("{PAGE}{kind}")).await;
        office.round().await;
        let state = office.seen(audit.id).await.state;
        if kind.is_passing() {
            assert_eq!((state.status, state.retry_count), (AuditStatus::Pending, 1), "{kind}");
            assert!(state.next_attempt_at.is_some());
            office.pages.set([Look::Shows(GOOD)]);
            office.pass(secs(300));
            office.round().await;
            let state = office.seen(audit.id).await.state;
            assert_eq!((state.status, state.retry_count), (AuditStatus::Completed, 1));
            assert_eq!(state.troubles[0].error.as_ref().unwrap().code.as_str(), kind.as_str());
        } else {
            let error = state.error.unwrap();
            assert_eq!((state.status, state.retry_count), (AuditStatus::Failed, 0), "{kind}");
            let said = (error.code.as_str(), error.message.as_str());
            assert_eq!(said, (kind.as_str(), "as the test says"));
        }
    }
    // The database's trouble is an attempt, and no verdict about the page.
    office.pages.set([Look::Shows(GOOD)]);
    let audit = office.ask(ADA, PAGE).await;
    office.world.store.set("previous_audit", Fault::Down);
    office.round().await;
    office.world.store.mend();
    let state = office.seen(audit.id).await.state;
    assert_eq!(state.troubles[0].error.as_ref().unwrap().code.as_str(), "storage");
    office.pass(secs(300));
    office.round().await;
    assert_eq!(office.status(audit.id).await, AuditStatus::Completed);
    office.world.check().await;
}

async fn rules_say_who_goes_first(backend: Backend) {
    let rules = ["user 2 +20", "domain *.example.org -5", "age 30d +3", "recurring -10"];
    let office = Office::with(backend, &rules).await;
    let plain = office.ask(ADA, "https://plain.example/").await;
    assert_eq!(plain.priority, 3, "it was never audited");
    let slow = office.ask(ADA, "https://www.example.org/").await;
    assert_eq!(slow.priority, -2);
    let first = office.ask(BOB, "https://plain.example/").await;
    assert_eq!(first.priority, 23);
    let again = office.ask(ADA, "https://plain.example/").await;
    assert_eq!(again.priority, 0, "it was audited a moment ago");
    let narrow = office.world.worker_with(office.work.handlers(), |options| options.slots = 1);
    for _ in 0..4 {
        round(&narrow).await;
    }
    let order: Vec<i64> = office.ends().await;
    assert_eq!(order, [first, plain, again, slow].map(|audit| audit.id.get()));
    let eager = AuditRequest { priority: 11, ..wish(PAGE) };
    let refused = office.audits.create(ADA, eager).await;
    assert!(matches!(refused, Err(Error::Invalid(fields)) if fields[0].field == "priority"));
    office.world.check().await;
}

async fn nobody_has_more_than_their_share(backend: Backend) {
    let office = Office::on(backend).await;
    for number in 0..20 {
        office.ask(ADA, &format!("{PAGE}{number}")).await;
    }
    let refused = office.audits.create(ADA, wish(PAGE)).await;
    assert!(matches!(refused, Err(Error::TooMany { count: 20, .. })), "{refused:?}");
    office.ask(BOB, PAGE).await;
    for bad in ["", "ftp://example.org/", "https://", "https://a:b@example.org/"] {
        let refused = office.audits.create(BOB, wish(bad)).await;
        assert!(
            matches!(refused, Err(Error::Invalid(fields)) if fields[0].field == "url"),
            "{bad}"
        );
    }
    let key = |body: &'static str| AuditRequest {
        idempotency: Some(("k1".to_owned(), bytes::Bytes::from_static(body.as_bytes()))),
        ..wish(PAGE)
    };
    let made = office.audits.create(BOB, key("a")).await.unwrap();
    let again = office.audits.create(BOB, key("a")).await.unwrap();
    assert_eq!((made.replayed, again.replayed, again.audit.id), (false, true, made.audit.id));
    let other = office.audits.create(BOB, key("b")).await;
    assert!(matches!(other, Err(Error::IdempotencyKeyReused)));
    let filter = AuditFilter::default();
    let all = office.world.store.audits(Scope::User(BOB), filter, None, 50).await.unwrap();
    assert_eq!(all.len(), 2);
    office.world.check().await;
}
