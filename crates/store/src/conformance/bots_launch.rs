//! What launchers do and see: attempts, containers, and bots that are gone.

use std::sync::Arc;

use roundsman_core::bots::{BotEvent, BotRecord, BotStatus, FINISH_KIND, MeetingId, WorkloadId};
use roundsman_core::ports::{EventAnswer, RuntimeNote, Seen};

use super::attend::{
    LIVE, bot_in, by_number, change, everything, exit, happen, jobs_of, log_of, look, lose_leases,
    plain, reserve, supervise, user,
};
use super::fixture::Fixture;
use super::wishes::{SECOND, done};

/// How often in a row a bot must be found gone.
const MISSES_MAX: u32 = 3;

pub async fn a_launch_sets_the_container_and_nothing_else(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for status in LIVE {
        let mut expected = bot_in(fx, ada, status.as_str(), status).await;
        let lease = supervise(fx, &expected).await;
        for handle in ["c0ffee", "😀'"] {
            fx.advance(SECOND);
            let before = (log_of(fx, expected.meeting.id).await, fx.all_jobs().await);
            let noted = fx.store.bot_launched(expected.workload(), handle.to_owned(), lease).await;
            assert!(noted.expect("bot_launched"));
            expected.meeting.container_id = Some(handle.to_owned());
            assert_eq!(look(fx, expected.meeting.id).await, expected);
            let after = (log_of(fx, expected.meeting.id).await, fx.all_jobs().await);
            assert_eq!(after, before);
        }
        fx.land(lease, done("1")).await;
    }
}

pub async fn a_launch_needs_its_attempt_its_bot_and_its_lease(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = reserve(fx, ada, "a").await;
    let over = bot_in(fx, ada, "b", BotStatus::Failed).await;
    let lease = supervise(fx, &record).await;
    let before = everything(fx, &[ada]).await;
    let launched = async |workload: WorkloadId| {
        let noted = fx.store.bot_launched(workload, "c0ffee".to_owned(), lease).await;
        noted.expect("bot_launched")
    };
    for attempt in [0, 2, u32::MAX >> 1] {
        assert!(!launched(WorkloadId { attempt, ..record.workload() }).await, "{attempt}");
    }
    assert!(!launched(over.workload()).await);
    assert!(!launched(nobody()).await);
    assert_eq!(everything(fx, &[ada]).await, before);
    lose_leases(fx).await;
    assert!(!launched(record.workload()).await);
    assert_eq!(look(fx, record.meeting.id).await, record);
}

pub async fn the_next_attempt_takes_the_place_of_the_last(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let first = reserve(fx, ada, "a").await;
    let lease = supervise(fx, &first).await;
    let mut record = first.clone();
    for attempt in 2..=3 {
        let named = fx.store.bot_launched(record.workload(), "container".to_owned(), lease).await;
        assert!(named.expect("bot_launched"));
        let next = fx.store.next_attempt(record.workload(), lease).await.expect("next_attempt");
        let next = plain(next.expect("it is still reserved"));
        assert_eq!(next.bot.attempt, attempt);
        // The container of the earlier attempt is no longer the bot's.
        assert_eq!((next.status, &next.meeting), (BotStatus::Reserved, &record.meeting));
        assert_eq!(next.bot.connection_id, first.bot.connection_id);
        assert_eq!(look(fx, first.meeting.id).await, next);
        let again = fx.store.next_attempt(record.workload(), lease).await;
        assert_eq!(again.expect("next_attempt"), None, "the attempt is not the current one");
        record = next;
    }
    let before = everything(fx, &[ada]).await;
    for event in [BotEvent::Started, BotEvent::Joined, exit(0)] {
        assert_eq!(happen(fx, &first, event).await, EventAnswer::Superseded);
    }
    assert_eq!(everything(fx, &[ada]).await, before);
    assert_eq!(change(fx, &record, BotEvent::Started).await.bot.attempt, 3);
}

pub async fn only_a_reserved_bot_begins_another_attempt(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for status in BotStatus::ALL {
        let record = bot_in(fx, ada, status.as_str(), status).await;
        let lease = supervise(fx, &record).await;
        let next = fx.store.next_attempt(record.workload(), lease).await.expect("next_attempt");
        assert_eq!(next.is_some(), status == BotStatus::Reserved, "{}", status.as_str());
        if next.is_none() {
            assert_eq!(look(fx, record.meeting.id).await, record);
        }
        fx.land(lease, done("1")).await;
    }
    let record = reserve(fx, ada, "late").await;
    let lease = supervise(fx, &record).await;
    assert_eq!(fx.store.next_attempt(nobody(), lease).await.expect("next_attempt"), None);
    lose_leases(fx).await;
    let lost = fx.store.next_attempt(record.workload(), lease).await;
    assert_eq!(lost.expect("next_attempt"), None);
    assert_eq!(look(fx, record.meeting.id).await, record);
}

