//! Launching: whatever the runtime does, a bot is started once, or fails and frees its slot.

use roundsman_core::bots::{BotEvent, BotStatus, WorkloadId};
use roundsman_core::ports::{BotStore, BotTarget};
use roundsman_engine::bots::StartError;

use super::launcher::Mishap;
use super::{BACK_WITHIN, BotWorld, first};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::secs;

on_every_database! {
    a_reserved_bot_is_launched_once_and_only_named
    a_refused_launch_fails_at_once_and_frees_the_slot
    a_launch_whose_answer_was_lost_is_found_and_not_doubled
    a_runtime_that_is_away_ends_nothing_and_a_bot_is_launched_when_it_is_back
    a_bot_that_spoke_before_its_launch_was_confirmed_is_named_all_the_same
    a_bot_that_ended_before_it_spoke_gets_one_more_attempt
    a_bot_that_always_ends_before_it_spoke_fails_with_its_exit_code
    a_reservation_outlives_the_process
    one_that_was_ended_while_it_was_launched_is_cleared_away
}

async fn a_reserved_bot_is_launched_once_and_only_named(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.launched().await;
    let after = bots.record(record.meeting.id).await;
    assert_eq!(after.status, BotStatus::Reserved, "the bot itself says that it runs");
    let handle = record.workload().name("test");
    assert_eq!(after.meeting.container_id.as_deref(), Some(handle.as_str()));
    bots.pass(secs(60)).await;
    assert_eq!(bots.launcher.starts(record.workload()), 1);
    bots.check().await;
}

async fn a_refused_launch_fails_at_once_and_frees_the_slot(backend: Backend) {
    let bots = BotWorld::with_limit(backend, 1).await;
    bots.launcher.set("ensure", Mishap::Refuses("no such image: bot:latest"));
    let record = bots.start("abc-defg-hij").await.unwrap();
    let full = bots.start("abc-defg-xyz").await.unwrap_err();
    assert!(matches!(full, StartError::LimitReached { live: 1, max: 1 }), "{full:?}");
    bots.run_due().await;
    let after = bots.record(record.meeting.id).await;
    assert_eq!(after.status, BotStatus::Failed);
    assert_eq!(after.bot.end_reason.as_deref(), Some("no such image: bot:latest"));
    assert_eq!(after.bot.failure_stage.as_deref(), Some("requested"));
    bots.launcher.mend();
    bots.start("abc-defg-xyz").await.expect("the slot is free");
    bots.run_due().await;
    bots.check().await;
}

async fn a_launch_whose_answer_was_lost_is_found_and_not_doubled(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    bots.launcher.set("ensure", Mishap::AnswerLost);
    let record = bots.start("abc-defg-hij").await.unwrap();
    bots.run_due().await;
    assert_eq!(bots.record(record.meeting.id).await.meeting.container_id, None);
    assert_eq!(bots.status(&record).await, BotStatus::Reserved, "nobody knows yet");
    bots.launcher.mend();
    bots.pass(BACK_WITHIN).await;
    assert!(bots.record(record.meeting.id).await.meeting.container_id.is_some());
    assert_eq!(bots.launcher.starts(record.workload()), 1);
    bots.check().await;
}

async fn a_runtime_that_is_away_ends_nothing_and_a_bot_is_launched_when_it_is_back(
    backend: Backend,
) {
    let bots = BotWorld::new(backend).await;
    bots.launcher.set_all(&Mishap::Down);
    let record = bots.start("abc-defg-hij").await.unwrap();
    bots.pass(secs(240)).await;
    assert_eq!(bots.status(&record).await, BotStatus::Reserved);
    assert!(bots.launcher.calls("ensure", record.workload()) >= 48, "it is tried all the time");
    bots.launcher.mend();
    bots.pass(BACK_WITHIN).await;
    assert!(bots.launcher.is_running(record.workload()));
    bots.check().await;
}

