//! What bots say: who is heard, in what order, and what follows.

use roundsman_core::bots::{BotEvent, BotStatus, ExitReport, Stage};
use roundsman_core::ports::{BotStore, BotTarget, ConfigAnswer, ConfigChange};
use roundsman_engine::bots::CallbackError;

use super::{BotWorld, exit};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::secs;

on_every_database! {
    a_forged_callback_costs_no_statement
    callbacks_in_any_order_end_a_bot
    a_late_callback_is_answered_and_a_late_heartbeat_is_told_to_go
    an_exit_is_judged_by_what_was_asked_and_where_the_bot_was
    an_end_is_heard_whatever_the_bot_says_about_it
    a_heartbeat_learns_the_newest_wishes_whatever_was_lost
    heartbeats_that_arrive_together_are_written_together
    a_database_that_is_away_is_an_outage_and_no_verdict
}

async fn a_forged_callback_costs_no_statement(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let (one, two) = (bots.active().await, bots.active().await);
    let before = bots.world.store.calls("bot_event");
    let connection = one.bot.connection_id.as_str();
    let token = bots.token(&one);
    let later =
        token.replace(&format!("rmb_{}_1_", one.meeting.id), &format!("rmb_{}_2_", one.meeting.id));
    let forged: [(&str, &str); 6] = [
        ("", connection),
        ("rmb_1_1_00", connection),
        (&token, two.bot.connection_id.as_str()),
        (&bots.token(&two), connection),
        (&later, connection),
        (&token, "a\0b"),
    ];
    for (token, connection) in forged {
        let answer = bots.bots.callback(token, connection, exit(0), true).await;
        assert!(matches!(answer, Err(CallbackError::Denied)), "{token}");
        let answer = bots.bots.heartbeat(token, connection, None, None).await;
        assert!(matches!(answer, Err(CallbackError::Denied)), "{token}");
    }
    assert_eq!(bots.world.store.calls("bot_event"), before);
    assert_eq!(bots.world.store.calls("bot_heartbeats"), 0);
    bots.check().await;
}

/// B-6: every order of the five callbacks of a life ends it.
async fn callbacks_in_any_order_end_a_bot(backend: Backend) {
    let life = [
        BotEvent::Started,
        BotEvent::AtStage(Stage::AwaitingAdmission),
        BotEvent::Joined,
        BotEvent::Leaving,
        exit(0),
    ];
    let bots = BotWorld::new(backend).await;
    for order in orders(&life) {
        let record = bots.launched().await;
        for event in &order {
            bots.says(&record, event.clone()).await;
        }
        let after = bots.record(record.meeting.id).await;
        assert!(after.status.is_over(), "{order:?}");
        assert!(after.meeting.end_time.is_some());
        let exited = order.iter().position(|event| matches!(event, BotEvent::Exited(_))).unwrap();
        let well = order[..exited]
            .iter()
            .any(|event| matches!(event, BotEvent::Joined | BotEvent::Leaving));
        let expected = if well { BotStatus::Completed } else { BotStatus::Failed };
        assert_eq!(after.status, expected, "{order:?}");
        bots.run_due().await;
    }
    assert_eq!(bots.launcher.all(), []);
    bots.check().await;
}

/// B-7: whatever comes after the end is answered with how it is, and changes nothing.
async fn a_late_callback_is_answered_and_a_late_heartbeat_is_told_to_go(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.active().await;
    let over = bots.says(&record, exit(0)).await;
    bots.world.clock.advance(secs(10));
    for event in [BotEvent::Started, BotEvent::Joined, BotEvent::Leaving, exit(0), exit(137)] {
        assert_eq!(bots.says(&record, event).await, over);
    }
    let connection = record.bot.connection_id.as_str();
    let beat = bots.bots.heartbeat(&bots.token(&record), connection, None, None).await;
    let completed = BotStatus::Completed;
    assert!(matches!(beat, Err(CallbackError::Gone { status }) if status == completed));
    bots.run_due().await;
    bots.check().await;
}

/// B-14: what an exit means.
async fn an_exit_is_judged_by_what_was_asked_and_where_the_bot_was(backend: Backend) {
    use BotStatus::{Completed, Failed};
    let cases = [
        // in the meeting, stop wanted, exit code -> status, reason
        (true, false, Some(0), Completed, "normal_completion"),
        (true, false, Some(137), Failed, "crashed"),
        (true, false, None, Failed, "crashed"),
        (true, true, Some(0), Completed, "stopped"),
        (true, true, Some(1), Failed, "crashed_while_leaving"),
        (false, false, Some(0), Failed, "normal_completion"),
        (false, true, Some(0), Completed, "stopped"),
    ];
    for (joined, stop, exit_code, status, reason) in cases {
        let bots = BotWorld::new(backend).await;
        let record = if joined { bots.active().await } else { bots.launched().await };
        if stop {
            bots.stop(&record).await;
        }
        let report = ExitReport { exit_code, ..ExitReport::default() };
        let after = bots.says(&record, BotEvent::Exited(report)).await;
        assert_eq!(after.status, status, "{joined} {stop} {exit_code:?}");
        assert_eq!(after.bot.end_reason.as_deref(), Some(reason));
        assert_eq!(after.bot.exit_code, exit_code);
        bots.run_due().await;
        bots.check().await;
    }
}

