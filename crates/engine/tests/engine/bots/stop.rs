//! Stopping: a bot that never hears is gone in time, and one that was never there is over at once.

use roundsman_core::bots::{BotEvent, BotStatus, ExitReport};
use roundsman_core::ports::{BotStore, BotTarget, StopAnswer};

use super::launcher::Mishap;
use super::{BACK_WITHIN, BotWorld, KILL_GRACE, LEAVE_GRACE, exit};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::secs;

on_every_database! {
    a_bot_that_leaves_when_told_completes_and_is_cleared_away
    a_deaf_bot_is_gone_in_time
    a_bot_that_hears_its_signal_completes_with_its_code
    a_bot_that_crashes_while_leaving_has_failed
    one_that_was_never_launched_is_over_at_once_and_never_starts
    one_that_was_launched_and_has_not_spoken_gets_its_signal_at_once
    wishes_that_are_repeated_all_the_time_delay_nothing
    after_a_long_pause_a_bot_still_gets_its_signal_first
    a_runtime_that_does_not_answer_ends_no_row_but_the_stop_is_not_forgotten
    a_signal_or_a_look_that_is_not_answered_saves_no_bot
    a_process_that_dies_between_any_two_steps_leaves_nothing_behind
    what_is_over_is_removed_however_long_it_takes
    what_is_over_or_unknown_cannot_be_stopped
}

async fn a_bot_that_leaves_when_told_completes_and_is_cleared_away(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.active().await;
    bots.stop(&record).await;
    assert_eq!(bots.status(&record).await, BotStatus::Active, "a wish is no status");
    bots.run_due().await;
    bots.says(&record, BotEvent::Leaving).await;
    bots.launcher.exit(record.workload(), Some(0));
    bots.says(&record, exit(0)).await;
    bots.run_due().await;
    let after = bots.record(record.meeting.id).await;
    assert_eq!(after.status, BotStatus::Completed);
    assert_eq!(after.bot.completion_reason.as_deref(), Some("stopped"));
    assert_eq!(bots.launcher.calls("terminate", record.workload()), 0);
    assert_eq!(bots.launcher.all(), []);
    bots.check().await;
}

/// B-10: nobody hears the command, and the bot hears no signal either.
async fn a_deaf_bot_is_gone_in_time(backend: Backend) {
    for status in [BotStatus::Starting, BotStatus::Active, BotStatus::Stopping] {
        let bots = BotWorld::new(backend).await;
        bots.launcher.make_deaf();
        let record = bots.launched().await;
        bots.says(&record, BotEvent::Started).await;
        match status {
            BotStatus::Active => drop(bots.says(&record, BotEvent::Joined).await),
            BotStatus::Stopping => drop(bots.says(&record, BotEvent::Leaving).await),
            _ => {}
        }
        bots.stop(&record).await;
        bots.run_due().await;
        bots.pass(LEAVE_GRACE.saturating_sub(secs(1))).await;
        assert_eq!(bots.launcher.calls("terminate", record.workload()), 0, "it has its time");
        bots.pass(secs(1) + KILL_GRACE).await;
        assert_eq!(bots.launcher.calls("terminate", record.workload()), 1);
        assert_eq!(bots.launcher.all(), [], "gone {:?} after the wish", LEAVE_GRACE + KILL_GRACE);
        let after = bots.record(record.meeting.id).await;
        assert_eq!(after.status, BotStatus::Completed);
        assert_eq!(after.bot.end_reason.as_deref(), Some("killed"));
        bots.check().await;
    }
}

async fn a_bot_that_hears_its_signal_completes_with_its_code(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.active().await;
    bots.stop(&record).await;
    bots.run_due().await;
    bots.pass(LEAVE_GRACE).await;
    let after = bots.record(record.meeting.id).await;
    assert_eq!((after.status, after.bot.exit_code), (BotStatus::Completed, Some(143)));
    assert_eq!(after.bot.end_reason.as_deref(), Some("stopped"));
    assert_eq!(bots.launcher.all(), []);
    bots.check().await;
}

