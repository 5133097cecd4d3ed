//! Wishes are kept beside the meeting and never write into it.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::bots::{
    BotConfig, BotEvent, BotRecord, BotStatus, MeetingId, NewBot, SUPERVISE_KIND, StopWish,
};
use roundsman_core::jobs::JobState;
use roundsman_core::ports::{BotTarget, ConfigAnswer, ConfigChange, StopAnswer};
use roundsman_core::users::UserId;

use super::attend::{
    LIVE, as_row, at_address, bot_in, by_number, change, everything, exit, jobs_of, look, new_bot,
    plain, plain_row, reserve, reserve_new, states_of, supervise, user,
};
use super::fixture::{Fixture, at_once};
use super::wishes::{SECOND, done};

pub async fn a_wish_to_stop_never_touches_the_meeting(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for status in LIVE {
        for by_id in [true, false] {
            let native_id = format!("{} {by_id}", status.as_str());
            let record = bot_in(fx, ada, &native_id, status).await;
            fx.advance(SECOND);
            let id = record.meeting.id;
            let target = if by_id { by_number(id) } else { at_address(&native_id) };
            let wished = wished(stop(fx, ada, target).await);
            let mut expected = record;
            expected.bot.stop = Some(StopWish { at: fx.now(), by: "user".to_owned() });
            assert_eq!(wished, std::slice::from_ref(&expected));
            assert_eq!(look(fx, id).await, expected, "{native_id}");
        }
    }
}

/// Who asks twice is heard twice, but has asked since the first time.
pub async fn the_first_wish_to_stop_stays(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = bot_in(fx, ada, "a", BotStatus::Active).await;
    let id = record.meeting.id;
    let lease = supervise(fx, &record).await;
    fx.land(lease, done("1")).await;
    fx.assert_nothing_to_claim(SUPERVISE_KIND).await;
    let first = fx.now();
    for _ in 0..3 {
        let records = wished(stop(fx, ada, by_number(id)).await);
        assert_eq!(records[0].bot.stop.as_ref().map(|wish| wish.at), Some(first));
        // Whoever looks after the bot looks again.
        let lease = supervise(fx, &record).await;
        fx.land(lease, done("1")).await;
        fx.assert_nothing_to_claim(SUPERVISE_KIND).await;
        fx.advance(SECOND);
    }
    assert_eq!(look(fx, id).await.bot.stop.map(|wish| wish.at), Some(first));
    let jobs = jobs_of(fx, SUPERVISE_KIND, id).await;
    assert!(jobs.iter().all(|job| job.state(fx.now()) == JobState::Completed));
}

pub async fn whoever_is_over_or_elsewhere_is_not_stopped(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let older = bot_in(fx, ada, "a", BotStatus::Failed).await;
    let latest = bot_in(fx, ada, "a", BotStatus::Completed).await;
    let live = bot_in(fx, ada, "b", BotStatus::Active).await;
    let before = everything(fx, &[ada, bob]).await;
    fx.advance(SECOND);
    for (target, expected) in [
        (by_number(older.meeting.id), &older),
        (by_number(latest.meeting.id), &latest),
        (at_address("a"), &latest),
    ] {
        match stop(fx, ada, target.clone()).await {
            StopAnswer::Over(row) => assert_eq!(plain_row(*row), as_row(expected), "{target:?}"),
            other => panic!("{target:?}: {other:?}"),
        }
    }
    let nowhere = [
        (bob, by_number(live.meeting.id)),
        (bob, at_address("b")),
        (ada, at_address("c")),
        (ada, by_number(MeetingId::new(1_000_000))),
        (ada, by_number(MeetingId::new(i64::MAX))),
        (UserId::SYSTEM, by_number(live.meeting.id)),
    ];
    for (who, target) in nowhere {
        let answer = stop(fx, who, target.clone()).await;
        assert_eq!(answer, StopAnswer::NotFound, "{who:?} {target:?}");
    }
    assert_eq!(everything(fx, &[ada, bob]).await, before);
}

/// At an address the live one is meant, not those that came before it.
pub async fn an_address_names_whoever_is_there(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    bot_in(fx, ada, "a", BotStatus::Completed).await;
    let live = bot_in(fx, ada, "a", BotStatus::Active).await;
    let other = bot_in(fx, ada, "b", BotStatus::Active).await;
    let records = wished(stop(fx, ada, at_address("a")).await);
    let ids: Vec<_> = records.iter().map(|record| record.meeting.id).collect();
    assert_eq!(ids, [live.meeting.id]);
    assert_eq!(look(fx, other.meeting.id).await, other);
    let config = configured(configure(fx, ada, at_address("a"), language("de")).await);
    assert_eq!(config.meeting.id, live.meeting.id);
}

/// B-9: a bot that was to leave before it came has completed.
pub async fn a_wish_to_stop_explains_the_end(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let cases: [(BotStatus, BotEvent, &str); 4] = [
        (BotStatus::Reserved, exit(0), "stopped_before_join"),
        (BotStatus::Starting, exit(143), "stopped_before_join"),
        (BotStatus::Active, exit(137), "stopped"),
        (
            BotStatus::Reserved,
            BotEvent::Absent { reason: "never launched".to_owned() },
            "stopped_before_join",
        ),
    ];
    for (number, (status, end, reason)) in cases.into_iter().enumerate() {
        let record = bot_in(fx, ada, &number.to_string(), status).await;
        wished(stop(fx, ada, by_number(record.meeting.id)).await);
        let ended = change(fx, &record, end).await;
        assert_eq!(ended.status, BotStatus::Completed);
        assert_eq!(ended.bot.completion_reason.as_deref(), Some(reason));
        assert_eq!(look(fx, record.meeting.id).await, ended);
        assert!(states_of(fx, record.meeting.id).await.ends_with(&["completed".to_owned()]));
    }
}

