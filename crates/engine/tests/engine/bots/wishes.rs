//! What users ask for: limits, what is told to whom, and the work after a meeting.

use std::collections::BTreeSet;

use bytes::Bytes;
use roundsman_core::bots::{BotEvent, BotStatus, FINISH_KIND, SUPERVISE_KIND};
use roundsman_core::ports::{
    AnonymiseAnswer, BotTarget, BusMessage, BusSubscription, ConfigAnswer, ConfigChange,
    EffectStore, MeetingFilter, MeetingPage, UserStore,
};
use roundsman_core::webhooks::DELIVER_KIND;
use roundsman_engine::Error;
use roundsman_engine::bots::StartError;
use serde_json::{Value, json};

use super::{BotWorld, exit, wish};
use crate::backend::{Backend, on_every_database};
use crate::support::{lane, soon, woken};

on_every_database! {
    the_limit_counts_everything_that_is_not_over
    a_limit_of_zero_means_none_and_a_meeting_has_one_bot
    every_status_is_told_on_the_meetings_channel_in_order
    commands_go_out_on_both_channels_of_a_bot
    whoever_has_work_from_it_is_woken
    wishes_never_touch_the_meeting
    a_configuration_is_checked_and_refused_in_the_wrong_state
    what_no_database_can_hold_is_not_asked_for
    meetings_are_listed_newest_first_and_page_by_page
    the_work_after_a_meeting_is_done_once
    nothing_waits_for_the_bus
}

async fn the_limit_counts_everything_that_is_not_over(backend: Backend) {
    let bots = BotWorld::with_limit(backend, 2).await;
    let first = bots.active().await;
    bots.stop(&first).await;
    bots.says(&first, BotEvent::Leaving).await;
    bots.launched().await;
    let refused = bots.start("abc-defg-hij").await.unwrap_err();
    assert!(matches!(refused, StartError::LimitReached { live: 2, max: 2 }), "{refused:?}");
    bots.says(&first, exit(0)).await;
    let third = bots.start("abc-defg-hij").await.unwrap();
    assert_eq!(third.status, BotStatus::Reserved);
    assert!(bots.world.metrics.encode().contains("limit_hits_total{limit=\"bots_per_user\"} 1"));
    bots.run_due().await;
    bots.check().await;
}

async fn a_limit_of_zero_means_none_and_a_meeting_has_one_bot(backend: Backend) {
    let none = BotWorld::with_limit(backend, 0).await;
    let refused = none.start("abc-defg-hij").await.unwrap_err();
    assert!(matches!(refused, StartError::LimitReached { live: 0, max: 0 }), "{refused:?}");

    let bots = BotWorld::new(backend).await;
    let record = bots.start("abc-defg-hij").await.unwrap();
    let refused = bots.start("abc-defg-hij").await.unwrap_err();
    let expected = record.meeting.id;
    assert!(matches!(refused, StartError::AlreadyLive { meeting } if meeting == expected));
    let unknown = roundsman_core::users::UserId::new(999);
    let refused = bots.bots.start(unknown, wish("abc-defg-xyz")).await.unwrap_err();
    assert!(matches!(refused, StartError::NoSuchUser), "{refused:?}");
    let refused = bots.start("not an id").await.unwrap_err();
    assert!(matches!(refused, StartError::Invalid(_)), "{refused:?}");
    bots.check().await;
}

