//! A slot is reserved with all it brings, or not at all.

use std::sync::Arc;

use roundsman_core::bots::{
    BotStatus, BotWish, NewBot, Platform, SUPERVISE_KIND, reservation_effects,
};
use roundsman_core::jobs::{Job, JobState};
use roundsman_core::ports::{ListFilter, ReserveAnswer, Scope};
use roundsman_core::users::UserId;
use roundsman_core::webhooks::DELIVER_KIND;

use super::attend::{
    LIVE, all_events, as_row, assert_announced, bot_in, by_number, change, everything, exit, find,
    frames_of, log_of, look, meetings_of, new_bot, plain, plain_row, reserve, reserve_new,
    set_limit, try_reserve, user, user_with_limit,
};
use super::fixture::Fixture;
use super::wishes::{SECOND, key, kind};

pub async fn a_reservation_is_written_with_all_it_brings(fx: &Arc<Fixture>) {
    let ada = user_with_limit(fx, "ada", 1).await;
    let bot = new_bot(ada, "abc-defg-hij");
    let ReserveAnswer::Reserved(announced) = try_reserve(fx, bot.clone()).await else {
        panic!("there is room for it");
    };
    let id = announced.record.meeting.id;
    let expected = bot.record(id, fx.now());
    let effects = reservation_effects(&expected, fx.now());
    assert_eq!(plain(announced.record), expected);
    assert_announced(fx, id, &announced.frames, &effects.frames).await;

    assert_eq!(look(fx, id).await, expected);
    let connection = expected.bot.connection_id.clone();
    let found = fx.store.bot_by_connection(connection).await.expect("bot_by_connection");
    assert_eq!(found.map(plain), Some(expected.clone()));
    let row = fx.store.meeting(ada, by_number(id)).await.expect("meeting");
    assert_eq!(row.map(plain_row), Some(as_row(&expected)));

    let stored: Vec<_> = frames_of(fx, id).await.into_iter().map(|frame| frame.body).collect();
    let sent: Vec<_> = effects.frames.iter().map(|frame| frame.body.clone()).collect();
    assert_eq!(stored, sent);
    let log = log_of(fx, id).await;
    assert_eq!(log.len(), 1);
    assert_eq!((log[0].from_state.as_deref(), log[0].to_state.as_str()), (None, "reserved"));
    assert_eq!((log[0].cause.as_str(), log[0].at), ("user", fx.now()));
    let events: Vec<_> = all_events(fx).await.into_iter().map(|(_, event)| event).collect();
    assert_eq!(events, effects.webhooks);
    assert_due_for_the_system(fx, SUPERVISE_KIND, &id.to_string()).await;
    assert_due_for_the_system(fx, DELIVER_KIND, &events[0].event_id).await;
}

pub async fn what_a_bot_is_asked_comes_back_as_it_was_given(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let odd = "Ada's 😀 \"bot\" \\ \u{202e}ü\u{fffd}; -- %s $1 ?1";
    let wishes = [
        BotWish::default(),
        BotWish {
            bot_name: Some(odd.to_owned()),
            passcode: Some(odd.to_owned()),
            meeting_url: Some(format!("https://example.org/?q={odd}")),
            waiting_room_timeout_ms: Some(0),
            no_one_joined_timeout_ms: Some(1),
            everyone_left_timeout_ms: Some(u64::MAX),
        },
        BotWish { bot_name: Some(String::new()), ..BotWish::default() },
        BotWish { bot_name: Some("n".repeat(10_000)), ..BotWish::default() },
    ];
    let long = "9".repeat(255);
    for platform in Platform::ATTENDED {
        for (number, wish) in wishes.iter().enumerate() {
            let native_id = if number == 0 { long.clone() } else { format!("{odd} {number}") };
            let text = (number % 2 == 1).then(|| odd.to_owned());
            let bot = NewBot {
                platform,
                wish: wish.clone(),
                language: text.clone(),
                task: text,
                ..new_bot(ada, &native_id)
            };
            let made = reserve_new(fx, bot.clone()).await;
            let expected = plain(bot.record(made.meeting.id, fx.now()));
            assert_eq!(made, expected);
            assert_eq!(look(fx, made.meeting.id).await, expected);
        }
    }
}

pub async fn the_limit_is_exact_and_zero_means_none(fx: &Arc<Fixture>) {
    for max in [0, -1, i32::MIN] {
        let nobody = user_with_limit(fx, &format!("limit{max}"), max).await;
        let answer = try_reserve(fx, new_bot(nobody, "a")).await;
        assert_eq!(answer, ReserveAnswer::LimitReached { live: 0, max });
    }
    let ada = user_with_limit(fx, "ada", 3).await;
    for number in 0..3 {
        reserve(fx, ada, &number.to_string()).await;
    }
    for _ in 0..2 {
        let answer = try_reserve(fx, new_bot(ada, "one more")).await;
        assert_eq!(answer, ReserveAnswer::LimitReached { live: 3, max: 3 });
    }
    // Nobody's limit is anybody else's.
    let bob = user_with_limit(fx, "bob", 1).await;
    reserve(fx, bob, "0").await;
}

