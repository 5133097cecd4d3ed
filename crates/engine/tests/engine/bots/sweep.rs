//! The sweep: ends what nobody hears, and nothing else.

use roundsman_core::bots::{BotEvent, BotStatus, MeetingId, WorkloadId};
use roundsman_core::ports::Clock;

use super::launcher::Mishap;
use super::{BotWorld, exit};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::secs;

on_every_database! {
    each_state_has_its_patience
    a_bot_that_is_heard_lives_until_its_longest_time_is_over
    after_an_outage_of_ours_nobody_is_given_up_before_they_had_time_to_report
    a_start_a_pause_and_a_clock_that_was_set_begin_anew
    a_bot_whose_media_stands_still_is_given_up
    a_runtime_that_is_wrong_once_ends_nothing
    a_bot_that_only_its_runtime_knows_is_not_given_up_while_that_is_away
    a_bot_that_is_gone_for_good_is_found_by_two_looks
    one_that_is_still_being_launched_is_not_missing
    workloads_of_nobody_are_removed_and_those_of_live_bots_are_not
    one_round_gives_up_a_bounded_number_and_says_so
}

async fn each_state_has_its_patience(backend: Backend) {
    let cases = [
        (BotStatus::Reserved, 5, "never_started"),
        (BotStatus::Starting, 10, "join_timeout"),
        (BotStatus::Active, 2, "heartbeat_timeout"),
        (BotStatus::Stopping, 2, "stop_timeout"),
    ];
    for (status, minutes, reason) in cases {
        let bots = BotWorld::new(backend).await;
        bots.sweep().await;
        let record = bots.launched().await;
        let life = [BotEvent::Started, BotEvent::Joined, BotEvent::Leaving];
        let order = [BotStatus::Starting, BotStatus::Active, BotStatus::Stopping];
        for (event, reached) in life.into_iter().zip(order) {
            if reached <= status {
                bots.says(&record, event).await;
            }
        }
        bots.minutes(minutes, &[]).await;
        assert_eq!(bots.status(&record).await, status, "it has {minutes} minutes");
        bots.minutes(1, &[]).await;
        let after = bots.record(record.meeting.id).await;
        assert_eq!(after.status, BotStatus::Failed, "{status:?}");
        assert_eq!(after.bot.end_reason.as_deref(), Some(reason));
        assert_eq!(bots.launcher.all(), [], "and its workload is gone");
        bots.check().await;
    }
}

async fn a_bot_that_is_heard_lives_until_its_longest_time_is_over(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    bots.sweep().await;
    let record = bots.active().await;
    bots.minutes(30, std::slice::from_ref(&record)).await;
    assert_eq!(bots.status(&record).await, BotStatus::Active);
    // A stock bot sends no heartbeats: the runtime's word is enough.
    let stock = bots.launched().await;
    let (token, connection) = (bots.token(&stock), stock.bot.connection_id.as_str());
    bots.bots.callback(&token, connection, BotEvent::Joined, false).await.unwrap();
    bots.minutes(30, std::slice::from_ref(&record)).await;
    assert_eq!(bots.status(&stock).await, BotStatus::Active);
    bots.check().await;
}

/// B-12: the database was away, so that nobody could be heard.
async fn after_an_outage_of_ours_nobody_is_given_up_before_they_had_time_to_report(
    backend: Backend,
) {
    let bots = BotWorld::with_limit(backend, 100).await;
    bots.sweep().await;
    let mut records = Vec::new();
    for _ in 0..20 {
        records.push(bots.active().await);
    }
    bots.minutes(1, &records).await;
    for call in ["adopt_meetings", "bot_heartbeats"] {
        bots.world.store.set(call, Fault::Down);
    }
    for _ in 0..10 {
        bots.world.clock.advance(secs(30));
        assert!(bots.sweeper.tick().await.is_err());
    }
    bots.world.store.mend();
    assert_eq!(bots.sweep().await.ended, 0, "all are stale, and it was us");
    bots.world.clock.advance(secs(60));
    assert_eq!(bots.sweep().await.ended, 0);
    // Nineteen report again; one is really gone.
    let (gone, alive) = records.split_last().unwrap();
    bots.minutes(3, alive).await;
    assert_eq!(bots.status(gone).await, BotStatus::Failed);
    for record in alive {
        assert_eq!(bots.status(record).await, BotStatus::Active);
    }
    bots.check().await;
}

