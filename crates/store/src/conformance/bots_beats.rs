//! A sign of life is noted and answered; it changes no state.

use std::sync::Arc;

use roundsman_core::bots::{
    BotEvent, BotRecord, BotStatus, ConnectionId, MeetingId, Stage, WorkloadId,
};
use roundsman_core::ports::{BeatAnswer, BotBeat, ConfigChange, StopAnswer};
use roundsman_core::users::UserId;

use super::attend::{
    LIVE, all_events, beat, beat_of, beats, bot_in, bots_in, by_number, change, everything,
    frames_of, log_of, look, reserve, supervise, user,
};
use super::fixture::Fixture;
use super::wishes::{SECOND, done};

/// Nothing of the bot changes but that it was heard, and the meeting is touched.
pub async fn a_beat_is_heard_in_every_live_state(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for status in LIVE {
        let mut expected = bot_in(fx, ada, status.as_str(), status).await;
        let id = expected.meeting.id;
        let before = (frames_of(fx, id).await, log_of(fx, id).await, all_events(fx).await);
        let jobs = fx.all_jobs().await;
        for _ in 0..2 {
            fx.advance(SECOND);
            let answer = beat(fx, beat_of(&expected)).await;
            assert_eq!(answer, heard(&expected));
            expected.bot.heartbeat_at = Some(fx.now());
            expected.bot.beats = true;
            expected.meeting.updated_at = fx.now();
            assert_eq!(look(fx, id).await, expected, "{}", status.as_str());
        }
        let after = (frames_of(fx, id).await, log_of(fx, id).await, all_events(fx).await);
        assert_eq!(after, before);
        assert_eq!(fx.all_jobs().await, jobs);
    }
    a_beat_learns_the_stage(fx, ada).await;
}

/// B-10: what was wished for is in every answer until the bot is over.
pub async fn a_beat_learns_what_is_wished(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = bot_in(fx, ada, "a", BotStatus::Active).await;
    let id = record.meeting.id;
    let change = ConfigChange { language: Some("de".to_owned()), ..ConfigChange::default() };
    fx.store.wish_config(ada, by_number(id), change, fx.now()).await.expect("wish_config");
    let answer = beat(fx, beat_of(&record)).await;
    let BeatAnswer::Heard { stop_wanted: false, config, .. } = answer else {
        panic!("{answer:?}");
    };
    assert_eq!((config.version, config.language.as_deref()), (1, Some("de")));
    let answer = fx.store.wish_stop(ada, by_number(id), "user", fx.now()).await;
    assert!(matches!(answer.expect("wish_stop"), StopAnswer::Wished(_)));
    for _ in 0..2 {
        let answer = beat(fx, beat_of(&record)).await;
        assert_eq!(answer, heard(&look(fx, id).await));
        assert!(matches!(answer, BeatAnswer::Heard { stop_wanted: true, .. }));
    }
}

/// B8: who is over is told so, and stays as it ended.
pub async fn who_is_over_is_told_and_not_changed(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let completed = bot_in(fx, ada, "a", BotStatus::Completed).await;
    let failed = bot_in(fx, ada, "b", BotStatus::Failed).await;
    let before = everything(fx, &[ada]).await;
    fx.advance(SECOND);
    for record in [&completed, &failed] {
        let beat_with_all =
            BotBeat { media_progress: Some(5), config_applied: Some(0), ..beat_of(record) };
        let answer = beat(fx, beat_with_all).await;
        assert_eq!(answer, BeatAnswer::Over { status: record.status });
    }
    assert_eq!(everything(fx, &[ada]).await, before);
}

pub async fn a_batch_is_answered_in_order(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let active = bot_in(fx, ada, "a", BotStatus::Active).await;
    let over = bot_in(fx, ada, "b", BotStatus::Completed).await;
    let reserved = reserve(fx, bob, "c").await;
    let superseded = reserve(fx, bob, "d").await;
    let lease = supervise(fx, &superseded).await;
    let next = fx.store.next_attempt(superseded.workload(), lease).await;
    let next = next.expect("next_attempt").expect("it is reserved");
    fx.land(lease, done("1")).await;
    fx.advance(SECOND);

    let nobody = WorkloadId { meeting_id: MeetingId::new(1_000_000), attempt: 1 };
    let far = WorkloadId { meeting_id: MeetingId::new(i64::MAX), attempt: 1 };
    let batch = vec![
        BotBeat { workload: nobody, ..beat_of(&active) },
        beat_of(&active),
        beat_of(&over),
        BotBeat { connection: ConnectionId::from_stored("x".to_owned()), ..beat_of(&active) },
        BotBeat { connection: reserved.bot.connection_id.clone(), ..beat_of(&active) },
        beat_of(&superseded),
        beat_of(&next),
        beat_of(&reserved),
        BotBeat { workload: far, ..beat_of(&reserved) },
        beat_of(&active),
    ];
    let expected = [
        BeatAnswer::NoSuchBot,
        heard(&active),
        BeatAnswer::Over { status: BotStatus::Completed },
        BeatAnswer::NoSuchBot,
        BeatAnswer::NoSuchBot,
        BeatAnswer::Superseded,
        heard(&next),
        heard(&reserved),
        BeatAnswer::NoSuchBot,
        heard(&active),
    ];
    assert_eq!(beats(fx, batch).await, expected);
    assert_eq!(beats(fx, vec![]).await, vec![]);
    for record in [&active, &next, &reserved] {
        let now = look(fx, record.meeting.id).await;
        assert_eq!(now.bot.heartbeat_at, Some(fx.now()));
    }
}