async fn a_bot_that_crashes_while_leaving_has_failed(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.active().await;
    bots.stop(&record).await;
    bots.launcher.exit(record.workload(), Some(1));
    bots.run_due().await;
    let after = bots.record(record.meeting.id).await;
    assert_eq!((after.status, after.bot.exit_code), (BotStatus::Failed, Some(1)));
    assert_eq!(after.bot.end_reason.as_deref(), Some("crashed_while_leaving"));
    bots.check().await;
}

/// B-9: before the launch.
async fn one_that_was_never_launched_is_over_at_once_and_never_starts(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.start("abc-defg-hij").await.unwrap();
    bots.stop(&record).await;
    bots.run_due().await;
    let after = bots.record(record.meeting.id).await;
    assert_eq!(after.status, BotStatus::Completed);
    assert_eq!(after.bot.completion_reason.as_deref(), Some("stopped_before_join"));
    bots.pass(secs(120)).await;
    assert_eq!(bots.launcher.starts(record.workload()), 0);
    bots.check().await;
}

/// B-9: after the launch, before the bot spoke.
async fn one_that_was_launched_and_has_not_spoken_gets_its_signal_at_once(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    bots.launcher.make_deaf();
    let record = bots.launched().await;
    bots.stop(&record).await;
    bots.run_due().await;
    assert_eq!(bots.launcher.calls("terminate", record.workload()), 1);
    assert!(bots.launcher.is_running(record.workload()));
    bots.pass(KILL_GRACE).await;
    assert_eq!(bots.launcher.all(), []);
    let after = bots.record(record.meeting.id).await;
    assert_eq!(after.status, BotStatus::Completed);
    assert_eq!(after.bot.completion_reason.as_deref(), Some("stopped_before_join"));
    bots.check().await;
}

/// Somebody who asks again and again must not keep the bot alive by it.
async fn wishes_that_are_repeated_all_the_time_delay_nothing(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    bots.launcher.make_deaf();
    let record = bots.active().await;
    for _ in 0..=(LEAVE_GRACE + KILL_GRACE).as_secs() {
        bots.stop(&record).await;
        // A wish during the run, which loses the note about the signal.
        bots.worker.claim_tick().await.unwrap();
        bots.stop_if_live(&record).await;
        crate::support::until_running(&bots.worker, 0).await;
        bots.worker.settle_tick().await.unwrap();
        bots.run_due().await;
        if bots.status(&record).await.is_over() {
            break;
        }
        bots.world.clock.advance(secs(1));
    }
    assert_eq!(bots.status(&record).await, BotStatus::Completed);
    assert_eq!(bots.launcher.all(), []);
    bots.check().await;
}

async fn after_a_long_pause_a_bot_still_gets_its_signal_first(backend: Backend) {
    let mut bots = BotWorld::new(backend).await;
    bots.launcher.make_deaf();
    let record = bots.active().await;
    bots.stop(&record).await;
    // Nobody looked after it for ten minutes.
    bots.world.clock.advance(secs(600));
    bots.restart();
    bots.run_due().await;
    assert_eq!(bots.launcher.calls("terminate", record.workload()), 1);
    assert!(bots.launcher.is_running(record.workload()));
    bots.pass(KILL_GRACE).await;
    assert_eq!(bots.launcher.all(), []);
    bots.check().await;
}

async fn a_runtime_that_does_not_answer_ends_no_row_but_the_stop_is_not_forgotten(
    backend: Backend,
) {
    for calls in [&["remove"][..], &["look", "remove"], &["terminate", "look", "remove"]] {
        for mishap in [Mishap::Down, Mishap::AnswerLost] {
            let bots = BotWorld::new(backend).await;
            bots.launcher.make_deaf();
            let record = bots.active().await;
            bots.stop(&record).await;
            for call in calls {
                bots.launcher.set(call, mishap.clone());
            }
            bots.pass(secs(90)).await;
            assert_eq!(bots.status(&record).await, BotStatus::Active, "{calls:?} {mishap:?}");
            bots.launcher.mend();
            // After so long it gets its signal once more.
            bots.pass(BACK_WITHIN + KILL_GRACE).await;
            assert_eq!(bots.status(&record).await, BotStatus::Completed, "{calls:?} {mishap:?}");
            assert_eq!(bots.launcher.all(), [], "{calls:?} {mishap:?}");
            bots.check().await;
        }
    }
}

