//! Schedules: made, changed, fired once, and seen by nobody else.

use std::sync::Arc;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    JobState, LeaseRef, Missed, Outcome, Rhythm, SCHEDULE_KIND, Schedule, ScheduleChange,
    ScheduleId, ScheduleSpec, ScheduledJob, Tenant,
};
use roundsman_core::limits::SCHEDULES_PER_USER_MAX;
use roundsman_core::ports::{Fired, ListFilter, Scope};

use super::fixture::{Fixture, at_once};
use super::wishes::{ADA, BOB, MINUTE, RENDER, SECOND, json, key, kind};

fn spec(rhythm: Rhythm) -> ScheduleSpec {
    let job = ScheduledJob {
        kind: kind(RENDER),
        key: Some(key("nightly")),
        payload: json(r#"{"b": 1.10, "a": [1]}"#),
        priority: 3,
        max_attempts: Some(7),
        tenant: Tenant::new("acme").ok(),
    };
    ScheduleSpec { name: "every night ✓".to_owned(), rhythm, missed: Missed::All, job }
}

fn hourly() -> ScheduleSpec {
    let (expression, time_zone) = ("0 * * * *".to_owned(), "Europe/Berlin".to_owned());
    spec(Rhythm::Cron { expression, time_zone })
}

/// Each moment a job of its own.
fn unkeyed(mut spec: ScheduleSpec) -> ScheduleSpec {
    spec.job.key = None;
    spec.job.tenant = None;
    spec
}

async fn make(fx: &Fixture, spec: ScheduleSpec) -> Schedule {
    fx.store.create_schedule(ADA, spec, fx.now()).await.expect("create").expect("room for it")
}

async fn keeper(fx: &Fixture) -> LeaseRef {
    fx.claim_one(SCHEDULE_KIND).await.lease_ref()
}

async fn fire(fx: &Fixture, id: ScheduleId, guard: LeaseRef) -> Fired {
    fx.store.fire_schedule(id, guard, fx.now()).await.expect("fire")
}

async fn jobs(fx: &Fixture) -> Vec<roundsman_core::jobs::Job> {
    fx.list(Scope::User(ADA), ListFilter::default()).await
}

pub async fn a_schedule_comes_back_as_it_was_made(fx: &Arc<Fixture>) {
    let every = Rhythm::Every { secs: 90, from: Timestamp::EPOCH };
    for spec in [hourly(), spec(every)] {
        let made = make(fx, spec.clone()).await;
        assert_eq!((&made.spec, made.user_id, made.paused), (&spec, ADA, false));
        let found = fx.store.schedule(Scope::All, made.id).await.expect("schedule");
        assert_eq!(found.as_ref(), Some(&made));
        let listed = fx.store.schedules(Scope::User(ADA), None, 10).await.expect("schedules");
        assert_eq!(listed[0], made, "the newest first");
    }
}

pub async fn a_schedule_fires_once_at_its_time(fx: &Arc<Fixture>) {
    let made = make(fx, unkeyed(hourly())).await;
    assert_eq!(made.next_at, Some(fx.now() + MINUTE * 60));
    fx.assert_nothing_to_claim(SCHEDULE_KIND).await;
    fx.advance(MINUTE * 60 * 3 + SECOND);
    let guard = keeper(fx).await;
    let Fired::Done { jobs: fired, missed: 0, next_at } = fire(fx, made.id, guard).await else {
        panic!("it is time")
    };
    assert_eq!(fired.len(), 3, "one for each hour that passed");
    assert_eq!(next_at, Some(made.created_at + MINUTE * 240));
    let stored = jobs(fx).await;
    assert_eq!(stored.len(), 3);
    let last = stored[0].facts();
    assert_eq!((last.run_at, last.priority), (made.created_at + MINUTE * 180, 3));
    assert_eq!((&last.payload, last.max_attempts), (&made.spec.job.payload, Some(7)));
    // Once more changes nothing, as after a crash before the keeper was settled.
    let again = fire(fx, made.id, guard).await;
    assert_eq!(again, Fired::Done { jobs: vec![], missed: 0, next_at });
    assert_eq!(jobs(fx).await.len(), 3);
    let now = fx.store.schedule(Scope::All, made.id).await.expect("schedule").expect("it is there");
    assert_eq!((now.fired, now.missed, now.last_at), (3, 0, Some(last.run_at)));
    fx.land(guard, Outcome::Again { at: next_at.expect("more to come"), payload: None }).await;
}

pub async fn of_many_nodes_that_fire_at_once_one_does(fx: &Arc<Fixture>) {
    let made = make(fx, unkeyed(hourly())).await;
    fx.advance(MINUTE * 60);
    let guard = keeper(fx).await;
    let firing = (0..8).map(|_| {
        let fx = Arc::clone(fx);
        async move { fire(&fx, made.id, guard).await }
    });
    let fired = at_once(firing).await;
    let jobs_of = |fired: &Fired| match fired {
        Fired::Done { jobs, .. } => jobs.len(),
        _ => 0,
    };
    assert_eq!(fired.iter().map(jobs_of).sum::<usize>(), 1);
    assert_eq!(jobs(fx).await.len(), 1);
}

pub async fn whoever_lost_the_lease_fires_nothing(fx: &Arc<Fixture>) {
    let made = make(fx, hourly()).await;
    fx.advance(MINUTE * 60);
    let guard = keeper(fx).await;
    fx.land(guard, Outcome::Release).await;
    assert_eq!(fire(fx, made.id, guard).await, Fired::LeaseLost);
    assert_eq!(jobs(fx).await, vec![]);
}

pub async fn a_change_moves_the_next_moment_and_its_keeper(fx: &Arc<Fixture>) {
    let made = make(fx, hourly()).await;
    let change = async |change: ScheduleChange| {
        let changed = fx.store.change_schedule(Scope::User(ADA), made.id, change, fx.now()).await;
        changed.expect("change").expect("it is there")
    };
    let sooner = spec(Rhythm::Every { secs: 60, from: fx.now() });
    let changed = change(ScheduleChange { spec: Some(sooner), paused: None }).await;
    assert_eq!(changed.next_at, Some(fx.now() + MINUTE));
    fx.advance(MINUTE);
    let guard = keeper(fx).await;
    assert!(matches!(fire(fx, made.id, guard).await, Fired::Done { jobs, .. } if jobs.len() == 1));
    fx.land(guard, Outcome::Done { result: json("null") }).await;
    let paused = change(ScheduleChange { spec: None, paused: Some(true) }).await;
    assert_eq!((paused.paused, paused.next_at), (true, None));
    fx.advance(MINUTE * 5);
    let guard = keeper(fx).await;
    let nothing = Fired::Done { jobs: vec![], missed: 0, next_at: None };
    assert_eq!(fire(fx, made.id, guard).await, nothing, "it is paused");
    fx.land(guard, Outcome::Done { result: json("null") }).await;
    let resumed = change(ScheduleChange { spec: None, paused: Some(false) }).await;
    assert_eq!(resumed.next_at, Some(fx.now() + MINUTE), "what passed meanwhile is not missed");
    fx.advance(MINUTE);
    keeper(fx).await;
}

pub async fn nobody_sees_the_schedules_of_others(fx: &Arc<Fixture>) {
    let made = make(fx, hourly()).await;
    let bob = Scope::User(BOB);
    assert_eq!(fx.store.schedule(bob, made.id).await.expect("schedule"), None);
    assert_eq!(fx.store.schedules(bob, None, 10).await.expect("schedules"), vec![]);
    let change = ScheduleChange { paused: Some(true), spec: None };
    let changed = fx.store.change_schedule(bob, made.id, change, fx.now()).await;
    assert_eq!(changed.expect("change"), None);
    assert!(!fx.store.delete_schedule(bob, made.id).await.expect("delete"));
    assert_eq!(fx.store.schedule(Scope::All, made.id).await.expect("schedule"), Some(made));
}

pub async fn a_deleted_schedule_is_gone(fx: &Arc<Fixture>) {
    let made = make(fx, hourly()).await;
    assert!(fx.store.delete_schedule(Scope::User(ADA), made.id).await.expect("delete"));
    assert!(!fx.store.delete_schedule(Scope::User(ADA), made.id).await.expect("delete"));
    fx.advance(MINUTE * 60);
    let guard = keeper(fx).await;
    assert_eq!(fire(fx, made.id, guard).await, Fired::Gone);
    assert_eq!(fx.land(guard, Outcome::Done { result: json("null") }).await, JobState::Completed);
    assert!(make(fx, hourly()).await.id > made.id, "numbers are not given twice");
}

pub async fn the_number_of_schedules_is_bounded(fx: &Arc<Fixture>) {
    for _ in 0..SCHEDULES_PER_USER_MAX {
        make(fx, hourly()).await;
    }
    let more = fx.store.create_schedule(ADA, hourly(), fx.now()).await.expect("create");
    assert_eq!(more, None);
    let other = fx.store.create_schedule(BOB, hourly(), fx.now()).await.expect("create");
    assert!(other.is_some(), "others have room");
}