async fn an_end_is_heard_whatever_the_bot_says_about_it(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.active().await;
    let report = ExitReport {
        exit_code: Some(1),
        reason: Some("\0".repeat(5000)),
        completion_reason: Some("x".repeat(100_000)),
        error_details: Some(r#"{"stack":"\u0000"}"#.to_owned()),
    };
    let after = bots.says(&record, BotEvent::Exited(report)).await;
    assert_eq!(after.status, BotStatus::Failed);
    assert_eq!(
        after.bot.end_reason.as_deref(),
        Some("crashed"),
        "nothing was left of its own word"
    );
    assert_eq!(after.bot.completion_reason.unwrap().len(), 300);
    assert!(!after.meeting.data.as_str().contains("u0000"));
    bots.run_due().await;
    bots.check().await;
}

/// B-17: wishes are numbered, every heartbeat repeats the newest, and the bot says what it has.
async fn a_heartbeat_learns_the_newest_wishes_whatever_was_lost(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.active().await;
    let target = BotTarget::Meeting(record.meeting.id);
    for language in ["de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt"] {
        let change =
            ConfigChange { language: Some(language.to_owned()), ..ConfigChange::default() };
        let answer = bots.bots.configure(bots.user, target.clone(), change).await.unwrap();
        assert!(matches!(answer, ConfigAnswer::Wished(_)), "{answer:?}");
    }
    let connection = record.bot.connection_id.as_str();
    let token = bots.token(&record);
    let heard = bots.bots.heartbeat(&token, connection, None, Some(0)).await.unwrap();
    assert_eq!((heard.config.version, heard.config.language.as_deref()), (10, Some("pt")));
    assert_eq!((heard.meeting_id, heard.stop_wanted), (record.meeting.id, false));
    bots.bots.heartbeat(&token, connection, None, Some(10)).await.unwrap();
    // A report from before does not take it back.
    bots.bots.heartbeat(&token, connection, None, Some(3)).await.unwrap();
    assert_eq!(bots.record(record.meeting.id).await.bot.config.applied, 10);
    bots.stop(&record).await;
    let heard = bots.bots.heartbeat(&token, connection, None, Some(10)).await.unwrap();
    assert!(heard.stop_wanted);
    bots.check().await;
}

async fn heartbeats_that_arrive_together_are_written_together(backend: Backend) {
    let bots = BotWorld::with_limit(backend, 100).await;
    let mut records = Vec::new();
    for _ in 0..50 {
        records.push(bots.active().await);
    }
    let beats = records.iter().map(|record| bots.beats(record));
    futures_util::future::join_all(beats).await;
    assert!(bots.world.store.calls("bot_heartbeats") <= 3);
    for record in &records {
        assert!(bots.record(record.meeting.id).await.bot.heartbeat_at.is_some());
    }
    let text = bots.world.metrics.encode();
    assert!(text.contains("roundsman_bot_heartbeats_total 50"), "{text}");
    bots.check().await;
}

async fn a_database_that_is_away_is_an_outage_and_no_verdict(backend: Backend) {
    let bots = BotWorld::new(backend).await;
    let record = bots.active().await;
    let (token, connection) = (bots.token(&record), record.bot.connection_id.as_str());
    for fault in [Fault::Down, Fault::AnswerLost] {
        bots.world.store.set("bot_event", fault);
        bots.world.store.set("bot_heartbeats", fault);
        let answer = bots.bots.callback(&token, connection, BotEvent::Joined, true).await;
        assert!(matches!(answer, Err(CallbackError::Store(error)) if error.is_transient()));
        let answer = bots.bots.heartbeat(&token, connection, None, None).await;
        assert!(matches!(answer, Err(CallbackError::Store(error)) if error.is_transient()));
    }
    bots.world.store.mend();
    bots.beats(&record).await;
    assert!(bots.world.store.bot(record.meeting.id).await.unwrap().is_some());
    bots.check().await;
}

fn orders<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for index in 0..items.len() {
        let mut rest = items.to_vec();
        let first = rest.remove(index);
        for mut order in orders(&rest) {
            order.insert(0, first.clone());
            all.push(order);
        }
    }
    all
}