pub async fn every_live_state_takes_a_slot_and_no_other(fx: &Arc<Fixture>) {
    for status in BotStatus::ALL {
        let name = status.as_str();
        let owner = user_with_limit(fx, name, 1).await;
        bot_in(fx, owner, "first", status).await;
        let answer = try_reserve(fx, new_bot(owner, "second")).await;
        if status.is_over() {
            assert!(matches!(answer, ReserveAnswer::Reserved(_)), "{name}: {answer:?}");
        } else {
            assert_eq!(answer, ReserveAnswer::LimitReached { live: 1, max: 1 }, "{name}");
        }
    }
}

pub async fn lowering_the_limit_ends_nobody(fx: &Arc<Fixture>) {
    let ada = user_with_limit(fx, "ada", 3).await;
    let mut bots = Vec::new();
    for number in 0..3 {
        bots.push(bot_in(fx, ada, &number.to_string(), BotStatus::Active).await);
    }
    set_limit(fx, ada, 1).await;
    let answer = try_reserve(fx, new_bot(ada, "x")).await;
    assert_eq!(answer, ReserveAnswer::LimitReached { live: 3, max: 1 });
    for (ended, bot) in bots.iter().enumerate() {
        assert_eq!(look(fx, bot.meeting.id).await, *bot, "it goes on");
        change(fx, bot, exit(0)).await;
        let answer = try_reserve(fx, new_bot(ada, "x")).await;
        let room = matches!(answer, ReserveAnswer::Reserved(_));
        assert_eq!(room, ended == 2, "{answer:?}");
    }
    set_limit(fx, ada, 2).await;
    reserve(fx, ada, "y").await;
}

pub async fn a_second_bot_in_the_same_meeting_is_refused(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    for status in LIVE {
        let native_id = format!("room-{}", status.as_str());
        let first = bot_in(fx, ada, &native_id, status).await;
        let again = try_reserve(fx, new_bot(ada, &native_id)).await;
        assert_eq!(again, ReserveAnswer::AlreadyLive { meeting: first.meeting.id });
        // Others may be there, and the same words elsewhere are another meeting.
        reserve(fx, bob, &native_id).await;
        let elsewhere = NewBot { platform: Platform::Teams, ..new_bot(ada, &native_id) };
        reserve_new(fx, elsewhere).await;
        reserve(fx, ada, &native_id.to_uppercase()).await;
        change(fx, &first, exit(1)).await;
        let next = reserve(fx, ada, &native_id).await;
        assert!(next.meeting.id > first.meeting.id, "a meeting of its own");
    }
}

pub async fn a_refusal_writes_nothing(fx: &Arc<Fixture>) {
    let (ada, bob) = (user_with_limit(fx, "ada", 1).await, user(fx, "bob").await);
    reserve(fx, ada, "a").await;
    reserve(fx, bob, "b").await;
    let before = everything(fx, &[ada, bob]).await;
    fx.advance(SECOND);
    let full = try_reserve(fx, new_bot(ada, "c")).await;
    assert!(matches!(full, ReserveAnswer::LimitReached { .. }), "{full:?}");
    let twice = try_reserve(fx, new_bot(bob, "b")).await;
    assert!(matches!(twice, ReserveAnswer::AlreadyLive { .. }), "{twice:?}");
    for id in [UserId::SYSTEM, UserId::new(1_000_000), UserId::new(i64::MAX)] {
        let answer = try_reserve(fx, new_bot(id, "a")).await;
        assert_eq!(answer, ReserveAnswer::NoSuchUser, "{id:?}");
    }
    assert_eq!(everything(fx, &[ada, bob]).await, before);
}

pub async fn a_refused_connection_may_be_used_later(fx: &Arc<Fixture>) {
    let ada = user_with_limit(fx, "ada", 1).await;
    let first = reserve(fx, ada, "a").await;
    let refused = new_bot(ada, "b");
    assert!(matches!(try_reserve(fx, refused.clone()).await, ReserveAnswer::LimitReached { .. }));
    let connection = refused.connection_id.clone();
    let found = fx.store.bot_by_connection(connection).await.expect("bot_by_connection");
    assert_eq!(found, None);
    change(fx, &first, exit(0)).await;
    let made = reserve_new(fx, refused).await;
    assert_eq!(find(fx, made.meeting.id).await, Some(made));
    assert_eq!(meetings_of(fx, ada).await.len(), 2);
}

/// One such job waits, is due now and belongs to the system.
async fn assert_due_for_the_system(fx: &Fixture, kind_name: &str, key_text: &str) {
    let filter = ListFilter {
        kind: Some(kind(kind_name)),
        key: Some(key(key_text)),
        ..ListFilter::default()
    };
    let jobs: Vec<Job> = fx.list(Scope::All, filter).await;
    assert_eq!(jobs.len(), 1, "{kind_name} {key_text}");
    assert_eq!(jobs[0].state(fx.now()), JobState::Pending);
    assert_eq!(jobs[0].facts().user_id, UserId::SYSTEM);
}
