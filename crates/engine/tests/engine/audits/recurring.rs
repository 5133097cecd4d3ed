//! Audits that recur, and the forgetting of old ones.

use roundsman_core::audits::{AuditStatus, RECUR_KIND};
use roundsman_core::ports::{AuditFilter, AuditStore, Clock, Scope};
use roundsman_engine::Error;
use roundsman_engine::audits::{RecurringRequest, WantedOptions, audit_wishes};

use super::{ADA, BOB, GOOD, Look, Office, PAGE};
use crate::backend::{Backend, on_every_database};
use crate::support::secs;

on_every_database! {
    a_page_is_audited_again_and_again
    what_is_old_is_forgotten
}

fn wish(schedule: &str) -> RecurringRequest {
    RecurringRequest {
        url: PAGE.to_owned(),
        schedule: schedule.to_owned(),
        priority: 1,
        options: WantedOptions::default(),
    }
}

async fn a_page_is_audited_again_and_again(backend: Backend) {
    let office = Office::with(backend, &["recurring -10"]).await;
    for (schedule, part) in [("every 10m", "3600"), ("* * * * *", "3600"), ("never", "five fields")]
    {
        let refused = office.audits.create_recurring(ADA, wish(schedule)).await;
        let Err(Error::Invalid(fields)) = refused else { panic!("{schedule}: {refused:?}") };
        assert!(fields[0].message.contains(part), "{schedule}: {}", fields[0].message);
    }
    let made = office.audits.create_recurring(ADA, wish("every 2h")).await.unwrap();
    for hour in 0..6 {
        // The alarm, and then the audit that it has started.
        office.round().await;
        office.round().await;
        let history = office.audits.history(Scope::User(ADA), made.id).await.unwrap();
        assert_eq!(history.len(), hour / 2 + 1, "after {hour} hours");
        office.pass(secs(3600));
    }
    let known = office.audits.recurring(Scope::User(ADA), made.id).await.unwrap();
    assert_eq!((known.started, known.skipped), (3, 0));
    let history = office.audits.history(Scope::User(ADA), made.id).await.unwrap();
    assert!(history.iter().all(|audit| audit.priority == -9));
    assert!(history.is_sorted_by_key(|audit| audit.id));
    assert_eq!(history[2].summary.as_ref().unwrap().previous_id, Some(history[1].id));
    let plot = office.audits.history_svg(Scope::User(ADA), made.id).await.unwrap();
    assert!(plot.contains("<svg"), "{plot}");
    let denied = office.audits.history(Scope::User(BOB), made.id).await;
    assert!(matches!(denied, Err(Error::NotFound { .. })));
    // Nobody was there for a day: one audit, not twelve.
    office.pass(secs(24 * 3600));
    office.round().await;
    office.round().await;
    assert_eq!(office.audits.history(Scope::All, made.id).await.unwrap().len(), 4);
    // A pause ends the alarm; going on sets it anew.
    let scope = Scope::User(ADA);
    let quiet = office.audits.change_recurring(scope, made.id, Some(true), None).await.unwrap();
    assert_eq!(quiet.next_at, None);
    office.pass(secs(24 * 3600));
    office.round().await;
    assert!(
        office
            .world
            .all_jobs(Some(RECUR_KIND))
            .await
            .iter()
            .all(|job| { matches!(job, roundsman_core::jobs::Job::Finished(_)) })
    );
    let daily = Some("@daily".to_owned());
    office.audits.change_recurring(scope, made.id, Some(false), daily).await.unwrap();
    office.pass(secs(24 * 3600));
    office.pages.set([Look::Hangs(GOOD)]);
    office.round_of_alarms().await;
    let filter = AuditFilter { recurring: Some(made.id), ..AuditFilter::default() };
    let all = office.world.store.audits(scope, filter, None, 10).await.unwrap();
    assert_eq!((all.len(), all[0].state.status), (5, AuditStatus::Pending));
    office.audits.delete_recurring(scope, made.id).await.unwrap();
    office.pass(secs(48 * 3600));
    office.pages.set([Look::Shows(GOOD)]);
    office.round().await;
    let filter = AuditFilter { recurring: Some(made.id), ..AuditFilter::default() };
    let all = office.world.store.audits(scope, filter, None, 10).await.unwrap();
    assert_eq!((all.len(), all[0].state.status), (5, AuditStatus::Completed), "they stay");
    office.world.check().await;
}

async fn what_is_old_is_forgotten(backend: Backend) {
    let office = Office::on(backend).await;
    let old = office.ask(ADA, PAGE).await;
    office.round().await;
    office.pass(office.work.settings.keep_for);
    let young = office.ask(ADA, PAGE).await;
    office.round().await;
    office.pass(secs(1));
    for wish in audit_wishes(office.world.clock.now()) {
        office.world.enqueue(wish).await;
    }
    office.round().await;
    let gone = office.audits.get(Scope::All, old.id).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    assert_eq!(office.status(young.id).await, AuditStatus::Completed);
    office.world.check().await;
}