pub async fn a_new_configuration_never_touches_the_meeting(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for status in LIVE {
        let bot = NewBot { language: Some("en".to_owned()), ..new_bot(ada, status.as_str()) };
        let mut expected = reserve_new(fx, bot).await;
        for event in steps_to(status) {
            expected = change(fx, &expected, event).await;
        }
        let id = expected.meeting.id;
        let changes = [
            (ConfigChange::default(), Some("en"), None),
            (language("de"), Some("de"), None),
            (task("translate"), Some("de"), Some("translate")),
            (
                ConfigChange { task: Some("transcribe".to_owned()), ..language("😀'") },
                Some("😀'"),
                Some("transcribe"),
            ),
        ];
        for (change, language, task) in changes {
            fx.advance(SECOND);
            let answer = configure(fx, ada, by_number(id), change).await;
            expected.bot.config = BotConfig {
                version: expected.bot.config.version + 1,
                language: language.map(ToOwned::to_owned),
                task: task.map(ToOwned::to_owned),
                applied: 0,
            };
            assert_eq!(configured(answer), expected);
            assert_eq!(look(fx, id).await, expected);
        }
    }
}

pub async fn only_a_live_bot_takes_a_configuration(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let only_active = || ConfigChange { only_active: true, ..language("de") };
    for status in BotStatus::ALL {
        let record = bot_in(fx, ada, status.as_str(), status).await;
        let target = at_address(status.as_str());
        match configure(fx, ada, target.clone(), only_active()).await {
            ConfigAnswer::Wished(_) if status == BotStatus::Active => continue,
            ConfigAnswer::WrongState(row) if status != BotStatus::Active => {
                assert_eq!(plain_row(*row), as_row(&record));
            }
            other => panic!("{}: {other:?}", status.as_str()),
        }
        if status.is_over() {
            let answer = configure(fx, ada, target, language("de")).await;
            assert!(matches!(answer, ConfigAnswer::WrongState(_)), "{answer:?}");
            assert_eq!(look(fx, record.meeting.id).await, record);
        }
        let stranger = configure(fx, bob, by_number(record.meeting.id), language("de")).await;
        assert_eq!(stranger, ConfigAnswer::NotFound);
    }
    for target in [at_address("nowhere"), by_number(MeetingId::new(i64::MAX))] {
        let answer = configure(fx, ada, target, language("de")).await;
        assert_eq!(answer, ConfigAnswer::NotFound);
    }
}

/// B-17: ten wishes at once are ten versions, and the highest is what stays.
pub async fn versions_of_a_configuration_grow_by_one(fx: &Arc<Fixture>) {
    const WISHES: u32 = 10;
    let ada = user(fx, "ada").await;
    let record = bot_in(fx, ada, "a", BotStatus::Active).await;
    let id = record.meeting.id;
    for round in 0..5 {
        let wishes = (0..WISHES).map(|number| {
            let fx = Arc::clone(fx);
            async move {
                let change = language(&format!("{round}-{number}"));
                configured(configure(&fx, ada, by_number(id), change).await).bot.config
            }
        });
        let configs = at_once(wishes).await;
        let versions: BTreeSet<u32> = configs.iter().map(|config| config.version).collect();
        let first = round * WISHES + 1;
        assert_eq!(versions, (first..first + WISHES).collect());
        let last = configs.into_iter().max_by_key(|config| config.version);
        assert_eq!(Some(look(fx, id).await.bot.config), last);
    }
    assert_eq!(look(fx, id).await.meeting, record.meeting);
}

pub async fn wishes_of_one_bot_do_not_meet_anothers(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let (one, two) = (reserve(fx, ada, "a").await, reserve(fx, ada, "b").await);
    wished(stop(fx, ada, by_number(one.meeting.id)).await);
    configured(configure(fx, ada, by_number(one.meeting.id), language("de")).await);
    assert_eq!(look(fx, two.meeting.id).await, two);
}

async fn stop(fx: &Fixture, user: UserId, target: BotTarget) -> StopAnswer {
    fx.store.wish_stop(user, target, "user", fx.now()).await.expect("wish_stop")
}

fn wished(answer: StopAnswer) -> Vec<BotRecord> {
    match answer {
        StopAnswer::Wished(records) => records.into_iter().map(plain).collect(),
        other => panic!("expected a wish, got {other:?}"),
    }
}

async fn configure(
    fx: &Fixture,
    user: UserId,
    target: BotTarget,
    change: ConfigChange,
) -> ConfigAnswer {
    fx.store.wish_config(user, target, change, fx.now()).await.expect("wish_config")
}

fn configured(answer: ConfigAnswer) -> BotRecord {
    match answer {
        ConfigAnswer::Wished(record) => plain(*record),
        other => panic!("expected a wish, got {other:?}"),
    }
}

fn language(text: &str) -> ConfigChange {
    ConfigChange { language: Some(text.to_owned()), ..ConfigChange::default() }
}

fn task(text: &str) -> ConfigChange {
    ConfigChange { task: Some(text.to_owned()), ..ConfigChange::default() }
}

fn steps_to(status: BotStatus) -> Vec<BotEvent> {
    match status {
        BotStatus::Reserved => vec![],
        BotStatus::Starting => vec![BotEvent::Started],
        BotStatus::Active => vec![BotEvent::Joined],
        _ => vec![BotEvent::Joined, BotEvent::Leaving],
    }
}