/// B-15: only absence that was seen again and again, without a sight between, is an end.
pub async fn only_misses_in_a_row_end_a_bot(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = bot_in(fx, ada, "a", BotStatus::Active).await;
    let id = record.meeting.id;
    for misses_before_a_sight in 0..MISSES_MAX {
        for missed in 1..=misses_before_a_sight {
            fx.advance(SECOND);
            assert_eq!(note(fx, &record, Seen::Absent).await, vec![]);
            let bot = look(fx, id).await.bot;
            assert_eq!(bot.missed, missed);
        }
        fx.advance(SECOND);
        assert_eq!(note(fx, &record, Seen::Running).await, vec![]);
        let now = look(fx, id).await;
        assert_eq!((now.bot.missed, now.bot.seen_at), (0, Some(fx.now())));
        assert_eq!(now.status, BotStatus::Active);
    }
    for _ in 1..MISSES_MAX {
        assert_eq!(note(fx, &record, Seen::Absent).await, vec![]);
    }
    fx.advance(SECOND);
    let ended = note(fx, &record, Seen::Absent).await;
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].status, BotStatus::Failed);
    assert_eq!(ended[0].meeting.end_time, Some(fx.now()));
    assert_eq!(look(fx, id).await, ended[0]);
    assert_eq!(jobs_of(fx, FINISH_KIND, id).await.len(), 1);
    for seen in [Seen::Absent, Seen::Running, Seen::Exited { exit_code: Some(0) }] {
        assert_eq!(note(fx, &record, seen).await, vec![]);
    }
    assert_eq!(look(fx, id).await, ended[0], "once");
}

/// B-14: what the runtime knows of an exit is kept, and judged like the bot's own word.
pub async fn an_exit_that_the_runtime_saw_keeps_its_code(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let cases = [
        (false, Some(0), BotStatus::Completed),
        (false, Some(137), BotStatus::Failed),
        (false, None, BotStatus::Failed),
        (true, Some(137), BotStatus::Completed),
        (true, Some(1), BotStatus::Failed),
    ];
    for (number, (stop, exit_code, status)) in cases.into_iter().enumerate() {
        let record = bot_in(fx, ada, &number.to_string(), BotStatus::Active).await;
        let id = record.meeting.id;
        if stop {
            fx.store.wish_stop(ada, by_number(id), "user", fx.now()).await.expect("wish_stop");
        }
        let seen = Seen::Exited { exit_code };
        for _ in 1..MISSES_MAX {
            assert_eq!(note(fx, &record, seen).await, vec![]);
        }
        let ended = note(fx, &record, seen).await;
        assert_eq!(ended.len(), 1);
        assert_eq!((ended[0].status, ended[0].bot.exit_code), (status, exit_code));
        assert_eq!(look(fx, id).await, ended[0]);
    }
}

pub async fn one_miss_is_enough_where_that_is_the_rule(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = reserve(fx, ada, "a").await;
    let gone = RuntimeNote { workload: record.workload(), seen: Seen::Absent };
    let ended = fx.store.note_runtime(vec![gone], 1, fx.now()).await.expect("note_runtime");
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].frames.len(), 1, "whoever listens is told");
}

pub async fn notes_about_others_change_nothing(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let over = bot_in(fx, ada, "a", BotStatus::Completed).await;
    let live = bot_in(fx, ada, "b", BotStatus::Active).await;
    let before = everything(fx, &[ada]).await;
    let other_attempt = WorkloadId { attempt: 2, ..live.workload() };
    let earlier = WorkloadId { attempt: 0, ..live.workload() };
    let sights = [Seen::Running, Seen::Absent, Seen::Exited { exit_code: Some(1) }];
    for workload in [over.workload(), other_attempt, earlier, nobody()] {
        for seen in sights {
            let notes = vec![RuntimeNote { workload, seen }];
            let ended = fx.store.note_runtime(notes, 1, fx.now()).await;
            assert_eq!(ended.expect("note_runtime"), vec![], "{workload:?}");
        }
    }
    let none = fx.store.note_runtime(vec![], 1, fx.now()).await.expect("note_runtime");
    assert_eq!(none, vec![]);
    assert_eq!(everything(fx, &[ada]).await, before);
}

pub async fn a_batch_of_notes_is_about_each_bot_by_itself(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let mut bots = Vec::new();
    for number in 0..6 {
        bots.push(bot_in(fx, ada, &number.to_string(), BotStatus::Active).await);
    }
    let seen = |number: usize| match number % 3 {
        0 => Seen::Running,
        1 => Seen::Absent,
        _ => Seen::Exited { exit_code: Some(0) },
    };
    fx.advance(SECOND);
    let notes = bots.iter().enumerate().rev();
    let notes = notes.map(|(at, bot)| RuntimeNote { workload: bot.workload(), seen: seen(at) });
    let ended = fx.store.note_runtime(notes.collect(), 1, fx.now()).await.expect("note_runtime");
    assert_eq!(ended.len(), 4);
    for (number, bot) in bots.iter().enumerate() {
        let now = look(fx, bot.meeting.id).await;
        let expected = [BotStatus::Active, BotStatus::Failed, BotStatus::Completed][number % 3];
        assert_eq!(now.status, expected);
    }
}

async fn note(fx: &Fixture, record: &BotRecord, seen: Seen) -> Vec<BotRecord> {
    let notes = vec![RuntimeNote { workload: record.workload(), seen }];
    let ended = fx.store.note_runtime(notes, MISSES_MAX, fx.now()).await.expect("note_runtime");
    ended.into_iter().map(|announced| plain(announced.record)).collect()
}

fn nobody() -> WorkloadId {
    WorkloadId { meeting_id: MeetingId::new(1_000_000), attempt: 1 }
}