/// Neither an earlier attempt nor a stranger keeps a bot alive.
pub async fn whoever_does_not_speak_for_the_bot_changes_nothing(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let first = reserve(fx, ada, "a").await;
    let lease = supervise(fx, &first).await;
    let next = fx.store.next_attempt(first.workload(), lease).await.expect("next_attempt");
    let next = next.expect("it is reserved");
    let before = everything(fx, &[ada]).await;
    fx.advance(SECOND);
    let full = BotBeat { media_progress: Some(9), config_applied: Some(1), ..beat_of(&first) };
    assert_eq!(beat(fx, full.clone()).await, BeatAnswer::Superseded);
    let stranger = BotBeat {
        workload: next.workload(),
        connection: ConnectionId::from_stored("x".to_owned()),
        ..full
    };
    assert_eq!(beat(fx, stranger).await, BeatAnswer::NoSuchBot);
    assert_eq!(everything(fx, &[ada]).await, before);
}

/// B-13: only a number that has grown is progress.
pub async fn media_that_stands_still_is_no_progress(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = bot_in(fx, ada, "a", BotStatus::Active).await;
    let start = fx.now();
    // (reported, what is kept, seconds from the start at which it last grew)
    let steps: [(Option<i64>, Option<i64>, Option<u32>); 9] = [
        (None, None, None),
        (Some(5), Some(5), Some(2)),
        (Some(5), Some(5), Some(2)),
        (Some(4), Some(5), Some(2)),
        (None, Some(5), Some(2)),
        (Some(6), Some(6), Some(6)),
        (Some(-1), Some(6), Some(6)),
        (Some(i64::MAX), Some(i64::MAX), Some(8)),
        (Some(i64::MAX), Some(i64::MAX), Some(8)),
    ];
    for (media_progress, kept, grew) in steps {
        fx.advance(SECOND);
        beat(fx, BotBeat { media_progress, ..beat_of(&record) }).await;
        let bot = look(fx, record.meeting.id).await.bot;
        let at = grew.map(|seconds| start + SECOND * seconds);
        assert_eq!((bot.media_progress, bot.media_at), (kept, at), "{media_progress:?}");
        assert_eq!(bot.heartbeat_at, Some(fx.now()), "it was heard all the same");
    }
}

/// B-17: the bot says what it has applied; an older word that comes late says nothing.
pub async fn the_applied_configuration_never_goes_back(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = bot_in(fx, ada, "a", BotStatus::Active).await;
    let id = record.meeting.id;
    for _ in 0..3 {
        let change = ConfigChange { task: Some("translate".to_owned()), ..ConfigChange::default() };
        fx.store.wish_config(ada, by_number(id), change, fx.now()).await.expect("wish_config");
    }
    for (config_applied, kept) in
        [(Some(0), 0), (Some(2), 2), (Some(1), 2), (None, 2), (Some(3), 3), (Some(0), 3)]
    {
        beat(fx, BotBeat { config_applied, ..beat_of(&record) }).await;
        let config = look(fx, id).await.bot.config;
        assert_eq!((config.version, config.applied), (3, kept), "{config_applied:?}");
    }
}

/// A bot that was heard twice in one batch has come as far as the furthest it says.
pub async fn the_same_bot_twice_in_a_batch_is_heard_twice(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = bot_in(fx, ada, "a", BotStatus::Active).await;
    let at = |media_progress: i64, config_applied: u32| BotBeat {
        media_progress: Some(media_progress),
        config_applied: Some(config_applied),
        ..beat_of(&record)
    };
    for _ in 0..2 {
        let change = ConfigChange { task: Some("translate".to_owned()), ..ConfigChange::default() };
        let wish = fx.store.wish_config(ada, by_number(record.meeting.id), change, fx.now());
        wish.await.expect("wish_config");
    }
    fx.advance(SECOND);
    let answers = beats(fx, vec![at(3, 2), at(7, 1), at(5, 0)]).await;
    assert!(answers.iter().all(|answer| matches!(answer, BeatAnswer::Heard { .. })));
    let bot = look(fx, record.meeting.id).await.bot;
    assert_eq!((bot.media_progress, bot.media_at), (Some(7), Some(fx.now())));
    assert_eq!(bot.config.applied, 2);
}

/// B-18: many bots in one batch, each answered with its own state.
pub async fn a_large_batch_is_answered_whole(fx: &Arc<Fixture>) {
    const BOTS: usize = 120;
    let ada = user(fx, "ada").await;
    let records = bots_in(fx, ada, "a", BOTS, BotStatus::Active).await;
    fx.advance(SECOND);
    let batch: Vec<BotBeat> = records.iter().rev().map(beat_of).collect();
    let expected: Vec<BeatAnswer> = records.iter().rev().map(heard).collect();
    assert_eq!(beats(fx, batch).await, expected);
    for record in &records {
        assert_eq!(look(fx, record.meeting.id).await.bot.heartbeat_at, Some(fx.now()));
    }
}

/// A bot in the lobby learns that this is known.
async fn a_beat_learns_the_stage(fx: &Fixture, user: UserId) {
    let record = bot_in(fx, user, "lobby", BotStatus::Starting).await;
    let record = change(fx, &record, BotEvent::AtStage(Stage::AwaitingAdmission)).await;
    let answer = beat(fx, beat_of(&record)).await;
    let waits = Some(Stage::AwaitingAdmission);
    assert!(matches!(answer, BeatAnswer::Heard { stage, .. } if stage == waits), "{answer:?}");
}

/// The answer to a bot that is as it was last seen.
fn heard(record: &BotRecord) -> BeatAnswer {
    BeatAnswer::Heard {
        status: record.status,
        stage: record.bot.stage,
        stop_wanted: record.bot.stop.is_some(),
        config: record.bot.config.clone(),
    }
}