async fn message(subscription: &mut Box<dyn BusSubscription>) -> Value {
    match soon(subscription.next()).await {
        BusMessage::Body(body) => serde_json::from_slice(&body).unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn every_status_is_told_on_the_meetings_channel_in_order(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.launched().await;
    let topic = format!("bm:meeting:{}:status", record.meeting.id);
    let mut told = bots.bus.subscribe(&topic).await.unwrap();
    bots.says(&record, BotEvent::Joined).await;
    bots.says(&record, BotEvent::Leaving).await;
    bots.says(&record, exit(0)).await;
    for expected in ["joining", "active", "stopping", "completed"] {
        let frame = message(&mut told).await;
        assert_eq!(frame["payload"]["status"], expected);
        assert_eq!(frame["meeting"]["id"], record.meeting.id.get());
    }
    bots.run_due().await;
    bots.check().await;
}

async fn commands_go_out_on_both_channels_of_a_bot(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.active().await;
    let id = record.meeting.id.get();
    let topics = [
        format!("bot_commands:{}", record.bot.connection_id.as_str()),
        format!("bot_commands:meeting:{id}"),
    ];
    let mut listeners = Vec::new();
    for topic in &topics {
        listeners.push(bots.bus.subscribe(topic).await.unwrap());
    }
    let target = BotTarget::Meeting(record.meeting.id);
    let change = ConfigChange { task: Some("translate".to_owned()), ..ConfigChange::default() };
    bots.bots.configure(bots.user, target, change).await.unwrap();
    bots.stop(&record).await;
    for listener in &mut listeners {
        let command = json!({
            "action": "reconfigure",
            "meeting_id": id,
            "language": null,
            "task": "translate",
            "config_version": 1,
        });
        assert_eq!(message(listener).await, command);
        assert_eq!(message(listener).await, json!({ "action": "leave", "meeting_id": id }));
    }
    // The supervisor repeats it.
    bots.run_due().await;
    for listener in &mut listeners {
        assert_eq!(message(listener).await["action"], "leave");
    }
    bots.check().await;
}

async fn whoever_has_work_from_it_is_woken(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let wakes = &bots.world.wakes;
    let supervise = wakes.listen(&[lane(SUPERVISE_KIND)]);
    let finish = wakes.listen(&[lane(FINISH_KIND)]);
    let deliver = wakes.listen(&[lane(DELIVER_KIND)]);
    let record = bots.start("abc-defg-hij").await.unwrap();
    assert_eq!([woken(&supervise), woken(&finish), woken(&deliver)], [true, false, true]);
    bots.stop(&record).await;
    assert_eq!([woken(&supervise), woken(&finish), woken(&deliver)], [true, false, false]);
    bots.says(&record, exit(0)).await;
    assert_eq!([woken(&supervise), woken(&finish), woken(&deliver)], [true, true, true]);
    bots.run_due().await;
    bots.check().await;
}

/// Neither a stop nor a configuration writes a row of `meetings`.
async fn wishes_never_touch_the_meeting(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.active().await;
    let before = bots.record(record.meeting.id).await.meeting;
    bots.world.clock.advance(crate::support::secs(5));
    let target = BotTarget::Meeting(record.meeting.id);
    bots.bots.configure(bots.user, target, ConfigChange::default()).await.unwrap();
    bots.stop(&record).await;
    assert_eq!(bots.record(record.meeting.id).await.meeting, before);
    bots.check().await;
}

async fn a_configuration_is_checked_and_refused_in_the_wrong_state(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.launched().await;
    let target = BotTarget::Meeting(record.meeting.id);
    let change = |language: &str, only_active| ConfigChange {
        language: Some(language.to_owned()),
        task: None,
        only_active,
    };
    let refused = bots.bots.configure(bots.user, target.clone(), change("xx", false)).await;
    let Err(Error::Invalid(problems)) = refused else { panic!("{refused:?}") };
    assert_eq!(problems[0].field, "language");
    let answer = bots.bots.configure(bots.user, target.clone(), change("en", true)).await.unwrap();
    assert!(matches!(answer, ConfigAnswer::WrongState(_)), "{answer:?}");
    let answer = bots.bots.configure(bots.user, target, change("en", false)).await.unwrap();
    assert!(matches!(answer, ConfigAnswer::Wished(_)), "{answer:?}");
    bots.check().await;
}

async fn what_no_database_can_hold_is_not_asked_for(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let platform = roundsman_core::bots::Platform::Zoom;
    let target = BotTarget::Address { platform, native_id: "1\u{0}2".to_owned() };
    assert_eq!(bots.bots.meeting(bots.user, target.clone()).await.unwrap(), None);
    let answer = bots.bots.anonymise(bots.user, target.clone()).await.unwrap();
    assert_eq!(answer, AnonymiseAnswer::NotFound);
    assert_eq!(bots.world.store.calls("meeting"), 0);

    let record = bots.launched().await;
    let target = BotTarget::Meeting(record.meeting.id);
    for notes in ["\0".to_owned(), "x".repeat(100_000)] {
        let members = json!({ "notes": notes }).as_object().unwrap().clone();
        bots.bots.merge_data(bots.user, target.clone(), members).await.unwrap_err();
    }
    let members = json!({ "notes": "fine" }).as_object().unwrap().clone();
    let row = bots.bots.merge_data(bots.user, target, members).await.unwrap().unwrap();
    assert_eq!(row.meeting.data.to_value()["notes"], "fine");
    bots.check().await;
}

async fn meetings_are_listed_newest_first_and_page_by_page(backend: Backend) {
    let bots = BotWorld::with_limit(backend, 5).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(bots.launched().await.meeting.id);
    }
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = MeetingPage { before, skip: 0, rows_max: 2 };
        let rows = bots.bots.meetings(bots.user, MeetingFilter::default(), page).await.unwrap();
        let Some(last) = rows.last() else { break };
        before = Some(last.meeting.id);
        seen.extend(rows.into_iter().map(|row| row.meeting.id));
    }
    ids.reverse();
    assert_eq!(seen, ids);
    bots.check().await;
}