async fn a_bot_that_spoke_before_its_launch_was_confirmed_is_named_all_the_same(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    bots.launcher.set("ensure", Mishap::AnswerLost);
    let record = bots.start("abc-defg-hij").await.unwrap();
    bots.run_due().await;
    bots.says(&record, BotEvent::Started).await;
    bots.launcher.mend();
    bots.pass(BACK_WITHIN).await;
    let after = bots.record(record.meeting.id).await;
    assert_eq!(after.status, BotStatus::Starting);
    assert!(after.meeting.container_id.is_some());
    assert_eq!(bots.launcher.starts(record.workload()), 1);
    bots.check().await;
}

async fn a_bot_that_ended_before_it_spoke_gets_one_more_attempt(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    bots.launcher.set("ensure", Mishap::AnswerLost);
    let record = bots.start("abc-defg-hij").await.unwrap();
    bots.run_due().await;
    bots.launcher.exit(first(&record), Some(1));
    bots.launcher.mend();
    bots.pass(BACK_WITHIN).await;
    let second = WorkloadId { attempt: 2, ..first(&record) };
    assert_eq!(bots.launcher.all(), [second], "the first one is gone before the second starts");
    assert_eq!(bots.record(record.meeting.id).await.bot.attempt, 2);
    // What the first one said late is no longer heard.
    let connection = record.bot.connection_id.as_str();
    let late = bots.bots.callback(&bots.token(&record), connection, BotEvent::Started, true).await;
    assert!(late.is_err());
    assert_eq!(bots.status(&record).await, BotStatus::Reserved);
    bots.check().await;
}

async fn a_bot_that_always_ends_before_it_spoke_fails_with_its_exit_code(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.start("abc-defg-hij").await.unwrap();
    for attempt in 1..=2 {
        let workload = WorkloadId { attempt, ..first(&record) };
        bots.launcher.put(workload);
        bots.launcher.exit(workload, Some(3));
    }
    bots.pass(secs(5)).await;
    let after = bots.record(record.meeting.id).await;
    assert_eq!((after.status, after.bot.attempt), (BotStatus::Failed, 2));
    assert_eq!(after.bot.end_reason.as_deref(), Some("exited_before_start"));
    assert_eq!(after.bot.exit_code, Some(3));
    assert_eq!(bots.launcher.all(), []);
    bots.check().await;
}

/// B-5: the process dies after the reservation was committed, and again after each step.
async fn a_reservation_outlives_the_process(backend: Backend) {
    let mut bots = BotWorld::new(backend).await;
    bots.world.store.set("reserve_bot", Fault::AnswerLost);
    bots.start("abc-defg-hij").await.unwrap_err();
    bots.world.store.mend();
    bots.restart();
    bots.world.store.set("bot_launched", Fault::AnswerLost);
    bots.run_due().await;
    bots.world.store.mend();
    bots.restart();
    bots.pass(BACK_WITHIN).await;
    let workloads = bots.launcher.all();
    assert_eq!(workloads.len(), 1);
    assert_eq!(bots.launcher.starts(workloads[0]), 1);
    let record = bots.record(workloads[0].meeting_id).await;
    assert!(record.meeting.container_id.is_some());
    bots.check().await;
}

async fn one_that_was_ended_while_it_was_launched_is_cleared_away(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.start("abc-defg-hij").await.unwrap();
    let gate = bots.world.store.hold("bot");
    bots.worker.claim_tick().await.unwrap();
    gate.reached().await;
    // Everything before this point was read by the supervisor; then the bot ends.
    bots.world.store.hold_no_more();
    bots.says(&record, super::exit(1)).await;
    gate.open();
    crate::support::until_running(&bots.worker, 0).await;
    bots.worker.settle_tick().await.unwrap();
    assert!(bots.launcher.is_running(record.workload()), "it was launched for nothing");
    bots.pass(secs(3)).await;
    assert_eq!(bots.launcher.all(), []);
    assert_eq!(bots.status(&record).await, BotStatus::Failed);
    let row = bots.world.store.meeting(bots.user, BotTarget::Meeting(record.meeting.id)).await;
    assert_eq!(row.unwrap().unwrap().meeting.container_id, None);
    bots.check().await;
}
