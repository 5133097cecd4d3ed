//! Audits that recur, and the forgetting of old ones.

use roundsman_core::Timestamp;
use roundsman_core::audits::{AuditStatus, RECUR_KIND};
use roundsman_core::ports::{AuditFilter, AuditStore, Clock, Scope};
use roundsman_engine::Error;
use roundsman_engine::audits::{RecurringRequest, RecurringWish, WantedOptions, audit_wishes};

use super::{ADA, BOB, GOOD, Look, Office, PAGE};
use crate::backend::{Backend, on_every_database};
use crate::support::secs;

on_every_database! {
    a_page_is_audited_again_and_again
    the_clock_of_a_place_says_when
    what_is_old_is_forgotten
}

fn wish(schedule: &str) -> RecurringRequest {
    RecurringRequest {
        url: PAGE.to_owned(),
        schedule: schedule.to_owned(),
        time_zone: None,
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
    let pause = RecurringWish { is_paused: Some(true), ..RecurringWish::default() };
    let quiet = office.audits.change_recurring(scope, made.id, pause).await.unwrap();
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
    let daily = RecurringWish {
        is_paused: Some(false),
        schedule: Some("@daily".to_owned()),
        time_zone: None,
    };
    office.audits.change_recurring(scope, made.id, daily).await.unwrap();
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

/// The night in which the clocks of Berlin are set forward has its audit, and so has each other night.
async fn the_clock_of_a_place_says_when(backend: Backend) {
    let office = Office::on(backend).await;
    let at = |text: &str| Timestamp::parse_rfc3339(text).unwrap();
    office.world.clock.set_wall(at("2026-03-27T12:00:00Z"));
    for (schedule, zone, wrong) in [
        ("@daily", "Mars/Olympus", "time_zone"),
        ("every 6h", "UTC", "time_zone"),
        ("60 * * * *", "Europe/Berlin", "schedule"),
    ] {
        let wish = RecurringRequest { time_zone: Some(zone.to_owned()), ..wish(schedule) };
        let refused = office.audits.create_recurring(ADA, wish).await;
        let Err(Error::Invalid(fields)) = refused else { panic!("{schedule}: {refused:?}") };
        assert_eq!(fields[0].field, wrong, "{schedule} {zone}");
    }
    let zone = Some("Europe/Berlin".to_owned());
    let wish = RecurringRequest { time_zone: zone.clone(), ..wish("30 2 * * *") };
    let made = office.audits.create_recurring(ADA, wish).await.unwrap();
    let mut rang = Vec::new();
    for _ in 0..4 {
        office.round_of_alarms().await;
        office.round().await;
        let next_at = office.audits.recurring(Scope::All, made.id).await.unwrap().next_at.unwrap();
        rang.push(next_at.to_string());
        office.world.clock.set_wall(next_at);
    }
    assert_eq!(
        rang,
        [
            "2026-03-28T01:30:00.000000Z",
            "2026-03-29T01:00:00.000000Z",
            "2026-03-30T00:30:00.000000Z",
            "2026-03-31T00:30:00.000000Z",
        ]
    );
    let history = office.audits.history(Scope::User(ADA), made.id).await.unwrap();
    assert_eq!(history.len(), 4);
    // The same times elsewhere, and other times there.
    let scope = Scope::User(ADA);
    let moved =
        RecurringWish { time_zone: Some("Asia/Tokyo".to_owned()), ..RecurringWish::default() };
    let moved = office.audits.change_recurring(scope, made.id, moved).await.unwrap();
    assert_eq!(moved.next_at, Some(at("2026-03-31T17:30:00Z")));
    let later = RecurringWish { schedule: Some("@daily".to_owned()), ..RecurringWish::default() };
    let later = office.audits.change_recurring(scope, made.id, later).await.unwrap();
    let shown = (later.schedule.as_str(), later.schedule.time_zone(), later.next_at);
    assert_eq!(shown, ("@daily", Some("Asia/Tokyo"), Some(at("2026-03-31T15:00:00Z"))));
    let kept = office.audits.recurring(scope, made.id).await.unwrap();
    assert_eq!(kept, later, "it is read as it was written");
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