/// B-16: the work after a meeting is done once, whatever dies in between.
async fn the_work_after_a_meeting_is_done_once(backend: Backend) {
    let mut bots = BotWorld::new(backend).await;
    let data = json!({ "webhook_url": "https://example.org/hook" }).to_string();
    let mut user = bots.world.store.user(bots.user).await.unwrap().unwrap();
    user.data = data;
    bots.world.store.update_user(user).await.unwrap();
    let record = bots.active().await;
    bots.world.store.set("finish_meeting", crate::flaky::Fault::AnswerLost);
    bots.says(&record, exit(0)).await;
    bots.run_due().await;
    let after = bots.record(record.meeting.id).await;
    assert!(after.bot.finished_at.is_some());
    bots.world.store.mend();
    bots.restart();
    bots.pass(crate::support::secs(600)).await;
    assert_eq!(bots.record(record.meeting.id).await.bot.finished_at, after.bot.finished_at);
    assert!(bots.world.store.calls("finish_meeting") >= 2);
    let events = bots.world.store.webhook_events(0, 100).await.unwrap();
    let completed = events.iter().filter(|(_, event)| event.event_type == "meeting.completed");
    assert_eq!(completed.count(), 1);
    let ids: BTreeSet<&str> = events.iter().map(|(_, event)| event.event_id.as_str()).collect();
    assert_eq!(ids.len(), events.len());
    bots.check().await;
}

/// A bus that hangs or is away keeps nobody waiting.
async fn nothing_waits_for_the_bus(backend: Backend) {
    use roundsman_core::ports::{Bus, BusError};

    struct Hanging;

    #[async_trait::async_trait]
    impl Bus for Hanging {
        async fn publish(&self, _: &str, _: Bytes) -> Result<(), BusError> {
            std::future::pending().await
        }
        async fn subscribe(&self, _: &str) -> Result<Box<dyn BusSubscription>, BusError> {
            Err(BusError::Unavailable("it hangs".to_owned()))
        }
        fn connected(&self) -> bool {
            false
        }
        fn name(&self) -> &'static str {
            "hanging"
        }
    }

    let mut bots = BotWorld::new(backend).await;
    bots.use_bus(std::sync::Arc::new(Hanging));
    for _ in 0..3 {
        let record = soon(bots.active()).await;
        soon(bots.stop(&record)).await;
        soon(bots.says(&record, exit(0))).await;
        soon(bots.run_due()).await;
    }
    bots.check().await;
}