/// B-12: the process was stopped, paused, or its clock was set.
async fn a_start_a_pause_and_a_clock_that_was_set_begin_anew(backend: Backend) {
    for break_of in ["start", "pause", "clock forward", "clock back"] {
        let mut bots = BotWorld::new(backend).await;
        bots.sweep().await;
        let record = bots.active().await;
        bots.minutes(1, std::slice::from_ref(&record)).await;
        match break_of {
            "start" => {
                bots.world.clock.advance(secs(150));
                bots.restart();
            }
            "pause" => bots.world.clock.advance(secs(600)),
            "clock forward" => bots.world.clock.set_wall(bots.world.clock.now() + secs(3600)),
            _ => bots.world.clock.set_wall(bots.world.clock.now() - secs(3600)),
        }
        assert_eq!(bots.sweep().await.ended, 0, "{break_of}");
        bots.world.clock.advance(secs(60));
        assert_eq!(bots.sweep().await.ended, 0, "{break_of}");
        bots.minutes(3, std::slice::from_ref(&record)).await;
        assert_eq!(bots.status(&record).await, BotStatus::Active, "{break_of}");
        bots.check().await;
    }
}

/// B-13: the process lives and its media is dead.
async fn a_bot_whose_media_stands_still_is_given_up(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    bots.sweep().await;
    let record = bots.active().await;
    let (token, connection) = (bots.token(&record), record.bot.connection_id.as_str());
    let mut ended_after = None;
    for half_minute in 0..20 {
        bots.world.clock.advance(secs(30));
        let progress = i64::from(half_minute.min(4));
        let beat = bots.bots.heartbeat(&token, connection, Some(progress), None).await;
        bots.sweep().await;
        if beat.is_err() {
            ended_after = Some(secs(30) * (half_minute - 4));
            break;
        }
    }
    let ended_after = ended_after.expect("it is noticed");
    assert!(ended_after <= secs(300), "{ended_after:?} after the last progress");
    let after = bots.record(record.meeting.id).await;
    assert_eq!(after.bot.end_reason.as_deref(), Some("no_media"));
    bots.run_due().await;
    bots.check().await;
}

/// B-15: errors, a single absence and half a list end nothing.
async fn a_runtime_that_is_wrong_once_ends_nothing(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    bots.sweep().await;
    let record = bots.active().await;
    let alive = std::slice::from_ref(&record);
    for _ in 0..3 {
        bots.launcher.hide(record.workload());
        bots.minutes(1, alive).await;
        bots.launcher.show_all();
        bots.minutes(1, alive).await;
    }
    // Between two absences nobody knew.
    bots.launcher.hide(record.workload());
    bots.minutes(1, alive).await;
    bots.launcher.show_all();
    bots.launcher.set("list", Mishap::Down);
    bots.minutes(10, alive).await;
    assert!(!bots.sweep().await.runtime_answered);
    bots.launcher.mend();
    bots.minutes(1, alive).await;
    assert_eq!(bots.status(&record).await, BotStatus::Active);
    assert!(bots.launcher.is_running(record.workload()));
    bots.check().await;
}

async fn a_bot_that_only_its_runtime_knows_is_not_given_up_while_that_is_away(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    bots.sweep().await;
    let stock = bots.launched().await;
    let (token, connection) = (bots.token(&stock), stock.bot.connection_id.as_str());
    bots.bots.callback(&token, connection, BotEvent::Joined, false).await.unwrap();
    bots.launcher.set_all(&Mishap::Down);
    bots.minutes(30, &[]).await;
    assert_eq!(bots.status(&stock).await, BotStatus::Active);
    bots.launcher.mend();
    bots.minutes(5, &[]).await;
    assert_eq!(bots.status(&stock).await, BotStatus::Active);
    bots.check().await;
}