async fn a_signal_or_a_look_that_is_not_answered_saves_no_bot(backend: Backend) {
    for call in ["terminate", "look"] {
        for mishap in [Mishap::Down, Mishap::AnswerLost] {
            let bots = BotWorld::new(backend).await;
            bots.launcher.make_deaf();
            let record = bots.active().await;
            bots.stop(&record).await;
            bots.launcher.set(call, mishap.clone());
            bots.pass(LEAVE_GRACE + KILL_GRACE + BACK_WITHIN).await;
            let after = bots.record(record.meeting.id).await;
            assert_eq!(after.status, BotStatus::Completed, "{call} {mishap:?}");
            assert_eq!(after.bot.end_reason.as_deref(), Some("killed"), "{call} {mishap:?}");
            assert_eq!(bots.launcher.all(), [], "{call} {mishap:?}");
            bots.check().await;
        }
    }
}

async fn a_process_that_dies_between_any_two_steps_leaves_nothing_behind(backend: Backend) {
    for lost in ["wish_stop", "bot_event", "settle"] {
        let mut bots = BotWorld::new(backend).await;
        bots.launcher.make_deaf();
        let record = bots.active().await;
        bots.world.store.set(lost, Fault::AnswerLost);
        let target = BotTarget::Meeting(record.meeting.id);
        let _ = bots.bots.stop(bots.user, target).await;
        for _ in 0..(LEAVE_GRACE + KILL_GRACE).as_secs() + 40 {
            bots.world.clock.advance(secs(1));
            let _ = bots.worker.claim_tick().await;
            crate::support::until_running(&bots.worker, 0).await;
            let _ = bots.worker.settle_tick().await;
        }
        bots.world.store.mend();
        // What the dead process held comes back when its lease is over.
        bots.world.clock.advance(secs(61));
        bots.restart();
        bots.world.sweeper().tick().await.unwrap();
        bots.world.clock.advance(secs(61));
        bots.world.sweeper().tick().await.unwrap();
        bots.pass(secs(60)).await;
        assert_eq!(bots.status(&record).await, BotStatus::Completed, "{lost}");
        assert_eq!(bots.launcher.all(), [], "{lost}");
        bots.check().await;
    }
}

/// A terminal row always ends with its workload removed, however long the runtime is away.
async fn what_is_over_is_removed_however_long_it_takes(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.active().await;
    bots.launcher.set("remove", Mishap::Down);
    bots.says(&record, exit(0)).await;
    bots.pass(secs(300)).await;
    assert!(bots.launcher.is_running(record.workload()));
    bots.launcher.mend();
    bots.pass(BACK_WITHIN).await;
    assert_eq!(bots.launcher.all(), []);
    bots.check().await;
}

async fn what_is_over_or_unknown_cannot_be_stopped(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.active().await;
    let report = ExitReport { exit_code: Some(0), ..ExitReport::default() };
    bots.says(&record, BotEvent::Exited(report)).await;
    let target = BotTarget::Meeting(record.meeting.id);
    let answer = bots.bots.stop(bots.user, target.clone()).await.unwrap();
    assert!(matches!(answer, StopAnswer::Over(_)), "{answer:?}");
    let stranger = super::new_user(&bots.world, "eve@example.org", 1).await;
    assert_eq!(bots.bots.stop(stranger, target).await.unwrap(), StopAnswer::NotFound);
    assert_eq!(bots.record(record.meeting.id).await.bot.stop, None);
    bots.run_due().await;
    bots.check().await;
}

impl BotWorld {
    async fn stop_if_live(&self, record: &roundsman_core::bots::BotRecord) {
        let target = BotTarget::Meeting(record.meeting.id);
        self.world
            .store
            .wish_stop(
                self.user,
                target,
                "user",
                roundsman_core::ports::Clock::now(&*self.world.clock),
            )
            .await
            .unwrap();
    }
}
