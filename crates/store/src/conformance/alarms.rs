//! Alarms of rooms: jobs that are set, taken back and shown under the names that users know.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::alarms::{
    Alarm, AlarmName, AlarmWish, FAILING_ATTEMPTS_MIN, SetMode, USER_ALARM_KIND, fired,
};
use roundsman_core::jobs::JobState;
use roundsman_core::tasks::POLLING_KIND;

use super::fixture::{Fixture, at_once};
use super::task::{made, owner, project};
use super::wishes::{ADA, MINUTE, SECOND, done, json, retry_after};

fn wish(fx: &Fixture, in_project: &str, name: &str, after: Duration) -> AlarmWish {
    AlarmWish {
        project: project(in_project),
        owner: ADA,
        name: AlarmName::new(name).expect("a name"),
        at: fx.now() + after,
        payload: json(&format!(r#"{{"after":{}}}"#, after.as_secs())),
        mode: SetMode::Earliest,
    }
}

async fn set(fx: &Fixture, wish: AlarmWish) -> bool {
    fx.store.set_alarm(wish, 10, fx.now()).await.expect("set_alarm")
}

async fn cancel(fx: &Fixture, in_project: &str, name: &str) -> bool {
    let name = AlarmName::new(name).expect("a name");
    fx.store.cancel_alarm(project(in_project), name, fx.now()).await.expect("cancel_alarm")
}

async fn alarms(fx: &Fixture, in_project: &str) -> Vec<Alarm> {
    fx.store.alarms(project(in_project), 100).await.expect("alarms")
}

fn names(alarms: &[Alarm]) -> Vec<&str> {
    alarms.iter().map(|alarm| alarm.name.as_str()).collect()
}

pub async fn a_room_has_several_alarms_by_their_names(fx: &Arc<Fixture>) {
    owner(fx, "p").await;
    made(fx, "p", 1).await;
    for (name, secs) in [("later", 60), ("soon", 5), ("Soon", 7)] {
        assert!(set(fx, wish(fx, "p", name, Duration::from_secs(secs))).await);
    }
    // Projects whose names begin alike have alarms of their own.
    for other in ["p/q", "p0", "P", "p/"] {
        assert!(set(fx, wish(fx, other, "soon", SECOND)).await);
        assert_eq!(names(&alarms(fx, other).await), ["soon"], "{other}");
    }
    let found = alarms(fx, "p").await;
    assert_eq!(names(&found), ["soon", "Soon", "task_polling", "later"]);
    assert_eq!(found[0].at, fx.now() + Duration::from_secs(5));
    assert_eq!(found[0].payload, Some(json(r#"{"after":5}"#)));
    assert_eq!((found[2].payload.as_ref(), found[2].is_firing), (None, false));
    let first_two = fx.store.alarms(project("p"), 2).await.expect("it works");
    assert_eq!(names(&first_two), ["soon", "Soon"]);
    assert!(cancel(fx, "p", "soon").await);
    assert!(!cancel(fx, "p", "soon").await, "it is not set any more");
    assert_eq!(names(&alarms(fx, "p").await), ["Soon", "task_polling", "later"]);
    assert_eq!(names(&alarms(fx, "p/q").await), ["soon"]);
}

pub async fn setting_again_brings_it_forward_or_replaces_it(fx: &Arc<Fixture>) {
    let at = async || alarms(fx, "p").await[0].at;
    let replaced = |after| AlarmWish { mode: SetMode::Replace, ..wish(fx, "p", "wake", after) };
    set(fx, wish(fx, "p", "wake", MINUTE)).await;
    set(fx, wish(fx, "p", "wake", MINUTE * 2)).await;
    assert_eq!(at().await, fx.now() + MINUTE, "the earlier time holds");
    set(fx, wish(fx, "p", "wake", SECOND)).await;
    assert_eq!(at().await, fx.now() + SECOND);
    set(fx, replaced(MINUTE * 3)).await;
    let found = alarms(fx, "p").await;
    assert_eq!(found[0].at, fx.now() + MINUTE * 3, "the new time holds");
    assert_eq!((found.len(), found[0].payload.clone()), (1, Some(json(r#"{"after":180}"#))));
    fx.advance(MINUTE * 2);
    fx.assert_nothing_to_claim(USER_ALARM_KIND).await;
    set(fx, replaced(SECOND)).await;
    fx.advance(SECOND);
    fx.claim_one(USER_ALARM_KIND).await;
}

pub async fn an_alarm_that_is_set_while_it_fires_stays_set(fx: &Arc<Fixture>) {
    for mode in [SetMode::Earliest, SetMode::Replace] {
        set(fx, wish(fx, "p", "wake", SECOND)).await;
        fx.advance(SECOND);
        let firing = fx.claim_one(USER_ALARM_KIND).await;
        assert!(alarms(fx, "p").await[0].is_firing);
        assert!(!cancel(fx, "p", "wake").await, "it is too late");
        assert!(set(fx, AlarmWish { mode, ..wish(fx, "p", "wake", MINUTE) }).await);
        let effects = fired(&firing.facts, fx.now()).expect("an alarm").effects;
        fx.settle_with(firing.lease_ref(), done("null"), effects).await;
        let found = alarms(fx, "p").await;
        assert_eq!((found.len(), found[0].at), (1, fx.now() + MINUTE));
        fx.advance(MINUTE);
        let second = fx.claim_one(USER_ALARM_KIND).await;
        let effects = fired(&second.facts, fx.now()).expect("an alarm").effects;
        fx.settle_with(second.lease_ref(), done("null"), effects).await;
        assert_eq!(alarms(fx, "p").await, []);
    }
    let told = fx.store.webhook_events(0, 100).await.expect("it works");
    assert_eq!(told.iter().filter(|(_, event)| event.event_type == "alarm.fired").count(), 4);
    let frames = fx.store.frames("room:p".to_owned(), 0, 100).await.expect("it works");
    assert_eq!(frames.len(), 4, "its room is told, too");
}

pub async fn an_alarm_is_never_dropped(fx: &Arc<Fixture>) {
    set(fx, wish(fx, "p", "wake", SECOND)).await;
    for attempt in 1..=20 {
        fx.advance(MINUTE * 6);
        let firing = fx.claim_one(USER_ALARM_KIND).await;
        assert_eq!(fx.land(firing.lease_ref(), retry_after(MINUTE)).await, JobState::Scheduled);
        let found = alarms(fx, "p").await;
        assert_eq!((found.len(), found[0].attempts_failed), (1, attempt));
        assert_eq!(found[0].is_failing(), attempt >= FAILING_ATTEMPTS_MIN);
        assert_eq!(found[0].last_error.as_ref().expect("it works").code.as_str(), "boom");
        assert_eq!(found[0].at, fx.now() + MINUTE);
    }
    // Setting it again is no way around the pause; setting it anew is.
    set(fx, wish(fx, "p", "wake", Duration::ZERO)).await;
    fx.assert_nothing_to_claim(USER_ALARM_KIND).await;
    let anew = AlarmWish { mode: SetMode::Replace, ..wish(fx, "p", "wake", Duration::ZERO) };
    set(fx, anew).await;
    assert!(!alarms(fx, "p").await[0].is_failing());
    fx.claim_one(USER_ALARM_KIND).await;
}

pub async fn a_room_has_so_many_alarms(fx: &Arc<Fixture>) {
    for number in 0..10 {
        assert!(set(fx, wish(fx, "p", &format!("n{number}"), MINUTE)).await);
    }
    assert!(!set(fx, wish(fx, "p", "more", MINUTE)).await);
    assert!(set(fx, wish(fx, "p", "n3", SECOND)).await, "one that is set may be set again");
    assert!(set(fx, wish(fx, "p/q", "more", MINUTE)).await, "another room has its own");
    assert!(cancel(fx, "p", "n0").await);
    assert!(set(fx, wish(fx, "p", "more", MINUTE)).await);
}

pub async fn many_who_set_one_alarm_set_one(fx: &Arc<Fixture>) {
    let sets = (0..32u64).map(|number| {
        let fx = Arc::clone(fx);
        async move {
            let mode = if number % 2 == 0 { SetMode::Earliest } else { SetMode::Replace };
            let after = Duration::from_secs(number + 1);
            set(&fx, AlarmWish { mode, ..wish(&fx, "p", "wake", after) }).await
        }
    });
    assert!(at_once(sets.collect::<Vec<_>>()).await.into_iter().all(|set| set));
    assert_eq!(alarms(fx, "p").await.len(), 1);
    fx.assert_nothing_to_claim(POLLING_KIND).await;
}