async fn a_bot_that_is_gone_for_good_is_found_by_two_looks(backend: Backend) {
    for crashed in [true, false] {
        let bots = BotWorld::new(backend).await;
        bots.sweep().await;
        let record = bots.active().await;
        if crashed {
            bots.launcher.exit(record.workload(), Some(137));
        } else {
            bots.launcher.vanish(record.workload());
        }
        bots.minutes(1, std::slice::from_ref(&record)).await;
        assert_eq!(bots.status(&record).await, BotStatus::Active, "once is not enough");
        bots.world.clock.advance(secs(60));
        assert_eq!(bots.sweep().await.ended, 1);
        bots.run_due().await;
        let after = bots.record(record.meeting.id).await;
        assert_eq!(after.status, BotStatus::Failed);
        assert_eq!(after.bot.exit_code, crashed.then_some(137));
        assert_eq!(bots.launcher.all(), []);
        bots.check().await;
    }
}

async fn one_that_is_still_being_launched_is_not_missing(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    bots.sweep().await;
    let record = bots.start("abc-defg-hij").await.unwrap();
    // The launch takes longer than two rounds; nothing runs yet.
    for _ in 0..3 {
        bots.world.clock.advance(secs(60));
        assert_eq!(bots.sweep().await.ended, 0);
    }
    let after = bots.record(record.meeting.id).await;
    assert_eq!((after.status, after.bot.missed), (BotStatus::Reserved, 0));
    bots.run_due().await;
    assert!(bots.launcher.is_running(record.workload()));
    bots.check().await;
}

async fn workloads_of_nobody_are_removed_and_those_of_live_bots_are_not(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.active().await;
    let over = bots.active().await;
    bots.says(&over, exit(0)).await;
    bots.run_due().await;
    let orphans = [
        // Made after its bot was over, of an attempt that was never begun, of no meeting at all.
        over.workload(),
        WorkloadId { attempt: 2, ..record.workload() },
        WorkloadId { meeting_id: MeetingId::new(4711), attempt: 1 },
    ];
    for orphan in orphans {
        bots.launcher.put(orphan);
    }
    bots.launcher.set("remove", Mishap::Down);
    assert_eq!(bots.sweep().await.orphans, 0);
    bots.launcher.mend();
    bots.launcher.set("list", Mishap::Down);
    assert_eq!(bots.sweep().await.orphans, 0, "without a list nothing is an orphan");
    bots.launcher.mend();
    assert_eq!(bots.sweep().await.orphans, 3);
    assert_eq!(bots.launcher.all(), [record.workload()]);
    assert!(bots.world.metrics.encode().contains("roundsman_bot_orphans_removed_total 3"));
    bots.check().await;
}

async fn one_round_gives_up_a_bounded_number_and_says_so(backend: Backend) {
    let mut bots = BotWorld::with_limit(backend, 1000).await;
    bots.sweep().await;
    for _ in 0..30 {
        bots.active().await;
    }
    let options =
        roundsman_engine::bots::BotSweepOptions { rows_max: 10, ..super::sweep_options() };
    bots.sweeper = bots.work.sweeper(options);
    bots.sweep().await;
    for left in [20, 10, 0] {
        bots.world.clock.advance(secs(150));
        assert_eq!(bots.sweep().await.ended, 10);
        let text = bots.world.metrics.encode();
        let live = format!("roundsman_bots_live{{status=\"active\"}} {left}");
        assert!(left == 0 || text.contains(&live), "{text}");
        assert!(text.contains("limit_hits_total{limit=\"bots_swept\"}"), "{text}");
    }
    bots.run_due().await;
    assert_eq!(bots.launcher.all(), []);
    bots.check().await;
}
